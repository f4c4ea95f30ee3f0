"""The page of a report: one HTML file that loads nothing, and needs no script to be read."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.results.report.differences import Differences
from lm_eval_tasks.results.report.documents import KINDS, TaskDocuments
from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.page.examples import examples
from lm_eval_tasks.results.report.page.safe import direction, finalized, language_tag
from lm_eval_tasks.results.report.page.summary import Summary
from lm_eval_tasks.results.report.plots import DARK, LIGHT, Plot
from lm_eval_tasks.results.report.provenance import Made, Number, Origin
from lm_eval_tasks.results.report.published import PublishedTable

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["BenchmarkNumbers", "Model", "Page", "render"]

_HERE = "lm_eval_tasks.results.report.page"
_PIXELS = 1.45  # of the page for a point of a plot, whose letters have 9


@dataclass(frozen=True)
class Model:
    """A model of the report.

    Attributes:
        label: its name in tables, different from all others.
        short: the same without its organisation, where that is enough.
        number: from 0; decides its colour.
        date: of its newest results.
        tasks: how many it was run on.
    """

    label: str
    short: str
    number: int
    date: str
    tasks: int


@dataclass(frozen=True)
class BenchmarkNumbers:
    """All numbers of a benchmark, and what they depend on."""

    benchmark: str
    name: str
    numbers: tuple[Number, ...]
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        title: of it.
        question: the heading.
        written: when, and by which version.
        models: of the report.
        doubts: about every number of the page.
        summaries: its top.
        tasks: family of the top to the names of its tasks.
        plots: in order; empty where matplotlib is missing.
        no_plots: why there are none, and how to get them; empty where there are.
        differences: from ``compare``; ``None`` where there is one model only.
        published: figures of the papers beside those of the runs; empty where nobody asked for them.
        documents: task by task.
        per_task: documents to show of each task; ``None`` for all.
        made: results files and their commands.
        benchmarks: every number.
    """

    title: str
    question: str
    written: str
    models: Sequence[Model]
    doubts: Sequence[Doubt]
    summaries: Sequence[Summary]
    tasks: Mapping[str, Sequence[str]]
    plots: Sequence[Plot]
    no_plots: str
    differences: Differences | None
    published: Sequence[PublishedTable]
    documents: Sequence[TaskDocuments]
    per_task: int | None
    made: Sequence[Made]
    benchmarks: Sequence[BenchmarkNumbers]


def render(page: Page) -> str:
    """The HTML of a page."""
    from markupsafe import Markup

    css, script = _file("report.css"), _file("report.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(css)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    by_label = {model.label: model for model in page.models}
    html = (
        _environment(by_label)
        .get_template("page.html.jinja")
        .render(
            page=page,
            css=Markup(css),  # noqa: S704 - a file of this package
            script=Markup(script),  # noqa: S704 - the same
            policy=policy,
            kinds=KINDS,
            examples=examples,
        )
    )
    return html


def _environment(models: Mapping[str, Model]) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_HERE, "templates"),
        autoescape=True,
        finalize=finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["language_name"] = language_name
    environment.filters["language_tag"] = language_tag
    environment.filters["direction"] = direction
    environment.filters["short"] = lambda label: models[label].short if label in models else label
    environment.filters["number"] = lambda label: models[label].number if label in models else 0
    environment.filters["cell"] = _cell
    environment.filters["light_picture"] = lambda plot: _data_uri(plot.svg(LIGHT))
    environment.filters["dark_picture"] = lambda plot: _data_uri(plot.svg(DARK))
    environment.filters["pixels"] = lambda points: round(_PIXELS * points)
    environment.filters["thousands"] = lambda number: f"{number:,}".replace(",", "\u202f")
    return environment


def _cell(value: Any) -> str:
    """A cell of a plot's table."""
    if value is None:
        return "undefined"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _data_uri(svg: str) -> str:
    """A picture as the address of an image: in it nothing of the picture runs, loads, or reaches the page."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")


def _file(name: str) -> str:
    return files(_HERE).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """A text as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
