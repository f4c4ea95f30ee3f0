"""Training of detectors: from documents and any base model of transformers to a detector's folder, by recipes."""

from __future__ import annotations

import gc
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import blank
from detector_plugin.transformers import TransformersDetector
from detector_plugin.transformers.inputs import Encoder
from detector_plugin.transformers.model import describe_model, first_line, library
from detector_plugin.transformers.training import measuring, trainer
from detector_plugin.transformers.training.data import LABELS, Parts, Recipe, examples_of, synthetic
from detector_plugin.transformers.training.measuring import Row

__all__ = ["Ingredient", "train_detector"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_CHECKPOINTS = "checkpoints"  # folder of an unfinished training, below the detector's
_RECORD = "training.json"  # written last: settings, counts, the curve of the loss, the held-out figures


class Ingredient(NamedTuple):
    """A collection or file that went into a detector."""

    name: str  # as ``--data`` has it
    source: str  # who made it; empty for a file of the user
    licence: str
    documents: int  # labelled answers that were read


def train_detector(
    parts: Parts,
    recipe: Recipe,
    folder: Path,
    *,
    made_up: int = 0,
    without: Sequence[str] = (),
    ingredients: Sequence[Ingredient] = (),
    calibrate: bool = False,
) -> tuple[float, list[Row]] | None:
    """Train a detector, choose its threshold, measure it, and write its folder. The threshold, and the held-out figures;
    ``None`` in the other processes of ``accelerate launch``, which do not measure.

    Args:
        parts: of :func:`detector_plugin.transformers.training.data.split`.
        made_up: documents to make of others, see :func:`detector_plugin.transformers.training.data.synthetic`.
        without, ingredients: what was left out whole, and what went in, for the card.
        calibrate: write ``calibration.json``, of the rows that are measured.

    Raises:
        UsageError: the recipe does not fit the data, the model or the machine, or the folder holds files.
        TrainingFailed: the loss is not a number, memory runs out at one example at once, or a file cannot be written.
    """
    for needed in ("torch", "transformers", "accelerate", *(("peft",) if recipe.adapter == "lora" else ())):
        library(needed, "train")
    if calibrate and not parts.measure and not parts.left_out:
        raise UsageError("--calibrate: nothing is held out or left out to be measured; set --held_out or --without")
    torch = library("torch")
    made = synthetic(parts.learn, made_up) if made_up else []
    arguments = trainer.arguments_of(recipe, folder / _CHECKPOINTS, parts.choose)
    with arguments.main_process_first():
        files = (path for path in sorted(folder.rglob("*")) if path.is_file())
        if arguments.should_save and (file := next(files, None)):
            raise UsageError(
                f"{folder} holds files already ({file.relative_to(folder)}); name another folder with -o, or remove it"
            )
    library("transformers").set_seed(arguments.seed)
    base = trainer.load_base(recipe, arguments)
    form, longest = base.settings.form, base.settings.max_length
    assert form is not None and longest is not None  # noqa: PT018 - load_base says both
    encoder = Encoder(base.tokenizer, form, longest)
    learn, choose = (
        examples_of(documents, encoder, longest, recipe, arguments.should_save)
        for documents in ([*parts.learn, *made], parts.choose)
    )
    if not learn.tokens[0] or not sum(learn.tokens[1:]):
        lacking = "hallucinated" if learn.tokens[0] else "supported"
        raise UsageError(f"no token of the labelled answers is {lacking}: there is nothing to tell apart")
    tokens = dict(zip((*LABELS[recipe.labels], "no category"), learn.tokens, strict=True))
    if never := [name for name in LABELS[recipe.labels] if not tokens[name]]:
        log.warning("never in the labelled answers, so that the detector will not find it: %s", ", ".join(never))
    log.info(
        "%s: %d examples of %d answers to learn from (%d longer than %d tokens, cut), %d to choose by; tokens: %s",
        *(recipe.base, len(learn.all), len(parts.learn) + len(made), learn.cut, longest, len(choose.all)),
        ", ".join(f"{name} {number}" for name, number in tokens.items() if number),
    )
    fitted = trainer.fit(base, recipe, arguments, learn, choose)
    curve = fitted.state.log_history
    try:
        fitted.save_model(str(folder))  # in every process: parts of a model may lie in each
        if arguments.should_save:
            (folder / "training_args.bin").unlink(missing_ok=True)  # pickled
            base.tokenizer.save_pretrained(folder)
            base.settings.save(folder)
    except (OSError, library("safetensors").SafetensorError) as error:  # a full disk
        raise trainer.TrainingFailed(f"the detector cannot be written to {folder}: {first_line(error)}") from error
    fitted.accelerator.free_memory()
    # Measuring takes one process, and the others would wait for it longer than they may.
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    if not arguments.should_save:
        return None
    del fitted
    base = base._replace(model=None)
    gc.collect()
    torch.cuda.empty_cache()
    detector = TransformersDetector(str(folder), device="cpu" if arguments.use_cpu else "auto")
    detector.threshold = measuring.best_threshold(detector, parts.choose)
    if not parts.choose:
        log.warning("no document was held out to choose a threshold by; it is %s", detector.threshold)
    measured = (("left out", parts.left_out), ("measured", parts.measure))
    rows = [row for name, documents in measured for row in measuring.measure(detector, documents, name)]
    settings = replace(base.settings, threshold=detector.threshold)
    settings.save(folder)
    used: dict[str, Any] = {
        "recipe": recipe.name,
        "source": recipe.source,
        "values": {**recipe.values, "trainer": blank(dict(recipe.trainer))},
        "base": {"name": recipe.base, "version": base.version, "licence": base.licence},
        "detector": {**asdict(settings), "labels": [*LABELS[recipe.labels]]},
        "documents": {
            **{name: len(getattr(parts, name)) for name in ("learn", "choose", "measure", "left_out")},
            **{"made_up": len(made), "learned_from_cut": learn.cut},
        },
        "texts": dict(parts.texts),
        "not_used": dict(parts.counts),
        "libraries": {name: version(name) for name in ("lm-eval-grounded", "torch", "transformers", "accelerate")},
    }
    reasons = [why for row in rows if (why := row.why_not_calibrated)]
    calibrated = calibrate and len(reasons) < len(rows)
    languages = sorted({document.language for document in parts.learn})
    card = _card(used, languages, without, ingredients, rows, calibrated)
    (folder / "README.md").write_text(card, "utf-8")
    if calibrate and reasons:
        some = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")
        log.warning("%s: %d of %d rows are not calibrated: %s", folder, len(reasons), len(rows), some)
    if calibrated:  # after the card and the settings, which decide the version
        known = describe_model(str(folder))
        described = {"name": known.name, "version": known.version, "licence": known.own.licence()}
        note = "Measured by lm-eval-grounded train on texts that were not learned from in any language; "
        note += f"left out whole: {', '.join(without)}." if without else "no language or model was left out whole."
        measuring.calibration_of(rows, described, note).save(folder / "calibration.json")
    content = {**used, "held_out": [row.as_json() for row in rows], "curve": curve}
    # JSON has no word for NaN: null
    content = json.loads(json.dumps(content), parse_constant=lambda _: None)
    (folder / _RECORD).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
    shutil.rmtree(folder / _CHECKPOINTS, ignore_errors=True)
    return detector.threshold, rows


def _card(
    used: dict[str, Any],
    languages: Sequence[str],
    without: Sequence[str],
    ingredients: Sequence[Ingredient],
    rows: Sequence[Row],
    calibrated: bool,
) -> str:
    """The model card: what the detector is, what went in, and how good it is on what it has not seen."""
    base = used["base"]
    lora = used["values"]["adapter"] == "lora"
    licences = [f"{base['name']}: {base['licence']}", *(f"{data.name}: {data.licence}" for data in ingredients)]
    front = {
        "library_name": "peft" if lora else "transformers",
        "pipeline_tag": "token-classification",
        "license": "other",
        "license_name": "; ".join(dict.fromkeys(licences)),
        "base_model": base["name"],
        "language": languages,
        "tags": ["hallucination-detection", "lm-eval-grounded"],
    }
    head, conditions = (yaml.safe_dump(content, allow_unicode=True, sort_keys=False) for content in (front, used))
    number = f", num_labels={len(used['detector']['labels'])}" if lora else ""
    causal = "; its attention mask is then causal" if used["detector"]["attention"] == "bidirectional" else ""
    data_rows = [f"| {of.name} | {of.documents} | {of.source or 'own'} | {of.licence} |\n" for of in ingredients]
    return f"""---
{head}---

# A hallucination detector

Token classifier over {base["name"]}, trained by `lm-eval-grounded train`. It reads a reference and an answer and
flags the tokens of the answer that the reference does not bear out.

```bash
lm_eval --tasks mfava_de --model ... --metadata '{{"detector": "THIS_FOLDER"}}'
```

`AutoModelForTokenClassification.from_pretrained(THIS_FOLDER{number})` loads it without this package{causal}.

## Held-out figures

In percent of words, counts summed over documents before dividing, with the threshold of `detector.json`.
`left out`: languages or models that were left out whole ({", ".join(without) or "none"}). `measured`: texts that were
neither learned from nor used to choose the threshold, in languages that were learned from.
`real`: people marked what a model wrote on its own; `gold` and `silver`: people or GPT-4 marked inserted errors,
which says little of real answers.

{measuring.table(rows) if rows else "Nothing was held out, so nothing is known of its errors."}

{"`calibration.json` has the counts behind these rows." if calibrated else "There is no calibration."}

## What went in

| data | documents read | source | licence |
|---|---|---|---|
{"".join(data_rows)}
```yaml
{conditions}```
"""
