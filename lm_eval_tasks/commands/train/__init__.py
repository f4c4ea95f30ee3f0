"""Train a detector: lexical, or any base model of transformers.

`--detector lexical` (the default) trains the lexical detector on every annotated answer of a mirror, and once more without
each language, and writes weights and calibration (needs LightGBM). The same mirror gives the same bytes.

`--detector transformers` trains a token classifier by a recipe and writes a folder that `--detector DIR` reads. Options
that are not listed here are values of the recipe (`--recipe NAME --show` lists them) or of transformers' TrainingArguments:
`--learning_rate 2e-5 --report_to wandb`. A training that was killed goes on when the same command runs again.
"""

from __future__ import annotations

import argparse

from lm_eval_tasks.commands import add_mirror, add_output, names_in, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.allow_abbrev = False  # --seed is no --seeds
    parser.set_defaults(unknown=[])
    parser.add_argument(
        "--detector", choices=("lexical", "transformers"), help="default: lexical; with --show transformers"
    )
    add_mirror(parser)
    add_output(parser, help="of lexical, default: the package's own weights are replaced")
    group = parser.add_argument_group("--detector transformers")
    group.add_argument("--recipe", help="paper-multi, paper-mono or encoder (default: encoder)")
    group.add_argument("--base", metavar="MODEL", help="of the hub, or a folder (default: the recipe's)")
    group.add_argument(
        "--data",
        metavar="NAME,FILE.jsonl,...",
        help="mfava-silver, mfava-gold, mushroom, and files of JSON lines (default: the recipe's)",
    )
    group.add_argument("--languages", metavar="CODE,...", help="learn from these alone (default: all)")
    group.add_argument(
        "--without",
        metavar="NAME,...",
        default="",
        help="languages, models and families of models that are left out whole, to be measured on, and translations of "
        "their texts",
    )
    group.add_argument(
        "--keep-translations",
        "--keep_translations",
        action="store_true",
        help="of what --without leaves out, learn from translations",
    )
    group.add_argument(
        "--synthetic",
        metavar="N",
        type=int,
        default=0,
        help="add N documents: answers held against another page, and answers without their hallucinated spans",
    )
    group.add_argument("--attention", choices=("bidirectional", "causal"), help="of a decoder")
    group.add_argument("--labels", choices=("binary", "category"), help="classes of tokens")
    group.add_argument("--seeds", metavar="N,...", help="one detector each, in DIR/seed-N where there are several")
    group.add_argument("--calibrate", action="store_true", help="write calibration.json, of what was held or left out")
    group.add_argument("--show", action="store_true", help="print the recipe with these options, and train nothing")


_OF_TRANSFORMERS = (
    "recipe base data languages without keep_translations synthetic attention labels seeds calibrate show".split()
)


def run(arguments: argparse.Namespace) -> int:
    detector = arguments.detector or ("transformers" if arguments.show else "lexical")
    if detector == "transformers":
        return _transformers(arguments)
    meant = [f"--{name}" for name in _OF_TRANSFORMERS if getattr(arguments, name)] + arguments.unknown
    if meant:
        raise ValueError(f"train --detector lexical has no option {meant[0]}; recipes are for --detector transformers")
    from lm_eval_tasks.commands.train.lexical import train_lexical

    for path in train_lexical(arguments.mirror, arguments.output):
        say(path)
    return 0


def _transformers(arguments: argparse.Namespace) -> int:
    from detector_plugin.transformers.training.recipe import overridden, read
    from lm_eval_tasks.commands.train import transformers

    values = {name: getattr(arguments, name) for name in ("base", "data", "attention", "labels", "seeds")}
    recipe = overridden(read(arguments.recipe or "encoder"), arguments.unknown, values)
    if arguments.show:
        say(transformers.shown(recipe))
        return 0
    if arguments.output is None:
        raise ValueError("train --detector transformers: name the folder of the new detector with -o DIR")
    detectors = transformers.train(
        recipe,
        arguments.output,
        mirror=arguments.mirror,
        languages=names_in(arguments.languages) or None,
        without=names_in(arguments.without),
        keep_translations=arguments.keep_translations,
        synthetic=arguments.synthetic,
        calibrate=arguments.calibrate,
    )
    for detector in detectors:
        say(transformers.summary(detector))
    if len(recipe.seeds) > 1:
        say(transformers.over_seeds(arguments.output, recipe.seeds))
    return 0
