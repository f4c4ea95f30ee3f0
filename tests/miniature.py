"""The mirror that most tests read: a miniature of the public data in every language, written for this project."""

from pathlib import Path

MINIATURE_FOLDER = Path(__file__).resolve().parent / "data" / "miniature"
MINIATURE = str(MINIATURE_FOLDER)
"""As the option ``mirror``; its README says what it holds."""
SAMPLE = {"mirror": MINIATURE}
"""As metadata of a run."""
