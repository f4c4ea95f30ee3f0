"""The user's side: errors that the user can put right, options by name, printable text, secrets, installed
plugins, and the tables of a package: YAML, or tab-separated, with a header, and comments in lines that begin with ``#``."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Any


def shipped_rows(package: str, name: str) -> list[dict[str, str]]:
    """The rows of a table that lies beside the modules of a package, by column."""
    lines = resources.files(package).joinpath(name).read_text("utf-8").splitlines()
    return list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))


@cache
def shipped_yaml(package: str, name: str) -> dict[str, Any]:
    """A table in YAML that lies beside the modules of a package; callers do not change it."""
    import yaml

    text = resources.files(package).joinpath(name).read_text("utf-8")
    # the safe loader, in C where PyYAML has it: it takes a tenth of the time
    table: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return table
