"""The page of a report: one HTML file that loads nothing, and needs no script to be read.

Jinja escapes every value. Some characters remain that escaping does not touch: null and other control characters, which
HTML forbids; halves of surrogate pairs, which no file can hold; and U+202D and U+202E, which change the order of a text.
They become U+FFFD. Other marks of direction stay, because Arabic and Hebrew texts need them; every text is in an element
that isolates it.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from custom_metrics.statistics.figures import NOT_MEASURABLE, is_measurable, small_n
from custom_metrics.statistics.intervals import SIGNIFICANCE
from lm_eval_tasks.definition.catalogue import language_name
from lm_eval_tasks.results import formats
from lm_eval_tasks.results.formats import UNDEFINED_TEXT, as_text, not_measurable
from lm_eval_tasks.results.report.documents import examples
from lm_eval_tasks.results.report.drawing import MARKERS, look_of, ticks
from lm_eval_tasks.results.report.page.summary import drawn, end_of_scale, grid
from lm_eval_tasks.results.report.readers import KINDS, Passage

__all__ = ["cleaned", "direction", "environment_of", "language_tag", "markdown_template", "render"]

_HERE = "lm_eval_tasks.results.report.page"
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?")
_RIGHT_TO_LEFT = frozenset("ar arc ckb dv fa he ks ps sd syr ug ur yi".split())
_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
_FORMATS = "as_text bounds interval not_measurable p_value points range_of_points with_bounds".split()


def render(page: Mapping[str, Any]) -> str:
    """The HTML of a page, from the variables of its templates."""
    numbers = {label: number for number, label in enumerate(page["short"])}
    html: str = _environment().get_template("page.html.jinja").render(page=page, numbers=numbers)
    return html


def markdown_template() -> Any:
    """The template of a report in Markdown."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    more: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=PackageLoader(_HERE), undefined=StrictUndefined, **more)  # noqa: S701 - own escaper
    environment.filters |= {"escaped": formats.escaped_markdown, "with_bounds": formats.with_bounds}
    environment.globals |= {"arrows": formats.ARROWS, "undefined": UNDEFINED_TEXT}
    return environment.get_template("summary.md.jinja")


@cache
def _environment() -> Any:
    """The environment of pages: a folder has many, and compiling the templates takes longer than filling them."""
    from jinja2 import pass_context
    from markupsafe import Markup

    environment = environment_of(_HERE, "report", "; img-src data:")
    environment.filters |= {
        "language_tag": language_tag,
        "direction": direction,
        "short": pass_context(lambda context, label: context["page"]["short"].get(label, label)),
        "number": pass_context(lambda context, label: context["numbers"][label]),
        "colour": lambda look: look_of(look)[0],
        "marker": lambda look: look_of(look)[1],
        "ticks": ticks,
        "cell": _cell,
        "value": lambda cell, metric: (
            not_measurable(cell.figure, metric.unit, metric.needs) or as_text(cell.figure.value, metric.unit)
        ),
        "drawn": drawn,
        "end_of_scale": end_of_scale,
        "grid": grid,
        "thousands": lambda number: f"{number:,}".replace(",", "\u202f"),
    }
    passages = environment.get_template("passages.html.jinja")

    @lru_cache(maxsize=1024)  # which pages of runs have in common
    def listed(of_document: tuple[Passage, ...], language: str) -> Any:
        return Markup(passages.render(passages=of_document, language=language))  # noqa: S704 - escaped there

    environment.globals |= {"kinds": KINDS, "examples_of": examples, "markers": [*MARKERS.values()], "listed": listed}
    environment.globals |= {"NOT_MEASURABLE": NOT_MEASURABLE, "significance": SIGNIFICANCE}
    return environment


def environment_of(package: str, stem: str, more: str = "") -> Any:
    """A Jinja environment with the templates of a package. Every value is cleaned and escaped; a missing one is an error.
    Templates get the package's style and script, files named `stem`, and a content security policy that allows only these,
    and `more`; and the :mod:`~lm_eval_tasks.results.formats` of pages as filters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    css, script = (files(package).joinpath(f"{stem}.{ending}").read_text("utf-8") for ending in ("css", "js"))
    style, run = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, script))
    loads = f"style-src 'sha256-{style}'; script-src 'sha256-{run}'{more}"
    environment = Environment(loader=PackageLoader(package, "templates"), autoescape=True, finalize=cleaned)
    environment.undefined, environment.trim_blocks, environment.lstrip_blocks = StrictUndefined, True, True
    environment.filters |= {name: getattr(formats, name) for name in _FORMATS}
    environment.filters |= {each.__name__: each for each in (is_measurable, language_name, small_n)}
    environment.tests["finite"] = math.isfinite
    environment.globals |= {
        "css": Markup(css),  # noqa: S704 - of this project
        "script": Markup(script),  # noqa: S704 - of this project
        "policy": f"default-src 'none'; {loads}; base-uri 'none'; form-action 'none'",
    }
    return environment


def _cell(value: Any, is_share: bool) -> str:
    """A cell of a plot's table, shares in percent."""
    if value is None:
        return UNDEFINED_TEXT
    if not isinstance(value, float):
        return str(value)
    return as_text(value, "share") if is_share else f"{value:.4g}"


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
