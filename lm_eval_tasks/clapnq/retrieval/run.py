"""Rankings of any other system, from a TREC run file: ``question Q0 passage rank score name`` a line."""

from __future__ import annotations

import gzip
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, fault_of
from lm_eval_tasks.data import sha256_of, whole_file
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.data.tables import read_lines

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class Run:
    """The rankings of a run file; see the module."""

    name = "run"

    def __init__(self, corpus: Corpus, path: str | os.PathLike[str] | None) -> None:
        if not path:
            raise UsageError("clapnq: retriever run needs a TREC run file: run=FILE")
        self._path = Path(path).expanduser()
        if not self._path.is_file():
            raise MissingSource(f"{self._path.resolve()}: no such run file (run=FILE)")
        self._rankings = read_run(self._path)
        named = {passage for ranking in self._rankings.values() for passage, _ in ranking}
        unknown = sorted(named.difference(corpus.ids))
        if unknown:
            raise CorruptSource(
                f"{self._path}: {len(unknown)} of {len(named)} passages are not in the corpus, such as "
                f"{', '.join(map(repr, unknown[:3]))}; its ids look like {', '.join(map(repr, corpus.ids[:2]))}"
            )

    def describe(self) -> dict[str, Any]:
        return {"retriever": self.name, "file": self._path.name, "sha256": sha256_of(self._path)}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """The first k passages for each question, or as many as the file holds. Questions with fewer are counted in the
        log; a file with none of the questions is a CorruptSource."""
        rankings = [self._rankings.get(question.id, [])[:k] for question in questions]
        if questions and not any(rankings):
            raise CorruptSource(
                f"{self._path}: none of the {len(questions)} questions is in it; it has "
                f"{', '.join(map(repr, list(self._rankings)[:2])) or 'no line'}, asked for are ids like {questions[0].id!r}"
            )
        absent, short = sum(not ranking for ranking in rankings), sum(0 < len(ranking) < k for ranking in rankings)
        if absent:
            log.warning("%s: %d of %d questions are not in it and get no passage", self._path, absent, len(questions))
        if short:
            log.info("%s: %d of %d questions have fewer than %d passages", self._path, short, len(questions), k)
        return rankings


def run(corpus: Corpus, options: Mapping[str, Any]) -> Run:
    return Run(corpus, options.get("run"))


def read_run(path: Path) -> dict[str, Ranking]:
    """Question id to ranking, by rank. A CorruptSource where a line does not have six columns, a rank or score is no
    number, or in a question's ranking a passage stands twice, or scores rise with the rank or are not finite."""
    lines: dict[str, list[tuple[int, str, float]]] = {}
    for number, line in read_lines(path):
        if fields := line.split():
            try:
                question, _, passage, rank, score, _ = fields
                lines.setdefault(question, []).append((int(rank), passage, float(score)))
            except ValueError as error:
                raise CorruptSource(
                    f"{path}, line {number}: no line of a TREC run, which has six columns, question Q0 passage rank score "
                    f"name, with a whole number and a number in the fourth and fifth: {line[:80]!r}"
                ) from error
    rankings = {
        question: [(passage, score) for _, passage, score in sorted(ranked, key=lambda line: line[0])]
        for question, ranked in lines.items()
    }
    for question, ranking in rankings.items():
        if fault := fault_of(ranking):
            raise CorruptSource(f"{path}, question {question}: {fault}")
    return rankings


def write_run(path: Path, rankings: Iterable[tuple[str, Ranking]], name: str) -> None:
    """Write a run atomically, compressed where the suffix is ``.gz``."""
    opened = gzip.open if path.suffix == ".gz" else open
    with whole_file(path) as partial, opened(partial, "wt", encoding="utf-8", newline="\n") as stream:
        for question, ranking in rankings:
            for rank, (passage, score) in enumerate(ranking, 1):
                stream.write(f"{question} Q0 {passage} {rank} {score!r} {name}\n")
