"""Prompts that a backend would cut: the windows of backends, the run that ends before its first request, the doubt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.cli import main
from lm_eval_tasks.harness.context_window import (
    Cut,
    PromptCheck,
    Window,
    count_cut,
    estimated_length,
    planned_window,
    window_of,
)
from tests.chat_endpoint import Completions
from tests.conftest import Harness, command, results_of, run
from tests.miniature import SAMPLE
from tests.tiny_models import needed

ALLOWED = {**SAMPLE, "cut_prompts": "allow"}

OF_API = ("max_gen_toks",)
SIZE = {"max_length": 2048, "max_gen_toks": 256}
API: dict[str, Any] = {"tokenized_requests": True, "max_length": 2047, "_max_gen_toks": 256}
TOKENIZER = SimpleNamespace(model_max_length=512)
MIDDLE, INPUT = {**SIZE, "truncation_side": "middle"}, {**SIZE, "max_input_len": 1024, "max_output_len": 512}
CUT_TO_512 = {**SIZE, "truncation": True, "tokenizer": TOKENIZER}


def made(kinds: str, **attributes: Any) -> Any:
    """A model whose class and bases have these names, the nearest first."""
    kind: type = object
    for name in reversed(kinds.split()):
        kind = type(name, (kind,), {})
    model = kind()
    vars(model).update(attributes)
    return model


@pytest.mark.parametrize(
    ("kinds", "attributes", "window"),
    [
        ("LocalCompletionsAPI TemplateAPI TemplateLM", API, Window(2047, 256, OF_API, spare=1)),
        ("LocalCompletionsAPI TemplateAPI TemplateLM", {**API, "tokenized_requests": False}, None),
        ("LocalChatCompletion LocalCompletionsAPI TemplateAPI TemplateLM", API, None),
        ("HFLM TemplateLM", {**SIZE, "max_length": 4096}, Window(4096, 256)),
        ("MambaLMWrapper HFLM TemplateLM", SIZE, Window(2048, 256)),
        ("HFLM TemplateLM", {**SIZE, "backend": "seq2seq"}, Window(2048, 256, ())),
        ("HFLM TemplateLM", CUT_TO_512, Window(2048, 256, longest_prompt=512, side="end")),
        ("HFLM TemplateLM", {**SIZE, "max_length": 10**30}, None),
        ("VLLM TemplateLM", MIDDLE, Window(2048, 256, argument="max_model_len", side="middle")),
        ("SGLangLM TemplateLM", SIZE, Window(2048, 256, OF_API, argument="max_model_len")),
        ("TRTLLM TemplateLM", INPUT, Window(1536, 256, argument="max_input_len")),
        ("NeMoLM LM", SIZE, Window(2048, 256, OF_API)),
        ("MegatronLMEval LM", SIZE, Window(2048, 256, OF_API, argument="seq_length")),
        ("ONNXRuntimeLM _ONNXLMBase TemplateLM", SIZE, None),
        ("AnthropicLM LM", SIZE, None),
        ("GroundedBaseline DocumentAnswerer LM", {}, None),
    ],
)
def test_the_window_of_a_backend(kinds: str, attributes: dict[str, Any], window: Window | None) -> None:
    model = made(kinds, **attributes)
    assert window_of(model) == window
    assert window_of(made("CachingLM", lm=model)) == window  # --use_cache


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("local-completions", {"TemplateAPI", "TemplateLM"}),
        ("local-chat-completions", {"LocalChatCompletion"}),
        ("hf", {"HFLM", "TemplateLM"}),
        ("vllm", {"VLLM", "TemplateLM"}),
        ("sglang", {"SGLangLM", "TemplateLM"}),
    ],
)
def test_the_harness_has_classes_of_these_names(name: str, names: set[str]) -> None:
    from lm_eval.api.registry import get_model

    needed("torch", "transformers")
    try:
        kind = get_model(name)
    except ImportError as error:
        pytest.skip(f"{name}: {error}")
    assert names <= {each.__name__ for each in kind.__mro__}


@pytest.mark.parametrize(
    ("window", "options", "room"),
    [
        (Window(2047, 256, OF_API), {"max_gen_toks": 200, "max_tokens": 9}, 1847),
        (Window(2047, 256, OF_API), {"max_tokens": 9}, 1791),  # the payload's alone
        (Window(2047, 256, OF_API), {"max_gen_toks": 8192}, -6145),  # upstream 3497
        (Window(4096, 256), {"max_new_tokens": 96, "max_tokens": 9}, 4000),
        (Window(4096, 256), {"max_completion_tokens": "96"}, 4000),
        (Window(512, 256, ()), {"max_gen_toks": 200}, 512),  # an encoder's
        (Window(4096, 256, longest_prompt=512), {"max_gen_toks": 200}, 512),
        (Window(8192, 256), {"truncate_prompt_tokens": 100}, 100),
        (Window(8192, 256), {"truncate_prompt_tokens": -1}, 7936),
    ],
)
def test_the_room_of_a_prompt(window: Window, options: dict[str, Any], room: int) -> None:
    assert window.room(options) == room


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("four", 1), ("a" * 400, 100), ("я" * 30, 10), ("क" * 20, 10), ("語" * 21, 20), ("a語" * 84, 101)],
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimated_length(text) == tokens


def request(prompt: Any, kind: str = "generate_until", **options: Any) -> SimpleNamespace:
    return SimpleNamespace(request_type=kind, args=(prompt, options))


def test_prompts_are_counted_and_short_ones_never_tokenised() -> None:
    asked = []

    def length(prompt: str) -> int:
        asked.append(prompt)
        return len(prompt)

    requests = [request("b" * n, max_gen_toks=10) for n in (20, 80, 90, 91, 120)]
    likelihood = request("b" * 500, "loglikelihood")
    assert count_cut(Window(100, 1), [*requests, likelihood], length) == Cut(2, 5, 120, 10, 100)
    assert [*map(len, asked)] == [80, 90, 91, 120]  # 80 bytes could be 96 tokens
    assert count_cut(Window(130, 1), requests, length) is None
    assert count_cut(None, requests, length) is None


class _Task:
    may_cut_prompts = False

    def __init__(self, name: str, *lengths: int) -> None:
        self.config = SimpleNamespace(task=name)
        self.instances = [request("b" * n) for n in lengths]


def test_all_tasks_and_processes_are_in_one_error() -> None:
    torch = pytest.importorskip("torch")
    own, others = _Task("one", 50, 90), _Task("two", 10)
    theirs = torch.tensor([[1, 4, 95, 20, 100], [3, 3, 99, 20, 100]]).flatten()
    model = made("HFLM TemplateLM", max_length=100, max_gen_toks=20, tok_encode=lambda text: text, world_size=2)
    vars(model).update(device="cpu", all_gather=lambda counts: torch.cat([counts, theirs]))
    check = PromptCheck(model, [own, others])
    check.built(own)  # waits for the other
    with pytest.raises(UsageError) as caught:
        check.built(others)
    assert str(caught.value) == (
        "one, two: 5 of 10 prompts would lose their beginning: the longest has 99 tokens, an answer up to 20 "
        "(max_gen_toks), and the model takes 100 in all. Set --model_args max_length=119, if the model reads as many, or a "
        'smaller --gen_kwargs max_gen_toks=N; with --metadata \'{"cut_prompts": "allow"}\' the run goes on, and every '
        "page doubts it"
    )


LONGEST = 1057
"""Tokens of the longest prompt of `nomiracl_de` in the miniature, by the tiny Llama's tokenizer."""


