"""The README's examples of LangChain and Inspect, through the real packages; skipped where they are not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import lm_eval_grounded as g
from tests.conftest import ROOT

PASSAGE = "The bridge over the Elbe was opened in 1893. It is 141 metres long and crosses the river near Dresden."
MADE_UP = "Queen Victoria flew to Mars with seventeen purple elephants and bought a castle made of cheese there."


def example(package: str, **given: Any) -> dict[str, Any]:
    """The names that the README's example of a package makes of some given ones."""
    page = (ROOT / "lm_eval_grounded" / "README.md").read_text("utf-8")
    (code,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if f"from {package}" in each)
    exec(compile(code, package, "exec"), names := {"g": g, **given})
    return names


def test_the_answer_of_a_chain_of_langchain_is_read_with_its_passages() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda

    retriever = RunnableLambda(lambda _: [Document(page_content=PASSAGE), Document(page_content="Second.")])
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    model = FakeListChatModel(responses=[MADE_UP, "It was opened in 1893."])
    assert example("langchain_core", retriever=retriever, prompt=prompt, model=model)["spans"] != []
    assert example("langchain_core", retriever=retriever, prompt=prompt, model=model)["spans"] == []


def test_inspect_scores_with_a_detector(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    answers = ["The bridge over the Elbe was opened in 1893.", MADE_UP, "I don't know."]
    outputs = [ModelOutput.from_content("mock", text) for text in answers]
    for output in outputs:
        output.usage = ModelUsage()  # or Inspect downloads a tokenizer to count
    model = get_model("mockllm/model", custom_outputs=outputs)
    samples = [Sample(input="When was it opened?", target="", metadata={"passages": [PASSAGE]}) for _ in answers]
    task = Task(samples, solver=generate(), scorer=example("inspect_ai")["unsupported"]())
    (log,) = eval(task, model=model, log_dir=str(tmp_path), display="none", max_samples=1)
    assert log.status == "success"
    assert log.samples
    values = [next(iter((sample.scores or {}).values())) for sample in log.samples]
    assert [value.value for value in values[:2]] == [0, 1]
    read = g.detect_log(log.location, by="model", language="en")  # the file that Inspect has just written
    assert log.location.endswith(".eval")
    assert read.summary.total.abstaining == 1
    assert read.groups["model"].dropna().tolist() == ["mock"]
    assert [bool(each["spans"]) for each in read.answers.to_dict("records")] == [False, True, False]
