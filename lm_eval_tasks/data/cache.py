"""The folder where downloads, indexes and digests are kept."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_folder"]

CACHE_VARIABLE = "LM_EVAL_GROUNDED_CACHE"


def cache_folder() -> Path:
    """The folder of our own downloads and indexes: ``LM_EVAL_GROUNDED_CACHE`` or the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("lm-eval-grounded"))
