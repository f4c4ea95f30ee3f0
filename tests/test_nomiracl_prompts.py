"""The prompts are upstream's: byte for byte where released prompts are there, by their texts where not."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.nomiracl.benchmark import PROMPTS, suffix
from lm_eval_tasks.nomiracl.dataset import load
from tests.development.released_sample import RELEASED

DOC = {"query": "Who?", "passages": [f"T{i}: text {i}" for i in range(1, 11)]}
CONTEXTS = "\n\n".join(f"[{i}] T{i}: text {i}" for i in range(1, 11))
GIVEN = "I will give you a question and several contexts containing information about the question."
READ = "Read the contexts carefully."
EITHER = 'If any of the contexts answers the question, respond as either "Yes, answer is present" or "I don\'t know".'

EXPECTED = {
    "vanilla": f"{GIVEN} {READ} {EITHER}\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\nOUTPUT:\n",
    "role": (
        "You are an evaluator checking whether the question contains the answer within the contexts or not. "
        f"{GIVEN} {READ} {EITHER} Do not add any other information in your output."
        f"\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\nOUTPUT:\n"
    ),
    "repeat": (
        f"{GIVEN} {READ} {EITHER}\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\n"
        "Remember to read the contexts carefully. If any of the contexts answers the question: Who?, respond as either "
        '"Yes, answer is present" or "I don\'t know".\n\nOUTPUT:\n'
    ),
    "explanation": (
        f"{GIVEN} Read the contexts carefully and provide a step-by-step explanation for your answer. {EITHER} "
        "You must follow the output format with: ## Explanation:... "
        '## Answer: "Yes, answer is present" OR "I don\'t know"'
        f"\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\n"
    ),
}


def templates() -> Any:
    """The harness's function from a template and a document to a text."""
    place = "lm_eval.config.templates" if has_scorers() else "lm_eval.utils"
    return import_module(place).apply_template


def template(prompt: str) -> str:
    from lm_eval.tasks._yaml_loader import load_yaml

    import lm_eval_tasks.nomiracl

    folder = Path(lm_eval_tasks.nomiracl.__file__).parent
    config: dict[str, Any] = load_yaml(folder / prompt / f"nomiracl_de{suffix(prompt)}.yaml", resolve_func=False)
    return str(config["doc_to_text"])


@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_prompt_has_its_published_text(prompt: str) -> None:
    apply_template = templates()

    assert apply_template(template(prompt), DOC) == EXPECTED[prompt]


# Prompts whose source the mirror does not hold to the letter: it wrote two spaces in a question as one (ar, en, yo), and
# its copy of a passage ends earlier than the one in the prompt (sw).
NOT_IN_THE_MIRROR = {"ar": 3, "en": 1, "sw": 17, "yo": 1}
COUNT = {"yo": 56}


@pytest.mark.parametrize(
    "language", [pytest.param(code, marks=pytest.mark.slow("all prompts") if code != "yo" else ()) for code in RELEASED]
)
@pytest.mark.one_python("the text of a template beside released prompts")
def test_vanilla_prompts_equal_all_released_ones(language: str, hub: str, shared: Path) -> None:
    apply_template = templates()

    documents = load(language, mirror=hub, max_samples="all")["evaluation"]
    built = {(d["subset"], d["query_id"]): apply_template(template("vanilla"), d) for d in documents}
    path = shared / "reference" / "nomiracl_prompts" / f"{language}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        released = [json.loads(line) for line in lines]
    assert len(released) == COUNT.get(language, 60)
    differing = [r for r in released if built[r["subset"], r["query_id"]] != r["prompt"]]
    assert len(differing) == NOT_IN_THE_MIRROR.get(language, 0)
    for r in differing:
        ours, theirs = split(built[r["subset"], r["query_id"]]), split(r["prompt"])
        assert ours[0].split() == theirs[0].split()
        assert len(ours) == len(theirs) == 11
        assert all(full.startswith(part) for part, full in zip(ours[1:], theirs[1:], strict=True))
        # and from upstream's own words the template makes upstream's prompt
        document = {"query": theirs[0], "passages": theirs[1:]}
        assert apply_template(template("vanilla"), document) == r["prompt"]


def split(prompt: str) -> list[str]:
    """The question and the ten passages of a vanilla prompt."""
    head, _, rest = prompt.removesuffix("\n\nOUTPUT:\n").partition("\n\nCONTEXTS:\n")
    parts = [head.split("QUESTION:\n")[1]]
    for number in range(1, 11):
        _, _, rest = rest.partition(f"[{number}] ")
        parts.append(rest.partition(f"\n\n[{number + 1}] ")[0] if number < 10 else rest)
    return parts


def test_a_passage_is_data_and_never_a_template() -> None:
    apply_template = templates()

    hostile = {"query": "{{ 7 * 7 }}", "passages": ["T: {% raw %}{{ config }}"] * 10}
    text = apply_template(template("vanilla"), hostile)
    assert "{{ 7 * 7 }}" in text
    assert "{% raw %}{{ config }}" in text
