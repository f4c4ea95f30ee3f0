"""mFAVA: the rates of each language, and what they go along with.

Islam et al. (2025) show the rates in Figures 3 and 4. In section 4.2 and Figures 5c and 7 they compare them with a
language's resources and the length of answers. Longer answers hold more hallucinated words; the rate correlates with
neither.

They measure resources by a language's share of Common Crawl and by the number of articles of its Wikipedia, and print
neither. ``common_crawl.tsv`` has the share in a later crawl: pages whose main language is this one, in CC-MAIN-2026-04,
from Common Crawl's own statistics (https://github.com/commoncrawl/cc-crawl-statistics, ``plots/languages.csv`` at commit
d838726). Languages there are those that CLD2 distinguishes. Cantonese is not one of them and has no row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from custom_metrics import paired_rates
from custom_metrics.statistics.agreement import FEWEST, correlate
from custom_metrics.statistics.figures import Figure
from lm_eval_tasks.results.report.families import language_name
from lm_eval_tasks.results.report.plots import ranges, scatter
from lm_eval_tasks.results.report.plots.drawing import language_label, short_names, wrapped
from lm_eval_tasks.results.report.plots.entries import (
    MEAN,
    UNDEFINED,
    Colours,
    Entry,
    Named,
    by_language,
    cells,
    columns_of,
    not_drawn,
)
from lm_eval_tasks.results.report.plots.plot import Plot
from lm_eval_tasks.results.report.plots.scatter import Axis

__all__ = ["RATES", "correlations", "rates", "web_share"]

_NAMES = {
    "detected_rate": "detected",
    "estimated_rate": "estimated (Equation 1)",
    "rogan_gladen_rate": "Rogan-Gladen",
}
RATES = (*_NAMES,)
_NO_RATES = (UNDEFINED,) * len(RATES)


def rates(families: Sequence[Named]) -> Plot:
    """The three rates of each model and language side by side."""
    entries = by_language(families, RATES)
    kinds = {
        (model, language): str((task.provenance.get("calibration") or {}).get("annotations") or "")
        for model, family in families
        for language, task in family.tasks.items()
    }
    known = sorted({*kinds.values()} - {""})
    rests = f" Corrections rest on {', '.join(known)} annotations." if known else ""
    family_name = families[0][1].name
    return Plot(
        name=f"{family_name}_rates",
        title=f"Share of words that are made up, by language ({family_name})",
        caption=(
            "Detected: what the detector flags. Estimated: corrected by precision and recall, Equation 1 of Islam et al. "
            "(2025). Rogan-Gladen: corrected by true and false positive rates, which does not assume that answers are as "
            f"often wrong as the calibration texts. Lines are 95 % bounds.{rests} "
            "A line without a mark: the bounds span more than half of the scale, so the rate is not measurable. Without a "
            "line the rate is undefined."
        ),
        columns=("model", "language", "name", "calibration", *columns_of(*RATES)),
        rows=tuple(
            (model, language, language_name(language), kinds.get((model, language), ""), *cells(*figures.values()))
            for model, language, figures in entries
        ),
        draw=lambda: _draw_rates(entries),
    )


def _draw_rates(entries: Sequence[Entry]) -> Any:
    """A panel for each model, a line for each language."""
    languages = sorted({entry.part for entry in entries}, key=lambda part: (part == MEAN, part))
    figures = {(model, language): [*figures.values()] for model, language, figures in entries}
    panels = []
    for model, name in short_names(entry.model for entry in entries).items():
        lines = [
            ranges.Line(language_label(part), figures.get((model, part), _NO_RATES), is_mean=part == MEAN)
            for part in languages
        ]
        panels.append(ranges.Panel(wrapped(name, 30), lines, Axis("share of words (%)", 100, ranges.PERCENT)))
    return ranges.draw(panels, [*_NAMES.values()])


def correlations(families: Sequence[Named], colours: Colours) -> list[Plot]:
    """Rates against resources and length, and words against length; none where no model has two languages."""
    if max(len(family.tasks) for _, family in families) < 2:
        return []
    rate = _shown_rate(families)
    return [
        _correlation(
            families,
            colours,
            name="resources",
            title="Share of made-up words against a language's resources",
            caption=(
                "A language's resources are its share of the pages of Common Crawl's CC-MAIN-2026-04; Cantonese has no "
                "figure there."
            ),
            x=_WEB_SHARE,
            y=rate,
        ),
        _correlation(
            families,
            colours,
            name="length",
            title="Share of made-up words against the length of answers",
            caption="What a word is differs between languages, and so does how many an answer needs.",
            x="response_words",
            y=rate,
        ),
        _correlation(
            families,
            colours,
            name="words",
            title="Made-up words against the length of answers",
            caption="The number of words that the detector flags in an answer; a longer answer has room for more.",
            x="response_words",
            y="hallucinated_words",
        ),
    ]


_WEB_SHARE = "web_share"
_AXES = {
    _WEB_SHARE: Axis("share of the web's pages (%), log scale", limits=(0.0008, 12.5), is_log=True),
    "response_words": Axis("words of an answer"),
    "hallucinated_words": Axis("flagged words of an answer"),
    **{rate: Axis(f"share of words (%), {name}", 100) for rate, name in _NAMES.items()},
}


def _correlation(
    families: Sequence[Named], colours: Colours, name: str, title: str, caption: str, x: str, y: str
) -> Plot:
    """A plot of two metrics, of which x may be the share of the web, with their correlation over each model's languages."""
    entries = [entry for entry in by_language(families, (x, y)) if entry.part != MEAN]
    if x == _WEB_SHARE:
        entries = [entry._replace(figures={**entry.figures, x: Figure(web_share(entry.part))}) for entry in entries]
    in_words = {model: _in_words([entry for entry in entries if entry.model == model], x, y) for model, _ in families}
    notes = {
        model: words.replace(", ρ", "\nρ").replace("undefined, ", "undefined,\n") for model, words in in_words.items()
    }
    spelt = "; ".join(f"{model}: {words}" for model, words in in_words.items())
    logarithm = " of the logarithm" if _AXES[x].is_log else ""
    family_name = families[0][1].name
    return Plot(
        name=f"{family_name}_{name}",
        title=f"{title} ({family_name})",
        caption=(
            f"A point is a language. {caption} Pearson's r{logarithm} and Spearman's ρ over languages, with two-sided p. "
            f"{spelt}." + not_drawn(entry._replace(figures={y: entry.figures[y]}) for entry in entries)
        ),
        columns=("model", "language", "name", *columns_of(x, y)),
        rows=tuple(
            (model, language, language_name(language), *cells(*figures.values()))
            for model, language, figures in entries
        ),
        draw=lambda: scatter.draw(scatter.panels_by_model(entries, _AXES[x], _AXES[y], colours, notes)),
    )


