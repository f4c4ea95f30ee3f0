"""Runs of upstream's own tasks, as installed with the harness: prompts, filters, metrics and aggregations are theirs.

Only the documents are made here, a few dozen a task in upstream's columns, as their data sets are not at hand.
"""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import Any

UPSTREAM: dict[
    str, tuple[str, dict[str, Any]]
] = {  # name to upstream's file, and what ours changes beside the data set
    "arc_easy": ("arc/arc_easy.yaml", {}),
    "gsm8k_cot_self_consistency": ("gsm8k/gsm8k-cot-self-consistency.yaml", {"repeats": 8, "num_fewshot": 1}),
    "truthfulqa_gen": ("truthfulqa/truthfulqa_gen.yaml", {}),
    "wikitext": ("wikitext/wikitext.yaml", {}),
    "lambada_openai": ("lambada/lambada_openai.yaml", {}),
    "wmt_de": ("translation/wmt_common_yaml", {"doc_to_text": "German: {{de}}\nEnglish:", "doc_to_target": "{{en}}"}),
    "mmlu_anatomy": ("mmlu/default/mmlu_anatomy.yaml", {"num_fewshot": 0}),
    "mmlu_virology": ("mmlu/default/mmlu_virology.yaml", {"num_fewshot": 0}),
    "blimp_causative": ("blimp/causative.yaml", {}),
    "blimp_transitive": ("blimp/transitive.yaml", {}),
}
GROUPS = {  # name to tasks, and to whether they are weighted by their sizes, as upstream's groups of these tasks are
    "mmlu_some": (["mmlu_anatomy", "mmlu_virology"], True),
    "blimp_some": (["blimp_causative", "blimp_transitive"], False),
}
FEWER = {"mmlu_virology": 2, "truthfulqa_gen": 4}  # a group of unequal tasks; a task that scores slowly
_NOUNS = "moon sun mars river stone bird glass iron salt leaf wind fire snow rope hill lamp".split()


def documents(task: str) -> list[dict[str, Any]]:
    """Made documents in the columns of upstream's data set: 24, or a part of them."""
    draw, rows = random.Random(zlib.crc32(task.encode())), []
    for at in range(24 // FEWER.get(task, 1)):
        a, b, c, d = choices = draw.sample(_NOUNS, 4)
        question, sums = f"Which of these is number {at}?", f"One and {at} is {at + 1}.\n#### {at + 1}"
        wrong = [f"The {b} it is", f"No {c}"]
        columns: dict[str, dict[str, Any]] = {
            "arc": {"id": f"q{at}", "choices": {"text": choices, "label": [*"ABCD"]}, "answerKey": "ABCD"[at % 4]},
            "gsm8k": {"answer": sums},
            "truthfulqa": {"best_answer": a, "correct_answers": [f"It is {a}."], "incorrect_answers": wrong},
            "wikitext": {"page": f" = {a} = \n\n The {b} is a {c} , and {at} of {d} . \n" * (1 + at % 3)},
            "lambada": {"text": f"The {a} met the {b} {at} times before the {c}"},
            "wmt": {"de": f"Der Mond {at} {a}", "en": f"The {a} is {at} and the {b}"},
            "mmlu": {"choices": choices, "answer": at % 4},
            "blimp": {"sentence_good": f"The {a} is {b} {at}.", "sentence_bad": f"The {a} are {b} {at}."},
        }
        rows.append({"question": question, **columns[task.partition("_")[0]]})
    return rows


def write_tasks(folder: Path) -> Path:
    """A folder for ``--include_path``: YAML files that include upstream's, and their documents."""
    import lm_eval.tasks
    import yaml

    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, changes) in UPSTREAM.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in documents(name)), "utf-8")
        splits = dict.fromkeys(("train", "validation", "test", "dev"), str(data))
        source = {"data_files": splits, "cache_dir": str(folder / "cache")}
        config = {"include": str(Path(lm_eval.tasks.__file__).parent / file), "task": name, "tag": None}
        config |= {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": source, **changes}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config), "utf-8")
    for name, (tasks, weighted) in GROUPS.items():
        mean = {"metric": "acc", "aggregation": "mean", "weight_by_size": weighted}
        group = {"group": name, "task": tasks, "aggregate_metric_list": [mean]}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(group), "utf-8")
    return folder


def run_guesses(folder: Path, tasks: list[str], include: Path, name: str, share: float) -> None:
    """Write a run of a model that knows a share of the answers and guesses the others, the same ones every time."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from lm_eval_tasks.harness import has_scorers

    def draw(*of: Any) -> random.Random:
        return random.Random(zlib.crc32(repr((name, *of)).encode()))

    class Guesses(LM):
        def loglikelihood(self, requests: Any) -> Any:
            return [(-draw(*each.args).random() * 9, draw(each.args[0]).random() < share) for each in requests]

        def loglikelihood_rolling(self, requests: Any) -> Any:
            values = [-draw(*(text for text in each.args if text)).random() * 99 for each in requests]
            return [(value, False) for value in values] if has_scorers() else values

        def generate_until(self, requests: Any) -> Any:
            answers = []
            for number, each in enumerate(requests):
                right = next(each.doc[column] for column in ("answer", "best_answer", "en") if column in each.doc)
                drawn = draw(each.args[0], number % each.repeats)
                known = drawn.random() < share
                answers.append(f"{right} The answer is {right.split()[-1]}." if known else drawn.choice(_NOUNS))
            return answers

    tracker = EvaluationTracker(output_path=str(folder))
    manager = TaskManager(include_path=str(include), include_defaults=False)
    options: dict[str, Any] = {"task_manager": manager, "evaluation_tracker": tracker, "bootstrap_iters": 10}
    results: Any = simple_evaluate(model=Guesses(), tasks=[*tasks], **options)
    samples, general = results.pop("samples"), tracker.general_config_tracker
    general.model_name = general.model_name_sanitized = name
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