def api(model: Path, **more: Any) -> str:
    arguments = {"model": "m", "tokenizer": model, "base_url": "http://127.0.0.1:9/v1/completions", **more}
    return ",".join(f"{key}={value}" for key, value in arguments.items())


@pytest.mark.parametrize(
    ("kind", "length", "said"),
    [
        ("local-completions", 2048, None),
        (
            *("local-completions", LONGEST + 200),
            f"1 of 8 prompts would lose their beginning: the longest has {LONGEST} tokens, an answer up to 200 "
            f"(max_gen_toks), and the model takes {LONGEST + 199} in all. Set --model_args max_length={LONGEST + 201},",
        ),
        ("hf", LONGEST + 199, "1 of 8 prompts would lose their beginning: the longest has"),
    ],
)
def test_a_run_whose_prompts_would_be_cut_ends_before_its_first_request(
    llama: Path, harness: Harness, monkeypatch: pytest.MonkeyPatch, kind: str, length: int, said: str | None
) -> None:
    from lm_eval.api.registry import get_model

    needed("tenacity", "aiohttp")
    asked: list[Any] = []
    answer = lambda self, requests, **_: [asked.append(each) or "" for each in requests]  # noqa: E731
    monkeypatch.setattr(get_model(kind), "generate_until", answer)
    given = f"pretrained={llama},device=cpu,max_length={length}" if kind == "hf" else api(llama, max_length=length)
    if said is None:
        results = harness(["nomiracl_de"], kind, given, metadata=SAMPLE)
        assert "prompts_cut" not in results["configs"]["nomiracl_de"]["metadata"]
        assert len(asked) == 8
    else:
        with pytest.raises(UsageError, match=f"nomiracl_de: .*{re.escape(said)}"):
            harness(["nomiracl_de"], kind, given, metadata=SAMPLE)
        assert not asked


