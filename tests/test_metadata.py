"""Options as users type them: keys of ``--metadata`` that are nearly ours, and values of ``name=value``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lm_eval
import pytest
from lm_eval.api.registry import get_model
from lm_eval.utils import simple_parse_args_string

from custom_metrics.usage.options import assignments, refuse_unknown
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import definition
from lm_eval_tasks.clapnq import dataset as clapnq
from lm_eval_tasks.clapnq import judge
from lm_eval_tasks.clapnq.retrieval import OPTIONS
from lm_eval_tasks.data.provenance import metadata_given
from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.mfava import annotations as detection
from lm_eval_tasks.mfava import dataset as mfava
from lm_eval_tasks.mtrag import dataset as mtrag
from lm_eval_tasks.mtragun import dataset as mtragun
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.nomiracl import dataset as nomiracl
from tests.miniature import MINIATURE

ARGUMENTS = Path(__file__).parent / "data" / "model_arguments.txt"
OF_TASKS = {
    nomiracl: ("split", "subset", "max_samples", "seed", "max_passage_tokens", "passage_tokenizer", "mirror"),
    clapnq: ("split", "top_k", "mirror", "samples", *definition.OF_DETECTION, *OPTIONS),
    mfava: ("mirror", "samples", *definition.OF_DETECTION),
    detection: ("mirror",),
    mushroom: ("split", "mirror"),
    memerag: ("annotators", "mirror"),
    mtrag: ("answers", "mirror"),
    mtragun: ("mirror",),
}
ALL = sorted({"retriever", *(name for of in OF_TASKS.values() for name in of), *judge._OPTIONS})

MISSPELT = [
    *(("topk", "top_k"), ("top-k", "top_k"), ("detecter", "detector"), ("max_sample", "max_samples")),
    *(("calibration_anotation", "calibration_annotations"), ("judge_refrence", "judge_reference")),
    ("cut_prompt", "cut_prompts"),
]


@pytest.mark.parametrize("dataset", OF_TASKS)
def test_the_options_of_a_task_are_the_parameters_of_its_loader(dataset: ModuleType) -> None:
    assert sorted(dataset.load_task.user_options) == sorted(OF_TASKS[dataset])


@pytest.mark.parametrize(("given", "meant"), MISSPELT)
def test_a_key_that_is_nearly_ours_is_an_error_with_the_right_name(given: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        definition.refuse_misspelt({given: 1}, ALL, "some_task")
    assert str(caught.value) == f"some_task: --metadata key {given!r} is not known; did you mean {meant!r}?"


def arguments_of_models() -> Iterator[str]:
    """Of every constructor in the harness's folder of models (hf, vllm, sglang, local-chat-completions, openai, ...)."""
    for file in (Path(lm_eval.__file__).parent / "models").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "_create_model"):
                yield from (argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))


def test_model_arguments_and_keys_of_other_tasks_are_left_alone() -> None:
    listed = [line for line in ARGUMENTS.read_text("utf-8").splitlines() if not line.startswith("#")]
    theirs = {*" ".join(listed).split(), *arguments_of_models()}
    assert {"pretrained", "tensor_parallel_size", "base_url", "mem_fraction_static", "top_p"} <= theirs
    assert len(theirs) > 350
    definition.refuse_misspelt(dict.fromkeys(theirs, 1), ALL, "some_task")


@pytest.mark.parametrize("model", ["hf", "vllm", "sglang", "local-chat-completions", "openai-completions"])
def test_arguments_of_a_prompted_model_are_no_mistakes(model: str) -> None:
    """As options of the detector ``llm``, which hands them to a class that takes any."""
    try:
        kind = get_model(model)
    except Exception as error:  # the harness's own
        pytest.skip(f"needs the library of {model}: {error}")
    listed = [line for line in ARGUMENTS.read_text("utf-8").splitlines() if not line.startswith("#")]
    refuse_unknown(model, " ".join(listed).split(), kind)


def test_our_own_keys_are_far_enough_from_one_another() -> None:
    for known in ALL:
        definition.refuse_misspelt({known: 1}, [other for other in ALL if other != known], "some_task")


