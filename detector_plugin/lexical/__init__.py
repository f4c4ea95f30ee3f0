"""The detector `lexical`: words that the reference does not bear out, by overlap and wording, on a CPU.

A small learned word classifier, for trying the pipeline and for text that is grounded in its reference. On closed-book
answers it takes paraphrase for invention: for claims about models use a transformer detector.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from custom_metrics.abstention import is_abstention
from custom_metrics.spans import HALLUCINATION, Span
from custom_metrics.words import words
from detector_plugin.detector import same_length
from detector_plugin.lexical.features import FEATURE_NAMES, answer_features
from detector_plugin.lexical.model import Forest, load

__all__ = ["HELD_OUT_SUFFIX", "WEIGHTS", "LexicalDetector"]

log = logging.getLogger(f"lm_eval.{__name__}")

WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the weights that ship."""
MAIN_WEIGHTS = "lexical.safetensors"
HELD_OUT = "held_out"  # folder of one file a language, named by its code
HELD_OUT_SUFFIX = "-held-out"
"""What the version ends in of a detector that reads each language with weights that never saw it."""

FLOOR = 0.1
"""Share of an answer's words, rare ones weighing more, whose stem its reference must hold at the least. Of mFAVA's
annotated answers (without Latin) 2.4 % are below, nearly all of them with a placeholder for a reference ("None, none."); of
answers held against another document's reference 8 %, and every one that has nothing of it."""
_HELD = FEATURE_NAMES.index("sentence:stems")

_BATCH_WORDS = 4096  # words that go through the trees at once


