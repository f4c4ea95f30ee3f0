"""Twenty labelled answers of a sentence or two, in several scripts: enough to learn by heart, small enough for seconds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_THINGS = "Mond Sonne Fluss Berg Stadt Brücke König Dichter Kirche Turm Hafen Wald".split()
_FACTS = ["rot", "blau", "alt", "neu", "lang", "kurz", "1849", "1912", "🌙 hell", "東京", "Überall", "наука"]


def facts(number: int = 20, language: str = "de", annotations: str = "silver", seed: int = 1) -> list[dict[str, Any]]:
    """Rows of JSON lines. Each answer has one hallucinated part, with a category, between parts that are borne out."""
    draw = random.Random(seed)
    rows = []
    for at in range(number):
        thing, other = draw.sample(_THINGS, 2)
        fact, second, wrong = draw.sample(_FACTS, 3)
        before = f"Nr. {at}: Der {thing} ist "
        claimed = wrong if at % 2 == 0 else fact
        answer = f"{before}{claimed}. Das {other} war {second}."
        spans: list[list[Any]] = (
            [[len(before), len(before) + len(wrong), ["entity", "relation", "invented"][at % 3]]]
            if at % 2 == 0
            else [[len(answer) - len(second) - 1, len(answer) - 1, "contradictory"]]
        )
        rows.append(
            {
                **{"question": "", "reference": f"{at}. Der {thing} ist {fact}. Das {other} war {second}."},
                **{"answer": answer, "spans": spans, "language": language, "annotations": annotations},
            }
        )
    return rows


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path
