"""The doors to LangChain and Inspect, through the real packages; skipped where they are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

import lm_eval_grounded as g

PASSAGE = "The bridge over the Elbe was opened in 1893. It is 141 metres long and crosses the river near Dresden."


def test_a_chain_of_langchain_is_collected() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    from lm_eval_grounded.integrations.langchain import AnswerCollector

    class Found(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
            if "fail" in query:
                raise ValueError("no index")
            return [Document(page_content=PASSAGE), Document(page_content="Second.")]

    prompt = ChatPromptTemplate.from_template("{context} {question}")
    model = FakeListChatModel(responses=["It was opened in 1893.", "In 1932, by a king."])
    chain = {"context": Found(), "question": RunnablePassthrough()} | prompt | model
    collector = AnswerCollector()
    for question in ("When?", "When was it opened?"):
        chain.invoke(question, config={"callbacks": [collector]})
    with pytest.raises(ValueError, match="no index"):
        chain.invoke("fail", config={"callbacks": [collector]})
    RunnableLambda(str).invoke("retrieves nothing", config={"callbacks": [collector]})
    assert [(row["question"], row["answer"], row["passages"]) for row in collector.records] == [
        ("When?", "It was opened in 1893.", [PASSAGE, "Second."]),
        ("When was it opened?", "In 1932, by a king.", [PASSAGE, "Second."]),
    ]
    assert not (collector._roots)
    assert not (collector._questions)
    assert not (collector._passages)


def test_inspect_scores_with_a_detector(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    from lm_eval_grounded.integrations.inspect import unsupported

    answers = [
        "The bridge over the Elbe was opened in 1893.",
        "Queen Victoria flew to Mars with seventeen purple elephants and bought a castle made of cheese there.",
        "I don't know.",
        "",
    ]
    outputs = [ModelOutput.from_content("mock", text) for text in answers]
    for output in outputs:
        output.usage = ModelUsage()  # or Inspect downloads a tokenizer to count
    model = get_model("mockllm/model", custom_outputs=outputs)
    samples = [Sample(input="When was it opened?", target="", metadata={"passages": [PASSAGE]}) for _ in answers]
    task = Task(samples, solver=generate(), scorer=unsupported(language="en"))
    (log,) = eval(task, model=model, log_dir=str(tmp_path), display="none", max_samples=1)
    assert log.status == "success"
    assert log.samples
    values = [next(iter((sample.scores or {}).values())) for sample in log.samples]
    assert [value.value for value in values] == [0, 1, 0, "N"]
    assert values[1].metadata
    assert values[1].metadata["probability"] > 0.9
    assert values[1].metadata["spans"]
    read = g.detect_log(log.location, by="model", language="en")  # the file that Inspect has just written
    assert log.location.endswith(".eval")
    assert read.summary.total.abstaining == 1
    assert read.groups["model"].dropna().tolist() == ["mock"]
    assert [each["spans"] for each in read.answers.to_dict("records")] == [
        [],
        values[1].metadata["spans"],
        [],
    ]
