"""Training of detectors: from documents and any base model of transformers to a detector's folder, by recipes."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin.transformers.classifier import TransformersDetector
from detector_plugin.transformers.inputs import Encoder
from detector_plugin.transformers.model import library
from detector_plugin.transformers.training import measuring, saving, trainer
from detector_plugin.transformers.training.examples import LABELS, examples_of
from detector_plugin.transformers.training.recipe import Recipe
from detector_plugin.transformers.training.saving import Ingredient, Trained
from detector_plugin.transformers.training.splitting import Parts, synthetic

__all__ = ["train_detector"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


def train_detector(
    parts: Parts,
    recipe: Recipe,
    folder: Path,
    *,
    seed: int,
    made_up: int = 0,
    without: Sequence[str] = (),
    ingredients: Sequence[Ingredient] = (),
    calibrate: bool = False,
) -> Trained | None:
    """Train a detector, choose its threshold, measure it, and write its folder.

    Args:
        parts: of :func:`detector_plugin.transformers.training.splitting.split`.
        recipe: what to train, and how.
        folder: of the detector.
        seed: of weights, dropout and the order of examples.
        made_up: documents to make of others, see :func:`detector_plugin.transformers.training.splitting.synthetic`.
        without, ingredients: what was left out whole, and what went in, for the card.
        calibrate: write ``calibration.json``, of the rows that are measured.

    Returns:
        What was made; ``None`` in the other processes of ``accelerate launch``, which do not measure.

    Raises:
        UsageError: the recipe does not fit the data, the model or the machine, or the folder holds files.
        TrainingFailed: the loss is not a number, memory runs out at one example at once, or a checkpoint cannot be written.
    """
    for needed in ("torch", "transformers", "accelerate", *(("peft",) if recipe.adapter == "lora" else ())):
        library(needed, "train")
    if calibrate and not parts.measure and not parts.left_out:
        raise UsageError("--calibrate: nothing is held out or left out to be measured; set --held_out or --without")
    torch = library("torch")
    made = synthetic(parts.learn, made_up, recipe.split_seed) if made_up else []
    arguments = trainer.arguments_of(recipe, folder / saving.CHECKPOINTS, seed, parts.choose)
    with arguments.main_process_first():
        if arguments.should_save:
            saving.check_unused(folder)
    library("transformers").set_seed(seed)
    base = trainer.load_base(recipe, arguments)
    form, longest = base.settings.form, base.settings.max_length
    assert form is not None and longest is not None  # noqa: PT018 - load_base says both
    encoder = Encoder(base.tokenizer, form, longest)
    learn, choose = (
        examples_of(documents, encoder, longest, recipe, arguments.should_save)
        for documents in ([*parts.learn, *made], parts.choose)
    )
    cut = ", ".join(f"{number} {what}" for what, number in learn.counts.items()) or "none cut or left out"
    if not learn.all:
        raise UsageError(
            f"none of the labelled answers can be learned from ({cut}); set --max_length, or --too_long cut"
        )
    if not learn.tokens[0] or not sum(learn.tokens[1:]):
        lacking = "hallucinated" if learn.tokens[0] else "supported"
        raise UsageError(f"no token of the labelled answers is {lacking}: there is nothing to tell apart")
    tokens = dict(zip((*LABELS[recipe.labels], "no category"), learn.tokens, strict=True))
    if never := [name for name in LABELS[recipe.labels] if not tokens[name]]:
        log.warning("never in the labelled answers, so that the detector will not find it: %s", ", ".join(never))
    log.info(
        "%s: %d examples of %d answers to learn from (%s), %d to choose by; tokens: %s",
        *(recipe.base, len(learn.all), len(parts.learn) + len(made), cut, len(choose.all)),
        ", ".join(f"{name} {number}" for name, number in tokens.items() if number),
    )
    fitted = trainer.fit(base, recipe, arguments, learn, choose)
    curve = fitted.state.log_history
    saving.save(fitted, base, folder)
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
    counts = Counter(parts.counts)
    counts.update({f"learned from, {what}": number for what, number in learn.counts.items()})
    choose_by, measured, left_out = (
        measuring.short_enough(documents, encoder, longest, counts)
        for documents in (parts.choose, parts.measure, parts.left_out)
    )
    parts = replace(parts, choose=choose_by, measure=measured, left_out=left_out)
    if counts[measuring.TOO_LONG]:
        log.warning("%s: %d", measuring.TOO_LONG, counts[measuring.TOO_LONG])
    detector = TransformersDetector(str(folder), device="cpu" if arguments.use_cpu else "auto")
    detector.threshold = measuring.best_threshold(detector, choose_by)
    if not choose_by:
        log.warning("no document was held out to choose a threshold by; it is %s", detector.threshold)
    rows = measuring.measure(detector, left_out, "left out") + measuring.measure(detector, measured, "measured")
    replace(base.settings, threshold=detector.threshold).save(folder)
    trained = Trained(
        *(folder, recipe, seed, base, ingredients, parts, made, without, dict(+counts), detector.threshold, rows, curve)
    )
    saving.write_results(trained, calibrate)
    return trained
