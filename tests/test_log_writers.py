"""``detect LOG`` on files that the tools' own classes write; each is skipped where its tool is not installed.

``make test-writers`` installs them. The texts are those of :mod:`tests.test_log_cases`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.test_log_cases import ASKED, LIGHTHOUSE, TALL, read

OTHER = "Norrvik has 3,100 inhabitants."
BOTH_PASSAGES = [(ASKED, TALL, f"{LIGHTHOUSE}\n\n{OTHER}")]
MESSAGE = {"role": "assistant", "content": TALL}
COMPLETION = {
    **{"id": "c", "object": "chat.completion", "created": 1790000000, "model": "north-1"},
    "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}],
}


def jsonl(path: Path, *records: Any) -> None:
    path.write_text("".join(json.dumps(record, default=str) + "\n" for record in records), "utf-8")


def ragas(path: Path, form: str) -> None:
    schema = pytest.importorskip("ragas.dataset_schema")
    contexts = [LIGHTHOUSE, OTHER]
    samples = [schema.SingleTurnSample(user_input=ASKED, retrieved_contexts=contexts, response=TALL, reference="42")]
    written = schema.EvaluationDataset(samples)
    if form == "parquet":
        written.to_pandas().to_parquet(path)
    else:
        getattr(written, f"to_{form}")(str(path))


def ragas_multi_turn(path: Path) -> None:
    schema, said = pytest.importorskip("ragas.dataset_schema"), pytest.importorskip("ragas.messages")
    call = said.ToolCall(name="search", args={})
    turns = [
        said.HumanMessage(content=ASKED),
        said.AIMessage(content="Let me look.", tool_calls=[call]),
        said.ToolMessage(content=f"{LIGHTHOUSE}\n\n{OTHER}"),
        said.AIMessage(content=TALL),
    ]
    schema.EvaluationDataset([schema.MultiTurnSample(user_input=turns)]).to_jsonl(str(path))


def langchain_chain(path: Path, tracer: Any = None) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.load import dumps
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(LIGHTHOUSE, metadata={"source": "guide.md"}), Document(OTHER)]

    prompt = ChatPromptTemplate.from_messages([("system", "Answer from: {context}"), ("human", "{input}")])
    retrieved = RunnablePassthrough.assign(context=lambda row: Retriever().invoke(row["input"]))
    chain = retrieved.assign(answer=prompt | FakeListChatModel(responses=[TALL]) | StrOutputParser())
    result = chain.invoke({"input": ASKED}, config={"callbacks": [tracer] if tracer else []})
    path.write_text(dumps(result), "utf-8")


def langsmith_runs(path: Path, every: bool = False) -> None:
    """The runs of the chain as LangSmith keeps them: its root, or all of them, a line each."""
    pytest.importorskip("langchain_core")
    from langchain_core.tracers import BaseTracer

    runs: list[Any] = []

    class Kept(BaseTracer):
        def _persist_run(self, run: Any) -> None:
            runs.append(run)

    langchain_chain(path, Kept())

    def flat(run: Any) -> list[dict[str, Any]]:
        own = json.loads(run.model_dump_json(exclude={"child_runs"}))
        return [own, *(each for child in run.child_runs for each in flat(child))]

    jsonl(path, *(each for run in runs for each in flat(run)[: None if every else 1]))


def langchain_messages(path: Path) -> None:
    said = pytest.importorskip("langchain_core.messages")
    turns = [
        said.HumanMessage(ASKED),
        said.AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        said.ToolMessage(f"{LIGHTHOUSE}\n\n{OTHER}", tool_call_id="1"),
        said.AIMessage([{"type": "reasoning", "summary": []}, {"type": "text", "text": TALL}]),
    ]
    jsonl(path, {"messages": said.messages_to_dict(turns)})


def langgraph_state(path: Path) -> None:
    graphs, said = pytest.importorskip("langgraph.graph"), pytest.importorskip("langchain_core.messages")
    from langchain_core.load import dumps

    call = {"name": "search", "args": {}, "id": "1"}
    found = said.ToolMessage(json.dumps([LIGHTHOUSE, OTHER]), tool_call_id="1")
    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("search", lambda _: {"messages": [said.AIMessage("", tool_calls=[call]), found]})
    graph.add_node("answer", lambda _: {"messages": [said.AIMessage(TALL)]})
    graph.add_edge(graphs.START, "search")
    graph.add_edge("search", "answer")
    path.write_text(dumps(graph.compile().invoke({"messages": [said.HumanMessage(ASKED)]})), "utf-8")


def llama_index_response(path: Path) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.response.schema import Response
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in (LIGHTHOUSE, OTHER)]
    response = Response(response=TALL, source_nodes=nodes, metadata={"file": "guide.md"})
    jsonl(path, {"query": ASKED, "response": response.response, "source_nodes": [node.to_dict() for node in nodes]})


def llama_index_node(path: Path) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage, ChatResponse
    from llama_index.core.schema import MediaResource, Node, NodeWithScore

    nodes = [NodeWithScore(node=Node(text_resource=MediaResource(text=text))) for text in (LIGHTHOUSE, OTHER)]
    response = ChatResponse(message=ChatMessage(role="assistant", content=TALL))
    jsonl(path, {"query": ASKED, "response": response.model_dump(), "source_nodes": [node.to_dict() for node in nodes]})


def haystack_pipeline(path: Path) -> None:
    haystack = pytest.importorskip("haystack")
    from haystack.components.builders import AnswerBuilder

    pipeline = haystack.Pipeline()
    pipeline.add_component("answers", AnswerBuilder())
    documents = [haystack.Document(content=text) for text in (LIGHTHOUSE, OTHER)]
    given = {"query": ASKED, "replies": [TALL], "documents": documents}
    found = pipeline.run({"answers": given})["answers"]["answers"]
    jsonl(path, {"answers": {"answers": [each.to_dict() for each in found]}})


def haystack_components(path: Path) -> None:
    haystack, chat = pytest.importorskip("haystack"), pytest.importorskip("haystack.dataclasses")
    documents = [haystack.Document(content=text) for text in (LIGHTHOUSE, OTHER)]
    said = chat.ChatMessage.from_assistant(TALL, meta={"model": "north-1"})
    joined = {"documents": [each.to_dict() for each in documents]}
    jsonl(path, {"joiner": joined, "generator": {"replies": [said.to_dict()]}, "prompt": {"query": ASKED}})


def openai_tools(path: Path) -> None:
    chat = pytest.importorskip("openai.types.chat")
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    asked = [
        *({"role": "user", "content": ASKED}, {"role": "assistant", "content": None, "tool_calls": [call]}),
        {"role": "tool", "tool_call_id": "1", "content": json.dumps([LIGHTHOUSE, OTHER])},
    ]
    completion = chat.ChatCompletion.model_validate(COMPLETION)
    jsonl(path, {"request": {"model": "north-1", "messages": asked}, "response": completion.model_dump(mode="json")})


def openai_responses(path: Path) -> None:
    responses = pytest.importorskip("openai.types.responses")
    results = [{"text": text, "file_id": "f", "filename": "guide.md", "score": 0.5} for text in (LIGHTHOUSE, OTHER)]
    search = {"id": "fs", "type": "file_search_call", "status": "completed", "queries": [ASKED], "results": results}
    content = [{"type": "output_text", "text": TALL, "annotations": []}]
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": content}
    made = {"id": "r", "object": "response", "created_at": 1790000000.0, "model": "north-1"}
    made |= {"output": [search, message], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    jsonl(path, {**responses.Response.model_validate(made).model_dump(mode="json"), "input": ASKED})


def inspect_log(path: Path, suffix: str = ".json") -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    output = ModelOutput.from_content("mock", TALL)
    output.usage = ModelUsage()  # or Inspect downloads a tokenizer to count
    sample = Sample(input=ASKED, target="", metadata={"passages": [LIGHTHOUSE, OTHER]})
    model = get_model("mockllm/model", custom_outputs=[output])
    form: Any = suffix[1:]
    (log,) = eval(
        Task([sample], solver=generate()), model=model, log_dir=str(path.parent), log_format=form, display="none"
    )
    Path(log.location.removeprefix("file://")).replace(path.with_suffix(suffix))


def deepeval_run(path: Path, is_run: bool = True) -> None:
    pytest.importorskip("deepeval")
    from deepeval.test_case import LLMTestCase
    from deepeval.test_run.api import LLMApiTestCase
    from deepeval.test_run.test_run import TestRun

    contexts = {"retrieval_context": [LIGHTHOUSE, OTHER], "context": ["Gold: 42."]}
    if not is_run:
        case = LLMTestCase(input=ASKED, actual_output=TALL, expected_output="42", **contexts)
        jsonl(path, case.model_dump(mode="json", by_alias=False))
        return
    names = {"actualOutput": TALL, "retrievalContext": [LIGHTHOUSE, OTHER], "context": ["Gold: 42."]}
    test = LLMApiTestCase(name="a", input=ASKED, success=True, metricsData=[], runDuration=0, evaluationCost=0, **names)
    run = TestRun(testFile="x.py", testCases=[test], metricsScores=[])
    path.write_text(json.dumps(run.model_dump(mode="json", by_alias=True)), "utf-8")


def azure_evaluate(path: Path) -> None:
    evaluation = pytest.importorskip("azure.ai.evaluation")

    def length(response: str) -> dict[str, Any]:
        return {"length": len(response)}

    rows = path.with_name("rows.jsonl")
    jsonl(rows, {"query": ASKED, "context": f"{LIGHTHOUSE}\n\n{OTHER}", "response": TALL})
    evaluation.evaluate(data=str(rows), evaluators={"length": length}, output_path=str(path))


def openinference_spans(path: Path) -> None:
    """The spans of OpenInference as an exporter writes them, a line each."""
    pytest.importorskip("openinference.semconv")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    documents = {f"retrieval.documents.{n}.document.content": text for n, text in enumerate((LIGHTHOUSE, OTHER))}
    messages = {
        f"llm.{name}_messages.0.message.{key}": value
        for name, role, text in (("input", "user", ASKED), ("output", "assistant", TALL))
        for key, value in (("role", role), ("content", text))
    }
    steps = {"CHAIN": {"input.value": ASKED}, "RETRIEVER": documents, "LLM": messages}
    with path.open("w", encoding="utf-8") as out, ExitStack() as chain:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
        tracer = provider.get_tracer("guide")
        for kind, attributes in steps.items():
            span = tracer.start_as_current_span(kind, attributes={"openinference.span.kind": kind, **attributes})
            if kind == "CHAIN":
                chain.enter_context(span)
                continue
            with span:
                pass


def phoenix_dataframe(path: Path) -> None:
    """The spans as Phoenix' own class of traces has them, in a DataFrame's JSON."""
    pytest.importorskip("phoenix.trace", exc_type=ImportError)
    pandas = pytest.importorskip("pandas")
    spans = [
        {
            **{"name": "retrieve", "span_kind": "RETRIEVER", "context.trace_id": "t", "context.span_id": "a"},
            **{"parent_id": None, "start_time": "2026-11-28T20:00:01", "attributes.input.value": ASKED},
            "attributes.retrieval.documents": [{"document.content": LIGHTHOUSE}, {"document.content": OTHER}],
        },
        {
            **{"name": "llm", "span_kind": "LLM", "context.trace_id": "t", "context.span_id": "b"},
            **{"parent_id": None, "start_time": "2026-11-28T20:00:02"},
            "attributes.llm.input_messages": [{"message.role": "user", "message.content": ASKED}],
            "attributes.llm.output_messages": [{"message.role": "assistant", "message.content": TALL}],
        },
    ]
    from phoenix.trace import TraceDataset

    frame = pandas.DataFrame(spans).assign(
        status_code="OK", status_message="", end_time="2026-11-28T20:00:03", events=None
    )
    TraceDataset(frame).dataframe.to_json(path)


def langfuse_observations(path: Path) -> None:
    """Observations as Langfuse's own API gives them, the newest first."""
    types = pytest.importorskip("langfuse.api")
    documents = [{"page_content": text, "metadata": {}} for text in (LIGHTHOUSE, OTHER)]
    usual = {"trace_id": "t", "project_id": "p", "parent_observation_id": "root", "environment": "default"}
    asked = [{"role": "user", "content": ASKED}]
    shown = [
        {"id": "g", "type": "GENERATION", "start_time": "2026-11-28T20:00:02Z", "input": asked, "output": MESSAGE},
        {"id": "r", "type": "RETRIEVER", "start_time": "2026-11-28T20:00:01Z", "input": ASKED, "output": documents},
    ]
    observations = [json.loads(types.ObservationV2(**usual, metadata={}, **one).json()) for one in shown]
    path.write_text(json.dumps({"data": observations}), "utf-8")


