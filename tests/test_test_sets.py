"""Labelled answers from files of one's own, and test sets, which no training reads."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import Span
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.train import read_data
from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.detection.labelled_answers import EMPTY, read_labelled_lines
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.mtrag import dataset as mtrag
from lm_eval_tasks.ragtruth import dataset as ragtruth
from tests.labelled_facts import write_lines
from tests.miniature import MINIATURE

SETS = {memerag: "MEMERAG's", mtrag: "of MTRAG's rated answers", ragtruth: "of RAGTruth's test set, or about its"}
OWN = {"answer": "An answer that somebody wrote.", "spans": []}
DECLINES = {"answer": "I do not have specific information about that.", "spans": []}


def labelled(row: dict[str, Any], **other: Any) -> dict[str, Any]:
    spans = [[span["start"], span["end"]] for span in row.get("spans", [])]
    taken = {name: row[name] for name in ("reference", "answer", "language")}
    return {**taken, "question": row["query"], "spans": spans, "annotations": "rag", **other}


@pytest.mark.parametrize("name", ["memerag", "memerag_de", "a/MEMERAG.jsonl", "amazon-science/MEMERAG/data/de.jsonl"])
def test_training_refuses_memerag_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=f"--data {name}: MEMERAG asks not to be trained on.*CC BY-NC 4.0"):
        read_data([name], MINIATURE, Counter())


@pytest.mark.parametrize(
    ("dataset", "part", "mirror", "changed", "refused"),
    [
        # by digests that ship: the miniature's files hold other answers
        (memerag, "de", "hub", {}, True),
        (memerag, "es", "hub", {"question": "", "reference": "another"}, True),
        (memerag, "de", "hub", OWN, True),
        (memerag, "de", "hub", {"question": "another", "reference": "another", **OWN}, False),
        (mtrag, "models", "hub", {}, True),
        (mtrag, "models", "hub", OWN, True),  # to its turn, from its passages
        (mtrag, "models", "hub", {"reference": "Another passage.", **OWN}, False),
        (mtrag, "models", "hub", {"reference": "Another passage.", **DECLINES}, False),
        (ragtruth, "qa", "hub", {}, True),
        (ragtruth, "qa", "hub", OWN, True),
        (ragtruth, "qa", "hub", {"question": "", "reference": "another"}, True),
        (ragtruth, "data2txt", "hub", {**OWN, "question": "Describe it."}, True),
        (ragtruth, "data2txt", "hub", {"reference": "another record"}, True),
        (ragtruth, "qa", "hub", {"question": "another", **OWN}, False),
        # by the files of the mirror
        (memerag, "fr", MINIATURE, {}, True),
        (memerag, "hi", MINIATURE, {"question": "", "reference": ""}, True),
        (ragtruth, "summary", MINIATURE, OWN, True),
    ],
)
def test_training_refuses_a_test_set_by_content(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    dataset: Any,
    part: str,
    mirror: str,
    changed: dict[str, Any],
    refused: bool,
) -> None:
    source = request.getfixturevalue("hub") if mirror == "hub" else mirror
    docs = list(dataset.load(part, mirror=source)["evaluation"])[:2]
    file = str(write_lines(tmp_path / "mine.jsonl", [labelled(doc, **changed) for doc in docs]))
    if not refused:
        assert len(read_data([file], MINIATURE, Counter())[0]) == 2
        return
    with pytest.raises(UsageError, match=rf"mine\.jsonl: \d of its 2 answers are {SETS[dataset]}") as caught:
        read_data([file], MINIATURE, Counter())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("changed", "refused"), [({}, True), ({"reference": "Another passage.", **OWN}, False)])
def test_calibrate_refuses_mtrag(
    hub: str, tmp_path: Path, changed: dict[str, Any], refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = list(mtrag.load(mirror=hub)["evaluation"])[:1]
    file = str(write_lines(tmp_path / "mine.jsonl", [labelled(doc, **{"spans": [[0, 2]], **changed}) for doc in docs]))
    main(["calibrate", file, "--detector", "flag-all", "-o", str(tmp_path / "c.json")])
    assert ("1 of its 1 answers are of MTRAG's rated answers" in capsys.readouterr().err) == refused


def test_answers_of_the_training_split_that_begin_alike_are_taken(hub: str, tmp_path: Path) -> None:
    """Many answers of one model begin with the same sentence."""
    row = labelled(ragtruth.load("data2txt", mirror=hub)["evaluation"][3], reference='{"name": "Elsewhere"}', spans=[])
    row["answer"] = row["answer"][:150] + " Everything that follows is about another business."
    assert len(read_data([str(write_lines(tmp_path / "mine.jsonl", [row]))], MINIATURE, Counter())[0]) == 1


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(("dataset", "words"), [(memerag, 1402), (mtrag, 574), (ragtruth, 2003)])
def test_the_digests_are_those_of_the_mirror(hub: str, dataset: Any, words: int) -> None:
    """`python -m tests.development.test_set_digests NAME` would change nothing. Of RAGTruth the mirror has more forms."""
    table = Path(dataset.__file__).with_name("contamination.tsv").read_text("utf-8").split()
    assert len(table) == words
    digests = dataset.TEST_SET.digests_of_files(hub)
    assert {*table} - {"digests"} <= digests
    assert dataset is ragtruth or len(table) == len(digests) + 1


LONG = "x" * 200
CATEGORIES = "entity, relation, invented, contradictory, unverifiable, subjective, hallucination"
ROW = {"reference": "r", "answer": "ab c", "spans": [], "language": "de"}


def lines(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(({key: 5}, f"{key!r} is int, not a text") for key in ("reference", "answer", "question", "annotations")),
        ({"annotations": "human"}, "annotations is 'human', none of real, gold, silver, rag"),
        ({"language": " "}, "language is empty; it is an ISO 639 code such as de"),
        ({"answer": None}, "'answer' is NoneType, not a text"),
        ({"spans": {}}, "spans is dict, not a list of [start, end, ...]"),
        ({"spans": [LONG]}, f"spans hold {LONG[:80]}, not [start, end, category]"),
        ({"spans": [[0, 1, "odd"]]}, f"category 'odd' is none of {CATEGORIES}"),
        ({"spans": [[0, 5]]}, "a span ends at 5, but the answer has 4 characters"),
        ({"soft": [[0, 1]]}, "soft holds [0, 1], not [start, end, share]"),
        ({"soft": [[0, 5, 0.5]]}, "a span ends at 5, but the answer has 4 characters"),
    ],
)
def test_a_line_that_is_no_labelled_answer_is_named(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    path = lines(tmp_path, ROW, ROW | change)
    with pytest.raises(CorruptSource) as refused:
        read_labelled_lines(path, Counter())
    assert str(refused.value) == f"{path}, line 3: not a labelled answer: {why}"


def test_a_labelled_answer_has_what_its_line_says(tmp_path: Path) -> None:
    more = {"question": "q", "model": "m", "article": "a", "annotations": "gold", "language": " fi ", "group": " g "}
    spans = {"spans": [[0, 2], [3, 4, "invented"]], "soft": [[1, 4, 0.25]]}
    unsaid = dict.fromkeys((*more, "soft")) | {"language": "de"}
    rows = [ROW, ROW | more | spans, ROW | unsaid, ROW | {"answer": " "}, ROW | {"answer": ""}]
    seen: Counter[str] = Counter()
    plain, full, null = read_labelled_lines(lines(tmp_path, *rows), seen)
    assert seen == {EMPTY: 2}
    assert plain == null
    names = ("question", "model", "article", "group", "annotations", "language")
    assert [getattr(plain, name) for name in names] == ["", "", "", "", "silver", "de"]
    assert [getattr(full, name) for name in names] == ["q", "m", "a", "g", "gold", "fi"]
    assert (plain.soft, plain.spans, full.spans) == (None, (), (Span(0, 2), Span(3, 4, "invented")))
    assert [(span.start, span.end, span.probability) for span in full.soft or ()] == [(1, 4, 0.25)]
    missing = tmp_path / "none.jsonl"
    with pytest.raises(MissingSource) as refused:
        read_labelled_lines(missing, Counter())
    assert str(refused.value) == f"{missing}: no such file; --data names collections and files of JSON lines"


def test_questions_of_mfava_come_from_an_earlier_runs_samples(tmp_path: Path) -> None:
    doc = dict.fromkeys(mfava.COLUMNS, "x") | {"article": 3, "subset": 1, "more": 7}
    path = tmp_path / "samples_mfava_de_2026-01-01T00-00-00.jsonl"
    rows = [{"doc_id": n, "doc": doc | {"id": f"q{n}"}, "resps": [["a"]]} for n in (1, 0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    documents = mfava.load("de", samples=str(path))["evaluation"]
    assert documents["id"] == ["q0", "q1"]
    assert documents["detector"] == ["lexical", "lexical"]
    record = provenance.of_dataset(documents)
    assert record["read_from"] == "samples"
    assert [(file["option"], file["name"]) for file in record["local_files"]] == [("samples", path.name)]
