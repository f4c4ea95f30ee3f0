"""Options as one text are read alike on every version of the harness."""

from __future__ import annotations

from typing import Any

import pytest
from lm_eval.utils import simple_parse_args_string

from custom_metrics.usage.options import assignments
from lm_eval_tasks.data.provenance import metadata_given
from lm_eval_tasks.harness import has_scorers
from tests.miniature import MINIATURE

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
