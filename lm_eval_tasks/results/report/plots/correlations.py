"""mFAVA: correlations of the languages' rates with resources and the length of answers.

Islam et al. (2025) compare them in section 4.2 and Figures 5c and 7 with a language's resources and the length of answers.
Longer answers hold more hallucinated words; the rate correlates with neither.

They measure resources by a language's share of Common Crawl and by the number of articles of its Wikipedia, and print
neither. ``common_crawl.tsv`` has the share in a later crawl: pages whose main language is this one, in CC-MAIN-2026-04,
from Common Crawl's own statistics (https://github.com/commoncrawl/cc-crawl-statistics, ``plots/languages.csv`` at commit
d838726). Languages there are those that CLD2 distinguishes. Cantonese is not one of them and has no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from custom_metrics.statistics.agreement import FEWEST, correlate
from custom_metrics.statistics.figures import Figure
from custom_metrics.usage.shipped_tables import shipped_rows
from lm_eval_tasks.results.report.families import MEAN, language_name
from lm_eval_tasks.results.report.plots import scatter
from lm_eval_tasks.results.report.plots.drawing import Axis, axis_of
from lm_eval_tasks.results.report.plots.languages import WORD_RATES
from lm_eval_tasks.results.report.plots.plot import Entry, Model, Plot, by_language, columns_of, not_drawn, rows_of

_WEB_SHARE = Axis("share of the web's pages (%), log scale", 1, (0.0008, 12.5), is_log=True, metric="web_share")
_LENGTH, _FLAGGED = map(axis_of, ("response_words", "hallucinated_words"))


def correlations(models: Sequence[Model]) -> Iterator[Plot]:
    """Plots of rates against resources and length, and of words against length; none if no model has two languages."""
    if max(len(model.family.tasks) for model in models) < 2:
        return
    defined = (
        name for name in reversed(WORD_RATES) for model in models if not math.isnan(model.family.mean(name).value)
    )
    rate = axis_of(next(defined, WORD_RATES[0]))  # one for all models
    made_up = "Share of made-up words against"
    crawl = "CC-MAIN-2026-04; Cantonese has no figure there"
    resources_are = f"A language's resources are its share of the pages of Common Crawl's {crawl}."
    words_are = "What a word is differs between languages, and so does how many an answer needs."
    more_room = "The number of words that the detector flags in an answer; a longer answer has room for more."
    yield _correlation(models, "resources", f"{made_up} a language's resources", resources_are, _WEB_SHARE, rate)
    yield _correlation(models, "length", f"{made_up} the length of answers", words_are, _LENGTH, rate)
    yield _correlation(models, "words", "Made-up words against the length of answers", more_room, _LENGTH, _FLAGGED)


def _correlation(models: Sequence[Model], name: str, title: str, caption: str, x: Axis, y: Axis) -> Plot:
    """A plot of two metrics (x may be the share of the web), with their correlation over each model's languages."""
    entries = [entry for entry in by_language(models, (x.metric, y.metric)) if entry.group != MEAN]
    if x is _WEB_SHARE:
        shares = web_shares()
        for index, (*_, language, figures) in enumerate(entries):
            share = Figure(shares.get(language, math.nan))
            entries[index] = entries[index]._replace(figures={**figures, x.metric: share})
    texts = {model.name: _in_words([entry for entry in entries if entry.model == model.name], x, y) for model in models}
    notes = {
        model: words.replace(", ρ", "\nρ").replace("undefined, ", "undefined,\n") for model, words in texts.items()
    }
    summary = "; ".join(f"{model}: {words}" for model, words in texts.items())
    logarithm = " of the logarithm" if x.is_log else ""
    family_name = models[0].family.name
    return Plot(
        name=f"{family_name}_{name}",
        title=f"{title} ({family_name})",
        caption=(
            f"A point is a language. {caption} Pearson's r{logarithm} and Spearman's ρ over languages, with two-sided p. "
            f"{summary}." + not_drawn(entry._replace(figures={y.metric: entry.figures[y.metric]}) for entry in entries)
        ),
        columns=("model", "language", "name", *columns_of(x.metric, y.metric)),
        rows=rows_of(entries, lambda entry: (language_name(entry.group),)),
        draw=lambda: scatter.draw(scatter.by_model(entries, x, y, notes)),
    )


def _in_words(entries: Sequence[Entry], x: Axis, y: Axis) -> str:
    """The correlation of two figures over a model's languages, as text; of the logarithm of x on a logarithmic axis."""
    first, second = ([entry.figures[axis.metric].value for entry in entries] for axis in (x, y))
    if x.is_log:
        first = [math.log(value) if value > 0 else math.nan for value in first]
    result = correlate(first, second)
    if math.isnan(result.pearson):
        why = f"fewer than {FEWEST} languages" if result.n < FEWEST else "one of the two is the same everywhere"
        return f"correlation undefined, {why} (n = {result.n})"
    parts = []
    for symbol, value, p in (("r", result.pearson, result.pearson_p), ("ρ", result.spearman, result.spearman_p)):
        evidence = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
        parts.append(f"{symbol} = {value:.2f} ({evidence})".replace("-", "−"))
    return f"{', '.join(parts)}, n = {result.n}"


@lru_cache(maxsize=1)
def web_shares() -> dict[str, float]:
    """Language of mFAVA to its share of the web's pages, in percent, where that is known."""
    return {row["code"]: float(row["percent"]) for row in shipped_rows(__package__, "common_crawl.tsv")}
