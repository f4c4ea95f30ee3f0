"""Files of what raters said, for the tests of agreement."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from lm_eval_tasks.results.agreement import Comparison, Result, compare

A, B = (1, 2, 3, 4, 4, 2), (1, 2, 4, 4, 3, 1)
OF_A_AND_B = {"exact": 0.5, "kappa": 1 / 3, "weighted kappa": 14 / 17, "tau-b": 9 / 13}


def rows(*said: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "rating": one, **more} for number, one in enumerate(said)]


def written(path: Path, content: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    name = path.name.lower()
    if name.endswith((".csv", ".tsv")):
        mark = "," if name.endswith(".csv") else "\t"
        lines = [mark.join(content[0]), *(mark.join(map(str, row.values())) for row in content)]
        path.write_text("\n".join(lines) + "\n", "utf-8-sig")
    elif name.endswith(".json"):
        path.write_text(json.dumps(content), "utf-8")
    else:
        text = "".join(json.dumps(row) + "\n" for row in content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def two(folder: Path, first: list[dict[str, Any]], second: list[dict[str, Any]], **options: Any) -> Comparison:
    return compare([written(folder / "a.jsonl", first), written(folder / "b.jsonl", second)], **options)


def values(result: Result) -> dict[str, float]:
    return {name: found.value for name, found in result.estimates.items()}
