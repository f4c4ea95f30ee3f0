"""Kinds of text that is no answer: the output of a model that is broken, or was prompted in the wrong form.

:func:`no_answer` gives one of the :data:`KINDS`:

================  =====================================================================================================
``empty``         no letter and no digit
``failure``       the message of a service that failed, see :func:`is_service_failure`
``prompt``        the text repeats the prompt or continues it, and adds nothing of its own: headings
                  ("QUESTION:", "CONTEXTS:", "[document]:"), sentences of the instruction, the question itself, the next
                  passage ("[11] Berlin: ...", where there were ten), or the passages from the first on
``loop``          from its first sentence on, four copies or more of the same words or characters ("the the the the",
                  "hahahaha"), or so few different pairs of characters that there is no other way
``markup``        tags, entities and commands of HTML, XML and LaTeX, with no text between them
``code``          begins as a program does, and no line of prose follows
``debris``        special tokens and turn headings of chat templates, also broken ones ("assistant", "im_end|>", "[PAD]")
================  =====================================================================================================

A text that the passages hold word for word is an answer, whatever it looks like ("Boom Boom Boom Boom"); only the kind
`prompt` is an exception. "Paris", "[3]", "1945", "H2O", "東京" are answers to any question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

from custom_metrics.abstention.folding import EDGE, NO_SPACES, fold
from custom_metrics.usage import shipped_rows, shipped_yaml

KINDS = ("empty", "failure", "prompt", "loop", "markup", "code", "debris")

MAX_CHARACTERS = 2000  # at the front: a text that is no answer shows it from its beginning
PASSAGES = 10  # of a NoMIRACL prompt, where they are not given

_SUBSTANCE = re.compile(r"[^\W_]")
_ASKING = "?？؟.;。 \"'”“»"
_LEAD = re.compile(r"[\s\"'*“”„«»]*")
_PASSAGE = re.compile(r"\s*\[(\d{1,3})\]\s*(?=[^\n]{0,120}?\S:\s)")
_FIRST = re.compile(r"\W*CONTEXTS\s*:\s*\[1\]", re.IGNORECASE)
_OUTPUT = re.compile(r"(?:^|\s)(?:OUTPUT|ANSWER|agent|assistant|\[answer\])\s*:\s*", re.IGNORECASE)
_VERDICT = re.compile(r"(?=\b(?:Yes, answer is present|I don['’]t know))", re.IGNORECASE)


@cache
def _form_of(name: str) -> re.Pattern[str]:
    form = shipped_yaml("custom_metrics.reading", "forms.yaml")[name]
    pattern = f"{form.get('start', '')}(?:{'|'.join(form['any'])}){form.get('end', '')}"
    return re.compile(pattern, re.IGNORECASE if form["ignore_case"] else 0)


def without_prompt(text: str, question: str | None = None, passages: Sequence[str] = ()) -> str:
    """A text without the parts of the prompt that it begins with.

    It is ``""`` where nothing else is left, and the text itself where it begins with no part of the prompt. Where the text
    goes on with passages, or with a question of its own, it is what follows "OUTPUT:", or the verdict in it.

    Passages are those of the document, as they stand in the prompt.
    """
    query = (question or "").strip().rstrip(_ASKING).lower()
    start, headed = 0, False
    while True:
        lead = _LEAD.match(text, start)
        at = lead.end() if lead else start
        end = at + len(query)
        if query and text[at:end].lower() == query and not text[end : end + 1].isalnum():
            while end < len(text) and text[end] in _ASKING:
                end += 1
            start, headed = end, False
        elif match := _form_of("instruction").match(text, start):
            start = match.end()
        elif match := _form_of("heading").match(text, start):
            start = match.end()
            headed = bool(match["asks"])
        else:
            break
    passage = _PASSAGE.match(text, start)
    if start and _FIRST.match(text, start):  # the contexts behind the question, the first without its title
        headed = True
    elif passage:
        number, contexts = int(passage[1]), "contexts" in text[:start].lower()
        copied = number == 1 and "\n[2]" in text and bool(passages) and passages[0][:40] in text
        headed = number > (len(passages) or PASSAGES) or contexts or copied
    if not headed:
        return text[start:].lstrip() if start else text
    output = _OUTPUT.search(text, start) or _VERDICT.search(text, start)
    return text[output.end() :] if output else ""


_LONGEST_FAILURE = 200  # characters
_REST_OF_ENTRY = 60  # characters behind an entry of several words
_WILDCARD = 40
_KEY = 2  # characters by which entries are looked up
_CLAUSE_END = re.compile(
    r"[.!?…,;:\n。！？，、；：।۔؟،]+(?=\s|$)|[。！？，、；：।۔؟،\n]+|\s[-–—]\s"
    r"|(?<=[\u0e00-\u0eff]) (?=[\u0e00-\u0eff])"  # a blank parts the clauses of Thai and Lao
)
_FAILURE_EDGE = " \t\"'`*_#()[]<>{}!¡¿⚠️❌️"
# A number alone is an answer; a code has a prefix, such as "error", or is followed by its reason.
_HTTP_CODE = re.compile(
    r"(?P<prefix>(?:(?:https?|status|error|code)\W+){0,3})[45]\d\d(?:\W+|$)"
    r"(?P<reason>bad request|unauthorized|forbidden|not found|request timeout|payload too large|unprocessable entity)?"
)
_PYTHON_ERROR = re.compile(
    r"Traceback \(most|<html>\s*<head>\s*<title>\s*[45]\d\d|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?::|\(|$)"
)
_ERROR_BODY = re.compile(
    r'\{\s*(?:"(?:status|code|type|success)"\s*:\s*[\w"]{1,20}\s*,\s*)?"(?:(?:errors?|exception)"\s*:|choices"\s*:\s*\[\s*\])'
)
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")


@cache
def _failures() -> tuple[frozenset[str], dict[str, re.Pattern[str]]]:
    """Apologies; and the first two characters of entries to their pattern."""
    table = dict(shipped_yaml("custom_metrics.reading", "service_failures.yaml"))
    apologies = frozenset(table.pop("apologies"))
    patterns: dict[str, set[str]] = {}
    for entry in dict.fromkeys(entry for entries in table.values() for entry in entries):
        pattern = re.escape(entry).replace(r"\*", f".{{0,{_WILDCARD}}}")
        if " " in entry.removesuffix(" *") and not entry.endswith("*"):
            pattern += f"(?:\\b.{{0,{_REST_OF_ENTRY}}})?"
        patterns.setdefault(entry[:_KEY], set()).add(pattern)
    return apologies, {key: re.compile("|".join(sorted(group))) for key, group in patterns.items()}


def is_service_failure(text: str, question: str | None = None) -> bool:
    """Whether a text is nothing but the message of a service that failed.

    Each clause must be an entry of the table, an apology beside one, or a code of HTTP (400 to 599). No word of the text
    may stand in the question ("An error occurred in the navigation system"). A text that begins as an exception of Python
    or as a JSON object with an error is a failure as a whole: of more than 200 characters only these are looked for.
    """
    start = text.lstrip()
    if (start[:1] == "{" and _ERROR_BODY.match(start)) or _PYTHON_ERROR.match(start):
        return True
    if len(text) > _LONGEST_FAILURE:
        return False
    apologies, entries = _failures()
    failed = False
    for clause in _CLAUSE_END.split(text.replace("’", "'").lower()):
        clause = clause.strip(_FAILURE_EDGE)
        if code := _HTTP_CODE.match(clause):
            clause, failed = clause[code.end() :].strip(_FAILURE_EDGE), failed or bool(code["prefix"] or code["reason"])
        if not clause or clause in apologies:
            continue
        pattern = entries.get(clause[:_KEY])
        if pattern is None or not pattern.fullmatch(clause):
            return False
        failed = True
    if failed and question:
        folded = question.casefold()
        return not any(word in folded for word in _LONG_WORD.findall(text.casefold()))
    return failed


_COPIES = 4
_LONGEST_PERIOD = 64  # words
_LONGEST_UNIT = 32  # characters
_SAME_LETTER = 6  # "XXXX" may be a name, and "1111" is a year
_SAME_DIGITS = 12
_FEW = 0.25  # different pairs of characters to all of them; prose has more than 0.4 in 400 characters
_FEW_FROM, _FEW_TO = 32, 400
_SENTENCE_END = re.compile(r"[.!?。！？।۔؟\n]+")
_LETTERS = re.compile(r"[^\W_]+")
_WORD_EDGE = EDGE + "*_#"


def _loops(text: str) -> bool:
    folded = text.casefold()
    words = [token.strip(_WORD_EDGE) for token in folded.split()]
    if unit := _period(words, _LONGEST_PERIOD):
        numbers = all(word.isdigit() for word in words[:unit])
        return any(map(_SUBSTANCE.search, words[:unit])) and (not numbers or len(words) >= 2 * _COPIES * unit)
    joined = "".join(_LETTERS.findall(folded[: _FEW_TO * 2]))
    enough = _SAME_DIGITS if joined.isdigit() else _SAME_LETTER  # four copies of two letters are more than that
    if len(joined) >= enough and _period(joined, _LONGEST_UNIT):
        return True
    if len(joined) >= _FEW_FROM and not joined.isdigit():
        joined = joined[:_FEW_TO]
        if len({*pairwise(joined)}) < _FEW * (len(joined) - 1):
            return not _says_something_first(text)
    # all but the first quarter goes round, and that quarter is no sentence
    tail = words[len(words) // 4 :] if len(words) >= _COPIES * 2 else []
    unit = _period(tail, _LONGEST_PERIOD)
    return any(map(_SUBSTANCE.search, tail[:unit])) and not _says_something_first(text)


def _period(items: Sequence[str], longest: int) -> int:
    """The length of the shortest unit that a sequence repeats, four times or more; 0 where it repeats none."""
    for unit in range(1, min(longest, len(items) // _COPIES) + 1):
        if items[unit] == items[0] and items[unit:] == items[:-unit]:
            return unit
    return 0


def _says_something_first(text: str) -> bool:
    """Whether the first sentence or line of a text occurs once, and is not part of the loop."""
    text = text.strip()
    end = _SENTENCE_END.search(text)
    if not end:
        return False
    first = text[: end.start()].strip()
    return bool(_SUBSTANCE.search(first)) and text.count(first) == 1 and not _loops(first)


_TAG = re.compile(
    r"<(?P<closing>/?)(?P<name>[A-Za-z][\w:-]{0,30})(?P<more>\s[^<>]{0,300}|/)?>|<[!?][^<>]{0,300}>"
    r"|&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[A-Za-z]{2,8});",
)
_LATEX = re.compile(r"\\(?:begin|end|documentclass|usepackage)(?:\[[^\]\n]{0,80}\])?\{[^{}\n]{0,80}\}|\\[A-Za-z]{2,20}")
_CODE_MARKS = frozenset(";{}=<>")
_TOKEN_FORM = re.compile(r"[|<>\[\]#:_Ġ▁]|assistant", re.IGNORECASE)


def _is_markup(text: str) -> bool:
    if "<" not in text and "&" not in text and "\\" not in text:
        return False
    html = shipped_yaml("custom_metrics.reading", "forms.yaml")["html"]["any"]  # "<Paris>" may be an answer
    bare = _TAG.sub(
        lambda tag: " " if not tag["name"] or tag["name"].lower() in html or tag["closing"] or tag["more"] else tag[0],
        text,
    )
    bare = _LATEX.sub(" ", bare)
    return bare != text and not _SUBSTANCE.search(bare)


def _is_code(text: str) -> bool:
    """Whether a text begins as a program and no line of it is a sentence of three words or more."""
    lines = text.replace("```", "\n").splitlines()
    prose = (line for line in lines if line.rstrip()[-1:] in tuple(".!?。।۔؟") and line[:1].isalpha())
    says = any(len(line.split()) >= 3 and _CODE_MARKS.isdisjoint(line) for line in prose)
    return not says and bool(_form_of("code").match(text.lstrip()))


def _is_debris(text: str) -> bool:
    if 2 * text.count("\ufffd") > len(text):
        return True  # characters that could not be decoded
    return _TOKEN_FORM.search(text) is not None and not _SUBSTANCE.search(_form_of("debris").sub(" ", text))


def no_answer(text: str, question: str | None = None, passages: Sequence[str] = ()) -> str | None:
    """The kind of a text that is no answer; ``None`` for an answer, also for a wrong one and for an abstention.

    The text is what :func:`custom_metrics.reading.response.final_answer` returns; its first :data:`MAX_CHARACTERS` are
    read. Without the question, the kinds that need it (see the module) are not looked for.
    """
    text = text[:MAX_CHARACTERS]
    if not _SUBSTANCE.search(text):
        return "empty"
    if is_service_failure(text, question):
        return "failure"
    asked = (question or "").strip().rstrip(_ASKING).casefold() or "\0"
    heading, again, behind = text.casefold().rpartition(asked)  # "The question is: ..."
    repeated = again and not _SUBSTANCE.search(behind) and len(heading.split()) <= 4
    if repeated or not _SUBSTANCE.search(without_prompt(text, question, passages)):
        return "prompt"
    kind = _form(text)
    if kind == "loop":
        text = _SENTENCE_END.split(text.strip(), maxsplit=1)[0]  # "Berlin\nBerlin\nBerlin\nBerlin"
    folded = text.strip(EDGE).casefold()
    quoted = kind and folded and any(folded in passage.casefold() for passage in passages)
    return None if quoted else kind


@lru_cache(maxsize=1024)  # models repeat themselves
def _form(text: str) -> str | None:
    kinds = {"markup": _is_markup, "code": _is_code, "debris": _is_debris, "loop": _loops}
    return next((kind for kind, is_kind in kinds.items() if is_kind(text)), None)


# What can be read, but says nothing about the passages. It keeps its place in the rates; a run with many is told so.

_BEGINNING = 300  # characters
_SALAD_WORDS = re.compile(r"[^\W\d_]+")
_FEWEST_WORDS = 6  # words: fewer may be names that the passages do not have
_MOST_KNOWN = 1 / 4  # share of an answer's words that question, passages or English have
_STEM = 5  # letters by which a word is known: most languages inflect at the end
# Function words of the prompt's language, in which some models answer questions of any other.
_ENGLISH = frozenset(
    "the of and to in is are was were be been has have had it its this that these those a an i you he she they we there "
    "not no but or as at by for from on with about can could would do does did if so which who what when where how any all "
    "only also answer question context contexts passage passages document information provided given know yes based "
    "present mention mentioned sorry".split()
)


@cache
def _refusals() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    rows = shipped_rows("custom_metrics.reading", "refusals.tsv")
    return tuple((re.compile(row["refusal"]), re.compile(row["unless"])) for row in rows)


@lru_cache(maxsize=1024)  # models repeat themselves
def is_refusal(text: str) -> bool:
    """Whether an answer refuses by policy, in a language of ``refusals.tsv``, without a word on the passages."""
    start = text[:_BEGINNING].lower().replace("’", "'")
    return any(refusal.search(start) and not unless.search(start) for refusal, unless in _refusals())


@lru_cache(maxsize=1024)  # models repeat themselves
def _stems_of(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in _SALAD_WORDS.findall(fold(text, marks=True)))


def is_word_salad(text: str, question: str | None, passages: Sequence[str]) -> bool:
    """Whether next to no word of an answer is in its question, its passages or among the most common ones of English.

    Answers of fewer than six words, and those in scripts without spaces, are none.
    """
    words = _stems_of(text) if question and passages else frozenset()
    if not question or len(words) < _FEWEST_WORDS or NO_SPACES.search(text):
        return False
    unknown = words - _STEMS
    if len(unknown) <= (1 - _MOST_KNOWN) * len(words):
        return False
    unknown -= _stems_of("\n".join((question, *passages)))
    return len(unknown) > (1 - _MOST_KNOWN) * len(words)


_STEMS = frozenset(word[:_STEM] for word in _ENGLISH)