@pytest.mark.slow("a run of the command")
def test_cut_prompts_that_are_allowed_are_counted_and_doubted(llama: Path, completions: str, tmp_path: Path) -> None:
    from lm_eval_tasks.results.doubts import doubts_about_answers, signs_of
    from lm_eval_tasks.runs import read_runs

    needed("tenacity", "aiohttp")
    given = api(llama, base_url=completions, max_length=LONGEST + 200)
    asked = [command("lm_eval"), "--tasks", "nomiracl_de", "--model", "local-completions", "--model_args", given]
    asked += ["--log_samples", "--output_path", "out", "--metadata"]
    refused = run([*asked, json.dumps(SAMPLE)], tmp_path, check=False)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("lm_eval: error: nomiracl_de: 1 of 8 prompts would lose")
    assert not Completions.asked
    run([*asked, json.dumps(ALLOWED)], tmp_path)
    assert max(len(body["prompt"][0]) for body in Completions.asked) == LONGEST - 1
    recorded = results_of(tmp_path / "out")["configs"]["nomiracl_de"]["metadata"]
    cut = {"cut": 1, "of": 8, "longest": LONGEST, "max_gen_toks": 200, "window": LONGEST + 199}
    assert (recorded["cut_prompts"], recorded["prompts_cut"]) == ("allow", cut)
    task = read_runs([tmp_path / "out"])[0].tasks["nomiracl_de"]
    doubt = ("cut", "prompts were cut, and the model did not see them whole", "1 of 8")
    assert doubt in [*doubts_about_answers(task, "robust", signs_of(task, None))]
    assert main(["report", str(tmp_path / "out"), "-o", str(tmp_path / "report.html")]) == 0
    assert f"{doubt[1]} (1 of 8)" in (tmp_path / "report.html").read_text("utf-8")


def test_the_option_has_one_value(harness: Harness) -> None:
    with pytest.raises(UsageError, match="nomiracl_de: unknown cut_prompts True; known are allow"):
        harness(["nomiracl_de"], "grounded-baseline", "", metadata={**SAMPLE, "cut_prompts": True})


@pytest.mark.parametrize(
    ("kind", "given", "window"),
    [
        ("local-completions", {"max_length": 9000, "max_gen_toks": 99}, Window(8999, 99, OF_API, spare=1)),
        ("local-completions", {"tokenizer_backend": "None"}, None),
        ("local-completions", {"tokenized_requests": False}, None),
        ("local-chat-completions", {"max_length": 10}, None),
        ("grounded-baseline", {}, None),
    ],
)
def test_the_window_that_a_model_will_have(kind: str, given: dict[str, Any], window: Window | None) -> None:
    from lm_eval.api.registry import get_model

    assert planned_window(get_model(kind), given, None, None) == window


@pytest.mark.parametrize(
    ("given", "settings", "tokenizer", "size"),
    [
        ({}, None, None, None),
        ({}, {"n_positions": 200, "max_position_embeddings": 300}, None, 200),
        ({}, {"max_position_embeddings": 9, "text_config": SimpleNamespace(max_position_embeddings=300)}, None, 300),
        ({}, {}, TOKENIZER, 512),
        ({}, {}, SimpleNamespace(model_max_length=10**30), None),
        ({"max_length": 77}, {"max_position_embeddings": 300}, TOKENIZER, 77),
        ({"max_model_len": 77}, None, None, 77),
    ],
)
def test_the_window_of_a_model_of_hugging_face(given: Any, settings: Any, tokenizer: Any, size: int | None) -> None:
    settings = None if settings is None else SimpleNamespace(**settings)
    assert planned_window(None, given, settings, tokenizer) == (None if size is None else Window(size, 256))
