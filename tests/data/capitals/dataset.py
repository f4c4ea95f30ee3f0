"""Documents and scores of Capitals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval_tasks import definition
from lm_eval_tasks.data import provenance, sources
from lm_eval_tasks.data.tables import read_json_lines
from lm_eval_tasks.definition import Options, Places, TaskLoader

REPOSITORY = "atlas/capitals"
RANKED = "test"


def load(language: str, split: str = RANKED, mirror: str | None = None, **ignored: Any) -> dict[str, Any]:
    """The questions of a language: ``id``, ``question``, ``reference``, ``capital``."""
    task = f"capitals_{language}"
    definition.choice("split", split, (RANKED, "dev"), task)
    definition.refuse_misspelt(ignored, load_task.user_options, task)
    with sources.recording() as read:
        rows = [row for _, row in read_json_lines(sources.locate(REPOSITORY, f"{language}/{split}.jsonl", mirror))]
    record = provenance.Record.from_files(
        read,
        not_comparable=[] if split == RANKED else [f"split {split}, where the paper has {RANKED}"],
        kept={"questions": len(rows)},
        split=split,
        options={"language": language, "split": split},
    )
    return {"evaluation": provenance.documents_of(rows, record)}


def _files(options: Options) -> Places:
    return [(REPOSITORY, f"{options['language']}/{options.get('split', RANKED)}.jsonl")]


load_task = TaskLoader(load, _files, of_task=("language",))


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float | None]:
    """The values of the metrics for an answer."""
    (answer,) = results
    correct = doc["capital"] in answer
    return {"correct": float(correct), "words": float(len(answer.split())) if correct else None}
