"""The model card of a trained detector: what it is, what went in, and how good it is on what it has not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import NamedTuple

import yaml

from detector_plugin.labelled import LabelledAnswer
from detector_plugin.transformers.training.base import Base
from detector_plugin.transformers.training.measuring import Row, table
from detector_plugin.transformers.training.recipe import Recipe
from detector_plugin.transformers.training.splitting import Parts

__all__ = ["Ingredient", "card"]


class Ingredient(NamedTuple):
    """A collection or file that went into a detector.

    Attributes:
        name: as ``--data`` has it.
        source: who made it; empty of a file of one's own.
        licence: of the data.
        documents: labelled answers that were read.
    """

    name: str
    source: str
    licence: str
    documents: int


def card(
    recipe: Recipe,
    base: Base,
    *,
    seed: int,
    ingredients: Sequence[Ingredient],
    parts: Parts,
    made: Sequence[LabelledAnswer],
    counts: Mapping[str, int],
    without: Sequence[str],
    threshold: float,
    rows: Sequence[Row],
    calibrated: bool,
) -> str:
    """The card, as Markdown with the front matter of the hub.

    Args:
        recipe: what it was trained with; `seed` is the one of its seeds.
        base: what was trained.
        ingredients: what data went in.
        parts: documents by part; `made` were made of those that were learned from.
        counts: documents that were cut or left out, by reason.
        without: what was left out whole.
        threshold: a token is flagged from this probability on.
        rows: the held-out table.
        calibrated: whether ``calibration.json`` lies beside the card.
    """
    licences = {f"{recipe.base}: {base.licence}": None}
    licences |= {f"{one.name}: {one.licence}": None for one in ingredients}
    languages = sorted({document.language for document in parts.learn})
    front = {
        "library_name": "peft" if recipe.adapter == "lora" else "transformers",
        "pipeline_tag": "token-classification",
        "license": "other",
        "license_name": "; ".join(licences),
        "base_model": recipe.base,
        "language": languages,
        "tags": ["hallucination-detection", "lm-eval-grounded"],
    }
    settings = asdict(base.stored(threshold))
    del settings["labels"]
    libraries = ("lm-eval-grounded", "torch", "transformers", "accelerate")
    left = f"`{', '.join(without)}`" if without else "nothing"
    lines = [
        "---",
        yaml.safe_dump(front, allow_unicode=True, sort_keys=False).strip(),
        "---",
        "",
        "# A hallucination detector",
        "",
        f"Token classifier over {recipe.base}, trained by `lm-eval-grounded train`. It reads a reference and an answer and",
        "flags the tokens of the answer that the reference does not bear out.",
        "",
        "## Use",
        "",
        "```bash",
        "lm_eval --tasks mfava_de --model ... --metadata detector=THIS_FOLDER",
        "```",
        "",
        "The folder's `detector.json` has the settings that it was trained and measured with: "
        + ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
        + f". Classes: {', '.join(base.labels)}.",
        "`AutoModelForTokenClassification.from_pretrained(THIS_FOLDER"
        + (f", num_labels={len(base.labels)}" if recipe.adapter == "lora" else "")
        + ")` loads it without this package"
        + ("; the attention mask is then the library's own, causal one." if base.attention == "bidirectional" else "."),
        "",
        "## Held-out figures",
        "",
        "In percent of words, counts summed over documents before dividing, with the threshold of `detector.json`.",
        f"`left out`: languages or models that were left out whole ({left}). `measured`: texts that were neither",
        "learned from nor used to choose the threshold, in languages that were learned from.",
        f"Of {parts.translated} documents that were left out, a translation was learned from: their figures are too good."
        if parts.translated
        else "No translation of any of these texts was learned from, as far as numbers, names and the data's keys tell.",
        "`real`: people marked what a model wrote on its own; `gold` and `silver`: people or GPT-4 marked inserted errors,",
        "which says little of real answers.",
        "",
        table(rows) if rows else "Nothing was held out, so nothing is known of its errors.",
        "",
        "`calibration.json` holds the counts behind these rows; `--metadata detector=THIS_FOLDER` finds it."
        if calibrated
        else "There is no calibration: `lm-eval-grounded calibrate` makes one.",
        "",
        "## What went in",
        "",
        "| data | documents read | source | licence |",
        "|---|---|---|---|",
        *(f"| {one.name} | {one.documents} | {one.source or 'own'} | {one.licence} |" for one in ingredients),
        "",
        "| part | texts | documents | languages and kinds of annotation |",
        "|---|---|---|---|",
        *(
            f"| {part} | {texts} | {len(documents)} | {_kinds(documents)} |"
            for part, texts, documents in (
                ("learned from", parts.texts["learn"], parts.learn),
                ("learned from, made of others", "–", made),
                ("threshold chosen by", parts.texts["choose"], parts.choose),
                ("measured", parts.texts["measure"], parts.measure),
                ("left out", parts.texts["left_out"], parts.left_out),
            )
        ),
        "",
        "A text counts once, in however many languages: a reference, its translations, and pages on one subject.",
        "",
        *(f"- {what}: {number}" for what, number in counts.items()),
        "",
        "## Recipe",
        "",
        f"`{recipe.name}` ({recipe.source}), seed {seed}.",
        "",
        "| value | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in recipe.values.items() if name != "seeds"),
        *(f"| {name} | {value} |" for name, value in sorted((recipe.trainer or {}).items())),
        "",
        "Libraries: " + ", ".join(f"{name} {version(name)}" for name in libraries) + ".",
        "",
    ]
    return "\n".join(lines)


def _kinds(documents: Sequence[LabelledAnswer]) -> str:
    found = Counter(f"{document.language} {document.annotations}" for document in documents)
    return ", ".join(f"{kind} {number}" for kind, number in sorted(found.items())) or "–"
