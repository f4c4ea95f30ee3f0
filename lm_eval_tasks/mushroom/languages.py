"""The languages of Mu-SHROOM and their public files: ``languages.tsv``, as Python reads it."""

from __future__ import annotations

from dataclasses import dataclass

from lm_eval_tasks.data.tables import shipped_rows

__all__ = ["LANGUAGES", "REPOSITORY", "SPLITS", "WITHOUT_PAGES", "Language"]

REPOSITORY = "Helsinki-NLP/mu-shroom"
SPLITS = ("test", "validation")


@dataclass(frozen=True)
class Language:
    """A language of Mu-SHROOM whose Wikipedia pages are in the public repository.

    Attributes:
        code: ISO 639, as in the files' names.
        name: English.
    """

    code: str
    name: str

    @property
    def pages_file(self) -> str:
        """Path of the archive of its pages."""
        return f"data/url-pages/{self.code}.tar.gz"

    def answers_file(self, split: str) -> str:
        """Path of the answers of a split; ``extra`` files name the page and the annotators too."""
        if split == "test":
            return f"splits/test_labeled/v1/mushroom.{self.code}-tst.v1.extra.jsonl"
        return f"splits/val/v2/mushroom.{self.code}-val.v2.extra.jsonl"


_ROWS = shipped_rows("lm_eval_tasks.mushroom", "languages.tsv")

LANGUAGES = {row["code"]: Language(row["code"], row["language"]) for row in _ROWS if row["pages"] == "yes"}
"""Code to language, those with pages."""

WITHOUT_PAGES = {row["code"]: row["language"] for row in _ROWS if row["pages"] == "no"}
"""Code to name of those whose answers are annotated, but whose pages are not in the repository."""
