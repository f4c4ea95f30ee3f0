"""How well ``nomiracl_lite`` stands for NoMIRACL, on the released answers of eleven models in nine languages.

No model and no answer decided which questions are in it: the languages are all that were released, the questions are the
first by a hash. So every model is one that was held out. What choosing fewer languages would have given stands below:
there, those of each model are chosen with the other ten.
"""

from __future__ import annotations

import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from custom_metrics.relevance import ANSWER, NO_ANSWER, robust_label
from lm_eval_tasks.nomiracl.benchmark import LITE_DOCUMENTS, LITE_LANGUAGES
from lm_eval_tasks.nomiracl.dataset import SUBSETS, first_by_hash

RIGHT = dict(zip(SUBSETS, (ANSWER, NO_ANSWER), strict=True))
RATES = dict(zip(SUBSETS, ("error rate", "hallucination rate"), strict=True))
DRAWS = 1000


def read(folder: Path) -> tuple[list[str], dict[tuple[str, str], Any]]:
    """The models; and by language and subset whether each answered each question wrongly (questions in the order of the
    hash; NaN for an Invalid answer or none)."""
    files = [gzip.decompress((folder / f"{language}.jsonl.gz").read_bytes()) for language in LITE_LANGUAGES]
    rows = [json.loads(line) for content in files for line in content.splitlines()]
    models = sorted({row["model"] for row in rows})
    ids: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        ids.setdefault((row["language"], row["subset"]), {})[row["query_id"]] = {"query_id": row["query_id"]}
    number = {}
    for key, of_subset in ids.items():
        first = first_by_hash([*of_subset.values()], LITE_DOCUMENTS)
        chosen = {row["query_id"] for row in first}
        number[key] = {id: at for at, id in enumerate([*chosen, *(id for id in of_subset if id not in chosen)])}
    wrong = {key: np.full((len(models), len(places)), np.nan) for key, places in number.items()}
    for row in rows:
        key = row["language"], row["subset"]
        label = robust_label(row["response"], row["language"])
        if label in RIGHT.values():
            wrong[key][models.index(row["model"]), number[key][row["query_id"]]] = label != RIGHT[row["subset"]]
    return models, wrong


def rates(wrong: dict[tuple[str, str], Any], subset: str, chosen: Any = None) -> Any:
    """The rate of each language and model; `chosen` says which columns of how many count."""
    columns = [wrong[language, subset] for language in LITE_LANGUAGES]
    return np.array(
        [np.nanmean(each if chosen is None else each[:, chosen(each.shape[1])], axis=1) for each in columns]
    )


def lite(folder: Path) -> None:
    """Print the rates of the models by all questions and by those of ``nomiracl_lite``, and how they correlate."""
    models, wrong = read(folder)
    rng = np.random.default_rng(0)
    full = {subset: rates(wrong, subset) for subset in SUBSETS}
    short = {subset: rates(wrong, subset, lambda size: range(LITE_DOCUMENTS)) for subset in SUBSETS}
    print(f"{'model':28}" + "".join(f"{RATES[s]:>20} {'lite':>6}" for s in reversed(SUBSETS)))
    for at, model in enumerate(models):
        print(
            f"{model:28}"
            + "".join(f"{full[s].mean(0)[at]:20.3f} {short[s].mean(0)[at]:6.3f}" for s in reversed(SUBSETS))
        )
    print(f"\n{'':58}{'Spearman':>9} {'Kendall':>8} {'mean |difference|':>18}")
    for subset in reversed(SUBSETS):
        whole = full[subset].mean(0)
        show(f"{RATES[subset]}, {LITE_DOCUMENTS} a language", agreement(short[subset].mean(0), whole))
        draws = [rates(wrong, subset, lambda size: rng.choice(size, LITE_DOCUMENTS, False)) for _ in range(DRAWS)]
        others = np.array([agreement(draw.mean(0), whole) for draw in draws])
        show(f"  {DRAWS:,} other draws of as many: mean", others.mean(0))
        worse = [np.quantile(column, share) for column, share in zip(others.T, (0.05, 0.05, 0.95), strict=True)]
        show("    95 in 100 are better than", worse)
        for size in (3, 4, 6):
            show(
                f"  {size} languages chosen with ten models, all questions",
                agreement(held_out(full[subset], size), whole),
            )


def held_out(by_language: Any, size: int) -> Any:
    """Each model's mean over the languages (`size` of them) whose mean is nearest to that over all for the other models."""
    sets = [list(each) for each in combinations(range(len(by_language)), size)]
    means, whole = np.array([by_language[each].mean(0) for each in sets]), by_language.mean(0)
    apart = abs(means - whole)
    best = [np.delete(apart, model, 1).mean(1).argmin() for model in range(len(whole))]
    return means[best, range(len(whole))]


def agreement(values: Any, whole: Any) -> tuple[float, float, float]:
    return spearmanr(values, whole)[0], kendalltau(values, whole)[0], float(abs(values - whole).mean())


def show(what: str, measured: Any) -> None:
    rho, tau, apart = measured
    print(f"{what:58}{rho:9.3f} {tau:8.3f} {apart:18.3f}", flush=True)
