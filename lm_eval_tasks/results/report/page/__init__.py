"""The page of a report: one HTML file that loads nothing, and needs no script to be read.

Jinja escapes every value. Some characters remain that escaping does not touch: null and other control characters, which
HTML forbids; halves of surrogate pairs, which no file can hold; and U+202D and U+202E, which change the order of a text.
They become U+FFFD. Other marks of direction stay, because Arabic and Hebrew texts need them; every text is in an element
that isolates it.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from custom_metrics.statistics.intervals import SIGNIFICANCE
from custom_metrics.statistics.units import NOT_MEASURABLE, is_measurable, small_n
from lm_eval_tasks.data.provenance import PACKAGE
from lm_eval_tasks.published import compare_with_published
from lm_eval_tasks.results import LOGGED
from lm_eval_tasks.results.compare.tables import verdicts
from lm_eval_tasks.results.formats import (
    UNDEFINED_TEXT,
    as_text,
    bounds,
    not_measurable,
    p_value,
    points,
    range_of_points,
    short_names,
    with_bounds,
)
from lm_eval_tasks.results.report.documents import ReadAnswers, examples
from lm_eval_tasks.results.report.drawing import DARK, LIGHT, MARKERS, Plot, look_of
from lm_eval_tasks.results.report.headlines import families, headlines, language_name, title_of
from lm_eval_tasks.results.report.page.summary import common_doubts, differences, numbers, origins, overviews
from lm_eval_tasks.results.report.plots import plots_of
from lm_eval_tasks.results.report.readers import KINDS
from lm_eval_tasks.results.reproduce import command_files
from lm_eval_tasks.runs import Run

__all__ = ["cleaned", "direction", "environment_of", "language_tag", "page_of", "render"]

_HERE = "lm_eval_tasks.results.report.page"
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?")
_RIGHT_TO_LEFT = frozenset("ar arc ckb dv fa he ks ps sd syr ug ur yi".split())
_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
_PIXELS = 1.45  # of the page for a point of a plot, whose letters have 9
_FILTERS = (
    *(as_text, bounds, is_measurable, language_name, not_measurable, p_value, points, range_of_points, small_n),
    with_bounds,
)
_NO_PLOTS = f"There are no plots, for matplotlib is not installed. Install it with: pip install '{PACKAGE}[report]'"


def page_of(
    runs: Mapping[str, Run], paper: bool, read_answers: ReadAnswers, more_plots: Sequence[Plot] = ()
) -> dict[str, Any]:
    """The variables of the templates for the page of some runs (label to run), without its documents. With `paper` the
    page has a comparison with published figures; `more_plots` come first."""
    every, short = [*runs.values()], short_names(runs)
    plots, why_no_plots = [*more_plots, *plots_of(every)], ""
    try:
        for plot in plots:
            plot.svg()
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        plots, why_no_plots = [], _NO_PLOTS
    pictures = {plot.family: plot for plot in plots if plot.family} if len(runs) > 1 else {}
    of_families, of_languages = (headlines(every, read_answers, by_language) for by_language in (False, True))
    tasks: dict[str, dict[str, str]] = {}
    for run in every:
        for family in families(run):
            tasks.setdefault(family.name, {}).update({code: task.task for code, task in family.tasks.items()})
    compared = differences(every, read_answers)
    comparison = compared.comparison if compared else None
    benchmarks = {task.benchmark: title_of(task) for run in every for task in run.tasks.values()}
    return {
        "only_others": all(task.table is None for run in every for task in run.tasks.values()),
        "only_logs": all(task == LOGGED for run in every for task in run.tasks),
        "written": f"{datetime.date.today():%-d %B %Y}, version {version(PACKAGE)}",
        "short": short,
        "labels": [*runs],
        "doubts": common_doubts(of_families),
        "overviews": [*overviews(of_families, of_languages, tasks, comparison)],
        "tasks": {family: [*members.values()] for family, members in tasks.items()},
        "pictures": pictures,
        "plots": [plot for plot in plots if plot not in pictures.values()],
        "no_plots": why_no_plots,
        "differences": compared,
        "verdicts": [*zip(*verdicts(comparison), strict=True)] if comparison else [],
        "published": compare_with_published(every) if paper else [],
        "commands": [*command_files(runs)],
        "benchmarks": benchmarks,
        "numbers": {name: [*numbers(runs, name)] for name in benchmarks},
        "origins": {name: origins(runs, name) for name in benchmarks},
    }


def render(page: Mapping[str, Any]) -> str:
    """The HTML of a page: the variables of :func:`page_of` with ``documents``, and ``per_task``, the number of documents of
    each task (``None``: all)."""
    environment = environment_of(_HERE, "report", cleaned, "; img-src data:")
    short: Mapping[str, str] = page["short"]
    numbers_of = {label: number for number, label in enumerate(short)}
    environment.filters |= {
        "language_tag": language_tag,
        "direction": direction,
        "short": lambda label: short.get(label, label),
        "number": numbers_of.__getitem__,
        "colour": lambda label: look_of(numbers_of[label])[0],
        "marker": lambda label: look_of(numbers_of[label])[1],
        "cell": _cell,
        "picture": lambda plot, ink: "data:image/svg+xml;base64," + base64.b64encode(plot.svg(ink).encode()).decode(),
        "pixels": lambda points: round(_PIXELS * points),
        "thousands": lambda number: f"{number:,}".replace(",", "\u202f"),
    }
    environment.globals |= {"LIGHT": LIGHT, "DARK": DARK, "NOT_MEASURABLE": NOT_MEASURABLE}
    html: str = environment.get_template("page.html.jinja").render(
        page=page, kinds=KINDS, examples_of=examples, significance=SIGNIFICANCE, markers=[*MARKERS.values()]
    )
    return html


def environment_of(package: str, stem: str, finalize: Callable[[Any], Any], more: str = "") -> Any:
    """A Jinja environment with the templates of a package. Every value is escaped, and a missing one is an error. Templates
    get the package's style and script, files named `stem`, and a content security policy that allows only these, and
    `more`; and the :mod:`~lm_eval_tasks.results.formats` of pages as filters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    css, script = (files(package).joinpath(f"{stem}.{ending}").read_text("utf-8") for ending in ("css", "js"))
    style, run = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, script))
    loads = f"style-src 'sha256-{style}'; script-src 'sha256-{run}'{more}"
    environment = Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {each.__name__: each for each in _FILTERS}
    environment.tests["finite"] = math.isfinite
    environment.globals |= {
        "css": Markup(css),  # noqa: S704 - of this project
        "script": Markup(script),  # noqa: S704 - of this project
        "policy": f"default-src 'none'; {loads}; base-uri 'none'; form-action 'none'",
    }
    return environment


def _cell(value: Any, column: str, shares: Collection[str]) -> str:
    """A cell of a plot's table: values of the columns that are shares in percent."""
    if value is None:
        return UNDEFINED_TEXT
    if not isinstance(value, float):
        return str(value)
    return as_text(value, "share") if re.sub("_(low|high)$", "", column) in shares else f"{value:.4g}"


def cleaned(value: Any) -> Any:
    """The value that a template writes: in texts, characters that a page cannot show become U+FFFD, and line ends LF. Jinja
    calls this for each ``{{ ... }}`` before it escapes. Markup is not changed: it comes from the templates."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return _UNSHOWN.sub("\ufffd", _LINE_ENDS.sub("\n", value)) if is_text else value


def language_tag(code: str) -> str:
    """A language's code as the value of ``lang``; empty if it is no BCP 47 tag."""
    return code if _TAG.fullmatch(code) else ""


def direction(code: str) -> str:
    """The value of ``dir`` for a language: ``rtl`` or ``ltr``."""
    return "rtl" if code.lower().partition("-")[0] in _RIGHT_TO_LEFT else "ltr"
