"""The language of an answer: from a BCP 47 tag, or guessed.

The package's tables of languages (segmenters, phrases of abstention) have ISO 639 codes as keys: ``de`` for ``de-CH``,
``zh`` for ``cmn-Hans``, ``yue`` for ``zh-yue``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import excerpt

SURE = 0.8  # a guess below this probability is not used

# Of the distances of CLDR: Wu is at 10 from Chinese, Egyptian Arabic from Arabic; Javanese is at 20 from Indonesian.
_NEAR = 10

_NO_LANGUAGE = ("mis", "mul", "und", "zxx")  # of ISO 639: uncoded, several, undetermined, no linguistic content


class Guess(NamedTuple):
    """An ISO 639 code, ``None`` where no guess is sure enough; the probability of the likeliest language; and the text that
    it was guessed from (`basis`)."""

    code: str | None
    probability: float
    basis: str


def code_of(tag: str) -> str:
    """The ISO 639 code of a BCP 47 tag; where no table here has it, that of the language next to it (``zh`` for ``wuu``).
    UsageError where the registry has no such tag."""
    import langcodes

    if not isinstance(tag, str) or not langcodes.tag_is_valid(tag):
        from lm_eval_tasks.definition.catalogue import languages

        suggestion = {english.casefold(): code for code, english in languages().items()}.get(
            str(tag).strip().casefold()
        )
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        raise UsageError(
            f"{excerpt(tag)} is not a language; give a BCP 47 tag, such as de, pt-BR, zh-Hant or yue{hint}"
        )
    code = langcodes.Language.get(tag).language
    if code is None or code.startswith("x-") or code in _NO_LANGUAGE:
        raise UsageError(f"{tag!r} does not name one language; give its BCP 47 tag, or none to have it guessed")
    near, _ = langcodes.closest_match(code, _known(), max_distance=_NEAR)
    return str(code if near == "und" else near)


def with_phrases(tag: str | None) -> str | None:
    """The ISO 639 code of a BCP 47 tag; UsageError where abstention has no table of phrases in that language."""
    from custom_metrics.abstention.phrases import LANGUAGES

    code = None if tag is None else code_of(tag)
    if code is not None and code not in LANGUAGES:
        raise UsageError(f"no phrase table for {tag!r}; there are {', '.join(LANGUAGES)}")
    return code


def guess(answer: str, reference: str) -> Guess:
    """The language of an answer, by py3langid (139 languages, offline); with its reference's help where it is short."""
    for text, basis in ((answer, "the answer"), (f"{answer}\n{reference}", "the answer and its reference")):
        code, probability = identified(text)
        if probability >= SURE and code not in _NO_LANGUAGE:
            return Guess(code_of(code), probability, basis)
    return Guess(None, probability, basis)


def are_near(code: str, other: str) -> bool:
    """Whether two languages are so near that texts in them are hard to tell apart: Serbian and Croatian, Wu and Chinese.
    Scripts are ignored: a code does not determine the script of a text, and Serbian has two."""
    import langcodes

    first, second = map(langcodes.Language.get, (code, other))
    return bool(first.distance(second, ignore_script=True) <= _NEAR)


def identified(text: str) -> tuple[str, float]:
    """The likeliest language of a text by py3langid, as ISO 639 code, and its probability."""
    code, probability = _identifier().classify(text)
    return str(code), float(probability)


@lru_cache(maxsize=1)
def identifiable() -> frozenset[str]:
    return frozenset(map(str, _identifier().nb_classes))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=1)
def _known() -> list[str]:
    """Languages with a table of phrases, or a segmenter."""
    from custom_metrics.abstention.phrases import LANGUAGES
    from custom_metrics.reading.words import SEGMENTERS

    return sorted({*LANGUAGES, *SEGMENTERS})
