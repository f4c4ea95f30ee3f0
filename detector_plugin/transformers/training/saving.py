"""The folder of a detector that is trained: model, settings, model card, calibration and record."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.model import describe_model, first_line
from detector_plugin.transformers.training.measuring import Row, calibration_of, table
from detector_plugin.transformers.training.recipe import Recipe
from detector_plugin.transformers.training.splitting import Parts
from detector_plugin.transformers.training.trainer import Base, TrainingFailed

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FEW = 50  # documents of a calibration, as `lm-eval-grounded calibrate` warns of

CHECKPOINTS = "checkpoints"
"""Folder of an unfinished training, below the detector's."""

RECORD = "training.json"
"""The file that is written last: settings, counts, the curve of the loss, the held-out figures."""


class Ingredient(NamedTuple):
    """A collection or file that went into a detector."""

    name: str  # as ``--data`` has it
    source: str  # who made it; empty for a file of the user
    licence: str
    documents: int  # labelled answers that were read


class Trained(NamedTuple):
    """A finished training, for the folder's card and record."""

    folder: Path
    recipe: Recipe
    seed: int  # one of the recipe's
    base: Base
    ingredients: Sequence[Ingredient]
    parts: Parts
    made: Sequence[LabelledAnswer]  # of those that were learned from
    without: Sequence[str]  # what was left out whole
    counts: Mapping[str, int]  # documents that were cut or left out, by reason
    threshold: float
    rows: list[Row]  # the held-out figures
    curve: Sequence[Mapping[str, Any]]  # transformers' log of the training


def check_unused(folder: Path) -> None:
    """UsageError where a folder holds files: no training overwrites another's."""
    if file := next((path for path in sorted(folder.rglob("*")) if path.is_file()), None):
        raise UsageError(
            f"{folder} holds files already ({file.relative_to(folder)}); name another folder with -o, or remove it"
        )


def save(trainer: Any, base: Base, folder: Path) -> None:
    """Write model, tokenizer and settings; TrainingFailed where they cannot be written."""
    try:
        trainer.save_model(str(folder))  # in every process: parts of a model may lie in each
        if trainer.args.should_save:
            (folder / "training_args.bin").unlink(missing_ok=True)  # pickled
            base.tokenizer.save_pretrained(folder)
            base.settings.save(folder)
    except Exception as error:  # OSError, or safetensors' own: a full disk
        raise TrainingFailed(f"the detector cannot be written to {folder} ({first_line(error)})") from error


def write_results(trained: Trained, calibrate: bool) -> None:
    """Write the model card, the calibration of the rows that make one, and the record; and remove the checkpoints."""
    reasons = [why for row in trained.rows if (why := row.why_not_calibrated)]
    calibrated = calibrate and len(reasons) < len(trained.rows)
    if calibrate and reasons:
        some = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")
        log.warning("%s: %d of %d rows are not calibrated: %s", trained.folder, len(reasons), len(trained.rows), some)
    (trained.folder / "README.md").write_text(_card(trained, calibrated), "utf-8")
    if calibrated:  # after the card and the settings, which decide the version
        _write_calibration(trained)
    recipe, base, parts = trained.recipe, trained.base, trained.parts
    numbers = {name: len(getattr(parts, name)) for name in ("choose", "measure", "left_out")}
    rows = [
        {
            **{"part": row.part, "language": row.language, "annotations": row.annotations},
            **{"documents": len(row.documents), **row.total._asdict()},
        }
        for row in trained.rows
    ]
    record = {
        "recipe": recipe.name,
        "seed": trained.seed,
        "values": recipe.values,
        "trainer": dict(recipe.trainer or {}),
        "base": {"name": recipe.base, "version": base.version, "licence": base.licence},
        "documents": {"learn": len(parts.learn), "made_up": len(trained.made), **numbers},
        "texts": dict(parts.texts),
        "left_out_with_translation": parts.translated,
        "counts": dict(trained.counts),
        "threshold": trained.threshold,
        "held_out": rows,
        "curve": trained.curve,
    }
    content = json.loads(json.dumps(record), parse_constant=lambda _: None)  # JSON has no word for NaN: null
    (trained.folder / RECORD).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
    shutil.rmtree(trained.folder / CHECKPOINTS, ignore_errors=True)


def _write_calibration(trained: Trained) -> None:
    known = describe_model(str(trained.folder))
    described = {"name": known.name, "version": known.version, "licence": known.own.licence()}
    without, translated = ", ".join(trained.without), trained.parts.translated
    note = "Measured by lm-eval-grounded train on texts that were not learned from in any language"
    note += f"; left out whole: {without}" if without else "; no language or model was left out whole"
    if translated:
        note += f", but {translated} of these documents have a text that was learned from in another language"
    calibration = calibration_of(trained.rows, described, f"{note}.")
    few = sorted(
        f"{code} {kind}"
        for code, kinds in calibration.languages.items()
        for kind, errors in kinds.items()
        if errors.documents is not None and len(errors.documents) < _FEW
    )
    if few:
        log.warning("calibrated on fewer than %d documents, which says little: %s", _FEW, ", ".join(few))
    (trained.folder / "calibration.json").write_text(calibration.to_json(), "utf-8")


