"""What `lexical` finds in copies of a reference with one word swapped: ``python -m tests.benchmarks.swapped [MIRROR]``.

An answer is three to six sentences of a reference in a row. In it one word is swapped: a name or a number for one that
stands nowhere in reference and question, a word without a capital for a rare one that does not, or a name for one from
elsewhere in the reference. It is found where a span overlaps it. False alarms are the share of the characters of untouched
copies that is flagged. Each language is read by weights that never saw it. NoMIRACL and CLAPnq are no part of the training.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from detector_plugin.detector import Detector
from detector_plugin.labelled import REAL, LabelledAnswer
from detector_plugin.lexical import LexicalDetector
from tests.development.lexical.copies import (
    COPIED,
    collect_names,
    draw_copy,
    rare_words,
    seeded_generator,
    swap_name,
    swap_number,
    swap_word,
    words_by_frequency,
)

LANGUAGES = ("en", "de", "es", "fi", "fr", "it")
NOMIRACL = ("en", "de", "es", "fr")  # those of a mirror
MOST = 200  # of each kind, source and language
_ROUNDS = 12  # over references, where there are few
_SEED = 9  # not the one of the training


class Found(NamedTuple):
    """Shares of the swapped words that are found, ``nan`` without any; of the copies' characters that are false alarms."""

    absent_names: float
    absent_numbers: float
    absent_words: float
    other_names: float
    first_names: float  # absent ones that begin a sentence
    false_alarms: float


Source = tuple[str, str]  # benchmark and language


def references(mirror: str) -> dict[Source, list[LabelledAnswer]]:
    """References of the benchmarks, each once, with the question where there is one."""
    from lm_eval_tasks.clapnq.dataset import load as clapnq
    from lm_eval_tasks.detection.labelled_answers import labelled_answers, readable
    from lm_eval_tasks.nomiracl.dataset import load as nomiracl

    found: dict[Source, dict[str, LabelledAnswer]] = {}

    def add(source: str, language: str, reference: str, question: str) -> None:
        document = LabelledAnswer(reference, "", language, COPIED, (), question)
        found.setdefault((source, language), {}).setdefault(reference, document)

    for row in clapnq(mirror=mirror)["evaluation"]:
        if row["answerable"]:
            add("CLAPnq", "en", row["groundings"][0], row["question"])
    for document in readable(labelled_answers(mirror, languages=LANGUAGES)):
        source = "Mu-SHROOM" if document.annotations == REAL else "mFAVA"
        add(source, document.language, document.reference, document.question)
    for language in NOMIRACL:
        for row in nomiracl(language, mirror=mirror)["evaluation"]:
            add("NoMIRACL", language, "\n\n".join(row["passages"]), row["query"])
    return {source: list(documents.values()) for source, documents in found.items()}


def copies(
    documents: Sequence[LabelledAnswer], names: Sequence[str], uncommon: Sequence[str], most: int = MOST
) -> list[list[LabelledAnswer]]:
    """Copies with what :class:`Found` tells of, in its order; those with nothing swapped come last."""
    kinds: list[list[LabelledAnswer]] = [[] for _ in Found._fields]
    for number in range(_ROUNDS):
        for document in documents:
            if min(map(len, kinds)) >= most:
                return kinds
            random = seeded_generator((_SEED, number), document.reference)
            copy = draw_copy(document, random)
            if copy is None:
                continue
            swapped = (
                swap_name(copy, names, random),
                swap_number(copy, random),
                swap_word(copy, uncommon, random),
                swap_name(copy, names, random, absent=False),
                swap_name(copy, names, random, first_words=True),
            )
            for kind, one in zip(kinds, (*swapped, copy), strict=True):
                if one is not None and len(kind) < most:
                    kind.append(one)
    return kinds


def found(detector: Detector, kinds: Sequence[Sequence[LabelledAnswer]], asked: bool) -> Found:
    """What a detector finds in copies; `asked`: with their questions."""
    shares = []
    for number, documents in enumerate(kinds):
        documents = documents if asked else [replace(document, question="") for document in documents]
        spans = detector.detect(
            [document.reference for document in documents],
            [document.answer for document in documents],
            [document.language for document in documents],
            [document.question for document in documents],
        )
        if number == len(kinds) - 1:
            flagged = sum(span.end - span.start for several in spans for span in several)
            shares.append(flagged / max(sum(len(document.answer) for document in documents), 1))
        else:
            hits = [
                any(span.start < swap.end and span.end > swap.start for span in several)
                for (swap,), several in zip((document.spans for document in documents), spans, strict=True)
            ]
            shares.append(fmean(hits) if hits else float("nan"))
    return Found(*shares)


def table(mirror: str, most: int = MOST) -> Mapping[tuple[str, str, bool], Found]:
    """What is found by source, language, and whether the question is given."""
    detector = LexicalDetector(held_out=True)
    of_source = references(mirror)
    texts: dict[str, list[str]] = {}
    for (_, language), documents in of_source.items():
        texts.setdefault(language, []).extend(document.reference for document in documents)
    names = collect_names(texts)
    uncommon = {language: rare_words(words_by_frequency(several)) for language, several in texts.items()}
    rows = {}
    for (source, language), documents in sorted(
        of_source.items(), key=lambda item: (LANGUAGES.index(item[0][1]), item[0])
    ):
        kinds = copies(documents, names[language], uncommon[language], most)
        for asked in (False, True) if documents[0].question else (False,):
            rows[source, language, asked] = found(detector, kinds, asked)
    return rows


def main(mirror: str = "../shared/hub") -> None:
    """Print the rows of the README's table."""
    for (source, language, asked), row in table(mirror).items():
        shares = " | ".join(f"{100 * share:.1f}" for share in row[:5])
        print(
            f"| {language} | {source} | {'yes' if asked else 'no'} | {shares} | {100 * row.false_alarms:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