@pytest.mark.parametrize(
    "options",
    [
        {"detector": "owner/name", "device": "cpu", "retriever": "bm25", "pretrained": "x"},
        {"detector": "lexical", "detector_args": "threshold=0.3", "calibration": "pooled"},
    ],
)
def test_options_that_only_other_tasks_of_the_run_have_are_left_alone(options: dict[str, str]) -> None:
    assert len(nomiracl.load("de", mirror=MINIATURE, **options)["evaluation"]) == 8


@pytest.mark.parametrize("key", ["", "k", "e6", "ran", "sed", "speed", "runs", "x" * 10_000, "主", "top_k "])
def test_short_and_foreign_keys_are_left_alone(key: str) -> None:
    definition.refuse_misspelt({key: 1}, [known for known in ALL if known != "top_k"], "some_task")


@pytest.mark.parametrize(
    ("load", "options", "says"),
    [
        (nomiracl.load, {"language": "xx"}, "nomiracl_xx: unknown language 'xx'; known are ar, "),
        (nomiracl.load, {"split": "train"}, "nomiracl_de: unknown split 'train'; known are dev, test"),
        (nomiracl.load, {"max_samples": 0}, "nomiracl_de: max_samples must be a whole number of at least 1, got 0"),
        (nomiracl.load, {"seed": True}, "nomiracl_de: seed must be a whole number, got True"),
        (nomiracl.load, {"splitt": "dev"}, "nomiracl_de: --metadata key 'splitt' is not known; did you mean 'split'"),
        (nomiracl.load, {"detector": "lexcial"}, "nomiracl_de: --metadata detector lexcial: there is no such detector"),
        (clapnq.load, {"retriver": "x"}, "clapnq: --metadata key 'retriver' is not known; did you mean 'retriever'"),
        (clapnq.load, {"detector": "lexcial"}, "detector lexcial: there is no such detector"),
        (mfava.load, {"language": "xx"}, "mfava_xx: unknown language 'xx'; known are ar, "),
        (mushroom.load, {"split": "train"}, "mushroom_de: unknown split 'train'; known are both, test, validation"),
    ],
)
def test_an_unknown_option_is_named_with_its_task(load: Callable[..., Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(**{"language": "de", "mirror": MINIATURE, **options})
    assert str(refused.value).startswith(says)
    assert options.get("detector") is None or "did you mean 'lexical'?" in str(refused.value)


CASES = [
    ("", {}),
    (" , ", {}),
    ("path=a b,model=x", {"path": "a b", "model": "x"}),
    ("a=1,b=2.5,c=1e3,d=.5,e=01", {"a": 1, "b": 2.5, "c": 1000.0, "d": 0.5, "e": 1}),
    ("a=-1,b=+2,c=-0.5,d=-,e=1-2", {"a": -1, "b": 2, "c": -0.5, "d": "-", "e": "1-2"}),
    ("a=True,b=false,c=FALSE", {"a": True, "b": False, "c": False}),
    ("url=http://x/v1?a=b,empty=", {"url": "http://x/v1?a=b", "empty": ""}),
    ("a,b=1", {"a": "", "b": 1}),
    ("a=1_000,b=٣", {"a": 1000.0, "b": 3}),
]
ONLY_0_4 = [
    ("a= FALSE ,b=²", {"a": False, "b": "²"}),
    ("a=None,b=none", {"a": None, "b": None}),
    ("a='1',b=\"true\",c=' x '", {"a": "1", "b": "true", "c": " x "}),
]


@pytest.mark.parametrize(("text", "options"), CASES + ONLY_0_4)
def test_the_options_of_a_text(text: str, options: dict[str, Any]) -> None:
    read = assignments(text)
    assert read == options
    assert list(map(type, read.values())) == list(map(type, options.values()))


@pytest.mark.parametrize("text", [text for text, _ in CASES + ([] if has_scorers() else ONLY_0_4)])
def test_they_are_those_that_the_harness_reads(text: str) -> None:
    assert assignments(text) == simple_parse_args_string(text)


@pytest.mark.parametrize("merged", [None, "none"])  # by 0.4 and by 0.5
def test_the_models_options_are_no_metadata_of_the_run_on_any_version(merged: str | None) -> None:
    config = {"metadata": {"version": 1.0, "threshold": merged, "mirror": MINIATURE}}
    assert metadata_given(config, "threshold=none") == {"mirror": MINIATURE}
    assert metadata_given(config, {"threshold": merged}) == {"mirror": MINIATURE}