def _card(trained: Trained, calibrated: bool) -> str:
    """The model card: what the detector is, what went in, and how good it is on what it has not seen. `calibrated` says
    whether ``calibration.json`` lies beside it."""
    recipe, base, parts = trained.recipe, trained.base, trained.parts
    licences = {f"{recipe.base}: {base.licence}": None}
    licences |= {f"{data.name}: {data.licence}": None for data in trained.ingredients}
    front = {
        "library_name": "peft" if recipe.adapter == "lora" else "transformers",
        "pipeline_tag": "token-classification",
        "license": "other",
        "license_name": "; ".join(licences),
        "base_model": recipe.base,
        "language": sorted({document.language for document in parts.learn}),
        "tags": ["hallucination-detection", "lm-eval-grounded"],
    }
    settings = {**asdict(base.settings), "threshold": trained.threshold}
    labels = settings.pop("labels")
    said = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
    number = f", num_labels={len(labels)}" if recipe.adapter == "lora" else ""
    causal = "; the attention mask is then the library's own, causal one."
    left = f"`{', '.join(trained.without)}`" if trained.without else "nothing"
    translations = (
        f"Of {parts.translated} documents that were left out, a translation was learned from: their figures are too good."
        if parts.translated
        else "No translation of any of these texts was learned from, as far as numbers, names and the data's keys tell."
    )
    beside = "There is no calibration: `lm-eval-grounded calibrate` makes one."
    if calibrated:
        metadata = '`--metadata \'{"detector": "THIS_FOLDER"}\'`'
        beside = f"`calibration.json` holds the counts behind these rows; {metadata} finds it."
    data_rows = [
        f"| {data.name} | {data.documents} | {data.source or 'own'} | {data.licence} |" for data in trained.ingredients
    ]
    part_rows = [
        f"| {part} | {parts.texts.get(key, '–')} | {len(documents)} | {_kinds(documents)} |"
        for part, key, documents in (
            ("learned from", "learn", parts.learn),
            ("learned from, made of others", "made", trained.made),
            ("threshold chosen by", "choose", parts.choose),
            ("measured", "measure", parts.measure),
            ("left out", "left_out", parts.left_out),
        )
    ]
    values = {name: value for name, value in recipe.values.items() if name != "seeds"}
    values_of_trainer = dict(sorted((recipe.trainer or {}).items()))
    value_rows = [f"| {name} | {value} |" for name, value in (*values.items(), *values_of_trainer.items())]
    libraries = ("lm-eval-grounded", "torch", "transformers", "accelerate")
    new_line = "\n"
    return f"""---
{yaml.safe_dump(front, allow_unicode=True, sort_keys=False).strip()}
---

# A hallucination detector

Token classifier over {recipe.base}, trained by `lm-eval-grounded train`. It reads a reference and an answer and
flags the tokens of the answer that the reference does not bear out.

## Use

```bash
lm_eval --tasks mfava_de --model ... --metadata '{{"detector": "THIS_FOLDER"}}'
```

The folder's `detector.json` has the settings that it was trained and measured with: {said}. Classes: {", ".join(labels)}.
`AutoModelForTokenClassification.from_pretrained(THIS_FOLDER{number})` loads it without this package\
{causal if base.settings.attention == "bidirectional" else "."}

## Held-out figures

In percent of words, counts summed over documents before dividing, with the threshold of `detector.json`.
`left out`: languages or models that were left out whole ({left}). `measured`: texts that were neither
learned from nor used to choose the threshold, in languages that were learned from.
{translations}
`real`: people marked what a model wrote on its own; `gold` and `silver`: people or GPT-4 marked inserted errors,
which says little of real answers.

{table(trained.rows) if trained.rows else "Nothing was held out, so nothing is known of its errors."}

{beside}

## What went in

| data | documents read | source | licence |
|---|---|---|---|
{new_line.join(data_rows)}

| part | texts | documents | languages and kinds of annotation |
|---|---|---|---|
{new_line.join(part_rows)}

A text counts once, in however many languages: a reference, its translations, and pages on one subject.

{new_line.join(f"- {what}: {number}" for what, number in trained.counts.items())}

## Recipe

`{recipe.name}` ({recipe.source}), seed {trained.seed}.

| value | |
|---|---|
{new_line.join(value_rows)}

Libraries: {", ".join(f"{name} {version(name)}" for name in libraries)}.
"""


def _kinds(documents: Sequence[LabelledAnswer]) -> str:
    kinds = Counter(f"{document.language} {document.annotations}" for document in documents)
    return ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items())) or "–"
