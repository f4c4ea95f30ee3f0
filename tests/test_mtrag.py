"""MTRAG's ratings: documents of rated answers, scores against people's medians and one rater."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from custom_metrics.abstention import is_abstention
from custom_metrics.scores.ratings import OTHERS, RATER, RankCorrelation, auc_below_3, auc_below_4, rank_correlation
from custom_metrics.statistics.figures import CountsOfCluster
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.mtrag import METRICS, QUALITIES, dataset
from lm_eval_tasks.mtrag.dataset import FILE, REFERENCE, REPOSITORY, rated_answers
from lm_eval_tasks.mtrag.task import process_rating, process_results
from lm_eval_tasks.published import compare_with_published, rows_for
from lm_eval_tasks.runs import read_runs
from tests.conftest import Harness, figures_of
from tests.labelled_facts import write_lines
from tests.logged_runs import in_this_process
from tests.miniature import MINIATURE, SAMPLE

KINDS = dict.fromkeys(METRICS, rank_correlation) | {"auc_below_4": auc_below_4, "auc_below_3": auc_below_3}
PUBLISHED = {"RAGAS faithfulness": "rl_f", "BERT K-Precision": "Bert-KPrec", "RB_alg": "rb_agg", "ROUGE-L": "RougeL"}
PUBLISHED |= {"BERT Recall": "Bert-Rec", "RB_llm": "rb_llm"}


def documents(**options: Any) -> list[dict[str, Any]]:
    return list(dataset.load(**{"mirror": MINIATURE, **options})["evaluation"])


def place(mirror: str | Path) -> Path:
    return Path(mirror) / "github" / REPOSITORY / FILE


@pytest.mark.parametrize(
    ("mirror", "answers", "kept", "left_out"),
    [
        (MINIATURE, "models", (8, 1, 4, 3), (5, 2)),
        (MINIATURE, "all", (12, 2, 4, 3), (0, 3)),
        pytest.param("hub", "models", (300, 8, 106, 47), (159, 18), marks=pytest.mark.one_python("the public data")),
        pytest.param("hub", "all", (450, 11, 135, 52), (0, 27), marks=pytest.mark.one_python("the public data")),
    ],
)
def test_which_answers_count(
    mirror: str, answers: str, kept: tuple[int, ...], left_out: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    """Those of models, of turns with passages; abstentions are counted, and not in faithfulness."""
    mirror = request.getfixturevalue("hub") if mirror == "hub" else mirror
    found = dataset.load(answers, mirror=mirror)["evaluation"]
    record = json.loads(found.info.description)["provenance"]
    assert tuple(record["kept"].values()) == kept
    assert tuple(record["left_out"].get(reason, 0) for reason in (dataset.REFERENCES, dataset.NO_PASSAGES)) == left_out
    assert ("with the reference responses (answers=all)" in record["not_comparable"]) == (answers == "all")
    assert len(found) == len(set(found["id"])) == kept[0]
    judged = dataset.load_judge(answers, mirror=mirror)["evaluation"]
    assert sum(aspect == "faithfulness" for aspect in judged["aspect"]) == kept[0] - kept[1]
    assert sum(aspect == "appropriateness" for aspect in judged["aspect"]) == kept[0]


def test_a_document_of_the_miniature() -> None:
    row = documents()[2]
    assert (row["id"], row["passage"], row["model"]) == ("c1<::>2/sample/a", "c1<::>2", "sample/a")
    assert row["query"] == "Which port lies on it?"
    assert row["reference"].startswith("Hamburg\nHamburg lies on the Elbe.")
    assert row["ratings"] == {quality: [4, 4] for quality in QUALITIES} | {"naturalness": [3, 4]}
    judged = list(dataset.load_judge(mirror=MINIATURE)["evaluation"])[4]
    assert judged["quoted"]["question"].splitlines()[0] == "> user: How long is the Elbe?"
    assert judged["quoted"]["question"].splitlines()[-1] == "> user: Which port lies on it?"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"naturalness"', '"nature"', "KeyError('naturalness')"),
        ('{"value": "4"}', '{"value": "5"}', "ValueError"),
        ('{"document_id": "d1"}', '{"document_id": "d9"}', "KeyError('d9')"),
        ("\n}", "", "JSONDecodeError"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    damaged = place(tmp_path)
    damaged.parent.mkdir(parents=True)
    damaged.write_text(place(MINIATURE).read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(CorruptSource, match=r"reference_subset\S+: no rated answers of MTRAG") as caught:
        documents(mirror=str(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "reply", "score"),
    [
        (0, "The Elbe is 1,094 kilometres long.", 4.0),  # nothing flagged
        (0, "The Elbe is <entity>1,094</entity> kilometres long.", 3.5),  # one word of six
        (0, "<invented>The Elbe is 1,094 kilometres long.</invented>", 1.0),
        (0, "Something else altogether, which nobody asked for.", 1.0),  # lost: the opposite of the median
        (1, "Something else altogether, which nobody asked for.", 4.0),
        (6, "I don't have specific information about the mayor of Oslo.", None),  # abstains
    ],
)
def test_the_score_of_a_tagged_answer(number: int, reply: str, score: float | None) -> None:
    doc = documents()[number]
    values = process_results(doc, [reply])
    faithful = None if score is None else [score, *doc["ratings"]["faithfulness"]]
    assert values["auc_below_4"] == values["auc_below_3"] == values["rho_faithfulness"] == faithful
    assert values["rho_completeness"][1:] == doc["ratings"]["completeness"]
    assert values["lost_rate"] == float(reply.startswith("Something"))
    assert values["rho_naturalness"].cluster == doc["passage"]


@pytest.mark.parametrize(("reply", "faithfulness", "completeness"), [("3", 3, 3), ("unread", 4, 3)])
def test_the_score_of_a_rating(reply: str, faithfulness: float, completeness: float) -> None:
    """Of the second answer, with medians 1 and 2. One that cannot be read has the opposite of each."""
    docs = list(dataset.load_judge(mirror=MINIATURE)["evaluation"])[2:4]
    faithful, looks = (process_rating(doc, [reply]) for doc in docs)
    assert [name for name, value in faithful.items() if value is None] == [f"rho_{name}" for name in QUALITIES[1:]]
    assert (faithful["auc_below_3"], faithful["unread_rate"]) == ([faithfulness, 1, 2, 1], reply == "unread")
    assert (looks["rho_faithfulness"], looks["rho_completeness"]) == (None, [completeness, 2, 2, 2])


def drawn(number: int) -> list[CountsOfCluster]:
    """Answers of tasks, three each, with scores and two or three ratings."""
    rng = np.random.default_rng(3)
    raters = [rng.integers(1, 5, 2 + place % 2).tolist() for place in range(number)]
    return [CountsOfCluster([float(rng.normal(sum(r) / 5)), *r], f"task {n // 3}") for n, r in enumerate(raters)]


@pytest.mark.parametrize(("kind", "below"), [(auc_below_4, 4), (auc_below_3, 3)])
def test_auc_is_that_of_scikit_learn(kind: Any, below: int) -> None:
    values = drawn(60)
    wrong, scores = [median(value[1:]) < below for value in values], [-value[0] for value in values]
    assert kind(values) == pytest.approx(roc_auc_score(wrong, scores))
    rater = [(-each, median([*v[1:at], *v[at + 1 :]]) < below) for v in values for at, each in enumerate(v) if at]
    wrong, scores = [w for _, w in rater], [s for s, _ in rater]
    assert kind.held_against(RATER)(values) == pytest.approx(roc_auc_score(wrong, scores))
    assert math.isnan(kind([[1.0, 4, 4]]))


def test_rank_correlation_is_that_of_scipy() -> None:
    values = drawn(60)
    medians = [(v[0], median(v[1:])) for v in values]
    assert rank_correlation(values) == pytest.approx(spearmanr(*zip(*medians, strict=True))[0])
    others = [(v[0], median([*v[1:at], *v[at + 1 :]])) for v in values for at in range(1, len(v))]
    found = rank_correlation.held_against(OTHERS).figure_of(values)
    assert found.value == pytest.approx(spearmanr(*zip(*others, strict=True))[0])
    assert found.n == 60
    assert math.isnan(rank_correlation([[1.0, 4, 4], [2.0, 4, 4]]))  # people rate all alike


def test_the_error_of_a_rank_correlation_is_that_of_the_bootstrap() -> None:
    """With ties, and in clusters: of three copies of each answer the error is that of one."""
    rng = np.random.default_rng(1)
    scores, said = rng.integers(0, 4, 150), rng.integers(0, 4, 150)
    said = np.where(rng.random(150) < 0.6, scores, said)
    kind, pairs = RankCorrelation("rho"), np.column_stack([scores, said]).tolist()
    resampled = [spearmanr(scores[draw], said[draw])[0] for draw in rng.integers(150, size=(400, 150))]
    once = kind.figure_of(pairs).standard_error
    assert once == pytest.approx(np.std(resampled), rel=0.1)
    copies = [CountsOfCluster(pair, f"{number}") for number, pair in enumerate(pairs) for _ in range(3)]
    assert kind.figure_of(copies).standard_error == pytest.approx(once, rel=0.01)


def test_a_detector_and_a_judge_through_the_harness(harness: Harness, tmp_path: Path) -> None:
    got = harness(["mtrag_ratings"], "hallucination-detector", "detector=flag-all", metadata={"mirror": MINIATURE})
    assert got["results"]["mtrag_ratings"]["auc_below_4,tags"] == 0.5
    figures = figures_of(got, "mtrag_ratings")
    assert figures["auc_below_3_rater"]["n"] == figures["auc_below_4"]["n"] == 7
    assert figures["auc_below_3_rater"]["denominator"] == "each rater against the median of the other raters"
    docs = dataset.load_judge(**SAMPLE)["evaluation"]
    says = ({"id": doc["id"], "response": f"Rating: {median(doc['ratings'][doc['aspect']]):g}"} for doc in docs)
    people = write_lines(tmp_path / "people.jsonl", says)
    got = harness(["mtrag_ratings_judge"], "replay", f"path={people}", metadata=SAMPLE)
    values = got["results"]["mtrag_ratings_judge"]
    assert [values[f"{name},rating"] for name in ("auc_below_4", "rho_faithfulness", "unread_rate")] == [1, 1, 0]


@lru_cache(maxsize=1)
def people(hub: str) -> list[dataset.RatedAnswer]:
    return [row for row in rated_answers(place(hub)) if row.model != REFERENCE and row.passages]


def values_of(rows: Sequence[dataset.RatedAnswer], judge: str, metric: str) -> list[Any]:
    quality = METRICS[metric]
    counts = [quality != "faithfulness" or not is_abstention(row.answer, "en") for row in rows]
    values = [CountsOfCluster([row.scores[judge], *row.ratings[quality]], row.task) for row in rows]
    return [value if used else None for value, used in zip(values, counts, strict=True)]


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_judges_have_the_figures_of_the_table(hub: str, name: str) -> None:
    for metric, kind in KINDS.items():
        (row,) = (row for row in rows_for("mtrag_ratings_judge", metric) if row.model == name)
        assert round(kind(values_of(people(hub), PUBLISHED[name], metric)), 3) == row.value


@pytest.mark.slow("a detector reads 300 answers")
@pytest.mark.one_python("what the public data hold")
def test_lexical_orders_answers_no_worse_than_ragas(hub: str, tmp_path: Path) -> None:
    """Word overlap against a judge model: no worse, but not shown to be better."""
    options = {"metadata": {"mirror": hub}}
    in_this_process(["mtrag_ratings"], "hallucination-detector", "detector=lexical", tmp_path, **options)
    (run,) = read_runs([tmp_path])
    task = run.tasks["mtrag_ratings"]
    logged = [(answer.doc, answer.readings["tags"].values) for answer in task.answers()]
    rows, bounds = people(hub), {"auc_below_4": (-0.048, 0.087), "auc_below_3": (-0.006, 0.109)}
    for metric, value in (("auc_below_4", 0.854), ("auc_below_3", 0.935)):
        assert task.figure(metric, "tags").value == pytest.approx(value, abs=0.0005)
        ours = [of[metric] and CountsOfCluster(of[metric], doc["passage"]) for doc, of in logged]
        ragas = values_of(rows, "rl_f", metric)
        found = KINDS[metric].difference(KINDS[metric].rows(ours), KINDS[metric].rows(ragas))
        assert (found.low, found.high) == pytest.approx(bounds[metric], abs=0.002)
    beside = [row for each in compare_with_published([run]) for row in each.rows]
    assert {row.model for row, _ in beside} == {*PUBLISHED}
    assert all("as uncertain as this run's" in of.why_none[0] for _, differences in beside for of in differences)
