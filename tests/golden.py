"""Texts that people read, held by a file each in ``tests/data/report/``: one place to look at when a wording changes.

``LM_EVAL_GROUNDED_WRITE_GOLDEN=1 pytest tests/test_{report,compare}_*.py`` writes them anew; ``git diff`` shows changes.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "data" / "report"


def golden(name: str, text: str) -> str:
    """The text of a file, which `text` should be."""
    path = _FOLDER / name
    if os.environ.get("LM_EVAL_GROUNDED_WRITE_GOLDEN"):
        path.write_text(text, "utf-8")
    return path.read_text("utf-8")
