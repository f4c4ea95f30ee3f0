"""Which score of ``lexical`` orders answers as people do: the share of an answer's words that are flagged, or the evidence
of :mod:`custom_metrics.scores.unsupported`.

``python -m tests.development.answer_scores --mirror DIR`` prints the rows of the table in the README of
``lm_eval_tasks/results/logs``. The weights never saw an answer of the language. Bounds are of a bootstrap over questions,
articles or turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custom_metrics.hallucination import flagged_words
from custom_metrics.reading.spans import NOT_SUPPORTED
from custom_metrics.scores.unsupported import evidence
from custom_metrics.statistics.intervals import SEED, spread
from detector_plugin.lexical import LexicalDetector
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.memerag import LANGUAGES
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.mtrag import QUALITIES
from lm_eval_tasks.mtrag import dataset as mtrag
from lm_eval_tasks.ragtruth import dataset as ragtruth

RESAMPLES = 1000


class Judged(NamedTuple):
    """Answers of a collection: a row each."""

    scores: NDArray[np.float64]  # (answers, 2): share, evidence
    length: NDArray[np.float64]  # words
    wrong: NDArray[np.bool_]
    clusters: NDArray[np.int64]

    def only(self, rows: NDArray[Any]) -> Judged:
        return Judged(*(column[rows] for column in self))

    def aucs(self, rows: NDArray[Any] = np.s_[:]) -> NDArray[np.float64]:
        """The AUC of either score."""
        from scipy.stats import rankdata

        wrong = self.wrong[rows]
        number = wrong.sum()
        ranks = rankdata(self.scores[rows], axis=0)[wrong].sum(axis=0)
        with np.errstate(invalid="ignore"):
            return np.asarray((ranks - number * (number + 1) / 2) / (number * (len(wrong) - number)))

    def draws(self) -> NDArray[np.float64]:
        """The AUC of both in resamples of the clusters."""
        rng, (names, places) = np.random.default_rng(SEED), np.unique(self.clusters, return_inverse=True)
        rows = [np.flatnonzero(places == place) for place in range(len(names))]
        drawn = rng.integers(len(names), size=(RESAMPLES, len(names)))
        return np.array([self.aucs(np.concatenate([rows[place] for place in of])) for of in drawn])


def collections(mirror: str | None) -> Iterator[tuple[str, Judged]]:
    """RAGTruth, MEMERAG and MTRAG's answers, by what people found unsupported; of what the mirror has."""
    for part in ("qa", "summary"):
        with suppress(MissingSource):
            docs = [*ragtruth.load(part, mirror=mirror)["evaluation"]]
            yield f"RAGTruth, {part}", judged(docs, [bool(doc["spans"]) for doc in docs])
    for code in LANGUAGES:
        with suppress(MissingSource):
            docs = [*memerag.load(code, mirror=mirror)["evaluation"]]
            labels = [{each["label"] for each in doc["sentences"]} for doc in docs]
            yield f"MEMERAG, {code}", judged(docs, [NOT_SUPPORTED in of for of in labels])
    docs = [doc for doc in mtrag.load(mirror=mirror)["evaluation"] if not doc["abstains"]]
    for below in (4, 3):
        faithful = [median(doc["ratings"][QUALITIES[0]]) for doc in docs]
        yield f"MTRAG, below {below}", judged(docs, [each < below for each in faithful])


def judged(docs: Sequence[dict[str, Any]], wrong: Sequence[bool]) -> Judged:
    columns = [[doc[name] for doc in docs] for name in ("reference", "answer", "language", "query")]
    found = LexicalDetector(held_out=True).detect(*columns)
    rows = [*zip(columns[1], found, columns[2], strict=True)]
    counts = np.array([flagged_words(*row) for row in rows], float)
    scores = np.column_stack([counts[:, 0] / np.maximum(counts[:, 1], 1), [evidence(*row) for row in rows]])
    names = [doc.get("passage") or doc["reference"] for doc in docs]
    return Judged(scores, counts[:, 1], np.array(wrong), np.unique(names, return_inverse=True)[1])


def row(name: str, answers: Judged) -> str:
    """A row of the table: of all answers the AUC of both scores; of all, and of the thirds, their difference."""
    third = np.searchsorted(np.quantile(answers.length, [1 / 3, 2 / 3]), answers.length)
    share, against = (f"{auc:.3f}" for auc in answers.aucs())
    cells = [name, str(len(third)), f"{100 * answers.wrong.mean():.0f} %", share, against]
    for part in (answers, *(answers.only(third == place) for place in range(3))):
        low, high, _ = spread(part.draws() @ [1, -1])
        cells.append(f"{part.aucs() @ [1, -1]:+.3f} [{low:+.3f}, {high:+.3f}]")
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror")
    for name, answers in collections(parser.parse_args(arguments).mirror):
        print(row(name, answers), flush=True)


if __name__ == "__main__":
    main()
