"""The folder of a detector that is being trained: whose it is, what is written into it, and when it is finished."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.stored import Stored
from detector_plugin.transformers.training.base import Base
from detector_plugin.transformers.training.recipe import Recipe

__all__ = ["CHECKPOINTS", "RECORD", "claim", "replace_text", "save", "settings_of", "stored_of", "write_record"]

CHECKPOINTS = "checkpoints"
"""Folder of an unfinished training, below the detector's."""

RECORD = "training.json"
"""The file that is written last: settings, counts, the curve of the loss, the held-out figures."""

_OF_THE_MACHINE = ("report_to", "run_name", "logging_", "save_", "dataloader_", "disable_tqdm", "project", "trackio_")
"""Arguments of the trainer that change no weights; a training goes on with others of these."""


def settings_of(recipe: Recipe, seed: int, documents: Sequence[LabelledAnswer]) -> dict[str, Any]:
    """What decides the weights; a checkpoint of other settings cannot be gone on from."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(repr(document).encode("utf-8", "surrogatepass"))
    trainer = {
        name: str(value)
        for name, value in sorted((recipe.trainer or {}).items())
        if not name.startswith(_OF_THE_MACHINE)
    }
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in recipe.values.items()}
    return {"documents": digest.hexdigest()[:16], "seed": seed, **values, "seeds": None, **trainer}


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Make the folder ours, or refuse another training's."""
    if (folder / RECORD).is_file():
        raise UsageError(f"{folder} holds a finished detector ({RECORD}); name another folder with -o, or remove it")
    place = folder / CHECKPOINTS / "settings.json"
    if place.is_file():
        known = json.loads(place.read_text("utf-8"))
        other = sorted(key for key in {*known, *settings} if known.get(key) != settings.get(key))
        if other:
            raise UsageError(
                f"{folder} holds an unfinished training with other settings ({', '.join(other)}); name another folder with "
                f"-o, or remove {folder / CHECKPOINTS}"
            )
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    replace_text(place, json.dumps(settings, ensure_ascii=False, indent=1) + "\n")


def save(trainer: Any, base: Base, recipe: Recipe, labels: Sequence[str], folder: Path) -> None:
    """Write model, tokenizer and settings, each whole or not at all."""
    partial = folder / CHECKPOINTS / "result"
    if trainer.args.should_save:
        shutil.rmtree(partial, ignore_errors=True)
    trainer.save_model(str(partial))  # in every process: parts of a model may lie in each
    if not trainer.args.should_save:
        return
    (partial / "training_args.bin").unlink(missing_ok=True)  # pickled
    base.tokenizer.save_pretrained(partial)
    stored_of(base, labels, None).write(partial)
    for path in sorted(partial.iterdir()):
        if path.is_file():
            os.replace(path, folder / path.name)
    shutil.rmtree(partial)


def stored_of(base: Base, labels: Sequence[str], threshold: float | None) -> Stored:
    """The settings that a detector brings along."""
    return Stored(base.form, base.attention, threshold, base.max_length, tuple(labels))


def replace_text(place: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    partial = place.with_name(f".{place.name}.part")
    partial.write_text(text, "utf-8")
    os.replace(partial, place)


def write_record(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write the record, with the settings of the training, and remove the checkpoints: the detector is finished."""
    settings = json.loads((folder / CHECKPOINTS / "settings.json").read_text("utf-8"))
    content = _finite({**record, "settings": settings})
    replace_text(folder / RECORD, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return folder / RECORD


def _finite(value: Any) -> Any:
    """The same, with ``None`` for what is no number in JSON."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
