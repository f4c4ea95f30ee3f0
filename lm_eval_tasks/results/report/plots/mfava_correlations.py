"""mFAVA: rates against a language's resources and against the length of answers, with their correlations.

Islam et al. (2025) hold the same against each other in section 4.2 and Figures 5c and 7: they find that longer answers hold
more hallucinated words, and no correlation of the rate with resources or with length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from custom_metrics.paired_rates import RATES
from custom_metrics.statistics.correlations import FEWEST, Correlation, correlate
from custom_metrics.statistics.figures import Figure
from custom_metrics.statistics.units import without_point
from lm_eval_tasks.results.report.families import Family, language_name
from lm_eval_tasks.results.report.plots import scatter
from lm_eval_tasks.results.report.plots.model_names import numbered, short_names, wrapped
from lm_eval_tasks.results.report.plots.plot import Plot, cells, columns_of, not_drawn
from lm_eval_tasks.results.report.plots.resources import SOURCE, web_share
from lm_eval_tasks.runs import TaskRun

__all__ = ["Spoken", "correlation_of", "plots", "spoken"]

_NAMES = {"rogan_gladen_rate": "Rogan-Gladen", "estimated_rate": "estimated, Equation 1", "detected_rate": "detected"}


class Spoken(NamedTuple):
    """A model in a language: two quantities that are held against each other."""

    model: str
    language: str
    x: Figure
    y: Figure


class _Kind(NamedTuple):
    """What is held against what: a name, a title, the two quantities, and the x axis."""

    name: str
    title: str
    x: str
    y: str
    label: str
    log: bool
    caption: str


_RATE = "rate"
_KINDS = (
    _Kind(
        "resources",
        "Share of made-up words against a language's resources",
        "web_share",
        _RATE,
        "share of the web's pages (%), log scale",
        True,
        f"A language's resources are its share of the {SOURCE}; Cantonese has no figure there.",
    ),
    _Kind(
        "length",
        "Share of made-up words against the length of answers",
        "response_words",
        _RATE,
        "words of an answer",
        False,
        "What a word is differs between languages, and so does how many an answer needs.",
    ),
    _Kind(
        "words",
        "Made-up words against the length of answers",
        "response_words",
        "hallucinated_words",
        "words of an answer",
        False,
        "The number of words that the detector flags in an answer; a longer answer has room for more.",
    ),
)


def plots(families: Sequence[tuple[str, Family]], places: Mapping[str, int] | None = None) -> list[Plot]:
    """The plots of a family of tasks; none where no model has two languages.

    Args:
        families: name of the model and its tasks.
        places: name of the model to its place in the report; in the order of `families` where nobody says.
    """
    if max(len(family.tasks) for _, family in families) < 2:
        return []
    return [_plot(families, kind, places or numbered(model for model, _ in families)) for kind in _KINDS]


def spoken(families: Sequence[tuple[str, Family]], x: str, y: str) -> list[Spoken]:
    """The pairs, model by model, languages by their codes.

    Args:
        families: name of the model and its tasks.
        x: a metric, or ``web_share``.
        y: a metric, or ``rate``: the first of Rogan-Gladen, estimated and detected that any model has.
    """
    y = rate_of(families) if y == _RATE else y
    return [
        Spoken(model, language, _quantity(x)(family.tasks[language]), _quantity(y)(family.tasks[language]))
        for model, family in families
        for language in sorted(family.tasks)
    ]


def rate_of(families: Sequence[tuple[str, Family]]) -> str:
    """The rate that is shown, one for all models."""
    for rate in reversed(RATES):
        if any(not math.isnan(family.mean(rate, family.any.headline_filter).value) for _, family in families):
            return rate
    return RATES[0]


def _quantity(name: str) -> Callable[[TaskRun], Figure]:
    if name == "web_share":
        return lambda task: Figure(web_share(task.language))
    return lambda task: without_point(task.figure(name, task.headline_filter), task.metric(name).unit)


def correlation_of(found: Sequence[Spoken], log: bool = False) -> Correlation:
    """The correlation over a model's languages; of the logarithm of x where that is shown."""
    x = [math.log(one.x.value) if log and one.x.value > 0 else math.nan if log else one.x.value for one in found]
    return correlate(x, [one.y.value for one in found])


def said(correlation: Correlation) -> str:
    """A correlation in words."""
    if math.isnan(correlation.pearson):
        few = correlation.n < FEWEST
        why = f"fewer than {FEWEST} languages" if few else "one of the two is the same everywhere"
        return f"correlation undefined, {why} (n = {correlation.n})"
    r, rho = (f"{value:.2f}".replace("-", "−") for value in (correlation.pearson, correlation.spearman))
    return f"r = {r} ({_p(correlation.pearson_p)}), ρ = {rho} ({_p(correlation.spearman_p)}), n = {correlation.n}"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _plot(families: Sequence[tuple[str, Family]], kind: _Kind, places: Mapping[str, int]) -> Plot:
    found = spoken(families, kind.x, kind.y)
    family = families[0][1]
    y = rate_of(families) if kind.y == _RATE else kind.y
    by_model = {model: [one for one in found if one.model == model] for model, _ in families}
    correlations = {model: correlation_of(of_model, kind.log) for model, of_model in by_model.items()}
    spelt = "; ".join(f"{model}: {said(correlation)}" for model, correlation in correlations.items())
    return Plot(
        name=f"{family.name}_{kind.name}",
        title=f"{kind.title} ({family.name})",
        caption=(
            f"A point is a language. {kind.caption} Pearson's r{' of the logarithm' if kind.log else ''} and Spearman's ρ "
            f"over languages, with two-sided p. {spelt}."
            + not_drawn((f"{one.language} of {one.model}", (one.y,)) for one in found)
        ),
        columns=("model", "language", "name", *columns_of(kind.x), *columns_of(y)),
        rows=tuple(
            (one.model, one.language, language_name(one.language), *cells(one.x), *cells(one.y)) for one in found
        ),
        draw=lambda: _draw(by_model, correlations, kind, y, places),
    )


def _draw(by_model: Any, correlations: Any, kind: _Kind, y: str, places: Mapping[str, int]) -> Any:
    names = short_names([*by_model])
    panels = [
        scatter.Panel(
            f"{wrapped(names[model], 40, 1)}\n{_in_two(said(correlations[model]))}",
            [scatter.Dot(one.language, one.x, one.y, places[model]) for one in of_model],
        )
        for model, of_model in by_model.items()
    ]
    rate = (
        scatter.Axis(f"share of words (%), {_NAMES[y]}", 100)
        if y in _NAMES
        else scatter.Axis("flagged words of an answer")
    )
    return scatter.draw(panels, scatter.Axis(kind.label, log=kind.log), rate)


def _in_two(text: str) -> str:
    """On two lines, as a panel is narrow."""
    return text.replace(", ρ", "\nρ").replace("undefined, ", "undefined,\n")
