"""Train a detector: a token classifier over any base model of transformers.

It is trained by a recipe and written to a folder that `--detector DIR` reads. Options that are not listed here are values
of the recipe (`--recipe NAME --show` lists them) or of transformers' TrainingArguments: `--learning_rate 2e-5 --report_to
wandb`.

Examples:
  lm-eval-grounded train --data mfava-silver,mushroom --without de -o detector
  lm-eval-grounded train --recipe paper-multi --show
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands import add_mirror, add_output, say, split_names

if TYPE_CHECKING:
    from detector_plugin.labelled import LabelledAnswer
    from detector_plugin.transformers.training.recipe import Recipe
    from detector_plugin.transformers.training.saving import Ingredient, Trained

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

UNREADABLE = "answers left out, whose reference is unreadable"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.allow_abbrev = False  # --seed is not --seeds
    parser.set_defaults(unknown=[])
    # The only kind there is: commands that name it still work.
    parser.add_argument("--detector", choices=("transformers",), default="transformers", help="default: transformers")
    add_mirror(parser)
    add_output(parser, help="of the new detector")
    parser.add_argument("--recipe", default="encoder", help="paper-multi, paper-mono or encoder (default: encoder)")
    parser.add_argument("--base", metavar="MODEL", help="of the hub, or a folder (default: the recipe's)")
    parser.add_argument(
        "--data",
        metavar="NAME,FILE.jsonl,...",
        help="mfava-silver, mfava-gold, mushroom, and files of JSON lines (default: the recipe's)",
    )
    parser.add_argument("--languages", metavar="CODE,...", help="learn from these alone (default: all)")
    parser.add_argument(
        "--without",
        metavar="NAME,...",
        default="",
        help="languages, models and families of models that are left out whole, to be measured on, and translations of "
        "their texts",
    )
    parser.add_argument(
        "--keep-translations",
        "--keep_translations",
        action="store_true",
        help="learn from translations of what --without leaves out",
    )
    parser.add_argument(
        "--synthetic",
        metavar="N",
        type=int,
        default=0,
        help="add N documents: answers held against another page, and answers without their hallucinated spans",
    )
    parser.add_argument("--attention", choices=("bidirectional", "causal"), help="of a decoder")
    parser.add_argument("--labels", choices=("binary", "category"), help="classes of tokens")
    parser.add_argument("--seeds", metavar="N,...", help="one detector each, in DIR/seed-N where there are several")
    parser.add_argument("--calibrate", action="store_true", help="write calibration.json, of what was held or left out")
    parser.add_argument("--show", action="store_true", help="print the recipe with these options, and train nothing")


def run(arguments: argparse.Namespace) -> int:
    import yaml

    from detector_plugin.transformers.training.measuring import table
    from detector_plugin.transformers.training.recipe import overridden, read

    overrides = {name: getattr(arguments, name) for name in ("base", "data", "attention", "labels", "seeds")}
    recipe = overridden(read(arguments.recipe), arguments.unknown, overrides)
    if arguments.show:
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in recipe.values.items()}
        head = {"recipe": recipe.name, "says": recipe.says, "source": recipe.source, "values": values}
        say(yaml.safe_dump({**head, "trainer": dict(recipe.trainer or {})}, sort_keys=False).rstrip())
        return 0
    if arguments.output is None:
        raise ValueError("train: name the folder of the new detector with -o DIR")
    for trained in _train(recipe, arguments):
        if trained.rows:
            say(table(trained.rows))
        say(f"threshold {trained.threshold:g}", *sorted(filter(Path.is_file, trained.folder.iterdir())))
    if len(recipe.seeds) > 1:
        say(f1_over_seeds(arguments.output, recipe.seeds))
    return 0


def _train(recipe: Recipe, arguments: argparse.Namespace) -> Iterator[Trained]:
    """Train a detector with each seed of a recipe, and yield the results, in the main process only. If there are several
    seeds, each has a folder ``seed-N`` in that of ``--output``."""
    from detector_plugin.transformers.training import train_detector
    from detector_plugin.transformers.training.splitting import split

    if len(recipe.seeds) > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        seeds = ", ".join(map(str, recipe.seeds))
        raise UsageError(f"several processes train one detector at a time; name one of the seeds {seeds} with --seeds")
    without, languages = split_names(arguments.without), split_names(arguments.languages)
    if arguments.keep_translations and not without:
        raise UsageError("--keep-translations says what becomes of --without; name a language, a model or a family")
    if arguments.synthetic < 0:
        raise UsageError(f"--synthetic {arguments.synthetic}: a number of documents, from 0 on")
    left_out: Counter[str] = Counter()
    # The answers left out are measured, so their languages are needed too.
    needed = [*languages, *without] if languages else None
    documents, ingredients = read_data(split_names(recipe.data), arguments.mirror, left_out, needed)
    available = {document.language for document in documents}
    if unknown := [code for code in languages if code not in available]:
        raise UsageError(
            f"--languages {', '.join(unknown)}: the data has none in it; there are {', '.join(sorted(available))}"
        )
    sets = split(documents, recipe.held_out, recipe.split_seed, without, arguments.keep_translations)
    learned = sorted({document.language for document in sets.learn})
    if recipe.one_language and len(learned) > 1:
        raise UsageError(
            f"recipe {recipe.name} is for one language, and the data is in {', '.join(learned)}; name one with --languages"
        )
    sets.counts.update(left_out)
    log.info(
        "%d answers (%d texts) to learn from, %d (%d) to choose by, %d (%d) to measure, %d (%d) left out; languages: %s",
        *(len(sets.learn), sets.texts["learn"], len(sets.choose), sets.texts["choose"]),
        *(len(sets.measure), sets.texts["measure"], len(sets.left_out), sets.texts["left_out"], ", ".join(learned)),
    )
    if sets.translated:
        log.warning(
            "--keep-translations: %d of the %d answers that are left out are about texts that are learned from in another "
            "language; their figures will be too good",
            *(sets.translated, len(sets.left_out)),
        )
    for reason, number in sets.counts.items():
        log.info("%s: %d", reason, number)
    for seed in recipe.seeds:
        folder = arguments.output / f"seed-{seed}" if len(recipe.seeds) > 1 else arguments.output
        trained = train_detector(
            sets,
            recipe,
            folder,
            seed=seed,
            made_up=arguments.synthetic,
            without=without,
            ingredients=ingredients,
            calibrate=arguments.calibrate,
        )
        if trained is None:
            return
        yield trained


def read_data(
    names: Sequence[str], mirror: str | None, left_out: Counter[str], languages: Sequence[str] | None = None
) -> tuple[list[LabelledAnswer], list[Ingredient]]:
    """Read the labelled answers of collections of a mirror and of files, with a record of each. Unreadable answers are
    counted in `left_out`. Only files of the given languages are needed. Raises UsageError if a name is neither, or if the
    answers are of a benchmark that is not to be trained on; MissingSource or CorruptSource if a file is missing or damaged.
    """
    from detector_plugin.transformers.training.saving import Ingredient
    from lm_eval_tasks.detection.contamination import refuse_test_sets
    from lm_eval_tasks.detection.labelled_answers import collections, labelled_answers, read_labelled_lines, readable
    from lm_eval_tasks.memerag.dataset import refuse_name

    known = collections()
    documents: list[LabelledAnswer] = []
    ingredients = []
    for name in dict.fromkeys(names):
        refuse_name(name)
        if name in known:
            answers = labelled_answers(mirror, [name], languages)
            usable = readable(answers)
            if len(usable) < len(answers):
                left_out[UNREADABLE] += len(answers) - len(usable)
            ingredients.append(Ingredient(name, known[name].source, known[name].licence, len(answers)))
        elif "." in name or "/" in name:
            usable = read_labelled_lines(Path(name).expanduser(), left_out)
            refuse_test_sets(usable, name, mirror)
            usable = [document for document in usable if languages is None or document.language in languages]
            ingredients.append(Ingredient(Path(name).name, "", "unknown", len(usable)))
        else:
            raise UsageError(f"--data {name}: neither a file nor one of {', '.join(known)}")
        documents += usable
    if not documents:
        raise UsageError(f"--data {','.join(names) or 'without a name'}: no labelled answer")
    return documents, ingredients


def f1_over_seeds(output: Path, seeds: Sequence[int]) -> str:
    """The mean, minimum and maximum F1 over several seeds of each held-out row: the paper reports means of three."""
    from custom_metrics.scores.detection import WordCounts
    from detector_plugin.transformers.training.saving import RECORD

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
