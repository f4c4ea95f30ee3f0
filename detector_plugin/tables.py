"""Tables of this package: tab-separated, with a header, and comments that begin with ``#``."""

from __future__ import annotations

import csv
from importlib import resources


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a table, by column."""
    lines = resources.files("detector_plugin").joinpath(name).read_text("utf-8").splitlines()
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))