def mlflow_trace(path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    entities, documents = pytest.importorskip("mlflow.entities"), [LIGHTHOUSE, OTHER]
    mlflow.set_tracking_uri(f"sqlite:///{path.parent}/mlflow.db")

    @mlflow.trace(span_type=entities.SpanType.RETRIEVER)
    def retrieve(question: str) -> list[Any]:
        return [entities.Document(page_content=text) for text in documents]

    @mlflow.trace(span_type=entities.SpanType.LLM)
    def model(messages: list[Any]) -> Any:
        return COMPLETION

    @mlflow.trace(span_type=entities.SpanType.CHAIN)
    def chain(question: str) -> Any:
        retrieve(question)
        return model([{"role": "user", "content": question}])["choices"][0]["message"]["content"]

    chain(ASKED)
    mlflow.flush_trace_async_logging()
    path.write_text(mlflow.get_trace(mlflow.get_last_active_trace_id()).to_json(), "utf-8")


def mlflow_table(path: Path) -> None:
    pytest.importorskip("mlflow")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"inputs": [ASKED], "outputs": [TALL], "retrieved_context": [[LIGHTHOUSE, OTHER]]})
    path.write_text(frame.to_json(orient="split", index=False), "utf-8")  # as mlflow.log_table does


WRITERS: dict[str, Callable[[Path], None]] = {
    **{f"ragas {form}": partial(ragas, form=form) for form in ("csv", "jsonl", "parquet")},
    **{"langsmith trace": partial(langsmith_runs, every=True), "inspect eval": partial(inspect_log, suffix=".eval")},
    "deepeval case": partial(deepeval_run, is_run=False),
    **{
        write.__name__: write
        for write in (
            *(ragas_multi_turn, langchain_chain, langchain_messages, langsmith_runs, langgraph_state),
            *(llama_index_response, llama_index_node, haystack_pipeline, haystack_components, openai_tools),
            *(openai_responses, inspect_log, deepeval_run, azure_evaluate, openinference_spans, phoenix_dataframe),
            *(langfuse_observations, mlflow_trace, mlflow_table),
        )
    },
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_tools_log_is_read_without_an_option(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    WRITERS[name](tmp_path / "log")
    (log,) = tmp_path.glob("log*")
    assert read(log) == BOTH_PASSAGES
