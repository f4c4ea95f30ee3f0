"""Families of the models that answered. Models trained from one base model are a family: they know and say the same."""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources

__all__ = ["family"]


@lru_cache(maxsize=1)
def _parts() -> list[tuple[str, str]]:
    table = resources.files("lm_eval_tasks.mushroom").joinpath("families.tsv").read_text("utf-8")
    return [(row["part"], row["family"]) for row in csv.DictReader(table.splitlines(), delimiter="\t")]


def family(model: str) -> str:
    """The family of a model's id: that of the first row of ``families.tsv`` whose part its name holds, else the name."""
    name = model.rsplit("/", 1)[-1].lower()
    return next((family for part, family in _parts() if part in name), name)
