"""Runs of upstream's own tasks, as installed with the harness: prompts, filters, metrics and aggregations are theirs.

Only the documents are made here, a few dozen a task in upstream's columns, as their data sets are not at hand.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UPSTREAM = {  # our name to upstream's file, and to what our YAML changes beside the data set
    "arc_easy": ("arc/arc_easy.yaml", {}),
    "gsm8k": ("gsm8k/gsm8k.yaml", {"num_fewshot": 1}),
    "gsm8k_cot_self_consistency": ("gsm8k/gsm8k-cot-self-consistency.yaml", {"repeats": 8, "num_fewshot": 1}),
    "truthfulqa_gen": ("truthfulqa/truthfulqa_gen.yaml", {}),
    "wikitext": ("wikitext/wikitext.yaml", {}),
    "lambada_openai": ("lambada/lambada_openai.yaml", {}),
    "mrpc": ("glue/mrpc/default.yaml", {}),
    "wmt_de": ("translation/wmt_common_yaml", {"doc_to_text": "German: {{de}}\nEnglish:", "doc_to_target": "{{en}}"}),
    "mmlu_anatomy": ("mmlu/default/mmlu_anatomy.yaml", {"num_fewshot": 0}),
    "mmlu_virology": ("mmlu/default/mmlu_virology.yaml", {"num_fewshot": 0}),
    "blimp_causative": ("blimp/causative.yaml", {}),
    "blimp_transitive": ("blimp/transitive.yaml", {}),
}
GROUPS = {
    "mmlu_some": (["mmlu_anatomy", "mmlu_virology"], True),
    "blimp_some": (["blimp_causative", "blimp_transitive"], False),
}
FEWER = {"mmlu_virology": 2, "truthfulqa_gen": 4}  # a group of unequal tasks; a task that scores slowly
_NOUNS = "moon sun mars river stone bird glass iron salt leaf wind fire snow rope hill lamp".split()


def documents(task: str, number: int = 24) -> list[dict[str, Any]]:
    """Made documents in the columns of upstream's data set."""
    draw = random.Random(zlib.crc32(task.encode()))
    rows = []
    for at in range(number // FEWER.get(task, 1)):
        a, b, c, d = draw.sample(_NOUNS, 4)
        question, choices = f"Which of these is number {at}?", [a, b, c, d]
        sums = {
            "question": f"A {a} and {at} more make how many?",
            "answer": f"One and {at} is {at + 1}.\n#### {at + 1}",
        }
        wrong = {"correct_answers": [f"It is the {a}."], "incorrect_answers": [f"The {b} it is", f"No {c}"]}
        labelled = {"text": choices, "label": ["A", "B", "C", "D"]}
        pairs = {"sentence_good": f"The {a} is {b} {at}.", "sentence_bad": f"The {a} are {b} {at}."}
        rows.append(
            {
                "arc_easy": {"id": f"q{at}", "question": question, "choices": labelled, "answerKey": "ABCD"[at % 4]},
                "gsm8k": sums,
                "gsm8k_cot_self_consistency": sums,
                "truthfulqa_gen": {"question": question, "best_answer": f"It is the {a}.", **wrong},
                "wikitext": {"page": f" = {a} = \n\n The {b} is a {c} , and {at} of {d} . \n" * (1 + at % 3)},
                "lambada_openai": {"text": f"The {a} met the {b} {at} times before the {c}"},
                "mrpc": {"sentence1": f"The {a} {at}", "sentence2": f"A {b}", "label": at % 2, "idx": at},
                "wmt_de": {"de": f"Der Mond {at} {a}", "en": f"The {a} is {at} and the {b}"},
            }.get(task.partition("_some")[0])
            or (pairs if task.startswith("blimp") else {"question": question, "choices": choices, "answer": at % 4})
        )
    return rows


def write_tasks(folder: Path) -> Path:
    """A folder for ``--include_path``: YAML files that include upstream's, and their documents."""
    import lm_eval.tasks
    import yaml

    upstream = Path(lm_eval.tasks.__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, changes) in UPSTREAM.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in documents(name)), "utf-8")
        splits = dict.fromkeys(("train", "validation", "test", "dev"), str(data))
        source = {
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": splits, "cache_dir": str(folder / "cache")},
        }
        config = {"include": str(upstream / file), "task": name, "tag": None, **source, **changes}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), "utf-8")
    for name, (tasks, weighted) in GROUPS.items():
        mean = {"metric": "acc", "aggregation": "mean", "weight_by_size": weighted}
        group = {"group": name, "task": tasks, "aggregate_metric_list": [mean]}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(group), "utf-8")
    return folder


def run_guesses(folder: Path, tasks: Sequence[str], include: Path, name: str, share: float) -> Path:
    """A run of a model that knows a share of the answers, and guesses the others; returns its folder."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Guesses(LM):
        """A model that draws its answers by a digest of the prompt: the same ones every time."""

        def _draw(self, request: Any, more: str = "") -> random.Random:
            return random.Random(zlib.crc32(f"{name}{request.args[0]}{more}".encode()))

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
            return [
                (
                    -self._draw(request, request.args[1]).random() * len(request.args[1]),
                    self._draw(request).random() < share,
                )
                for request in requests
            ]

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
            return [-self._draw(request).random() * len(request.args[0]) for request in requests]

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
            answers = []
            for number, request in enumerate(requests):
                draw, doc = self._draw(request, str(number % request.repeats)), request.doc
                right = str(doc.get("answer") or doc.get("best_answer") or doc.get("en"))
                number_of = right.rpartition("#### ")[2]
                known = draw.random() < share
                answers.append(
                    f"{right} The answer is {number_of}."
                    if known
                    else f"It is {draw.randrange(9)}0 {draw.choice(_NOUNS)}."
                )
            return answers

    tracker = EvaluationTracker(output_path=str(folder))
    manager = TaskManager(include_path=str(include), include_defaults=False)
    results = simple_evaluate(
        model=Guesses(), tasks=[*tasks], task_manager=manager, evaluation_tracker=tracker, bootstrap_iters=10
    )
    assert results is not None
    samples = results.pop("samples")
    tracker.general_config_tracker.model_name = tracker.general_config_tracker.model_name_sanitized = name
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return folder / name
