"""What ``detect LOG`` shows of a log: the table of groups, the answers to look at, and how the gate ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import lm_eval_grounded as g
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.statistics.intervals import wilson
from detector_plugin.lexical import LexicalDetector
from lm_eval_tasks.cli import main
from lm_eval_tasks.results.logs.judged import JudgedAnswer, judge
from lm_eval_tasks.results.logs.summary import MOST_GROUPS, LogSummary, groups_table, summary_text
from lm_eval_tasks.results.report.readers import text_of

PASSAGE = "The bridge over the Elbe was opened in 1893. It is 141 metres long."
GOOD, BAD = "The bridge was opened in 1893.", "Queen Victoria flew to Mars with purple elephants and bought a castle."

UNREAD = {"hallucinated_share": None, "expected_share": None, "unsupported_evidence": 0.0}


def row(number: int, answer: str, probability: float | None, detector: str = "lexical", **doc: Any) -> JudgedAnswer:
    """A judged answer; the whole of it is flagged with the probability, or nothing."""
    spans = [] if probability is None else [[0, len(answer), HALLUCINATION, probability]]
    version = LexicalDetector().version if detector == "lexical" else "1"
    tagged = {"answer": answer, "spans": spans, "detector": {"name": detector, "version": version, "licence": ""}}
    document = {"language": "en", "model": "", "query": "When?", "reference": PASSAGE, "article": str(number)}
    document["guessed"] = False
    settings = {"calibration": "", "calibration_annotations": "", "detector": detector, "detector_args": "{}"}
    return judge(number, document | settings | doc, tagged)


def summarise(rows: Iterable[JudgedAnswer], by: Sequence[str] = ()) -> LogSummary:
    summary = LogSummary(by)
    for each in rows:
        summary.add(each)
    return summary


def test_shares_are_of_answers_and_words_and_groups_are_sorted_by_size() -> None:
    rows = [
        row(1, GOOD, None, labels={"env": "a"}, cost=0.5),
        row(2, BAD, 0.9, labels={"env": "a"}, cost=1.5),
        row(3, GOOD, 0.1, labels={"env": "a"}),  # flagged words, but not more likely than not
        row(4, BAD, 0.9, labels={"env": "b"}, query="Where?"),
        row(5, "I don't know.", None),
    ]
    summary = summarise(rows, ["env"])
    total, groups, to_look_at = summary.total, summary.groups, summary.to_look_at
    assert (total.answers, total.abstaining, total.clusters) == (5, 1, 5)
    assert total.flagged_answers[:3] == pytest.approx((2 / 4, *wilson(2, 4)))
    assert total.flagged_words.value == pytest.approx((12 + 6 + 12) / (6 + 12 + 6 + 12))
    assert total.usage == {"cost": 1.0}  # of the answers that have one
    assert [(group.names["env"], group.answers, group.flagged_answers.value) for group in groups] == [
        ("a", 3, pytest.approx(1 / 3)),
        ("(none)", 1, pytest.approx(float("nan"), nan_ok=True)),
        ("b", 1, 1.0),
    ]
    assert [one.line for one in to_look_at] == [2, 4]


def test_bounds_take_answers_of_one_conversation_together() -> None:
    """Ten answers of two conversations say less than ten of ten."""
    alone, together = (
        summarise([row(n, BAD if n < 5 else GOOD, 0.9 if n < 5 else None, article=str(of(n))) for n in range(10)])
        for of in (lambda n: n, lambda n: n // 5)
    )
    assert together.total.clusters == 2
    width = [one.total.flagged_words.high - one.total.flagged_words.low for one in (alone, together)]
    assert width[0] < width[1]


def test_only_the_most_suspicious_are_listed_and_without_a_curve_any_flag_counts() -> None:
    rows = [row(n, BAD, n / 100, detector="another", query=f"When {n}?") for n in range(1, 31)]
    rows += [row(n, BAD, n / 100, detector="another", query="When 30?") for n in range(31, 41)]  # asked again and again
    listed = summarise(rows).to_look_at
    assert [one.line for one in listed] == [40, *range(29, 20, -1)]
    assert "likely" not in summary_text(summarise(rows), "x.jsonl", "another")


def test_a_terminal_shows_the_largest_groups_and_a_rate_of_few_answers_is_not_measurable() -> None:
    rows = [row(n, BAD, 0.9, labels={"user": "many"}, cost=0.5) for n in range(20)]
    rows += [row(n, BAD, 0.9 if n < 22 else None, labels={"user": "few"}) for n in range(20, 24)]
    table = groups_table(summarise(rows, ["user"]))
    shares = [("all", "24", "0.5"), ("user=many", "20", "0.5"), ("user=few", "4", "-")]
    assert [(*line[:2], line[-1]) for line in table.rows] == shares
    assert (table.header[-1], "not measurable" in table.rows[2][2]) == ("cost", True)
    rows += [row(n, GOOD, None, labels={"user": str(n)}) for n in range(100, 100 + MOST_GROUPS)]
    text = summary_text(summarise(rows, ["user"]), "x.jsonl", "lexical")
    assert text.count("user=") == MOST_GROUPS
    assert "2 smaller groups are not shown" in text


def test_the_passage_is_the_one_that_is_nearest_to_what_is_flagged() -> None:
    reference = "Elephants live in Africa.\n\nThe bridge over the Elbe is long.\n\nThe bridge over the Rhine is short."
    (listed,) = summarise([row(1, "The bridge over the Rhine is 900 m high.", 0.9, reference=reference)]).to_look_at
    assert listed.passage.endswith("Rhine is short.")
    (listed,) = summarise([row(1, BAD, 0.9, reference="")]).to_look_at
    assert listed.passage == ""


def test_hostile_text_reaches_no_terminal() -> None:
    evil = "\x1b]0;title\x07 \u202e# <script> \x9b31m"
    hostile = summarise([row(1, evil, 0.9, query=evil, reference=evil, model=evil, query_id=evil)])
    text = summary_text(hostile, evil, evil)
    assert not any(letter in text for letter in "\x1b\x07\u202e\x9b")
    assert "[[" in text


def test_secrets_reach_neither_terminal_nor_page() -> None:
    secret = "sk-abcdefgh12345678ijklmnop"
    answer = f"Use {secret} here, password: hunter2000x, and fly to Mars."
    of = row(1, answer, 0.9, query=f"Is it {secret}?", reference=f"key {secret}", model=secret, query_id=f"a-{secret}")
    text = summary_text(summarise([of], ["model"]), "x.jsonl", "lexical")
    assert not any(hidden in text for hidden in (secret[:12], "hunter2000x"))
    assert "   answer    [[Use <secret> here, password: <secret>, and fly to Mars.]]\n" in text
    on_page = text_of(answer, 99, [Span(4, 4 + len(secret), "x")], [Span(len(answer) - 5, len(answer) - 1)])
    flagged = " here, password: <secret>, and fly to "
    assert [(piece.text, piece.marked) for piece in on_page.pieces] == [
        *(("Use ", False), ("<secret>", False), (flagged, False), ("Mars", True), (".", False))
    ]


@pytest.fixture
def detect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)

    def write(name: str, bad: int, good: int) -> None:
        records = [
            {"question": f"{n}?", "answer": BAD if n < bad else GOOD, "passages": [PASSAGE]} for n in range(bad + good)
        ]
        Path(name).write_text("".join(json.dumps({**record, "language": "en"}) + "\n" for record in records), "utf-8")

    write("worse.jsonl", 12, 28)
    write("better.jsonl", 0, 40)
    write("few.jsonl", 1, 3)
    return lambda *arguments: main(["detect", *arguments])


def test_the_gate_fails_passes_and_is_undecided(detect: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    def gated(name: str, *limits: str) -> tuple[int, str]:
        status = detect(f"{name}.jsonl", "-o", f"{name}_read.jsonl", *limits, "--junit", "gate.xml")
        return status, capsys.readouterr().out

    status, out = gated("better", "--fail-over", "5%", "--margin", "10%")
    assert (status, "passed: 0.0 % of 40 answers are flagged" in out) == (0, True)
    status, out = gated("worse", "--fail-over", "5%", "--baseline", "better_read")
    assert (status, "FAILED: 30.0 % of 40 answers are flagged" in out) == (1, True)
    assert "FAILED: +30.0 points against the baseline" in out
    suite = ElementTree.parse("gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    status, out = gated("few", "--fail-over", "20%")
    assert (status, "of flagged answers among 4 is not measurable (5 to 70 %)" in out) == (2, True)
    assert gated("nowhere", "--fail-over", "20%")[0] == 2  # as undecided
    assert not Path("gate.xml").exists()


def test_spans_have_their_words_and_sentences_their_probability(detect: Callable[..., int]) -> None:
    record = {"question": "When?", "answer": f"{GOOD} {BAD}", "passages": [PASSAGE], "language": "en"}
    Path("two.jsonl").write_text(json.dumps(record), "utf-8")
    log = g.detect_log("two.jsonl")
    assert log.answers["texts"][0] == [record["answer"][start:end] for start, end, *_ in log.answers["spans"][0]]
    (good, bad) = log.answers["sentences"][0]
    assert (good[:2], bad[:2]) == ([0, len(GOOD)], [len(GOOD) + 1, len(GOOD) + 1 + len(BAD)])
    assert good[2] < 0.5 < bad[2]
    assert f"   sentence  {BAD} ({100 * bad[2]:.0f} % likely)\n" in str(log)
    other = g.detect_log("two.jsonl", detector="flag-all")  # without a curve
    assert [each[2] for each in other.answers["sentences"][0]] == [None, None]


def test_of_an_answer_that_could_not_be_read_nothing_is_said() -> None:
    tagged = {"answer": GOOD, "spans": None, "detector": {"name": "lexical", "version": LexicalDetector().version}}
    row = {"doc_id": 1, "doc": {"id": "", "language": "en"}, **UNREAD}
    entry = JudgedAnswer(row, tagged, [(0, len(GOOD), 0.0)]).entry()
    assert (entry["unsupported_probability"], entry["texts"], entry["sentences"]) == (None, None, [(0, 30, None)])


@pytest.mark.parametrize(
    "arguments",
    [("--fail-over", "5"), ("--margin", "x"), ("--baseline", "nowhere"), ("--junit", "."), ("--by", "tenant")],
)
def test_a_gate_that_cannot_be_read_is_an_error_before_any_work(
    detect: Callable[..., int], arguments: tuple[str, str]
) -> None:
    assert detect("few.jsonl", "-o", "out.jsonl", *arguments) not in (0, 1)
    assert not Path("out").exists()


def test_python_and_the_page_give_what_the_command_prints(
    detect: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect("worse.jsonl", "-o", "new.html", "--by", "language") == 0
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"language=en +40 +(30.0 % .*?]) ", printed)
    page = Path("new.html").read_text("utf-8")
    assert "language=en" in page
    assert shown in page
    log = g.detect_log("worse.jsonl", by="language")
    assert str(log) in printed
    assert log.groups["flagged_answers"].tolist() == [0.3, 0.3]
    assert len(log.answers) == 40
    records = [json.loads(line) for line in Path("worse.jsonl").read_text("utf-8").splitlines()]
    assert g.detect_log(iter(records), by=["language"]).groups.equals(log.groups)
