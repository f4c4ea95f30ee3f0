"""The user's side: errors that the user can put right, options by name, printable text, secrets, installed
plugins, and the tables of a package: tab-separated, with a header, and comments in lines that begin with ``#``."""

from __future__ import annotations

import csv
from importlib import resources


def shipped_rows(package: str, name: str) -> list[dict[str, str]]:
    """The rows of a table that lies beside the modules of a package, by column."""
    lines = resources.files(package).joinpath(name).read_text("utf-8").splitlines()
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))
