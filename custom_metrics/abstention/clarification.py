"""Clarification: whether an answer asks the user back ("Which season are you referring to?", "Please specify the loan").

The phrases are in ``clarification.yaml``, a table a language: questions about what the user means, and requests to say it.
English ones count in every language. An answer is read sentence by sentence. It asks back if any sentence does, also behind
the options that it lists. That something is missing is no request ("I'd need its name"), nor is a closing offer of help.
"""

from __future__ import annotations

from functools import cache

from custom_metrics.abstention import excerpt, lexicons
from custom_metrics.abstention.phrases import Lexicon, build_lexicon, phrase_table
from custom_metrics.abstention.sentence_reading import split
from custom_metrics.usage import shipped_yaml

KEYS = ("asks", "requests", "offers")


def asks_clarification(text: str | None, language: str | None = None) -> bool:
    """Whether an answer asks the user what was meant, or for a detail that it needs.

    Args:
        text: a model's answer, without reasoning; ``None`` and blank ones ask nothing.
        language: its ISO 639 code; phrases of that language and of English count. Default: the two that it most looks like.
    """
    if not isinstance(text, str) or not text.strip():
        return False
    for code, lexicon in lexicons(text, language):
        for sentence, is_question in split(lexicon.fold(excerpt(text))):
            hits = _phrases(code).search(sentence)
            if "offers" not in hits and ("requests" in hits or (is_question and "asks" in hits)):
                return True
    return False


@cache
def _phrases(language: str) -> Lexicon:
    """The phrases of a language and of English, for folded sentences."""
    tables = shipped_yaml("custom_metrics.abstention", "clarification.yaml")
    forms = {code: phrase_table(code) for code in dict.fromkeys((language, "en"))}
    written = ("language", "spaces", "fold_marks", "same")
    merged = [{k: form[k] for k in written if k in form} | tables.get(code, {}) for code, form in forms.items()]
    return build_lexicon(merged, KEYS)
