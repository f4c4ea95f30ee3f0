"""Recipes: what a detector is trained with, as YAML tables in ``recipes/``. Every value can be overridden."""

from __future__ import annotations

from argparse import ArgumentError, ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib import resources
from typing import Any

import yaml

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.transformers.inputs import FORMS


def _value(default: Any = MISSING, *choices: str) -> Any:
    """A value that the command line can set, to one of the choices if there are any."""
    return field(default=default, metadata={"choices": choices or None})


@dataclass(frozen=True)
class Recipe:
    """What a detector is trained with."""

    name: str
    says: str  # what it is for
    source: str  # where its values come from
    base: str = _value()  # model of the hub, or a folder
    data: str = _value()  # names of collections, and files, with commas between
    form: str = _value("auto", "auto", *FORMS)  # auto: paper for decoders, else pair
    attention: str = _value("auto", "auto", "bidirectional", "causal")  # of decoders; auto: by the form
    labels: str = _value("binary", "binary", "category")  # or the six categories of mFAVA
    max_length: int = _value(4096)  # of an input in tokens, at most; less where the model reads less
    adapter: str = _value("none", "none", "lora")  # none: all weights are trained
    lora_r: int = _value(32)
    lora_alpha: int = _value(32)
    lora_dropout: float = _value(0.05)
    quantization: str = _value("none", "none", "4bit")  # of the base model's weights, while an adapter is trained
    soft_labels: bool = _value(False)  # learn the share of annotators where it is known
    held_out: float = _value(0.2)  # of the texts; half of them choose threshold and checkpoint, half are measured
    patience: int = _value(0)  # evaluations without a better one, after which training ends; 0: it does not
    trainer: Mapping[str, Any] = field(default_factory=dict)  # transformers' TrainingArguments

    @property
    def values(self) -> dict[str, Any]:
        """What is ours, without the trainer's."""
        return {value.name: getattr(self, value.name) for value in _VALUES}


_VALUES = [value for value in fields(Recipe) if value.metadata]
_MOST_HELD_OUT = 0.9


def read(name: str, words: Sequence[str] = ()) -> Recipe:
    """A recipe by name, with other values.

    Args:
        name: of a table; UsageError for an unknown one.
        words: of the command line: ``--name value`` or ``--name=value`` for a value of the recipe, which argparse checks;
            all others are for transformers' Trainer. An option of it without a value is ``true``.
    """
    files = {
        file.name.removesuffix(".yaml"): file for file in resources.files(__package__).joinpath("recipes").iterdir()
    }
    if name not in files:
        raise UsageError(f"recipe {name!r}: there are {', '.join(sorted(files))}")
    table = yaml.safe_load(files[name].read_text("utf-8"))
    values, trainer = table.pop("values"), table.pop("trainer")
    parser = ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    for value in _VALUES:
        flags = dict.fromkeys((f"--{value.name}", f"--{value.name.replace('_', '-')}"))
        if value.type == "bool":
            parser.add_argument(*flags, action=BooleanOptionalAction)
        else:
            kind = {"int": int, "float": float}.get(str(value.type), str)
            parser.add_argument(*flags, type=kind, choices=value.metadata["choices"])
    try:
        given, of_trainer = parser.parse_known_args(words)
    except ArgumentError as error:
        raise UsageError(f"train: {error}") from error
    option = ""
    for word in of_trainer:
        if word.startswith("--"):
            option, _, text = word[2:].partition("=")
            trainer[option.replace("-", "_")] = text or "true"
            option = "" if text else option.replace("-", "_")
        elif option:
            trainer[option], option = word, ""
        else:
            raise UsageError(f"{word!r} belongs to no option; a value of a recipe is set with --name value")
    values |= {key: value for key, value in vars(given).items() if value is not None}
    recipe = Recipe(name=name, trainer=trainer, **values, **table)
    if not 0 <= recipe.held_out <= _MOST_HELD_OUT:
        raise UsageError(f"--held_out is a share of the texts, from 0 to {_MOST_HELD_OUT}, got {recipe.held_out}")
    if recipe.patience < 0:
        raise UsageError(f"--patience is a number of evaluations, from 0 on, got {recipe.patience}")
    return recipe
