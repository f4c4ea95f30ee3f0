"""The table of metrics in ``lm_eval_tasks/METRICS.md``, written from the tables of the benchmarks.

``python -m tests.metric_table`` writes it anew, between two marks of the page.
"""

from __future__ import annotations

from pathlib import Path

from lm_eval_tasks.definition import catalogue

PAGE = Path(__file__).parents[1] / "lm_eval_tasks" / "METRICS.md"
BEGIN = "<!-- metrics: written by `python -m tests.metric_table` -->"
END = "<!-- end of the metrics -->"
_GOOD = {True: "high", False: "low", None: ""}


def metric_table() -> str:
    """A row for each metric with a definition. Benchmarks that share a metric share its row."""
    titles: dict[tuple[str, str, str, bool | None], list[str]] = {}
    for benchmark in catalogue.tables().values():
        for metric in benchmark.metrics.values():
            if metric.definition:
                row = metric.name, metric.definition, metric.denominator, metric.higher_is_better
                titles.setdefault(row, []).append(benchmark.title)
    rows = (
        f"| `{_named(name)}` | {definition} | {', '.join(of)}: {denominator} | {_GOOD[higher]} |"
        for (name, definition, denominator, higher), of in titles.items()
    )
    return "\n".join(["| metric | is | over | good |", "|---|---|---|---|", *rows])


def _named(name: str) -> str:
    """``win_rate_<system>`` for a name that stands for all that begin so."""
    return f"{name}<system>" if name.endswith("_") else name


def with_table(page: str) -> str:
    """A page with the current table between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{metric_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
