"""The gate of ``detect LOG``: over a limit, worse than an older log, or undecided."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.intervals import wilson
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.results.logs import gate
from lm_eval_tasks.results.logs.gate import FAILED, PASSED, UNDECIDED, Check


def share(flagged: int, answers: int) -> Figure:
    return Figure(flagged / answers, *wilson(flagged, answers), n=answers)


@pytest.mark.parametrize(
    ("flagged", "answers", "limit", "status"),
    [
        (20, 200, 0.05, FAILED),  # 10 % [6.6, 14.9]
        (14, 200, 0.05, UNDECIDED),  # 7 % [4.2, 11.4]
        (8, 200, 0.05, PASSED),  # 4 % [2.0, 7.7]: 10 % would have been seen
        (0, 100, 0.0, PASSED),  # [0, 3.7]
        (0, 10, 0.0, UNDECIDED),  # [0, 27.8]
        (1, 1000, 0.0, FAILED),
        (1, 1, 0.05, UNDECIDED),  # [21, 100]: not measurable
        (1, 3, 0.05, UNDECIDED),  # [6, 79]: of three one is flagged in 14 % of logs whose rate is 5 %
        (3, 15, 0.05, FAILED),  # 20 % [7, 45]: three and more of fifteen in 3.6 %
        (3, 10, 1.0, PASSED),
        (3, 10, 0.97, PASSED),  # an excess of five points does not exist
    ],
)
def test_a_limit(flagged: int, answers: int, limit: float, status: int) -> None:
    check = gate.check_limit(share(flagged, answers), limit)
    assert check.status == status
    assert ("it takes about" in check.message) == (status == UNDECIDED)


def test_without_a_margin_no_number_decides_exactly_at_the_limit_or_as_good_as_the_baseline() -> None:
    assert [gate.check_limit(share(n, 100), 0.05, 0.0).status for n in (5, 0)] == [UNDECIDED, PASSED]
    checks = [gate.check_baseline(*bounds, 60, 0.0) for bounds in ((0.0, -0.1, 0.1), (-0.2, -0.3, -0.1))]
    assert [check.status for check in checks] == [UNDECIDED, PASSED]
    assert "Without a margin no number of questions decides at this rate." in checks[0].message


def test_as_many_answers_as_it_takes_decide() -> None:
    """At the same share, the number that an undecided check names is enough, and three quarters of it are not."""
    message = gate.check_limit(share(6, 60), 0.05).message
    needed = int(message.rpartition("about ")[2].split()[0].replace(",", ""))
    assert 60 < needed < 1000
    assert gate.check_limit(share(round(needed * 1.1 / 10), round(needed * 1.1)), 0.05).status == FAILED
    assert gate.check_limit(share(round(needed * 0.6 / 10), round(needed * 0.6)), 0.05).status == UNDECIDED


@pytest.mark.parametrize(
    ("value", "low", "high", "n", "status"),
    [
        (0.06, 0.01, 0.11, 100, FAILED),
        (0.01, -0.02, 0.04, 100, PASSED),
        (-0.10, -0.15, -0.05, 100, PASSED),
        (0.01, -0.05, 0.07, 100, UNDECIDED),
        (float("nan"), float("nan"), float("nan"), 0, UNDECIDED),
    ],
)
def test_a_baseline(value: float, low: float, high: float, n: int, status: int) -> None:
    assert gate.check_baseline(value, low, high, n).status == status


def test_a_failed_check_decides_then_an_undecided_one() -> None:
    for statuses, status in [((PASSED, PASSED), 0), ((PASSED, UNDECIDED), 2), ((UNDECIDED, FAILED), 1), ((), 0)]:
        assert gate.exit_status([Check("", each, "") for each in statuses]) == status


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("5%", 0.05), ("5 %", 0.05), ("0.05", 0.05), ("100%", 1.0), ("0", 0.0)),
        *((refused, None) for refused in ("5", "", "nan", "-1%", "101%", "five", "5%%")),
    ],
)
def test_figures(text: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(UsageError, match="--fail-over takes a share such as 5%"):
            gate.parse_share(text, "--fail-over")
    else:
        assert gate.parse_share(text, "--fail-over") == pytest.approx(value)


def test_junit_counts_failures_and_skips_and_survives_hostile_text() -> None:
    checks = [Check("a", PASSED, "fine"), Check("b<&>", FAILED, "over \x00\x1b[31m]]>"), Check("c", UNDECIDED, "few")]
    suite = ElementTree.fromstring(gate.junit(checks, "log \x07 name"))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [case[0].tag for case in suite] == ["system-out", "failure", "skipped"]
