"""Single answers, or lists of them: abstention, labels, scores, and the words that a detector flags.

Each function takes one text, or a list of them, and then returns a list. Any other argument is then one value for all, or a
list as long. Texts are scored as they are: :func:`abstains` and :func:`relevance_label` alone remove reasoning blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from custom_metrics.usage.columns import Texts, rows_of, text_of
from custom_metrics.usage.plain_errors import UsageError

if TYPE_CHECKING:
    from custom_metrics.reading.spans import Span
    from detector_plugin import Detector

T = TypeVar("T")
Language: TypeAlias = "str | Sequence[str | None] | None"
Many: TypeAlias = "list[str] | tuple[str, ...]"
Spans: TypeAlias = "Sequence[Sequence[Any]]"


@overload
def abstains(text: str, language: str | None = None) -> bool: ...
@overload
def abstains(text: Many, language: Language = None) -> list[bool]: ...
def abstains(text: Texts, language: Language = None) -> bool | list[bool]:
    """Whether an answer says that it cannot answer (:func:`custom_metrics.abstention.is_abstention`).

    Args:
        text: an answer, or a list of them.
        language: BCP 47 tag; default the two languages that the text most looks like.

    Raises:
        UsageError: there is no phrase table for the language.
    """
    from custom_metrics.abstention import is_abstention
    from custom_metrics.reading.response import final_answer

    return _each(
        lambda text, language: is_abstention(final_answer(text), _with_table(language)), text, language=language
    )


@overload
def relevance_label(
    response: str,
    language: str | None = None,
    question: str | None = None,
    passages: Texts | None = None,
    strict: bool = False,
) -> str: ...
@overload
def relevance_label(
    response: Many,
    language: Language = None,
    question: Language = None,
    passages: Texts | Sequence[Texts] | None = None,
    strict: bool = False,
) -> list[str]: ...
def relevance_label(
    response: Texts,
    language: Language = None,
    question: Language = None,
    passages: Texts | Sequence[Texts] | None = None,
    strict: bool = False,
) -> str | list[str]:
    """NoMIRACL's label of a response: ``Yes, answer is present``, ``I don't know`` or ``Invalid``
    (:func:`custom_metrics.relevance.robust_label`).

    Args:
        response: a response, or a list of them.
        language: BCP 47 tag of the prompt, which is read first; default all languages.
        question, passages: as they stand in the prompt; without them, fewer kinds of no answer can be found.
        strict: read as the released parser does, which knows the prompt's own phrases alone, and ignores the rest.

    Raises:
        UsageError: there is no phrase table for the language.
    """
    from custom_metrics.relevance import nomiracl_label, robust_label

    def label(response: str, language: Any, question: Any, passages: Any) -> str:
        if strict:
            return nomiracl_label(response)
        return robust_label(response, _with_table(language), question, _listed(passages, "passages"))

    return _each(label, response, language=language, question=question, passages=passages)


@overload
def k_precision(answer: str, passages: Texts, language: str | None = None) -> float: ...
@overload
def k_precision(answer: Many, passages: Texts | Sequence[Texts], language: Language = None) -> list[float]: ...
def k_precision(answer: Texts, passages: Texts | Sequence[Texts], language: Language = None) -> float | list[float]:
    """The share of an answer's tokens that its passages hold (:func:`custom_metrics.scores.grounding.k_precision`); ``nan``
    for an answer without a token.

    Args:
        answer: an answer, or a list of them.
        passages: of one answer, a text or a list of texts; of a list of answers, a list of these.
        language: BCP 47 tag, which decides what a token is: of ``en`` those of ROUGE, as in CLAPnq.

    Raises:
        UsageError: nothing here finds the words of the language, such as Thai.
    """
    from custom_metrics.scores import grounding

    def share(answer: str, passages: Any, language: str | None) -> float:
        return grounding.k_precision(answer, _listed(passages, "passages"), _code(language))

    return _each(share, answer, passages=passages, language=language)


@overload
def rouge(answer: str, references: Texts, passages: Texts | None = None) -> dict[str, float | None]: ...
@overload
def rouge(
    answer: Many, references: Texts | Sequence[Texts], passages: Texts | Sequence[Texts] | None = None
) -> list[dict[str, float | None]]: ...
def rouge(
    answer: Texts, references: Texts | Sequence[Texts], passages: Texts | Sequence[Texts] | None = None
) -> dict[str, float | None] | list[dict[str, float | None]]:
    """CLAPnq's scores of an answer (:func:`custom_metrics.scores.grounding.score_answer`): ``rougeL``, ``recall``,
    ``rougeLp`` and ``length``; ``None`` for what has no reference, or no passage.

    Args:
        answer: an answer, or a list of them.
        references: of one answer, its gold answer or a list of them, the nearest of which counts.
        passages: of one answer, a text or a list of texts, for ``rougeLp``.
    """
    from custom_metrics.scores.grounding import score_answer

    def scores(answer: str, references: Any, passages: Any) -> dict[str, float | None]:
        return score_answer(answer, _listed(references, "references"), _listed(passages, "passages"))

    return _each(scores, answer, references=references, passages=passages)


@overload
def span_iou(answer: str, annotated: Spans, predicted: Spans) -> float: ...
@overload
def span_iou(answer: Many, annotated: Sequence[Spans], predicted: Sequence[Spans]) -> list[float]: ...
def span_iou(answer: Texts, annotated: Any, predicted: Any) -> float | list[float]:
    """Intersection over union of the characters of an answer that two sides mark; 1.0 where both mark none
    (:func:`custom_metrics.scores.character_labels.iou`).

    Args:
        answer: the text that is marked, or a list of them.
        annotated, predicted: of one answer, a list of spans: (start, end), or longer, as :func:`detect` returns them.

    Raises:
        UsageError: a span is not in its answer.
    """
    from custom_metrics.scores.character_labels import iou

    def overlap(answer: str, annotated: Spans, predicted: Spans) -> float:
        return iou(_intext_of(annotated, answer, "annotated"), _intext_of(predicted, answer, "predicted"))

    return _each(overlap, answer, annotated=annotated, predicted=predicted)


@overload
def detect(
    reference: str,
    answer: str,
    language: str | None = None,
    detector: str | Detector = "lexical",
    question: str | None = None,
    **options: Any,
) -> list[Span] | None: ...
@overload
def detect(
    reference: Texts,
    answer: Many,
    language: Language = None,
    detector: str | Detector = "lexical",
    question: Language = None,
    **options: Any,
) -> list[list[Span] | None]: ...
def detect(
    reference: Texts,
    answer: Texts,
    language: Language = None,
    detector: str | Detector = "lexical",
    question: Language = None,
    **options: Any,
) -> list[Span] | list[list[Span] | None] | None:
    """The spans of an answer that its reference does not bear out, in characters of it; ``None`` where the detector cannot
    read an answer and was told to leave it out.

    Args:
        reference: the text to hold an answer against.
        answer: an answer, or a list of them.
        language: BCP 47 tag; default guessed of each answer, offline.
        detector: as ``--detector`` of the command, and kept loaded; or a loaded one.
        question: what was asked, for detectors that read it.
        options: of the detector, such as ``threshold``.

    Raises:
        UnusableDetector: there is no such detector, or no such option, or its value is none.
    """
    from detector_plugin.detector import RAG
    from detector_plugin.loading import resolve
    from lm_eval_tasks.detection.language_tags import guess

    groups: dict[Any, list[int]] = {}  # places of answers by their detector: `auto` goes by language
    rows: list[tuple[str, str, str | None, str]] = []
    given = rows_of(answer, reference=reference, language=language, question=question)
    for place, (text, source, tag, asked) in enumerate(given):
        source = text_of(source, "reference")
        code = guess(text, source).code if tag is None else _code(tag)
        rows.append((source, text, code, text_of(asked or "", "question")))
        key: Any = detector
        if isinstance(detector, str):
            name, chosen = resolve(detector, options, code, RAG)
            key = name, tuple(sorted(chosen.items()))
        groups.setdefault(key, []).append(place)
    spans: list[list[Span] | None] = [None] * len(rows)
    for key, places in groups.items():
        loaded = _loaded(*key) if isinstance(detector, str) else detector
        columns = map(list, zip(*(rows[place] for place in places), strict=True))
        for place, detected in zip(places, loaded.detect(*columns), strict=True):
            spans[place] = detected
    return spans[0] if isinstance(answer, str) else spans


@lru_cache(maxsize=4)
def _loaded(name: str, options: tuple[tuple[str, Any], ...]) -> Detector:
    from detector_plugin import load_detector

    return load_detector(name, **dict(options))


def _each(function: Callable[..., T], texts: Texts, **columns: Any) -> T | list[T]:
    """The function's value for a text and its columns, or a list of them."""
    values = [function(*row) for row in rows_of(texts, **columns)]
    return values[0] if isinstance(texts, str) else values


