"""Documents of the Mu-SHROOM tasks: a question, a model's answer, the spans that people marked as hallucinated, and the
reference to judge it by: a context that a search-backed model wrote for the question, one file an answer.

Of contexts, citation marks and Markdown go; the text itself stays. What only looks like a mark stays, too: ``[1,2]``,
``2*3*4``, and the year at the beginning of ``1276. urteak 366 egun izan zituen``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from custom_metrics.reading.spans import Span, as_columns, from_columns
from custom_metrics.reading.tagged_text import merged, render
from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import REAL, LabelledAnswer
from lm_eval_tasks.data import digests_of, sources
from lm_eval_tasks.data.tables import read_rows, text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, choice, documents, in_turn, refuse_misspelt
from lm_eval_tasks.detection.labelled_answers import Collection

REPOSITORY = "Helsinki-NLP/mu-shroom"
CONTEXTS = "nlp-ucsc/semeval-2025-task3"
SPLITS = ("test", "validation")
BOTH, RANKED = "both", "test"
NO_REFERENCE = "answers left out, whose context is not there"
UNUSED = "contexts of no annotated answer, not used"
BLANK = "answers left out, empty or only white space"


@dataclass(frozen=True)
class Language:
    code: str  # ISO 639, as in the files' names
    name: str  # English
    splits: tuple[str, ...]

    def answers_file(self, split: str) -> str:
        """Path of the answers of a split; ``extra`` files name the page and the annotators too."""
        if split == "test":
            return f"splits/test_labeled/v1/mushroom.{self.code}-tst.v1.extra.jsonl"
        return f"splits/val/v2/mushroom.{self.code}-val.v2.extra.jsonl"

    def contexts_folder(self, split: str) -> str:
        """Path of the contexts of a split in the repository :data:`CONTEXTS`: a folder of files."""
        part = "tst.v1" if split == "test" else "val.v2"
        return f"data/context/{self.code}-{part}_perplexity-sonar-pro/"


LANGUAGES = {
    row["code"]: Language(row["code"], row["language"], SPLITS[: 1 + (row["validation"] == "yes")])
    for row in shipped_rows("lm_eval_tasks.mushroom", "languages.tsv")
}
"""Code to language."""


def load(language: str, split: str = BOTH, mirror: str | None = None, **ignored: Any) -> Documents:
    """Load the annotated answers of a language that have their context.

    `language` is a key of :data:`LANGUAGES`, `split` ``"test"``, ``"validation"`` or ``"both"``; of both the answers take
    turns, so that ``--limit`` sees both.

    Returns:
        ``{"evaluation": documents}``. Columns: ``id``, ``language``, ``split``, ``model`` (id of the one that answered),
        ``query``, ``answer``, ``reference`` (the context), ``url`` (of the Wikipedia page that annotators had,
        percent-decoded), ``title``, ``passage`` (the page's :func:`subject`, which its versions in other languages share),
        ``spans`` (hard labels: ``start``, ``end``, ``category``), ``soft_labels`` (``start``, ``end``, ``prob``),
        ``target`` (the answer, hard labels tagged). Labels are in characters of the answer.
    """
    task = f"mushroom_{language}"
    entry = LANGUAGES[choice("language", language, LANGUAGES, task)]
    choice("split", split, (*SPLITS, BOTH), task)
    if split not in (*entry.splits, BOTH):
        raise UsageError(f"{task}: no {split} answers in {entry.name} are public, only {' and '.join(entry.splits)}")
    if "reference" in ignored:
        raise UsageError(f"{task}: the option reference is gone; every answer is judged by its published context")
    refuse_misspelt(ignored, load_task.user_options, task)
    return _documents(language, split, sources.mirror_folder(mirror))


def _files(options: Options) -> Places:
    entry = LANGUAGES[options["language"]]
    split = options.get("split", BOTH)
    splits = [name for name in entry.splits if split in (name, BOTH)]
    return [
        place
        for name in splits
        for place in ((CONTEXTS, entry.contexts_folder(name)), (REPOSITORY, entry.answers_file(name)))
    ]


load_task = TaskLoader(load, _files, of_task=("language",), logged_elsewhere=("reference", "target"))


@lru_cache(maxsize=64)
def _documents(language: str, split: str, mirror: Path | None) -> Documents:
    task = f"mushroom_{language}"
    entry = LANGUAGES[language]
    counts: Counter[str] = Counter()
    splits = entry.splits if split == BOTH else (split,)
    by_split = []
    with sources.recording() as read:
        for name in splits:
            folder = sources.locate(CONTEXTS, entry.contexts_folder(name), mirror)
            checksum = sources.source_file(CONTEXTS, entry.contexts_folder(name)).checksum
            contexts = read_contexts(folder, digests_of(folder).matches(checksum), counts)
            answers = sources.locate(REPOSITORY, entry.answers_file(name), mirror)
            by_split.append(_answers(answers, language, name, contexts, counts))
            if unused := contexts.keys() - {row["id"] for row in by_split[-1]}:
                counts[UNUSED] += len(unused)
    rows = in_turn(by_split)
    absent = counts[NO_REFERENCE]
    reasons = [] if splits == (RANKED,) else [f"{' and '.join(splits)} answers, where the shared task ranked {RANKED}"]
    if absent:
        reasons.append(f"{len(rows)} of {len(rows) + absent} answers: the context of the others is not there")
    return documents(
        task,
        rows,
        read,
        f"{len(rows)} answers of split {split}, with contexts",
        counts,
        not_comparable=reasons,
        kept={name: len(answers) for name, answers in zip(splits, by_split, strict=True)},
        split=" and ".join(splits),
        options={"language": language, "split": split},
    )


def _answers(
    path: Path, language: str, split: str, contexts: Mapping[str, str], counts: Counter[str]
) -> list[dict[str, Any]]:
    """The documents of a file, with the contexts of their ids. Rows that are left out, and repairs, are counted in
    `counts`."""
    rows = []
    parse = partial(_parsed, language=language, split=split)
    for document, url, labels, repairs in read_rows(path, parse, "no annotated answer of Mu-SHROOM"):
        context = contexts.get(document["id"])
        if not document["answer"].strip():
            counts[BLANK] += 1
        elif context is None:
            counts[NO_REFERENCE] += 1
        else:
            counts.update(repairs)
            of_page = {"url": url, "passage": subject(url) or document["query"], "title": title_of(url)}
            rows.append({**document, "reference": context, **of_page, **labels})
    return rows


def _parsed(
    row: Mapping[str, Any], language: str, split: str
) -> tuple[dict[str, Any], str, dict[str, Any], Counter[str]]:
    answer = text_of(row, "model_output_text")
    repairs: Counter[str] = Counter()
    spans = hard_spans(row.get("hard_labels"), len(answer), repairs)
    soft = soft_labels(row.get("soft_labels"), len(answer), repairs)
    document = {
        "id": str(row["id"]) if isinstance(row.get("id"), int) else text_of(row, "id"),
        "language": language,
        "split": split,
        "model": text_of(row, "model_id", needed=False),
        "query": text_of(row, "model_input"),
        "answer": answer,
    }
    url = unquote(text_of(row, "wikipedia_url", needed=False).strip())
    return document, url, {"spans": as_columns(spans), "soft_labels": soft, "target": render(answer, spans)}, repairs


def title_of(url: str) -> str:
    """The title of a page, by its percent-decoded address."""
    return url.rpartition("/wiki/")[2].replace("_", " ")


def subject(url: str) -> str:
    """The subject of a page, by its percent-decoded address: its Wikidata item, where ``subjects.tsv`` has it, else its
    title without capitals, accents and what is in brackets. Languages of one script share it for most names."""
    title = title_of(url)
    if item := _items().get((url.partition("://")[2].partition(".")[0], title)):
        return item
    letters = unicodedata.normalize("NFKD", title.partition(" (")[0]).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=1)
def _items() -> dict[tuple[str, str], str]:
    """Language and title of a page to its Wikidata item."""
    rows = shipped_rows("lm_eval_tasks.mushroom", "subjects.tsv")
    return {(code, title): row["item"] for row in rows for code, title in row.items() if title and code != "item"}


# ----------------------------------------------------------------------------------------------------- annotators' labels
#
# *Hard labels* are spans that more than half of the annotators marked; *soft labels* are spans with the share of annotators
# that did. Both are checked and repaired; repairs are counted. A value that is not a label is an error.

BEYOND = "labels that reach beyond the answer, cut there"
REVERSED = "labels that end where they start or before, left out"
OVERLAPPING = "answers with labels that overlap, made disjoint"


def hard_spans(labels: Any, length: int, repairs: Counter[str]) -> list[Span]:
    """Hard labels (``[[start, end], ...]``, else a TypeError or ValueError) of an answer of that length as disjoint spans
    in order."""
    places = [_cut_to_answer(start, end, length, repairs) for start, end in labels]
    spans = [Span(*place) for place in places if place]
    if any(first.end > second.start for first, second in pairwise(sorted(spans))):
        repairs[OVERLAPPING] += 1
    return merged(spans)


def soft_labels(labels: Any, length: int, repairs: Counter[str]) -> list[dict[str, Any]]:
    """Soft labels (``{"start", "end", "prob"}``, else a KeyError, TypeError or ValueError) of an answer of that length
    as disjoint ones, in order. Where some overlap, the last one in the file holds, as in the shared task's scorer."""
    shares: list[tuple[int, float] | None] = [None] * length  # of each character: the last label, and its share
    overlapping = False
    for number, label in enumerate(labels):
        probability = label["prob"]
        if isinstance(probability, bool) or not isinstance(probability, (int, float)) or not 0 <= probability <= 1:
            raise ValueError(f"a soft label's prob is {probability!r}, no number from 0 to 1")
        if place := _cut_to_answer(label["start"], label["end"], length, repairs):
            start, end = place
            overlapping = overlapping or any(shares[start:end])
            shares[start:end] = [(number, float(probability))] * (end - start)
    if overlapping:
        repairs[OVERLAPPING] += 1
    runs = ((value, [at for at, _ in run]) for value, run in groupby(enumerate(shares), key=lambda pair: pair[1]))
    return [{"start": at[0], "end": at[-1] + 1, "prob": value[1]} for value, at in runs if value]


def _cut_to_answer(start: Any, end: Any, length: int, repairs: Counter[str]) -> tuple[int, int] | None:
    """Start and end of a label, cut to the answer; ``None`` where nothing of it is left."""
    for at in (start, end):
        if isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at) or at != int(at):
            raise ValueError(f"a label starts or ends at {at!r}, which is no place")
    if start >= end:
        repairs[REVERSED] += 1
        return None
    if start < 0 or end > length:
        repairs[BEYOND] += 1
    place = max(0, int(start)), min(length, int(end))
    return place if place[0] < place[1] else None


