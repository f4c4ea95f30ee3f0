"""The tasks of the steps: ``mfava_make_queries``, ``mfava_make_answers``, ``mfava_make_silver`` and ``mfava_translate``."""

from __future__ import annotations

import re
from importlib import resources

from lm_eval_tasks.definition.schema import DEFINED_MEAN, DEFINED_SHARE, Base, Benchmark, Metric, Task
from lm_eval_tasks.making import steps
from lm_eval_tasks.making.steps import LANGUAGES

_KEPT = Metric("kept_rate", DEFINED_SHARE, True, "all replies")
_COMMENT = re.compile(r"\A\{#.*?-#\}\s*", re.DOTALL)


def _base(step: str, comment: str, most_tokens: int, *metrics: Metric) -> Base:
    template = resources.files("lm_eval_tasks.making").joinpath(f"prompts/{step}.jinja").read_text("utf-8")
    return Base(
        f"_{step}_base",
        comment,
        task="lm_eval_tasks.harness.task.GroundedTask",
        documents="lm_eval_tasks.making.dataset.load_task",
        dataset_path="articles",
        prompt={
            "doc_to_text": _COMMENT.sub("", template).rstrip("\n"),  # the comment says where it comes from
            "doc_to_target": "",
            "target_delimiter": "",
            "generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": most_tokens},
            "num_fewshot": 0,
        },
        filters={"reply": ("final_answer", "take_first")},
        process_results="lm_eval_tasks.making.steps.process_results",
        metrics=(_KEPT, *metrics),
    )


_BASES = {
    steps.QUERIES: _base(
        steps.QUERIES,
        "Two questions about an article (mFAVA paper, Table 6).",
        512,
        Metric("questions", DEFINED_MEAN, True, "all replies"),
    ),
    steps.ANSWERS: _base(steps.ANSWERS, "A faithful answer to a question about an article (Table 11).", 512),
    steps.SILVER: _base(
        steps.SILVER,
        "A text with FAVA's kinds of errors inserted, in tags (Tables 12 to 17).",
        2048,
        Metric("errors", DEFINED_MEAN, None, "replies that are kept"),
    ),
    steps.TRANSLATE: _base(steps.TRANSLATE, "A text in another language, its tags kept.", 2048),
}
BENCHMARK = Benchmark(
    version=1.0,
    tasks=tuple(Task(steps.task_name(step), base, {"step": step}) for step, base in _BASES.items()),
    languages=LANGUAGES,
)
