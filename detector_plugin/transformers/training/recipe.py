"""Recipes: what a detector is trained with, as YAML tables in ``recipes/``. Every value can be overridden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

import yaml

from custom_metrics.usage.options import misspelt
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.detector import check_choice, parse_flag, parse_number
from detector_plugin.transformers.inputs import FORMS


@dataclass(frozen=True)
class Recipe:
    """What a detector is trained with."""

    name: str
    says: str  # what it is for
    source: str  # where its values come from
    base: str  # model of the hub, or a folder
    data: str  # names of collections, and files, with commas between
    one_language: bool = False  # refuse data in several languages
    form: str = "auto"  # in which reference and answer are read; auto: paper for decoders, else pair
    attention: str = "auto"  # of a decoder; auto: bidirectional in the form paper, else causal
    labels: str = "binary"  # or the six categories of mFAVA
    max_length: int = 4096  # of an input in tokens, at most; less where the model reads less
    too_long: str = "cut"  # to the part of the reference that shares most tokens with the answer; or skip the document
    adapter: str = "none"  # all weights are trained
    lora_r: int = 32
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    lora_target_modules: str = "all-linear"  # or names with commas between
    quantization: str = "none"  # of the base model's weights, while an adapter is trained
    precision: str = "auto"  # of the computation; auto: bf16 on a GPU that has it, else fp16, fp32 on a CPU
    class_weights: str = "none"  # of the loss; balanced: by the inverse of a class's share, at most 20 times the mean
    soft_labels: bool = False  # learn the share of annotators where it is known
    held_out: float = 0.2  # of the articles; half of them choose threshold and checkpoint, the other half are measured
    split_seed: int = 0  # of the choice of these articles, so that runs of several seeds learn from the same ones
    patience: int = 0  # evaluations without a better one, after which training ends; 0: it does not
    seeds: tuple[int, ...] = (42,)  # one detector is trained with each
    trainer: Mapping[str, Any] | None = None  # transformers' TrainingArguments

    @property
    def values(self) -> dict[str, Any]:
        """What is ours, without the trainer's."""
        return {name: getattr(self, name) for name in _KINDS}


_KINDS = {
    field.name: str(field.type) for field in fields(Recipe) if field.name not in ("name", "says", "source", "trainer")
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "form": ("auto", *FORMS),
    "attention": ("auto", "bidirectional", "causal"),
    "labels": ("binary", "category"),
    "too_long": ("cut", "skip"),
    "adapter": ("none", "lora"),
    "quantization": ("none", "4bit", "8bit"),
    "precision": ("auto", "bf16", "fp16", "fp32"),
    "class_weights": ("none", "balanced"),
}
_RANGES: Mapping[str, tuple[float, float]] = {
    **{"max_length": (16, 1 << 20), "lora_r": (1, 4096), "lora_alpha": (1, 1 << 16), "lora_dropout": (0, 0.99)},
    **{"held_out": (0, 0.9), "patience": (0, 1000), "split_seed": (0, 1 << 32)},
}
_INSTEAD = {"seed": "--seeds", "output_dir": "-o", "bf16": "--precision", "fp16": "--precision"} | dict.fromkeys(
    "remove_unused_columns label_names data_seed do_train do_eval".split()
)
"""Arguments of the trainer that follow from ours, and the option to use instead."""


def read(name: str) -> Recipe:
    """A recipe by name; UsageError for an unknown one."""
    folder = resources.files("detector_plugin.transformers.training").joinpath("recipes")
    files = {entry.name.removesuffix(".yaml"): entry for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    if name not in files:
        raise UsageError(f"recipe {name!r}: there are {', '.join(sorted(files))}")
    table = yaml.safe_load(files[name].read_text("utf-8"))
    values = {key: _value(key, value) for key, value in table.pop("values").items()}
    return Recipe(name=name, **table, **values)


def overridden(recipe: Recipe, words: Sequence[str], values: Mapping[str, Any]) -> Recipe:
    """A recipe with other values; UsageError where a name or a value is not known.

    Args:
        recipe: the table.
        words: of the command line, ``--name value`` or ``--name=value``; those that are not ours are the trainer's. An
            option without a value is ``true``.
        values: more of ours; ``None`` leaves the recipe's value.
    """
    given: list[tuple[str, str | None]] = []
    for word in words:
        if word.startswith("--"):
            name, equals, text = word[2:].partition("=")
            given.append((name.replace("-", "_"), text if equals else None))
        elif not given or given[-1][1] is not None:
            raise UsageError(f"{word!r} belongs to no option; a value of a recipe is set with --name value")
        else:
            given[-1] = given[-1][0], word
    ours: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    trainer = dict(recipe.trainer or {})
    for name, value in given:
        if name in _INSTEAD:
            hint = f"; use {_INSTEAD[name]}" if _INSTEAD[name] else ""
            raise UsageError(f"--{name} follows from other options{hint}")
        (ours if name in _KINDS else trainer)[name] = "true" if value is None else value
    return replace(recipe, **{name: _value(name, value) for name, value in ours.items()}, trainer=trainer)


def _value(name: str, value: Any) -> Any:
    """A value of the kind that the recipe has, from YAML or the command line."""
    option, kind = f"--{name}", _KINDS[name]
    if name == "seeds":
        texts = value.replace(",", " ").split() if isinstance(value, str) else value
        seeds = tuple(parse_number(option, seed, int, 0) for seed in texts)
        if not seeds or len(set(seeds)) < len(seeds):
            raise UsageError(f"option {option}: {value!r} is not a list of different whole numbers")
        return seeds
    if kind == "bool":
        return parse_flag(option, value)
    if kind in ("int", "float"):
        return parse_number(option, value, {"int": int, "float": float}[kind], *_RANGES[name])
    if name in _CHOICES:
        check_choice(option, str(value), _CHOICES[name])
    return str(value)


def close_to(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?``, or nothing."""
    near = misspelt(name, list(known))
    return f"; did you mean {near}?" if near else ""