def _shown_rate(families: Sequence[Named]) -> str:
    """The rate that is shown, one for all models."""
    for rate in reversed(paired_rates.RATES):
        if any(not math.isnan(family.mean(rate, family.any.headline_filter).value) for _, family in families):
            return rate
    return paired_rates.RATES[0]


def _in_words(entries: Sequence[Entry], x: str, y: str) -> str:
    """The correlation of two figures over a model's languages; of the logarithm of x where that is shown."""
    first, second = ([entry.figures[metric].value for entry in entries] for metric in (x, y))
    if _AXES[x].is_log:
        first = [math.log(value) if value > 0 else math.nan for value in first]
    found = correlate(first, second)
    if math.isnan(found.pearson):
        why = f"fewer than {FEWEST} languages" if found.n < FEWEST else "one of the two is the same everywhere"
        return f"correlation undefined, {why} (n = {found.n})"
    r, rho = (f"{value:.2f}".replace("-", "−") for value in (found.pearson, found.spearman))
    return f"r = {r} ({_p(found.pearson_p)}), ρ = {rho} ({_p(found.spearman_p)}), n = {found.n}"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def web_share(language: str) -> float:
    """The share of the web's pages that are in a language, in percent; ``nan`` where it is not known.

    Args:
        language: code of mFAVA.
    """
    return _web_shares().get(language, math.nan)


@lru_cache(maxsize=1)
def _web_shares() -> dict[str, float]:
    table = resources.files(__package__).joinpath("common_crawl.tsv").read_text("utf-8")
    return {row["code"]: float(row["percent"]) for row in csv.DictReader(table.splitlines(), delimiter="\t")}