# --------------------------------------------------------------------------------------------------------- labelled answers

_FAMILIES = [(row["part"], row["family"]) for row in shipped_rows("lm_eval_tasks.mushroom", "families.tsv")]


def _family(model: str) -> str:
    """The family of a model's id: models trained from one base model, which give similar answers. It is that of the
    first row of ``families.tsv`` whose part is in the model's name, else the name."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for pattern, family in _FAMILIES if pattern in name), name)


def _labelled_answers(code: str, mirror: str | None) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(
            reference=row["reference"],
            answer=row["answer"],
            language=code,
            annotations=REAL,
            spans=tuple(from_columns(row["spans"])),
            question=row["query"],
            family=_family(row["model"]),
            model=row["model"],
            soft=tuple(Span(s["start"], s["end"], probability=s["prob"]) for s in row["soft_labels"]),
            article=row["url"],
            group=row["passage"],
        )
        for row in load(code, mirror=mirror)["evaluation"]
    ]


_NAME = "Mu-SHROOM (Vázquez et al. 2025), contexts of nlp-ucsc/semeval-2025-task3"
_LICENCE = "as its dataset card says, contexts Apache-2.0"
LABELLED = {"mushroom": Collection(tuple(LANGUAGES), _labelled_answers, _NAME, _LICENCE)}


CELL = " | "  # between the cells of a row
SUFFIX = ".context.txt"
_AS_IT_IS = re.compile(
    r"(`[^`]{1,2000}`|\\\[.{1,2000}?\\\]|\\\(.{1,2000}?\\\)|\$\$.{1,2000}?\$\$)"
)  # code and formulas
_FENCE = re.compile(r"\s*(```|~~~)")
_TARGET = r"\((?:https?://|www\.|mailto:|[/#])[^\s()]*(?:\([^\s()]*\)[^\s()]*)*\)"
_CITATION = re.compile(rf"[ \t]*\[[1-9]\d?\](?:{_TARGET})?")
_LINK = re.compile(rf"!?\[([^\[\]\n]*)\]{_TARGET}")
_EMPHASIS = tuple(
    re.compile(rf"(?<![{word}{mark}])({re.escape(mark)}+)(?=\S)([^{mark}\n]+)(?<=\S)\1(?![{word}{mark}])")
    for mark, word in (("*", "A-Za-z0-9"), ("_", r"\w"))  # `2*3*4` and `snake_case_name` have none
)
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_BULLET = re.compile(r"\s*[-*+•][ \t]+(?=\S)")
_NUMBER = re.compile(r"(\s*)(\d{1,3})[.)][ \t]+(?=\S)")
_ROW, _BELOW_HEADER = re.compile(r"\s*\|(.*)\|\s*"), re.compile(r"\s*\|[ \t]*:?-[-:| \t]*\|\s*")
_SENTENCE_GOES_ON = re.compile(r"[\w,;–-]")


def read_contexts(folder: Path, published: bool, counts: Counter[str]) -> dict[str, str]:
    """The contexts of a folder, by the id of their answer. Files that cannot be used are counted in `counts`. A file
    that ends within a sentence was cut, unless the folder is as `published`: there the model ended so."""
    contexts = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            markdown = path.read_bytes().decode("utf-8-sig").rstrip()
        except UnicodeDecodeError:
            counts["contexts left out, cut or no UTF-8 text"] += 1
            continue
        if not published and _SENTENCE_GOES_ON.match(markdown[-1:]):
            counts["contexts left out, cut: they are not the published ones, and end within a sentence"] += 1
        elif text := plain_text(markdown):
            contexts[path.name.removesuffix(SUFFIX)] = text
        else:
            counts["contexts left out, empty or only white space"] += 1
    return contexts


def plain_text(markdown: str) -> str:
    """A text without citation marks (``[3]``) and Markdown, one line a heading, paragraph, list item or row. Links and
    emphasis give their text, a table the cells of its rows. Code and formulas stay as they are."""
    lines = markdown.splitlines()
    numbered = _numbered(lines)
    plain = []
    in_code = in_table = False
    for at, line in enumerate(lines):
        is_header = bool(at + 1 < len(lines) and _BELOW_HEADER.fullmatch(lines[at + 1]))
        in_table = bool(_ROW.fullmatch(line)) and (in_table or is_header)
        if _FENCE.match(line):
            in_code = not in_code
        elif in_code:
            plain.append(line.strip())
        elif in_table:
            cells = "" if _BELOW_HEADER.fullmatch(line) else line.strip().strip("|")
            plain.append(CELL.join(filter(None, (_without_marks(cell) for cell in cells.split("|")))))
        else:
            if heading := _HEADING.match(line):
                line = line[heading.end() :].rstrip("# \t")
            elif mark := _BULLET.match(line) or (_NUMBER.match(line) if at in numbered else None):
                line = line[mark.end() :]
            plain.append(_without_marks(line))
    return "\n".join(filter(None, plain))


def _numbered(lines: list[str]) -> set[int]:
    """The places of lines whose number is a list's: at one depth they count 1, 2 and so on. Another begins a sentence."""
    numbered: set[int] = set()
    lists: dict[int, list[int]] = {}
    for at, line in enumerate(lines):
        if match := _NUMBER.match(line):
            depth, number = len(match[1]), int(match[2])
            if number == 1:
                lists[depth] = [at]
            elif number == len(lists.get(depth, ())) + 1:
                lists[depth].append(at)
                numbered.update(lists[depth])
    return numbered


def _without_marks(line: str) -> str:
    parts = _AS_IT_IS.split(line)
    parts[1::2] = [part.strip("`") for part in parts[1::2]]
    for at in range(0, len(parts), 2):
        parts[at] = _LINK.sub(r"\1", _CITATION.sub("", parts[at]))
        for emphasis in 2 * _EMPHASIS:  # it may be within emphasis
            parts[at] = emphasis.sub(r"\2", parts[at])
    return "".join(parts).strip()
