"""The corpus of passages, as an Arrow table that is parsed once and cached, and the ids of the gold passages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lm_eval_tasks.data import sha256_of, sources, whole_folder
from lm_eval_tasks.data.tables import read_quoted_tsv

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FORM = "3"  # version of the table on disk, part of its key


class Passage(NamedTuple):
    """A passage. Its id is empty where it is not from a corpus."""

    id: str
    title: str
    text: str

    @property
    def grounding(self) -> str:
        """Title, one space, text: the text to which answers are compared."""
        return f"{self.title} {self.text}"


class Corpus:
    """The passages of a corpus in file order."""

    def __init__(self, table: Any, key: str) -> None:
        self._table = table
        self.key = key  # SHA-256 of the file, part of the keys of caches that depend on it

    @classmethod
    def open(cls, tsv: Path) -> Corpus:
        """Open a TSV file with the columns ``id``, ``text`` and ``title``. The first use writes an Arrow table into the
        cache; later ones map it into memory. A CorruptSource where it has no passage, a repeated id, or another format."""
        import pyarrow as pa

        key = sha256_of(tsv)
        place = sources.cache_folder() / "corpus" / f"{key[:32]}-{_FORM}"
        folder = whole_folder(place, lambda new: _write_table(tsv, new))
        return cls(pa.ipc.open_file(pa.memory_map(str(folder / "passages.arrow"))).read_all(), key)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, row: int) -> Passage:
        return Passage(*(self._table.column(name)[row].as_py() for name in ("id", "title", "text")))

    @cached_property
    def ids(self) -> list[str]:
        ids: list[str] = self._table.column("id").to_pylist()
        return ids

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {passage: row for row, passage in enumerate(self.ids)}

    def passage(self, id: str) -> Passage:
        """The passage with an id; `KeyError` where there is none."""
        return self[self._rows[id]]

    def contents(self, start: int = 0, end: int | None = None) -> list[str]:
        """Title, one space, text of the passages in a range of rows, for indexing."""
        part = self._table.slice(start, None if end is None else end - start)
        pairs = zip(part.column("title").to_pylist(), part.column("text").to_pylist(), strict=True)
        return [f"{title} {text}" for title, text in pairs]

    def ids_of_texts(self, texts: Sequence[str]) -> dict[str, str]:
        """Text to the id of the passage with exactly that text, except for white space at the ends."""
        wanted = {text.strip() for text in texts}
        ids: dict[str, str] = {}
        for passage, text in zip(self.ids, self._table.column("text").to_pylist(), strict=True):
            if text.strip() in wanted:
                ids.setdefault(text.strip(), passage)
        return ids


def _write_table(tsv: Path, folder: Path) -> None:
    import pyarrow as pa

    columns: dict[str, list[str]] = {"id": [], "title": [], "text": []}
    for row in read_quoted_tsv(tsv, ("id", "text", "title")):
        for name, values in columns.items():
            values.append(row[name])
    if not columns["id"]:
        raise sources.CorruptSource(f"{tsv}: the corpus is empty; CLAPnq's retrieval needs passages to search")
    repeated = len(columns["id"]) - len(set(columns["id"]))
    if repeated:
        raise sources.CorruptSource(f"{tsv}: {repeated} passage ids stand twice; an id must name one passage")
    table = pa.table({name: pa.array(values, pa.large_string()) for name, values in columns.items()})
    with pa.OSFile(str(folder / "passages.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


QUESTIONS = "primeqa/clapnq"


def gold_ids(
    rows: Sequence[dict[str, Any]], split: str, corpus: Corpus, mirror: str | Path | None, task: str
) -> dict[str, list[str]]:
    """Question id to the ids of its gold passages, from the public question file, else by the passage's exact text.
    `rows` are documents with their gold passage, `split` is named as in the files (``train`` or ``dev``). Gold passages
    that the corpus lacks are left out, with a warning that has their number."""
    answerable = [row for row in rows if row["answerable"]]
    try:
        path = sources.locate(QUESTIONS, f"retrieval/{split}/question_{split}_answerable.tsv", mirror)
    except sources.MissingSource as error:
        texts = {row["id"]: row["passages"][0]["text"].strip() for row in answerable}
        by_text = corpus.ids_of_texts(list(texts.values()))
        gold = {id: [by_text[text]] for id, text in texts.items() if text in by_text}
        log.warning(
            "%s: the gold passages of %d of %d questions were found by their text, because %s",
            *(task, len(gold), len(answerable), error),
        )
    else:
        corpus_ids = set(corpus.ids)
        gold, unknown = {}, 0
        for row in read_quoted_tsv(path, ("id", "doc-id-list")):
            named = [id.strip() for id in row["doc-id-list"].replace("::", ",").split(",") if id.strip()]
            gold[row["id"]] = [id for id in named if id in corpus_ids]
            unknown += len(named) - len(gold[row["id"]])
        if unknown:
            log.warning("%s: %d gold passages are not in the corpus", task, unknown)
    without = sum(not gold.get(row["id"]) for row in answerable)
    if without:
        why = "answerable questions have no gold passage in the corpus; retrieval is not scored there"
        log.warning("%s: %d %s", task, without, why)
    return gold