class LexicalDetector:
    """Flags the words of an answer that its reference does not bear out.

    It reads overlap with the reference (words, stems, character n-grams, where in the reference they stand) and knows no
    meaning: on closed-book answers it flags paraphrase as invention, and a false statement in the reference's words passes.
    It weighs an answer's sentences against each other, as a third of every answer it learned from was hallucinated: of an
    answer to quite another question it misses a good part. It also goes by wording: words for belief, rumour, superlatives
    and the like (``cues.tsv``), which is how GPT-4 wrote FAVA's errors, and need not be how a model errs. It is for trying
    the pipeline and for grounded text; a transformer detector is for claims.

    Trained on mFAVA (Islam et al. 2025): gold annotations of ar, de, tr and silver ones of 15 languages; any other language
    is read with what was learned there.

    Attributes:
        name: ``lexical``.
        version: of the main weights' and the cues' bytes; `HELD_OUT_SUFFIX`, and the threshold where it is not theirs.
        licence: of the weights.
    """

    name = "lexical"
    licence = "Apache-2.0 (trained on mFAVA, Creative Commons)"

    def __init__(self, threshold: float | None = None, held_out: bool = False, weights: Path | None = None) -> None:
        """Loads the weights.

        Args:
            threshold: probability above which a word is flagged; ``None`` for the one that was chosen in training.
            held_out: read each answer with weights that were trained without any document of its language, where there are
                such; for measuring the detector on mFAVA, which the full weights have seen.
            weights: folder of other weights than those that ship, as ``lm-eval-grounded train`` writes it.

        Raises:
            ValueError: the threshold is no probability, or the weights are none.
            OSError: the weights cannot be read.
        """
        if threshold is not None and not (isinstance(threshold, (int, float)) and 0 <= threshold <= 1):
            raise ValueError(f"detector lexical: a threshold is a probability, got {threshold!r}")
        if not isinstance(held_out, bool):
            raise ValueError(f"detector lexical: held_out is True or False, got {held_out!r}")
        self.threshold = threshold
        self.held_out = held_out
        self._folder = WEIGHTS if weights is None else Path(weights)
        self._forests: dict[str, Forest] = {"": _load(self._folder / MAIN_WEIGHTS)}
        self._languages = {path.stem for path in (self._folder / HELD_OUT).glob("*.safetensors")} if held_out else set()
        self.version = hashlib.sha256(self._forests[''].version.encode()).hexdigest()[:12]
        if held_out:
            self.version += HELD_OUT_SUFFIX
        if threshold is not None:
            self.version += f"-t{threshold}"

    def detect(
        self,
        references: Sequence[str],
        answers: Sequence[str],
        languages: Sequence[str | None],
        questions: Sequence[str] | None = None,
    ) -> list[list[Span]]:
        """Spans of each answer; flagged words next to each other are one span.

        Args:
            references: what each answer is held against; one that has next to nothing of an answer's words bears nothing
                out: all is flagged, unless the answer abstains.
            answers: any text; an empty one has no spans.
            languages: ISO 639 codes or ``None``; decide how words are cut, which cues are
                looked for and, with `held_out`, by which weights an answer is read.
            questions: ignored.

        Raises:
            ValueError: the sequences differ in length.
        """
        same_length(references, answers, {"languages": languages, "questions": questions})
        _say_what_it_is()  # here: a run that only generates checks the detector's options, and needs no warning of it
        found = []
        for answer, language, probability in zip(
            answers, languages, self.probabilities(references, answers, languages), strict=True
        ):
            limit = self._forest(language).threshold if self.threshold is None else self.threshold
            found.append(_merged(words(answer, language), probability > limit))
        return found

    def probabilities(
        self, references: Sequence[str], answers: Sequence[str], languages: Sequence[str | None]
    ) -> list[NDArray[np.float64]]:
        """Of each answer the (words,) probabilities that each of its words is hallucinated.

        All are 1 where the reference holds less than `FLOOR` of the answer's words (by weight, rare ones weigh more): the
        classifier compares an answer's sentences with each other, and where nothing is borne out there is none to compare.
        Where such an answer abstains, as :func:`custom_metrics.abstention.is_abstention` reads it, all are 0.

        Raises:
            ValueError: the sequences differ in length.
        """
        same_length(references, answers, {"languages": languages})
        found: list[NDArray[np.float64]] = []
        waiting: list[NDArray[np.float32]] = []
        unsupported: list[bool] = []
        forest = self._forests[""]

        def finish() -> None:
            if waiting:
                values = forest.probabilities(np.concatenate(waiting))
                found.extend(np.split(values, np.cumsum([len(matrix) for matrix in waiting])[:-1]))
                waiting.clear()

        for reference, answer, language in zip(references, answers, languages, strict=True):
            own = self._forest(language)
            if own is not forest or sum(map(len, waiting)) > _BATCH_WORDS:
                finish()
                forest = own
            matrix = answer_features(reference, answer, language)
            unsupported.append(len(matrix) > 0 and float(matrix[:, _HELD].mean()) < FLOOR)
            waiting.append(matrix)
        finish()
        for index in np.flatnonzero(unsupported).tolist():
            # "I don't know" has nothing of the reference either, and makes nothing up.
            found[index][:] = 0.0 if is_abstention(answers[index], languages[index]) else 1.0
        return found

    def _forest(self, language: str | None) -> Forest:
        name = language if language in self._languages else None
        if name is None:
            return self._forests[""]
        if name not in self._forests:
            self._forests[name] = _load(self._folder / HELD_OUT / f"{name}.safetensors")
        return self._forests[name]


def _load(path: Path) -> Forest:
    forest = load(path)
    if forest.feature_names != FEATURE_NAMES:
        raise ValueError(f"{path} was trained on other features than this version has; train it anew")
    return forest


@lru_cache(maxsize=1)  # once a process
def _say_what_it_is() -> None:
    log.warning(
        "the lexical detector reads overlap with the reference and the wording of FAVA's errors: on closed-book answers it "
        "flags paraphrase as invention, and misses part of what is wholly invented. It is for trying the pipeline and for "
        "grounded text; for claims use a transformer detector."
    )


def _merged(places: list[tuple[int, int]], flagged: NDArray[np.bool_]) -> list[Span]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flagged.astype(np.int8), [0]])))
    return [Span(places[a][0], places[b - 1][1], HALLUCINATION) for a, b in edges.reshape(-1, 2).tolist()]
