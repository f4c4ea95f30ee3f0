"""The task or group of ours that an unknown name was meant for, such as ``nomiracl_de`` for ``nomiracl_ger``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from lm_eval_tasks.definition import catalogue

_ALIKE = 0.8  # similarity of difflib, for the name of a benchmark
_NEAR = 0.6  # the same, for a task of that benchmark
_WRITTEN_OUT = 3  # letters of an English name that are enough: `swa`, `ger`


def hint(names: Iterable[str], known: Collection[str] = ()) -> str:
    """The end of a message about unknown names: ``; did you mean nomiracl_de?``, or which languages there are.

    Empty where they resemble none of our tasks and groups; or of `known`, where a name of ours is no mistake.
    """
    meant, messages = [], []
    for name in names:
        task, message = _meant(name, tuple(known or _ours())) if not known or name not in _ours() else ("", "")
        meant += [task] if task else []
        messages += [message] if message and not known else []
    messages += [f"did you mean {', '.join(meant)}?"] if meant else []
    return "".join(f"; {message}" for message in dict.fromkeys(messages))


@lru_cache(maxsize=1)
def _ours() -> tuple[str, ...]:
    tasks = (task.name for table in catalogue.tables().values() for task in table.tasks)
    return tuple(sorted({*catalogue.groups(), *tasks}))


def _meant(name: str, known: tuple[str, ...]) -> tuple[str, str]:
    """The task or group of `known` that was meant, or which languages there are instead; both empty for any other name."""
    first, *rest = re.split(r"[\s_-]+", name.strip().casefold())
    families = sorted({other.partition("_")[0] for other in known})
    family = next(iter(difflib.get_close_matches(first, families, 1, _ALIKE)), None)
    if family is None:
        return "", ""
    members = {other: other.split("_") for other in known if other.partition("_")[0] == family}
    parts = {part for words in members.values() for part in words[1:]}
    names = catalogue.languages()
    languages = sorted(parts & names.keys())
    codes = [word if word in parts else _code(word) for word in rest]
    meant = [code for code in codes if code in languages]
    if languages and rest and not meant and not {*rest} & parts:
        missing = next((names[code] for code in codes if code in names), "")
        near = [] if missing else difflib.get_close_matches("_".join(rest), parts - {*languages}, 1, _NEAR)
        if not near:
            return "", f"{family} has no {missing or f'language {rest[0]!r}'}; it has {' '.join(languages)}"
    # a part that says nothing here, such as the region of zh-cn, is left out where the language is known
    words = [code or word for code, word in zip(codes, rest, strict=True) if code or not meant or _near(word, parts)]
    of_language = [other for other, words in members.items() if {*meant} <= {*words}]
    same_words = [other for other in of_language if {*members[other][1:]} == {*words}]
    near = same_words or difflib.get_close_matches("_".join([family, *words]), of_language, 1, _NEAR)
    return next(iter(near), ""), ""


def _near(word: str, parts: Collection[str]) -> bool:
    return bool(difflib.get_close_matches(word, parts, 1, _ALIKE))


def _code(word: str) -> str | None:
    """The code of a language of ours from its English name, the beginning of that, or another code; else ``None``."""
    import langcodes

    names = catalogue.languages()
    if len(word) >= _WRITTEN_OUT:
        for code, name in names.items():
            if name.casefold().startswith(word):
                return code
    if langcodes.tag_is_valid(word):
        code = langcodes.Language.get(word).prefer_macrolanguage().language
        if code in names:
            return str(code)
    spelt = difflib.get_close_matches(word, [name.casefold() for name in names.values()], 1, _ALIKE)
    return next((code for code, name in names.items() if name.casefold() in spelt), None)
