"""A gate for pipelines: is a log's share of flagged answers over a limit, or worse than that of an older log?

Each check ends in one of three verdicts. *Over* needs the lower bound above the limit, and a number of flagged answers
that is seen in one of twenty logs at most whose rate is the limit (exact binomial test). *Not over* needs bounds so narrow
that an excess of the margin would have been seen. All else is *undecided*, as is a rate that is not measurable, with the
number of answers that decide it. ``make check-statistics`` simulates how often a log at the limit fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from custom_metrics.statistics.figures import MAX_USEFUL_CI_WIDTH, Figure
from custom_metrics.statistics.intervals import Z95
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.printable import printable
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.formats import as_text, bounds, not_measurable, points, range_of_points
from lm_eval_tasks.results.logs.judged import FLAGGED_ANSWERS
from lm_eval_tasks.runs import Run, read_runs

_LEVEL = 0.05  # how often a log whose rate is the limit may fail
PASSED, FAILED, UNDECIDED = 0, 1, 2
"""Exit statuses."""


class Check(NamedTuple):
    """A check and its verdict: a name for reports, one of the exit statuses, and a sentence with the numbers."""

    name: str
    status: int
    message: str


def parse_share(text: str, option: str) -> float:
    """A share, typed as ``5%`` or ``0.05``."""
    number = text.strip()
    try:
        value = float(number.removesuffix("%").rstrip()) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise UsageError(f"{option} takes a share such as 5% or 0.05, got {text!r:.40}")
    return value


def check_limit(figure: Figure, limit: float, margin: float = 0.05) -> Check:
    """Whether a share is over a limit. `figure` has the share of flagged answers with its bounds."""
    from scipy.special import bdtrc

    text = as_text(limit, "share")
    name = f"flagged answers over {text}"
    if not figure.n:
        return Check(name, UNDECIDED, "No answer could be judged.")
    if unknown := not_measurable(figure, "share"):
        least = math.ceil((Z95 / MAX_USEFUL_CI_WIDTH) ** 2)  # of shares of a half, of which most are needed
        seen = f"the share of flagged answers among {figure.n} is {unknown}"
        return Check(name, UNDECIDED, f"{seen}: it takes about {least} independent answers.")
    seen = f"{as_text(figure.value, 'share')} of {figure.n} answers are flagged [{bounds(figure, 'share')}]"
    # as many flagged answers by chance, of independent ones: those of conversations have bounds that are no narrower
    is_sure = bool(bdtrc(round(figure.value * figure.n) - 1, figure.n, limit) <= _LEVEL)
    said = seen, f"over {text}", f"too few answers to say whether more than {text} are"
    return _check(name, said, [bound - limit for bound in figure[:3]], figure.n, margin, "answers", is_sure)


def check_baseline(
    value: float, low: float, high: float, n: int, margin: float = 0.05, unit: str = "questions"
) -> Check:
    """Whether a log is worse than an older one: the paired difference, new minus old, with bounds, over `n` units."""
    name = "flagged answers against the baseline"
    if not n or math.isnan(low + high):
        return Check(name, UNDECIDED, f"Too few {unit} in common with the baseline ({n}).")
    seen = f"{points(value, 'share')} against the baseline [{range_of_points(low, high, 'share')}], {n} {unit}"
    return _check(name, (seen, "worse", "too few to say"), (value, low, high), n, margin, unit)


def _check(
    name: str, said: Sequence[str], excess: Sequence[float], n: int, margin: float, unit: str, is_sure: bool = True
) -> Check:
    """The verdict on an excess with its bounds. An undecided one says how many answers decide at the same values, as bounds
    narrow with the square root of their number."""
    (value, low, high), (seen, claim, too_few) = excess, said
    if low > 0 and is_sure:
        return Check(name, FAILED, f"{seen}: shown to be {claim}.")
    if high < margin:
        return Check(name, PASSED, f"{seen}: not shown to be {claim}.")
    ratios = [((value - low) / value) ** 2] if value > 0 else []
    ratios += [((high - value) / (margin - value)) ** 2] if value < margin else []
    needed = f"At this rate it takes about {math.ceil(n * min(ratios) + 1):,} {unit}." if ratios else ""
    needed = needed or f"Without a margin no number of {unit} decides at this rate."
    return Check(name, UNDECIDED, f"{seen}: {too_few}. {needed}")


def baseline_run(place: Path) -> Run:
    """The one run of ``detect LOG`` in a folder or a results file; UsageError where there is another number."""
    runs = read_runs([place])
    if len(runs) != 1 or LOGGED not in runs[0].tasks:
        raise UsageError(f"--baseline takes the folder of one run of detect LOG; {place} has {len(runs)} runs")
    return runs[0]


def checks_of(run: Run, figure: Figure, limit: float | None, baseline: Run | None, margin: float) -> list[Check]:
    """The checks of a run of ``detect LOG``: its share of flagged answers (`figure`) against a limit, and against an older
    run over the same questions."""
    checks = [] if limit is None else [check_limit(figure, limit, margin)]
    if baseline is not None:
        found = compare_runs([run, baseline], [LOGGED], [FLAGGED_ANSWERS], refuse=False).differences
        values = [(*each.result[2:5], each.result.n, margin, each.unit) for each in found[:1]]
        checks.append(check_baseline(*values[0]) if values else check_baseline(math.nan, math.nan, math.nan, 0))
    return checks


def exit_status(checks: Sequence[Check]) -> int:
    """1 if any check has failed, else 2 if any is undecided, else 0."""
    return min((check.status for check in checks if check.status != PASSED), default=PASSED)


def junit(checks: Sequence[Check], suite: str) -> str:
    """The checks as JUnit XML, without characters that it forbids: an undecided one is skipped, with its sentence."""
    kinds = {FAILED: "failure", UNDECIDED: "skipped"}
    failed, skipped = (str(sum(check.status == status for check in checks)) for status in kinds)
    counts = {"tests": str(len(checks)), "failures": failed, "errors": "0", "skipped": skipped}
    root = ElementTree.Element("testsuites")
    tests = ElementTree.SubElement(root, "testsuite", {"name": printable(suite), **counts})
    for check in checks:
        case = ElementTree.SubElement(
            tests, "testcase", classname="lm_eval_grounded.detect", name=printable(check.name)
        )
        if check.status != PASSED:
            ElementTree.SubElement(case, kinds[check.status], message=printable(check.message))
        ElementTree.SubElement(case, "system-out").text = printable(check.message)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