def _listed(texts: Any, name: str) -> list[str]:
    """The texts that belong to one answer: one, a list of them, or none."""
    if texts is None:
        return []
    if isinstance(texts, Mapping):
        raise UsageError(f"{name} is {type(texts).__name__}, no text and no list of texts")
    return [texts] if isinstance(texts, str) else [text_of(text, f"{name}[{at}]") for at, text in enumerate(texts)]


def _code(language: Any) -> str | None:
    """The ISO 639 code of a BCP 47 tag."""
    from lm_eval_tasks.detection.language_tags import code_of

    return None if language is None else code_of(text_of(language, "language"))


def _with_table(language: Any) -> str | None:
    from custom_metrics.abstention import LANGUAGES

    code = _code(language)
    if code is not None and code not in LANGUAGES:
        raise UsageError(f"no phrase table for language {language!r}; there are {', '.join(LANGUAGES)}")
    return code


def _intext_of(spans: Any, text: str, name: str) -> list[tuple[int, int]]:
    """The places of spans, which are in a text."""
    from custom_metrics.reading.spans import span_of

    places = []
    for span in spans:
        try:
            start, end, *_ = span_of([*span[:2], ""])
        except (TypeError, ValueError):
            start, end = 0, len(text) + 1
        if end > len(text):
            raise UsageError(f"{name}: a span is (start, end) in its text of {len(text)} characters, got {span!r:.60}")
        places.append((start, end))
    return places
