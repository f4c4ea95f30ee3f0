"""How much text of a language there is on the web: its share of Common Crawl.

Islam et al. (2025, section 4.2) hold hallucination rates against two measures of a language's resources: its share of
Common Crawl, and the number of articles of its Wikipedia. They print neither. ``common_crawl.tsv`` has the first, of a
later crawl: pages whose main language is this one, in CC-MAIN-2026-04, from Common Crawl's own statistics
(https://github.com/commoncrawl/cc-crawl-statistics, ``plots/languages.csv`` at commit d838726). Languages there are those
that CLD2 tells apart. Cantonese is not one of them; it has no row.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from importlib import resources

__all__ = ["SOURCE", "web_share"]

SOURCE = "pages of Common Crawl's CC-MAIN-2026-04"


def web_share(language: str) -> float:
    """The share of pages that are in a language, in percent; ``nan`` where it is not known.

    Args:
        language: code of mFAVA.
    """
    return _shares().get(language, float("nan"))


@lru_cache(maxsize=1)
def _shares() -> dict[str, float]:
    table = resources.files(__package__).joinpath("common_crawl.tsv").read_text("utf-8")
    return {row["code"]: float(row["percent"]) for row in csv.DictReader(table.splitlines(), delimiter="\t")}
