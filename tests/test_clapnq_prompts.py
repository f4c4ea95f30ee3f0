"""CLAPnq's prompts and shots: the words of the paper's appendix B, as text and as chat, and its settings 1/0 and 1/1."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from custom_metrics.abstention import is_abstention
from lm_eval_tasks.clapnq.task import choose_shots
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.harness import has_scorers
from tests.conftest import Harness, loaded_tasks
from tests.miniature import MINIATURE

TEXTS = [("Tides", "The Moon pulls."), ("Moon", "It is far.")]
GIVEN = [{"id": "", "title": title, "text": text} for title, text in TEXTS]
DOC = {"question": "why", "answerable": True, "target": "It pulls.", "passages": GIVEN}
PULLS = "[document]: Tides The Moon pulls.."
DECLINES = "I do not have an answer."
TIDES = "[title]: Tides [document]: The Moon pulls"
ONE = DOC | {"passages": DOC["passages"][:1]}  # type: ignore[index]

FLAN = 'Please answer a question about this article. If the question is unanswerable, say "unanswerable". '
FLAN += "user: why, answer:"
GPT = (
    "Generate next agent response, given the following document(s). If you cannot base your answer on the document, "
    "please state that you do not have an answer."
)
LLAMA = (  # appendix B
    "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible, while being safe. "
    "Your answers should not include any harmful, unethical, racist, sexist, toxic, dangerous, or illegal content. "
    "Please ensure that your responses are socially unbiased and positive in nature. If a question does not make any "
    "sense, or is not factually coherent, explain why instead of answering something not correct. If you don't know "
    "the answer to a question, please don't share false information."
)
LLAMA_END = (
    "[conversation]: why. Answer with no more than 150 words. If you cannot base your answer on the above document(s), "
    "please state that you do not have an answer."
)


@pytest.fixture(scope="module")
def tasks() -> dict[str, Any]:
    names = [f"clapnq_{setting}{prompt}" for setting in ("gold", "rag") for prompt in ("", "_gpt", "_llama")]
    found: dict[str, Any] = loaded_tasks(names, mirror=MINIATURE)
    return found


def prompt(task: Any, doc: dict[str, Any], shots: int = 0, **how: Any) -> Any:
    task.set_config("num_fewshot", shots)
    return task.fewshot_context(doc, shots, **how)


def turns(messages: list[dict[str, str]], **_: Any) -> list[tuple[str, str]]:
    """A chat template that leaves the turns as they are."""
    return [(message["role"], message["content"]) for message in messages]


in_chat = partial(prompt, apply_chat_template=True, chat_template=turns)


@pytest.mark.parametrize("setting", ["gold", "rag"])
@pytest.mark.parametrize(
    ("name", "doc", "expected"),
    [
        ("", ONE, f"Tides: The Moon pulls. {FLAN}"),
        ("", DOC, f"Tides: The Moon pulls.\n\nMoon: It is far. {FLAN}"),
        ("_gpt", ONE, f"{GPT}\n\n[title]: Tides [document]: The Moon pulls.\n\nwhy\nagent:"),
        ("_gpt", DOC, f"{GPT}\n\n{TIDES}.\n[title]: Moon [document]: It is far.\n\nwhy\nagent:"),
        ("_llama", ONE, f"{LLAMA}\n\n[document]: Tides The Moon pulls.. {LLAMA_END}\n[answer]:"),
        ("_llama", DOC, f"{LLAMA}\n\n{PULLS}\n[document]: Moon It is far.. {LLAMA_END}\n[answer]:"),
    ],
)
def test_plain_text_is_the_papers_prompt_and_a_cue(
    tasks: dict[str, Any], setting: str, name: str, doc: dict[str, Any], expected: str
) -> None:
    assert prompt(tasks[f"clapnq_{setting}{name}"], doc) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", [("user", f"Tides: The Moon pulls. {FLAN}")]),
        ("_gpt", [("system", GPT), ("user", "[title]: Tides [document]: The Moon pulls.\n\nwhy")]),
        ("_llama", [("system", LLAMA), ("user", f"[document]: Tides The Moon pulls.. {LLAMA_END}")]),
    ],
)
def test_in_chat_the_system_part_is_a_turn_and_there_is_no_cue(
    tasks: dict[str, Any], name: str, expected: list[tuple[str, str]]
) -> None:
    assert in_chat(tasks[f"clapnq_gold{name}"], ONE) == expected


def test_shots_are_turns_of_a_chat(tasks: dict[str, Any]) -> None:
    roles, contents = zip(*in_chat(tasks["clapnq_rag_gpt"], ONE, 2, fewshot_as_multiturn=True), strict=True)
    assert roles == ("system", "user", "assistant", "user", "assistant", "user")
    assert contents[2].startswith("Builders drove great numbers of wooden piles")
    assert contents[3].endswith("what food is venice italy famous for")
    assert contents[4:] == ("I do not have an answer.", "[title]: Tides [document]: The Moon pulls.\n\nwhy")
    assert contents[1].rpartition("\n")[0] == contents[3].rpartition("\n")[0], "the same passage"


@pytest.mark.parametrize(
    ("name", "cue", "abstains"),
    [("", "answer: ", "unanswerable"), ("_gpt", "agent: ", DECLINES), ("_llama", "[answer]: ", DECLINES)],
)
def test_1_1_has_an_unanswerable_example_beside_1_0s(tasks: dict[str, Any], name: str, cue: str, abstains: str) -> None:
    texts = [prompt(tasks[f"clapnq_gold{name}"], ONE, shots) for shots in (0, 1, 2)]
    for said, times in (
        (f"{cue}Builders drove great numbers", [0, 1, 1]),
        (f"what food is venice italy famous for{'' if name else ','}", [0, 0, 1]),
        (cue + abstains, [0, 0, 1]),
    ):
        assert [text.count(said) for text in texts] == times
    assert is_abstention(abstains, "en")


@pytest.mark.parametrize(("shots", "chat", "stops"), [(0, False, False), (2, False, True), (2, True, False)])
def test_text_with_shots_stops_between_them(tasks: dict[str, Any], shots: int, chat: bool, stops: bool) -> None:
    task = tasks["clapnq_gold"]
    task.set_config("num_fewshot", shots)
    options: dict[str, Any] = {"doc_id": 0} if has_scorers() else {"metadata": ("clapnq_gold", 0, 1)}
    request = task.construct_requests(ONE, "x", apply_chat_template=chat, **options)
    request = request[0] if isinstance(request, list) else request
    assert ("\n\n" in request.args[1]["until"]) is stops
    assert "\n\n" not in task.config.generation_kwargs["until"]


def question(id: str, title: str, text: str, answers: list[str]) -> dict[str, Any]:
    passages = [{"id": "", "title": title, "text": text}]
    return {"id": id, "question": id, "passages": passages, "groundings": [f"{title} {text}"], "answers": answers}


ANSWERABLE = [question("a0", "Z", "z", []), question("a1", "A", "a", ["1"]), question("a2", "B", "b", ["2"])]


@pytest.mark.parametrize(
    ("unanswerable", "expected"),
    [
        ([("u1", "A", "other"), ("u2", "B", "b")], ("a2", "u2", "b")),
        ([("u1", "C", "c"), ("u2", "B", "other")], ("a2", "u2", "b")),
        ([("u1", "C", "c"), ("u2", "Z", "z")], ("a1", "u1", "a")),
    ],
)
def test_the_unanswerable_example_is_asked_of_the_answerable_ones_passage(
    unanswerable: list[tuple[str, str, str]], expected: tuple[str, str, str]
) -> None:
    one, other = choose_shots(ANSWERABLE, [question(*each, []) for each in unanswerable])
    assert (one["id"], other["id"], one["passages"][0]["text"]) == expected
    assert (other["passages"], other["groundings"]) == (one["passages"], one["groundings"])


@pytest.mark.parametrize(
    ("answerable", "unanswerable"), [([], ANSWERABLE), (ANSWERABLE[:1], ANSWERABLE), (ANSWERABLE, [])]
)
def test_train_files_without_an_example_are_refused(answerable: Any, unanswerable: Any) -> None:
    with pytest.raises(ValueError, match="no answerable question with an answer, or no unanswerable one"):
        choose_shots(answerable, unanswerable)


def with_shots(harness: Harness, mirror: str, shots: int, **metadata: str) -> str:
    """The first prompt of a run with shots, as chat."""
    chat = {"apply_chat_template": True, "fewshot_as_multiturn": True}
    options = {"metadata": {"mirror": mirror, **metadata}, "num_fewshot": shots, "limit": 4, **chat}
    got = harness(["clapnq_gold_llama"], "grounded-baseline", "strategy=abstain", **options)
    return str(got["samples"]["clapnq_gold_llama"][0]["arguments"][0][0])


def test_the_harness_shows_the_shots(harness: Harness, hub: str) -> None:
    context = with_shots(harness, MINIATURE, 2)
    assert context.startswith(f"{LLAMA}\n\n[document]: Venice Venice stands")
    assert "\n\nI do not have an answer.\n\n[document]: Tides" in context
    with pytest.raises(ValueError, match="clapnq_gold_llama: --num_fewshot 5: the settings are 1"):
        with_shots(harness, MINIATURE, 5)
    with pytest.raises(ValueError, match="clapnq_gold_llama: the shots are of the train split, which cannot be eval"):
        with_shots(harness, MINIATURE, 1, split="train")
    with pytest.raises(MissingSource, match=r"clapnq_train_answerable\.jsonl.*sources --fetch 'PrimeQA/clapnq"):
        with_shots(harness, hub, 1)
