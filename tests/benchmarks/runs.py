"""What the commands that read runs take of two hundred of them, of large ones, and of two small ones: processor time and
memory, beside their bars."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER
from tests.many_runs import labelled_runs, large_runs
from tests.miniature import MINIATURE

Report = Callable[[str, str, str], None]
"""What was measured, its value, and its bar."""


def spent(command: Sequence[Any], **more: Any) -> tuple[float, float]:
    """Processor time of a command in seconds, and its memory in MB."""
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def command(name: str) -> Path:
    return Path(sys.executable).with_name(name)


BASELINE = ["--model", "grounded-baseline", "--model_args", "strategy=lexical", "--metadata", f"mirror={MINIATURE}"]


def _labels(runs: int, languages: Sequence[str], documents: int, first: int = 0) -> dict[str, dict[str, list[str]]]:
    """Labels of models to the same questions, some of which are hard for all of them."""
    labels: dict[str, dict[str, list[str]]] = {}
    for model in range(first, first + runs):
        rng = random.Random(model)
        of_model = labels[f"model-{model:03d}"] = {}
        for language in languages:
            hard = random.Random(language)
            wrong = [0.6 * hard.random() + 0.4 * rng.random() > 0.6 - 0.02 * (model % 7) for _ in range(documents)]
            right = [(NO_ANSWER if place % 2 else ANSWER) for place in range(documents)]
            other = {ANSWER: NO_ANSWER, NO_ANSWER: ANSWER}
            read = [other[label] if is_wrong else label for label, is_wrong in zip(right, wrong, strict=True)]
            of_model[f"nomiracl_{language}"] = [INVALID if rng.random() < 0.01 else label for label in read]
    return labels


def many(report: Report) -> None:
    """200 runs of nine languages, and the same with one more."""
    languages = "ar bn de en es fa fi fr sw".split()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tasks = ",".join(f"nomiracl_{language}" for language in languages)
        spent([command("lm_eval"), *BASELINE, "--tasks", tasks, "--output_path", folder, "--log_samples"])
        source = folder / "baseline-lexical"
        making = [command("lm-eval-grounded"), "report", folder / "runs", "-o", folder / "site"]
        for what, first, runs, bar in (("200 runs x 9 x 500", 0, 200, "45 s"), ("with one run more", 200, 1, "10 s")):
            labelled_runs(source, folder / "runs", _labels(runs, languages, 500, first))
            seconds, memory = spent(making)
            report(f"{what}: a page of all", f"{seconds:.0f} s", f"<= {bar}")
            report(f"{what}: memory", f"{memory:.0f} MB", "<= 1,000 MB")
        size = (folder / "site" / "index.html").stat().st_size
        report("the page of 201 runs", f"{size / 1e6:.1f} MB", "<= 3 MB")


def large(report: Report) -> None:
    """What compare and report take of 20 runs of 100,000 documents: processor time and memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        spent([command("lm_eval"), *BASELINE, "--tasks", "nomiracl_de", "--output_path", folder, "--log_samples"])
        large_runs(folder / "baseline-lexical", folder / "runs", 20, 100_000)
        runs = sorted((folder / "runs").iterdir())
        for name in ("compare", "report"):
            seconds, memory = spent([command("lm-eval-grounded"), name, *runs, "-o", folder / f"{name}.out"])
            report(f"{name} of 20 runs x 100,000", f"{seconds:.0f} s", "<= 60 s")
            report(f"{name} of 20 runs x 100,000: memory", f"{memory:.0f} MB", "<= 1,500 MB")


TINY = """
task: tiny
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
metric_list: [{{metric: exact_match}}]
"""


def small(report: Report) -> None:
    """Two runs of 500 documents compared; and a replay, less what the harness takes to start: for a task of one question,
    with this package off."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "tiny.jsonl").write_text('{"q": "Why?", "a": "So."}', "utf-8")
        (folder / "tiny.yaml").write_text(TINY.format(data=folder / "tiny.jsonl"), "utf-8")
        spent([command("lm_eval"), *BASELINE, "--tasks", "nomiracl_de", "--output_path", folder, "--log_samples"])
        runs = labelled_runs(folder / "baseline-lexical", folder / "runs", _labels(2, ["de"], 500))
        seconds, _ = spent([command("lm-eval-grounded"), "compare", *sorted(runs.iterdir())])
        report("compare of two runs of 500 documents", f"{seconds:.2f} s", "<= 1.5 s")
        written = ["--output_path", folder / "more", "--log_samples"]
        replay = ["--model", "replay", "--model_args", f"path={folder / 'baseline-lexical'}"]
        replay += ["--metadata", f"mirror={MINIATURE}", "--tasks", "nomiracl_de"]
        alone = {**os.environ, "LM_EVAL_GROUNDED_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"}
        tiny = ["--model", "dummy", "--tasks", "tiny", "--include_path", folder]
        own = min(spent([command("lm_eval"), *tiny, *written], env=alone)[0] for _ in range(3))
        ours = min(spent([command("lm_eval"), *replay, *written])[0] for _ in range(3))
        report("lm_eval --tasks nomiracl_de replayed, less its start", f"{ours - own:.2f} s", "<= 1 s")
