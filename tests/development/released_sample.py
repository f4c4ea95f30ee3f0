"""Draw the sample of released NoMIRACL answers whose labels are tested without the shared data.

``python -m tests.development.released_sample ../shared`` writes ``tests/data/relevance/released.jsonl.gz``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path

from custom_metrics.relevance import robust_label

RELEASED = ("ar", "de", "en", "es", "fr", "ja", "sw", "yo", "zh")
SAMPLE = Path(__file__).parents[1] / "data" / "relevance" / "released.jsonl.gz"
SIZE = 500


def released_answers(shared: Path) -> Iterator[dict[str, str]]:
    """All released answers of eleven models, with the label that the released parser gave them."""
    for language in RELEASED:
        with gzip.open(shared / "reference/nomiracl_outputs" / f"{language}.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def sample_of(shared: Path) -> list[dict[str, str]]:
    """500 released answers with both labels. Strata of language, subset, model and labels take turns, so rare labels are
    in it; within a stratum and among strata, a digest decides."""
    strata: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in released_answers(shared):
        columns = {name: row[name] for name in ("language", "subset", "model", "response")}
        sampled = {**columns, "strict": row["label"], "robust": robust_label(row["response"], row["language"])}
        strata[tuple(value for name, value in sampled.items() if name != "response")].append(sampled)

    def digest(*texts: str) -> str:
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    for rows in strata.values():
        rows.sort(key=lambda row: digest(*row.values()))
    in_turn = zip_longest(*(strata[stratum] for stratum in sorted(strata, key=lambda stratum: digest(*stratum))))
    return list(islice((row for row in chain.from_iterable(in_turn) if row is not None), SIZE))


if __name__ == "__main__":
    SAMPLE.parent.mkdir(exist_ok=True)
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in sample_of(Path(sys.argv[1])))
    SAMPLE.write_bytes(gzip.compress(content.encode(), mtime=0))
