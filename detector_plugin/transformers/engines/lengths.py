"""How many tokens an input has at most."""

from __future__ import annotations

from typing import Any

from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.model import Described

__all__ = ["LONGEST", "learned_positions", "length_of", "positions_of"]

LONGEST = 4096
"""Tokens of an input where nobody said: that of the mFAVA paper's appendix A.3, and LettuceDetect's default. Longer
documents are read in windows."""

_FROM_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "roberta-prelayernorm"}


def positions_of(config: Any) -> int | None:
    """Tokens of an input by a model's configuration; ``None`` where it does not say."""
    stated = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if not isinstance(stated, int) or stated <= 0:
        return None
    # RoBERTa and its kin count positions from after the padding token's
    return stated - (config.pad_token_id or 0) - 1 if config.model_type in _FROM_PADDING else stated


def learned_positions(model: Any) -> int | None:
    """Positions that were learned: there are no more. Others can be had, at the user's risk."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("position_embeddings", "wpe") and hasattr(module, "num_embeddings"):
            # RoBERTa and its kin count positions from after the padding token's.
            padding = getattr(module, "padding_idx", None)
            return int(module.num_embeddings - (0 if padding is None else padding + 1))
    return None


def length_of(told: Described, limit: int | None, wanted: int | None) -> int:
    """Tokens of an input: what was asked for, or what model and tokenizer can read, at most 4096.

    Args:
        told: the model.
        limit: what the engine can read; ``None`` where there is no such limit.
        wanted: what was asked for.
    """
    if limit is not None and wanted is not None and wanted > limit:
        raise UnusableDetector(f"detector {told.name}: max_length={wanted}, but the model reads {limit} tokens at most")
    stated = positions_of(told.config) or LONGEST
    return wanted or min(stated, limit or stated, told.tokenizer.model_max_length, LONGEST)
