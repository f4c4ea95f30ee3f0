"""What stands in the system turn is in every prompt, whatever roles the model's chat template has."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, NoReturn

import jinja2
import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.harness.task import with_system_turn
from tests.conftest import Harness
from tests.miniature import SAMPLE

ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
)
TEMPLATES = {
    "with a system role": "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}",
    "ChatML": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n",
    "raising": "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}",
    "silently dropping": "{% for m in messages if m.role != 'system' %}[{{ m.role }}] {{ m.content }}\n{% endfor %}",
    "of alternating roles only": ALTERNATING,
}
WITHOUT = ("raising", "silently dropping", "of alternating roles only")


def rendering(template: str) -> Callable[..., str]:
    def raise_exception(message: str) -> NoReturn:
        raise jinja2.TemplateError(message)

    environment = jinja2.Environment()
    environment.globals["raise_exception"] = raise_exception
    compiled = environment.from_string(template)
    return lambda turns, **_: compiled.render(messages=turns)


def as_the_harness_does(template: str) -> Callable[..., str]:
    """HFLM and VLLM leave the system turn out where the template raises an error."""
    render = rendering(template)

    def apply(turns: list[dict[str, Any]], **more: Any) -> str:
        try:
            return render(turns, **more)
        except jinja2.TemplateError:
            return render([turn for turn in turns if turn["role"] != "system"], **more)

    return apply


def prompts(harness: Harness, monkeypatch: pytest.MonkeyPatch, task: str, template: Any, **options: Any) -> list[Any]:
    """The documents of a task and their prompts, in a chat template."""
    from lm_eval_tasks.models.baseline import GroundedBaseline

    monkeypatch.setattr(GroundedBaseline, "apply_chat_template", lambda self, turns, **more: template(turns, **more))
    chat = {"metadata": SAMPLE, "apply_chat_template": True, **options}
    samples = harness([task], "grounded-baseline", "strategy=abstain", **chat)["samples"][task]
    return [(sample["doc"], sample["arguments"][0][0]) for sample in samples]


@pytest.mark.parametrize("make", [rendering, as_the_harness_does])
@pytest.mark.parametrize("name", TEMPLATES)
def test_instruction_passages_and_turns_are_in_the_prompt(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    make: Callable[[str], Any],
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = prompts(harness, monkeypatch, "mtragun_clapnq", make(TEMPLATES[name]), system_instruction="Be brief.")
    assert len(rows) > 1
    for doc, prompt in rows:
        parts = ["Be brief.", "Given one or more documents", "less than 150 words", "in your response."]
        parts += [passage["text"] for passage in doc["passages"]] + [turn["content"] for turn in doc["conversation"]]
        places = [prompt.find(part) for part in parts]
        assert -1 not in places
        assert places == sorted(places)
    said = [record.message for record in caplog.records if "has no system role" in record.message]
    assert len(said) == (name in WITHOUT)


def test_the_text_of_the_system_turn_begins_the_first_user_turn() -> None:
    turns = [("system", " Rules.\n\nPassage. "), ("user", "One?"), ("assistant", "Two."), ("user", "Three?\n")]
    chat = [{"role": role, "content": text} for role, text in turns]
    moved = "[user] Rules.\n\nPassage.\n\nOne?\n[assistant] Two.\n[user] Three?\n\n"
    for name in WITHOUT:
        template = with_system_turn(rendering(TEMPLATES[name]), "task")
        assert template(chat, add_generation_prompt=True) == moved
        assert template(chat[1:]) == rendering(TEMPLATES[name])(chat[1:])  # nothing to move
    assert with_system_turn(rendering(ALTERNATING), "task")([chat[0], *chat[2:3]]) == (
        "[user] Rules.\n\nPassage.\n[assistant] Two.\n"
    )
    json_of_api = with_system_turn(lambda turns, **_: json.dumps(turns), "task")
    assert json.loads(json_of_api(chat)) == chat
    turns_of_server = with_system_turn(lambda turns, **_: turns, "task")
    assert turns_of_server(chat) is chat


@pytest.mark.parametrize(
    ("template", "lost"),
    [
        ("{{ messages[-1].content }}", "turn 1 (system), turn 2 (user), turn 3 (assistant)"),
        ("{{ raise_exception('no chats') }}", "it says 'no chats'"),
    ],
)
def test_a_template_that_leaves_out_turns_is_refused(template: str, lost: str) -> None:
    chat = [{"role": role, "content": "x"} for role in ("system", "user", "assistant", "user")]
    with pytest.raises(UsageError) as caught:
        with_system_turn(rendering(template), "mtragun_govt")(chat)
    assert str(caught.value) == (
        f"mtragun_govt: the model's chat template does not render a chat of system, user, assistant, user: {lost}. Name "
        f"another template, or leave out --apply_chat_template"
    )


@pytest.mark.parametrize(("task", "shots"), [("nomiracl_de", 0), ("clapnq_gold_llama", 2), ("memerag_de", 0)])
def test_other_tasks_keep_theirs(harness: Harness, monkeypatch: pytest.MonkeyPatch, task: str, shots: int) -> None:
    """Their own (CLAPnq's Llama prompt, MEMERAG's judge) and that of ``--system_instruction``; examples as turns."""
    more = {"num_fewshot": shots, "fewshot_as_multiturn": bool(shots), "limit": 2, "system_instruction": "Be brief."}
    for template in (TEMPLATES["ChatML"], ALTERNATING):
        for _, prompt in prompts(harness, monkeypatch, task, as_the_harness_does(template), **more):
            assert prompt.count("Be brief.") == 1
            assert task != "clapnq_gold_llama" or "You are a helpful, respectful and honest assistant." in prompt
