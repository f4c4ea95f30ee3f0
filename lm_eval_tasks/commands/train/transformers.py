"""``lm-eval-grounded train --detector transformers``: data in, a detector's folder out."""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import yaml

from custom_metrics.scores.detection import WordCounts
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.training import Trained, train_detector
from detector_plugin.transformers.training.card import Ingredient
from detector_plugin.transformers.training.measuring import table
from detector_plugin.transformers.training.recipe import Recipe
from detector_plugin.transformers.training.saving import RECORD, FinishedAlready
from detector_plugin.transformers.training.splitting import split
from lm_eval_tasks.commands import names_in
from lm_eval_tasks.detection.labelled_answers import collections, labelled_answers, read_labelled_lines, readable

__all__ = ["over_seeds", "read_data", "shown", "summary", "train"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

UNREADABLE = "answers left out, whose reference is unreadable"


def shown(recipe: Recipe) -> str:
    """A recipe as YAML."""
    values = {key: list(value) if isinstance(value, tuple) else value for key, value in recipe.values.items()}
    head = {"recipe": recipe.name, "says": recipe.says, "source": recipe.source}
    return yaml.safe_dump({**head, "values": values, "trainer": dict(recipe.trainer or {})}, sort_keys=False).rstrip()


def train(
    recipe: Recipe,
    output: Path,
    *,
    mirror: str | None = None,
    languages: Sequence[str] | None = None,
    without: Sequence[str] = (),
    keep_translations: bool = False,
    synthetic: int = 0,
    calibrate: bool = False,
) -> Iterator[Trained]:
    """Train a detector with each seed of a recipe.

    Args:
        recipe: with the user's values.
        output: the folder; where the recipe has several seeds, each has a folder ``seed-N`` below it.
        mirror: folder of the public files; default the environment variable ``LM_EVAL_GROUNDED_MIRROR``.
        languages: ISO 639 codes to learn from; default all.
        without: languages, models and families of models that are left out whole, to be measured on.
        keep_translations: learn from translations of what is left out.
        synthetic: documents to make of others.
        calibrate: write ``calibration.json``.

    Yields:
        What was made, by the main process alone.

    Raises:
        UsageError: what was asked for cannot be done.
        MissingSource, CorruptSource: a file is not to be had, or damaged.
    """
    if len(recipe.seeds) > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        seeds = ", ".join(map(str, recipe.seeds))
        raise UsageError(f"several processes train one detector at a time; name one of the seeds {seeds} with --seeds")
    if keep_translations and not without:
        raise UsageError("--keep-translations says what becomes of --without; name a language, a model or a family")
    if synthetic < 0:
        raise UsageError(f"--synthetic {synthetic}: a number of documents, from 0 on")
    seen: Counter[str] = Counter()
    # What is left out is measured, in whatever language it is.
    wanted = None if languages is None else [*languages, *without]
    documents, ingredients = read_data(names_in(recipe.data), mirror, seen, wanted)
    if languages is not None:
        there = {document.language for document in documents}
        unknown = [code for code in languages if code not in there]
        if unknown:
            raise UsageError(
                f"--languages {', '.join(unknown)}: the data has none in it; there are {', '.join(sorted(there))}"
            )
    parts = split(documents, recipe.held_out, recipe.split_seed, without, keep_translations)
    spoken = sorted({document.language for document in parts.learn})
    if recipe.one_language and len(spoken) > 1:
        raise UsageError(
            f"recipe {recipe.name} is for one language, and the data is in {', '.join(spoken)}; name one with --languages"
        )
    parts.counts.update(seen)
    log.info(
        "%d answers (%d texts) to learn from, %d (%d) to choose by, %d (%d) to measure, %d (%d) left out; languages: %s",
        *(len(parts.learn), parts.texts["learn"], len(parts.choose), parts.texts["choose"]),
        *(len(parts.measure), parts.texts["measure"], len(parts.left_out), parts.texts["left_out"], ", ".join(spoken)),
    )
    if parts.translated:
        log.warning(
            "--keep-translations: %d of the %d answers that are left out are about texts that are learned from in another "
            "language; their figures will be too good",
            *(parts.translated, len(parts.left_out)),
        )
    for what, number in parts.counts.items():
        log.info("%s: %d", what, number)
    for seed in recipe.seeds:
        folder = output / f"seed-{seed}" if len(recipe.seeds) > 1 else output
        try:
            trained = train_detector(
                parts,
                recipe,
                folder,
                seed=seed,
                made_up=synthetic,
                without=without,
                ingredients=ingredients,
                calibrate=calibrate,
            )
        except FinishedAlready as error:
            if len(recipe.seeds) == 1:
                raise
            log.info("%s", error)
            continue
        if trained is None:
            return
        yield trained


def read_data(
    names: Sequence[str], mirror: str | None, seen: Counter[str], languages: Sequence[str] | None = None
) -> tuple[list[LabelledAnswer], list[Ingredient]]:
    """The labelled answers of collections and files, and what each brought.

    Args:
        names: of collections, or paths of JSON lines.
        mirror: folder of the public files.
        seen: what was left out is counted here.
        languages: ISO 639 codes; default all. Of a collection, no file of another language is needed.

    Raises:
        UsageError: a name is neither.
        MissingSource, CorruptSource: a file is not to be had, or damaged.
    """
    known = collections()
    documents: list[LabelledAnswer] = []
    ingredients = []
    for name in dict.fromkeys(names):
        if name in known:
            answers = labelled_answers(mirror, [name], languages)
            kept = readable(answers)
            if len(kept) < len(answers):
                seen[UNREADABLE] += len(answers) - len(kept)
            ingredients.append(Ingredient(name, known[name].source, known[name].licence, len(answers)))
        elif "." in name or "/" in name:
            kept = read_labelled_lines(Path(name).expanduser(), seen)
            kept = [document for document in kept if languages is None or document.language in languages]
            ingredients.append(Ingredient(Path(name).name, "", "unknown", len(kept)))
        else:
            raise UsageError(f"--data {name}: neither a file nor one of {', '.join(known)}")
        documents += kept
    if not documents:
        raise UsageError(f"--data {','.join(names) or 'without a name'}: no labelled answer")
    return documents, ingredients


def summary(trained: Trained) -> str:
    """The figures, threshold and files of a trained detector."""
    lines = [table(trained.rows)] if trained.rows else []
    return "\n".join([*lines, f"threshold {trained.threshold:g}", *map(str, trained.files)])


def over_seeds(output: Path, seeds: Sequence[int]) -> str:
    """The F1 of each held-out row over several seeds, as mean, least and most: the paper reports means of three."""
    f1: dict[str, list[float]] = {}
    for seed in seeds:
        record = json.loads((output / f"seed-{seed}" / RECORD).read_text("utf-8"))
        for row in record["held_out"]:
            counts = WordCounts(*(row[name] for name in WordCounts._fields))
            f1.setdefault(f"{row['part']} {row['language']} {row['annotations']}", []).append(counts.f1)
    return "\n".join(
        f"F1 over {len(values)} seeds, {row}: {100 * fmean(values):.1f} "
        f"({100 * min(values):.1f} to {100 * max(values):.1f})"
        for row, values in f1.items()
        if not any(map(math.isnan, values))
    )
