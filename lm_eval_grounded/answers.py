"""Single answers, or lists of them: abstention, labels, scores, and the words that a detector flags.

:func:`abstains` and :func:`relevance_label` alone remove reasoning blocks. A language is a BCP 47 tag. A list may be a
tuple, an array or a Series; what is neither a text nor a list is a UsageError."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from functools import lru_cache, wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

if TYPE_CHECKING:
    from custom_metrics.reading.spans import Span
    from detector_plugin import Detector

P = ParamSpec("P")
T = TypeVar("T")
Texts: TypeAlias = "list[str] | tuple[str, ...]"
Several: TypeAlias = "str | Sequence[str] | None"
Language: TypeAlias = "str | Sequence[str | None] | None"


class OneOrMany(Protocol[P, T]):
    """A function of a text, and of a list of texts."""

    @overload
    def __call__(self, text: str, /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def __call__(self, text: Texts, /, *args: Any, **kwargs: Any) -> list[T]: ...


def one_or_many(function: Callable[Concatenate[str, P], T]) -> OneOrMany[P, T]:
    """Let a function of a text take a list of texts, and return a list then. Errors are those of :func:`rows_of`."""
    signature, single = inspect.signature(function), cast("Callable[..., T]", function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        first, *columns = bound.arguments
        texts, values = bound.arguments.pop(first), list[T]()
        for place, row in enumerate(rows_of(texts, **{name: bound.arguments[name] for name in columns})):
            if isinstance(texts, str):
                return single(*row)
            try:
                values.append(single(*row))
            except UsageError as error:
                raise UsageError(f"text {place}: {error}") from None
        return values

    return called


@one_or_many
def abstains(text: str, language: str | None = None) -> bool:
    """Whether an answer, or each of a list, says that it cannot answer (:func:`custom_metrics.abstention.is_abstention`).
    Without a language, the two count that it most looks like. UsageError where the language has no phrase table.

    >>> abstains(["Der Text sagt es nicht.", "Paris"], language="de")
    [True, False]
    """
    from custom_metrics.abstention import is_abstention
    from custom_metrics.reading.response import final_answer
    from lm_eval_tasks.detection.language_tags import with_phrases

    return is_abstention(final_answer(text), with_phrases(language))


@one_or_many
def relevance_label(
    response: str,
    language: str | None = None,
    question: str | None = None,
    passages: Several = None,
    strict: bool = False,
) -> str:
    """NoMIRACL's label of a response, or of each of a list: ``Yes, answer is present``, ``I don't know`` or ``Invalid``
    (:func:`custom_metrics.relevance.robust_label`, which says what `question` and `passages` are for). `strict` reads the
    response alone, as the released parser does. UsageError where the language has no phrase table.

    >>> relevance_label("No passage mentions it.", language="en")
    "I don't know"
    """
    from custom_metrics.relevance import nomiracl_label, robust_label
    from lm_eval_tasks.detection.language_tags import with_phrases

    if of_kind(bool, strict, "strict"):
        return nomiracl_label(response)
    asked = None if question is None else of_kind(str, question, "question")
    return robust_label(response, with_phrases(language), asked, _texts(passages, "passages"))


@one_or_many
def k_precision(answer: str, passages: Several, language: str | None = None) -> float:
    """The share of the tokens of an answer, or of each of a list, that its passages hold; ``nan`` without a token
    (:func:`custom_metrics.scores.grounding.k_precision`). Tokens are the words of the language; of ``en`` ROUGE's, as in
    CLAPnq. UsageError where nothing here finds its words, or there is no passage.

    >>> k_precision("The cat is an astronaut.", ["The cat sleeps.", "It is a cat."], language="en")
    0.6
    """
    from custom_metrics.scores import grounding
    from lm_eval_tasks.detection.language_tags import code_of

    code = None if language is None else code_of(language)
    return grounding.k_precision(answer, _texts(passages, "passages", required=True), code)


@one_or_many
def rouge(answer: str, references: Several, passages: Several = None) -> dict[str, float | None]:
    """CLAPnq's ``rougeL``, ``recall``, ``rougeLp`` (against `passages`) and ``length`` of an answer, or of each of a list;
    ``None`` for what has no reference, or no passage (:func:`custom_metrics.scores.grounding.score_answer`). UsageError
    where these are in another script than Latin.

    >>> rouge("a cat sat", references=["the cat sat"], passages="the cat sat on the mat")["recall"]
    0.6666666666666666
    """
    from custom_metrics.scores.grounding import refuse_other_scripts, score_answer

    texts = _texts(references, "references"), _texts(passages, "passages")
    for each in texts:
        refuse_other_scripts(each)
    return score_answer(answer, *texts)


@one_or_many
def span_iou(answer: str, annotated: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> float:
    """Intersection over union of the characters that two sides mark in an answer, or in each of a list; 1.0 where both mark
    none (:func:`custom_metrics.scores.detection.iou`). A span is (start, end), or longer, as :func:`detect` gives
    it. UsageError where it is not in the answer.

    >>> span_iou("The cat is an astronaut.", annotated=[(14, 23)], predicted=[(11, 23)])
    0.75
    """
    from custom_metrics.scores.detection import iou

    return iou(_in_text(annotated, answer, "annotated"), _in_text(predicted, answer, "predicted"))


@overload
def detect(
    reference: str | Texts, answer: str, language: Language = ..., detector: str | Detector | None = ..., **options: Any
) -> list[Span] | None: ...
@overload
def detect(
    reference: str | Sequence[str | Texts],
    answer: Texts,
    language: Language = ...,
    detector: str | Detector | None = ...,
    **options: Any,
) -> list[list[Span] | None]: ...
def detect(
    reference: Any,
    answer: str | Texts,
    language: Language = None,
    detector: str | Detector | None = None,
    question: Language = None,
    **options: Any,
) -> Any:
    """The spans of an answer, or of each of a list, that its reference does not bear out; ``None`` where the detector
    cannot read the answer and was told to leave it out.

    >>> detect(["The cat sleeps.", "It is on the sofa."], "The cat is an astronaut.", language="en")
    [Span(start=11, end=24, category='hallucination', probability=0.512)]

    A Span has the characters from `start` up to, not including, `end`: ``answer[11:24]`` is ``"an astronaut."``. Its
    `category` is what is wrong with them, ``hallucination`` where the detector knows no categories, and its `probability`
    that something is. The reference is a text, or a list of passages; of several answers, one text for all, or a list of
    references.

    The language is guessed by default. A detector (by default ``lexical``) is named as for the command, and kept loaded, or
    a loaded one; `options` are its own, such as ``threshold``. UnusableDetector, a UsageError, where there is no such
    detector, option or value."""
    from detector_plugin.detector import DEFAULT_DETECTOR
    from detector_plugin.filters import as_text
    from lm_eval_tasks.detection.language_tags import code_of, guess

    rows: list[tuple[str, str, str | None, str]] = []
    for text, passages, tag, asked in rows_of(answer, reference=reference, language=language, question=question):
        source = as_text(_texts(passages, "reference", required=True))
        code = guess(text, source).code if tag is None else code_of(tag)
        rows.append((source, text, code, of_kind(str, "" if asked is None else asked, "question")))
    if detector is None or isinstance(detector, str):
        of_hashes = all(isinstance(value, Hashable) for value in options.values())
        load = _loaded if of_hashes else _loaded.__wrapped__
        detector = load(DEFAULT_DETECTOR if detector is None else detector, **options)
    if not hasattr(detector, "detect"):
        raise UsageError(f"detector: expected a name or a loaded detector, got {type(detector).__name__}")
    spans = detector.detect(*(map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])))
    return spans[0] if isinstance(answer, str) else list(spans)


@lru_cache(maxsize=4)
def _loaded(name: str, **options: Any) -> Detector:
    from detector_plugin import load_detector

    return load_detector(name, **options)


def _texts(texts: Any, name: str, required: bool = False) -> list[str]:
    """The texts that belong to one answer: one, a list of them, or none (``None``, too) unless they are required."""
    found = [texts] if isinstance(texts, str) else [] if texts is None else listed(texts, name)
    if required and not found:
        raise UsageError(f"{name}: none given; without a text to check an answer against nothing can be said of it")
    return [of_kind(str, text, f"{name}[{at}]") for at, text in enumerate(found)]


def _in_text(spans: Any, text: str, name: str) -> list[tuple[int, int]]:
    """The places of spans, which are in a text."""
    places = []
    for span in listed(spans, name, "spans"):
        found = [int(at) for at in span[:2] if isinstance(at, Integral)] if isinstance(span, (list, tuple)) else []
        if len(found) < 2 or not 0 <= found[0] <= found[1] <= len(text):
            where = f"in its text of {len(text)} characters"
            raise UsageError(f"{name}: a span is (start, end) {where}, got {excerpt(span)}")
        places.append((found[0], found[1]))
    return places


# ----------------------------------------------------------------------------------------------- lists and their columns


def rows_of(texts: str | Texts, **columns: Any) -> list[tuple[Any, ...]]:
    """Each text with its value of every column. A UsageError where a column is shorter or longer than the texts, or
    something is no text."""
    if isinstance(texts, str):
        return [(texts, *columns.values())]
    filled = [[of_kind(str, text, f"text {place}") for place, text in enumerate(listed(texts, "text"))]]
    for name, column in columns.items():
        is_list = isinstance(column, Iterable) and not isinstance(column, str)
        values = listed(column, name, "values") if is_list else [column] * len(filled[0])
        if len(values) != len(filled[0]):
            raise UsageError(f"{len(filled[0])} texts, but {len(values)} for {name}: {excerpt(values)}")
        filled.append(values)
    return list(zip(*filled, strict=True))


def listed(values: Any, name: str, kind: str = "texts") -> list[Any]:
    """The values of a list, a tuple, a NumPy array, a pandas Series, or whatever else has them in order. A UsageError for a
    text, bytes, a dict, a set, a DataFrame, and what has no values."""
    is_table, dimensions = hasattr(values, "columns"), getattr(values, "ndim", 1)
    if hasattr(values, "tolist") and dimensions:
        return list(values.tolist())
    unordered = isinstance(values, (str, bytes, bytearray, Mapping, Set))
    if unordered or is_table or not dimensions or not isinstance(values, Iterable):
        wrong = "; pass one of its columns" if is_table else "; it has no order" if isinstance(values, Set) else ""
        expected = f"expected {'a text or ' * (kind == 'texts')}a list of {kind}, got {type(values).__name__}"
        raise UsageError(f"{name}: {expected}{wrong or f': {excerpt(values)}'}")
    return list(values)


def of_kind(kind: type[T], value: Any, name: str) -> T:
    """The value if it is a text (``str``), or true or false (``bool``); else a UsageError."""
    if not isinstance(value, kind):
        wanted = "not a text" if kind is str else "not True or False"
        raise UsageError(f"{name} is {type(value).__name__}, {wanted}: {excerpt(value)}")
    return value
