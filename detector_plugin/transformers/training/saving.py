"""The folder of a detector that is being trained: whose it is, what is written into it, and when it is finished."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.model import find, version_of
from detector_plugin.transformers.repository import first_line
from detector_plugin.transformers.training.base import Base
from detector_plugin.transformers.training.measuring import Row, calibration_of
from detector_plugin.transformers.training.recipe import Recipe
from detector_plugin.transformers.training.trainer import TrainingFailed

__all__ = [
    "CHECKPOINTS",
    "RECORD",
    "FinishedAlready",
    "claim",
    "replace_text",
    "save",
    "settings_of",
    "write_calibration",
    "write_record",
]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FEW = 50  # documents of a calibration, as `lm-eval-grounded calibrate` warns of

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


class FinishedAlready(UsageError):
    """The folder holds the very detector that is asked for."""


def claim(folder: Path, settings: Mapping[str, Any]) -> None:
    """Make the folder ours, or refuse another training's."""
    if (folder / RECORD).is_file():
        other = _different(folder / RECORD, settings, "settings")
        if not other:
            raise FinishedAlready(
                f"{folder} holds this very detector, finished ({RECORD}); to train it again, remove it"
            )
        raise UsageError(
            f"{folder} holds a finished detector ({RECORD}) with other settings ({', '.join(other)}); name another folder "
            f"with -o, or remove it"
        )
    place = folder / CHECKPOINTS / "settings.json"
    if place.is_file():
        other = _different(place, settings)
        if other:
            raise UsageError(
                f"{folder} holds an unfinished training with other settings ({', '.join(other)}); name another folder with "
                f"-o, or remove {folder / CHECKPOINTS}"
            )
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    replace_text(place, json.dumps(settings, ensure_ascii=False, indent=1) + "\n")


def _different(place: Path, settings: Mapping[str, Any], key: str | None = None) -> list[str]:
    """Names of the settings that a file has otherwise."""
    content = json.loads(place.read_text("utf-8"))
    known = content.get(key, {}) if key else content
    # as JSON has them: a number that was written is read as it was
    asked = json.loads(json.dumps(settings))
    return sorted(name for name in {*known, *asked} if known.get(name) != asked.get(name))


def save(trainer: Any, base: Base, folder: Path) -> None:
    """Write model, tokenizer and settings, each whole or not at all.

    Raises:
        TrainingFailed: they cannot be written.
    """
    partial = folder / CHECKPOINTS / "result"
    if trainer.args.should_save:
        shutil.rmtree(partial, ignore_errors=True)
    try:
        trainer.save_model(str(partial))  # in every process: parts of a model may lie in each
        if not trainer.args.should_save:
            return
        (partial / "training_args.bin").unlink(missing_ok=True)  # pickled
        base.tokenizer.save_pretrained(partial)
        base.stored(None).write(partial)
    except Exception as error:  # OSError, or safetensors' own: a full disk
        raise TrainingFailed(
            f"the detector cannot be written to {folder} ({first_line(error)}). Free some space and run the same command "
            "again: it goes on from the last checkpoint"
        ) from error
    for path in sorted(partial.iterdir()):
        if path.is_file():
            os.replace(path, folder / path.name)
    shutil.rmtree(partial)


def replace_text(place: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    partial = place.with_name(f".{place.name}.part")
    partial.write_text(text, "utf-8")
    os.replace(partial, place)


def write_record(folder: Path, record: Mapping[str, Any]) -> Path:
    """Write the record, with the settings of the training, and remove the checkpoints: the detector is finished."""
    settings = json.loads((folder / CHECKPOINTS / "settings.json").read_text("utf-8"))
    # JSON has no word for what is no number: null
    content = json.loads(json.dumps({**record, "settings": settings}), parse_constant=lambda _: None)
    replace_text(folder / RECORD, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return folder / RECORD


def write_calibration(rows: Sequence[Row], folder: Path, without: Sequence[str], translated: int = 0) -> Path:
    """Write what the rows say of a finished detector, whose card and settings are written: they are of its version."""
    own, weights, _ = find(str(folder), None, None)
    described = {"name": str(folder), "version": version_of(own, weights), "licence": own.licence()}
    note = "Measured by lm-eval-grounded train on texts that were not learned from in any language"
    note += f"; left out whole: {', '.join(without)}" if without else "; no language or model was left out whole"
    note += (
        f", but {translated} of these documents have a text that was learned from in another language."
        if translated
        else "."
    )
    calibration = calibration_of(rows, described, note)
    few = sorted(
        f"{code} {kind}"
        for code, kinds in calibration.languages.items()
        for kind, known in kinds.items()
        if known.documents is not None and len(known.documents) < _FEW
    )
    if few:
        log.warning("calibrated on fewer than %d documents, which says little: %s", _FEW, ", ".join(few))
    place = folder / "calibration.json"
    replace_text(place, calibration.to_json())
    return place
