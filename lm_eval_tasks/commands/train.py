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
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.commands import add_mirror, add_output, say, split_names

if TYPE_CHECKING:
    from detector_plugin.labelled import LabelledAnswer
    from detector_plugin.transformers.training import Ingredient
    from detector_plugin.transformers.training.data import Parts, Recipe

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

UNREADABLE = "answers left out, whose reference is unreadable"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.allow_abbrev = False  # --seed is the trainer's
    parser.set_defaults(unknown=[])
    add_mirror(parser)
    add_output(parser, help="of the new detector")
    parser.add_argument("--recipe", default="encoder", help="paper-multi or encoder (default: encoder)")
    parser.add_argument("--base", metavar="MODEL", help="of the hub, or a folder (default: the recipe's)")
    data = "mfava-silver, mfava-gold, mushroom, and files of JSON lines (default: the recipe's)"
    parser.add_argument("--data", metavar="NAME,FILE.jsonl,...", help=data)
    parser.add_argument("--languages", metavar="CODE,...", help="learn from these alone (default: all)")
    without = "languages, models and their families that are left out whole, with translations, to be measured on"
    parser.add_argument("--without", metavar="NAME,...", default="", help=without)
    synthetic = "add N documents: answers held against another page, and answers without their hallucinated spans"
    parser.add_argument("--synthetic", metavar="N", type=int, default=0, help=synthetic)
    parser.add_argument("--calibrate", action="store_true", help="write calibration.json, of what was held or left out")
    parser.add_argument("--show", action="store_true", help="print the recipe with these options, and train nothing")


def run(arguments: argparse.Namespace) -> int:
    from detector_plugin.transformers.training import train_detector
    from detector_plugin.transformers.training.data import read
    from detector_plugin.transformers.training.measuring import table

    named = [f"--{name}={value}" for name in ("base", "data") if (value := getattr(arguments, name))]
    recipe = read(arguments.recipe, [*named, *arguments.unknown])
    if arguments.show:
        import yaml

        say(yaml.safe_dump(blank(asdict(recipe)), sort_keys=False).rstrip())
        return 0
    if arguments.output is None:
        raise UsageError("train: name the folder of the new detector with -o DIR")
    if arguments.synthetic < 0:
        raise UsageError(f"--synthetic {arguments.synthetic}: a number of documents, from 0 on")
    without = split_names(arguments.without)
    parts, ingredients = _parts(recipe, without, split_names(arguments.languages), arguments.mirror)
    trained = train_detector(
        parts,
        recipe,
        arguments.output,
        made_up=arguments.synthetic,
        without=without,
        ingredients=ingredients,
        calibrate=arguments.calibrate,
    )
    if trained:  # not in the other processes of a launch
        say(*([table(trained.rows)] if trained.rows else []), f"threshold {trained.threshold:g}")
        say(*sorted(filter(Path.is_file, trained.folder.iterdir())))
    return 0


def _parts(
    recipe: Recipe, without: Sequence[str], languages: Sequence[str], mirror: str | None
) -> tuple[Parts, list[Ingredient]]:
    from detector_plugin.transformers.training.data import split

    left_out: Counter[str] = Counter()
    # The answers left out are measured, so their languages are needed too.
    needed = [*languages, *without] if languages else None
    documents, ingredients = read_data(split_names(recipe.data), mirror, left_out, needed)
    available = {document.language for document in documents}
    if unknown := [code for code in languages if code not in available]:
        raise UsageError(
            f"--languages {', '.join(unknown)}: the data has none in it; there are {', '.join(sorted(available))}"
        )
    parts = split(documents, recipe.held_out, without)
    parts.counts.update(left_out)
    log.info(
        "%d answers (%d texts) to learn from, %d (%d) to choose by, %d (%d) to measure, %d (%d) left out; languages: %s",
        *(len(parts.learn), parts.texts["learn"], len(parts.choose), parts.texts["choose"]),
        *(len(parts.measure), parts.texts["measure"], len(parts.left_out), parts.texts["left_out"]),
        ", ".join(sorted({document.language for document in parts.learn})),
    )
    for reason, number in parts.counts.items():
        log.info("%s: %d", reason, number)
    return parts, ingredients


def read_data(
    names: Sequence[str], mirror: str | None, left_out: Counter[str], languages: Sequence[str] | None = None
) -> tuple[list[LabelledAnswer], list[Ingredient]]:
    """Read the labelled answers of collections of a mirror and of files, with a record of each. Unreadable answers are
    counted in `left_out`. Only files of the given languages are needed. Raises UsageError if a name is neither, or if
    the answers are of a benchmark that is not to be trained on; MissingSource or CorruptSource if a file is missing or
    damaged."""
    from detector_plugin.transformers.training import Ingredient
    from lm_eval_tasks.detection import labelled_answers as labelled
    from lm_eval_tasks.memerag.dataset import refuse_name

    known = labelled.collections()
    documents: list[LabelledAnswer] = []
    ingredients = []
    for name in dict.fromkeys(names):
        refuse_name(name)
        if name in known:
            answers = labelled.labelled_answers(mirror, [name], languages)
            usable = labelled.readable(answers)
            if len(usable) < len(answers):
                left_out[UNREADABLE] += len(answers) - len(usable)
            ingredients.append(Ingredient(name, known[name].source, known[name].licence, len(answers)))
        elif "." in name or "/" in name:
            usable = labelled.read_labelled_lines(Path(name).expanduser(), left_out)
            labelled.refuse_test_sets(usable, f"--data {name}", mirror)
            usable = [document for document in usable if languages is None or document.language in languages]
            ingredients.append(Ingredient(Path(name).name, "", "unknown", len(usable)))
        else:
            raise UsageError(f"--data {name}: neither a file nor one of {', '.join(known)}")
        documents += usable
    if not documents:
        raise UsageError(f"--data {','.join(names) or 'without a name'}: no labelled answer")
    return documents, ingredients
