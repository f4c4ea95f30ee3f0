"""How well ``nomiracl_lite`` stands for NoMIRACL, on the released answers of eleven models in nine languages.

No model and no answer decided which questions are in it: the languages are those whose released answers are here, the
questions are the first by a hash. So every model is one that was held out. What choosing fewer languages would have given
stands below: there, those of each model are chosen with the other ten. Of seventeen languages the counts by the released
parser are public: the last lines compare with these, by that parser.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau, spearmanr

from custom_metrics.relevance import ANSWER, NO_ANSWER, nomiracl_label, robust_label
from lm_eval_tasks.nomiracl.benchmark import LITE_DOCUMENTS, LITE_LANGUAGES
from lm_eval_tasks.published import all_rows

RATES = {"non_relevant": ("hallucination rate", NO_ANSWER), "relevant": ("error rate", ANSWER)}
DRAWS = 1000


def read(file: Path, subset: str, strict: bool = False) -> dict[str, Any]:
    """Model to whether each of its answers is wrong, questions in the order of the hash; NaN for Invalid and missing."""
    lines = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    rows = [row for row in lines if row["subset"] == subset]
    ids = sorted({row["query_id"] for row in rows}, key=lambda id: hashlib.sha256(id.encode()).digest())
    wrong = {model: np.full(len(ids), np.nan) for model in sorted({row["model"] for row in rows})}
    for row in rows:
        label = nomiracl_label(row["response"]) if strict else robust_label(row["response"], row["language"])
        if label in (ANSWER, NO_ANSWER):
            wrong[row["model"]][ids.index(row["query_id"])] = label != RATES[subset][1]
    return wrong


def lite(folder: Path) -> None:
    """Print the rates of the models by all questions and by those of ``nomiracl_lite``, and how they agree."""
    rng = np.random.default_rng(0)
    for subset, (name, _) in RATES.items():
        languages = [read(folder / f"{language}.jsonl.gz", subset) for language in LITE_LANGUAGES]
        answers = [np.array([*by_model.values()]) for by_model in languages]
        every = np.array([np.nanmean(wrong, axis=1) for wrong in answers])  # language, model
        first = np.mean([np.nanmean(wrong[:, :LITE_DOCUMENTS], axis=1) for wrong in answers], 0)
        whole = every.mean(0)
        print(f"\n{name:40}{'all':>8}{'lite':>8}")
        for model, *values in zip(languages[0], whole, first, strict=True):
            print(f"{model:40}" + "".join(f"{value:8.3f}" for value in values))
        print(f"{'':58}{'Spearman':>9}{'Kendall':>9}{'mean |difference|':>18}")
        show(f"{LITE_DOCUMENTS} questions of each language", agreement(first, whole))
        draws = []
        for _ in range(DRAWS):
            drawn = [wrong[:, rng.choice(wrong.shape[1], LITE_DOCUMENTS, False)] for wrong in answers]
            draws.append(agreement(np.mean([np.nanmean(wrong, axis=1) for wrong in drawn], 0), whole))
        show(f"{DRAWS:,} other draws of as many: mean", np.mean(draws, 0))
        show("  95 in 100 are better than", np.diag(np.quantile(draws, (0.05, 0.05, 0.95), 0)))
        for size in (3, 4, 6):
            show(f"all of {size} languages, chosen with ten models", agreement(held_out(every, size), whole))
        strict = [[*read(folder / f"{code}.jsonl.gz", subset, strict=True).values()] for code in LITE_LANGUAGES]
        first = np.mean([np.nanmean(np.array(wrong)[:, :LITE_DOCUMENTS], axis=1) for wrong in strict], 0)
        released: dict[str, dict[str, float]] = {}
        for row in all_rows():
            if row.source.name == "nomiracl_released" and row.metric == name.replace(" ", "_"):
                released.setdefault(row.task.removeprefix("nomiracl_"), {})[row.model] = row.value
        others = [code for code in released if code not in LITE_LANGUAGES]
        for what, codes in (
            (f"against all {len(released)} released", released),
            (f"against the other {len(others)}", others),
        ):
            of_models = [np.mean([released[code][model] for code in codes]) for model in languages[0]]
            show(f"{LITE_DOCUMENTS} questions, strict, {what}", agreement(first, np.array(of_models)))


def held_out(by_language: Any, size: int) -> Any:
    """Each model's mean over the languages (`size` of them) whose mean is nearest to that over all for the other models."""
    sets = [list(each) for each in combinations(range(len(by_language)), size)]
    means, whole = np.array([by_language[each].mean(0) for each in sets]), by_language.mean(0)
    best = [np.delete(abs(means - whole), model, 1).mean(1).argmin() for model in range(len(whole))]
    return means[best, range(len(whole))]


def agreement(values: Any, whole: Any) -> tuple[float, float, float]:
    return spearmanr(values, whole)[0], kendalltau(values, whole)[0], float(abs(values - whole).mean())


def show(what: str, measured: Any) -> None:
    print(f"{what:58}" + "{:9.2f}{:9.2f}{:18.3f}".format(*measured), flush=True)
