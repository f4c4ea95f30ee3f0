"""The languages of mFAVA and their public files: ``languages.tsv``, as Python reads it."""

from __future__ import annotations

from dataclasses import dataclass

from custom_metrics.usage.shipped_tables import shipped_rows

REPOSITORY = "WorldHellow/mHallucinations-LLM"
SPLIT = "test"  # as in the copies on the hub
GOLD_FILE = "datasets/hallucination_detection/gold-languages/combined_gold_languages.json"
"""Published on the hub too, as `WueNLP/mHallucination_Detection`; only the GitHub copy is pinned by a checksum."""


@dataclass(frozen=True)
class Language:
    """A language of mFAVA. Files are paths in the repository, empty where there is none: the silver annotations of the gold
    languages are in the gold file, and Japanese ones are not public."""

    code: str  # ISO 639
    name: str  # English, as the public files have it
    in_paper: bool  # one of the paper's 30; Persian is in the repository alone
    gold: bool  # people annotated answers in it
    silver_file: str
    queries_file: str
    articles: int  # in the paper's evaluation set (Table 9); 0 where it has none

    @property
    def silver(self) -> bool:
        """Whether silver annotations are public."""
        return self.gold or bool(self.silver_file)


LANGUAGES = {
    row["code"]: Language(
        row["code"],
        row["language"],
        row["in_paper"] == "yes",
        row["gold"] == "yes",
        row["silver_file"] and f"datasets/{row['silver_file']}",
        row["queries_file"] and f"datasets/{row['queries_file']}",
        int(row["articles"] or 0),
    )
    for row in shipped_rows("lm_eval_tasks.mfava", "languages.tsv")
}
"""Code to language, in the order of the paper's Table 7, Persian last."""
