"""The pages of a leaderboard: HTML files that load nothing, and need no script to be read."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import Unit
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.results.leaderboard.entry import Entry, Unreadable
from lm_eval_tasks.results.leaderboard.standings import Cell, Section
from lm_eval_tasks.results.report.numbers import not_measurable

__all__ = ["GENERATOR", "ShownRun", "render_index", "render_run", "state_of"]

GENERATOR = "lm-eval-grounded leaderboard"
_TEMPLATES = ("templates/frame.html.jinja", "templates/run.html.jinja")
_HERE = "lm_eval_tasks.results.leaderboard.page"


@dataclass(frozen=True)
class ShownRun:
    """A run as pages name it: a label that no other has, its page below the site, and its report, empty where there is
    none."""

    label: str
    page: str
    report: str


def render_index(
    runs: Sequence[ShownRun],
    sections: Sequence[Section],
    unreadable: Sequence[Unreadable],
    other_tasks: Mapping[str, int],
) -> str:
    """The HTML of the first page; `other_tasks` are without a table, with how many runs have them."""
    shown = {"runs": runs, "sections": sections, "unreadable": unreadable, "other_tasks": other_tasks}
    return _render("index.html.jinja", **shown)


def render_run(entry: Entry, run: ShownRun, report: str, state: str) -> str:
    """The HTML of a run's page, with the address of its report from there, empty where it has none. The page begins
    with what :func:`state_of` says."""
    return _render("run.html.jinja", entry=entry, run=run, report=report, state=state)


def state_of(*made_from: str) -> str:
    """A digest of what a page is made from, and of the style, script and templates of this release."""
    parts = [version(PACKAGE), *map(_file, ("leaderboard.css", "leaderboard.js", *_TEMPLATES)), *made_from]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _render(name: str, **shown: Any) -> str:
    from markupsafe import Markup

    css, script = _file("leaderboard.css"), _file("leaderboard.js")
    loads = f"style-src '{_digest(css)}'; script-src '{_digest(script)}'"
    shown["policy"] = f"default-src 'none'; {loads}; base-uri 'none'; form-action 'none'"
    shown["css"], shown["script"] = Markup(css), Markup(script)  # noqa: S704 - files of this package
    html: str = _environment().get_template(name).render(**shown, generator=GENERATOR, version=version(PACKAGE))
    return html


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_HERE, "templates"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["unknown"] = _unknown
    return environment


def _shown(value: Any) -> Any:
    """A value as a page shows it, before it is escaped: characters that cannot be seen, or that change the direction of
    what follows, become U+FFFD. Names of models, tasks and files need none of them."""
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():
        return value
    return "".join(character if character.isprintable() else "\ufffd" for character in value)


def _figure(value: Any) -> str:
    """A number with what a reader can use of it: three decimals of a share, none of what is long."""
    number = float(value)
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.1f}" if abs(number) < 100 else f"{number:.0f}"


def _unknown(cell: Cell | Mapping[str, Any], unit: Unit = "share") -> str:
    """That a figure, of a table or as a results file has it (in this unit), is not measurable, with its bounds; else
    empty."""
    if isinstance(cell, Cell):
        return not_measurable(cell.figure, cell.unit)
    parts = (cell.get(part) for part in ("value", "low", "high"))
    value, low, high = (float(part) if isinstance(part, (int, float)) else math.nan for part in parts)
    return not_measurable(Figure(value, low, high), unit)


@lru_cache(maxsize=8)
def _file(name: str) -> str:
    return files(_HERE).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """A text as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
