"""Many runs from a few: copies of other models, whose values differ here and there."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

__all__ = ["many_runs"]


def many_runs(source: Path, folder: Path, number: int, seed: int = 1) -> Path:
    """Copy the runs in a folder in turn.

    Args:
        source: folder of runs, a folder each.
        folder: to write to.
        number: of runs in all.
        seed: of what differs: one value in five.
    """
    rng = random.Random(seed)
    runs = sorted(source.iterdir())
    for place in range(number):
        run = folder / f"run{place:03d}"
        shutil.copytree(runs[place % len(runs)], run)
        (results,) = run.glob("results_*.json")
        content = json.loads(results.read_text("utf-8"))
        content["model_name"] = f"org/model-{place:03d}"
        results.write_text(json.dumps(content), "utf-8")
        for path in run.glob("samples_*.jsonl"):
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            for row in rows:
                for metric in row["metrics"]:
                    value = row.get(metric)
                    if isinstance(value, float) and rng.random() < 0.2:
                        row[metric] = 1.0 - value if value in (0.0, 1.0) else min(1.0, 2 * value * rng.random())
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder
