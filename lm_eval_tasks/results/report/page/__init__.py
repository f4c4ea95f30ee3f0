"""The page of a report: one HTML file that loads nothing, and needs no script to be read.

Jinja escapes every value. What is left are characters that escaping does not touch: null and other control characters,
which HTML forbids; halves of surrogate pairs, which no file can hold; and U+202D and U+202E, which show a text in another
order than it has. They become U+FFFD. Other marks of direction stay, because Arabic and Hebrew texts need them; every text
stands in an element that isolates it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.results.report.differences import Differences
from lm_eval_tasks.results.report.documents import KINDS, TaskDocuments
from lm_eval_tasks.results.report.doubts import Doubt
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.page.summary import Summary, examples
from lm_eval_tasks.results.report.plots import DARK, LIGHT, Plot
from lm_eval_tasks.results.report.provenance import Made, Number, Origin
from lm_eval_tasks.results.report.published import PublishedTable

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["BenchmarkNumbers", "Model", "Page", "cleaned", "direction", "language_tag", "render"]

_HERE = "lm_eval_tasks.results.report.page"
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?")
_RIGHT_TO_LEFT = frozenset("ar arc ckb dv fa he ks ps sd syr ug ur yi".split())
_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
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

    name: str
    numbers: tuple[Number, ...]
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        question: the heading.
        written: when, and by which version.
        doubts: about every number of the page.
        tasks: family of the summaries to the names of its tasks.
        no_plots: why there are none, and how to get them; empty where there are.
        differences: ``None`` where there is one model only.
        published: figures of the papers beside those of the runs; empty where nobody asked for them.
        per_task: documents to show of each task; ``None`` for all.
        made: results files and their commands.
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
        finalize=_finalized,
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


def cleaned(text: str) -> str:
    """A text without characters that a page cannot show, each of which becomes U+FFFD; line ends become LF."""
    return _UNSHOWN.sub("\ufffd", _LINE_ENDS.sub("\n", text))


def _finalized(value: Any) -> Any:
    """What a template writes for a value: every text cleaned. Jinja calls this for each ``{{ ... }}`` before it escapes.
    Markup, which has the method ``__html__``, is the templates' own."""
    return cleaned(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def language_tag(code: str) -> str:
    """A code as the value of ``lang``; empty where it is no BCP 47 tag."""
    return code if _TAG.fullmatch(code) else ""


def direction(code: str) -> str:
    """The value of ``dir`` for a language: ``rtl`` or ``ltr``."""
    return "rtl" if code.lower().partition("-")[0] in _RIGHT_TO_LEFT else "ltr"
