"""Makes the logs of this folder with the tools' own packages; the texts are ours.

    python -m venv tools
    tools/bin/pip install ragas 'langchain-community<0.4' langchain-core llama-index-core haystack-ai openai inspect-ai \\
        opentelemetry-sdk pandas pyarrow
    tools/bin/python tests/data/logs/make_logs.py

Each function writes what a user of the tool gets who saves what it returns. A tool that is not installed is passed over.
``langfuse.json`` and ``phoenix.json`` are written by hand, after the tools' pages on their exports: servers make them.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

ROWS = [
    (
        "How tall is the lighthouse of Norrvik?",
        ["The lighthouse of Norrvik was built in 1871. It is 42 metres tall.", "Norrvik has 3,100 inhabitants."],
        "The lighthouse of Norrvik is 42 metres tall and was designed by Ada Holm.",
    ),
    (
        "When does the ferry to Brede leave?",
        ["The ferry to Brede leaves at 7:15 and at 18:40. It takes forty minutes.", "Bicycles travel free of charge."],
        "The ferry to Brede leaves at 7:15 and at 18:40.",
    ),
    (
        "Wie viele Zimmer hat das Gasthaus am See?",
        ["Das Gasthaus am See hat zwölf Zimmer und eine Terrasse.", "Im Winter ist es geschlossen."],
        "Das Gasthaus am See hat zwölf Zimmer. Ein Doppelzimmer kostet 95 Euro.",
    ),
]


def write(name: str, *records: Any, indent: int | None = None) -> None:
    lines = [json.dumps(record, ensure_ascii=False, default=str, indent=indent) for record in records]
    (HERE / name).write_text("\n".join(lines) + "\n", "utf-8")


def ragas() -> None:
    from ragas.dataset_schema import EvaluationDataset, SingleTurnSample

    dataset = EvaluationDataset(
        [SingleTurnSample(user_input=q, retrieved_contexts=passages, response=answer) for q, passages, answer in ROWS]
    )
    dataset.to_jsonl(str(HERE / "ragas.jsonl"))
    dataset.to_csv(str(HERE / "ragas.csv"))
    dataset.to_pandas().to_parquet(HERE / "ragas.parquet")


def langchain() -> None:
    """A chain's results, saved; and its runs, as LangSmith keeps them."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.load import dumps
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough
    from langchain_core.tracers import BaseTracer

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [
                Document(passage, metadata={"source": "guide.md"})
                for q, found, _ in ROWS
                if q == query
                for passage in found
            ]

    class Kept(BaseTracer):
        def _persist_run(self, run: Any) -> None:
            runs.append(run)

    prompt = ChatPromptTemplate.from_messages([("system", "Answer from: {context}"), ("human", "{input}")])
    model = FakeListChatModel(responses=[answer for _, _, answer in ROWS])
    chain = RunnablePassthrough.assign(context=lambda row: Retriever().invoke(row["input"])).assign(
        answer=prompt | model | StrOutputParser()
    )
    runs: list[Any] = []
    tracer, results = Kept(), []
    for question, _, _ in ROWS:
        config = {"callbacks": [tracer], "metadata": {"tenant": "north"}, "tags": ["test"]}
        results.append(chain.invoke({"input": question}, config=config))
    (HERE / "langchain.jsonl").write_text(
        "".join(f"{dumps(result, ensure_ascii=False)}\n" for result in results), "utf-8"
    )
    (HERE / "langsmith.jsonl").write_text("".join(f"{run.model_dump_json()}\n" for run in runs), "utf-8")


def llama_index() -> None:
    from llama_index.core.base.response.schema import Response
    from llama_index.core.schema import NodeWithScore, TextNode

    records = []
    for question, passages, answer in ROWS:
        nodes = [NodeWithScore(node=TextNode(text=passage), score=0.5) for passage in passages]
        response = Response(response=answer, source_nodes=nodes, metadata={"file": "guide.md"})
        records.append({"query": question, **dataclasses.asdict(response)})
        records[-1]["source_nodes"] = [node.to_dict() for node in nodes]
    write("llama_index.jsonl", *records)


def haystack() -> None:
    """What a pipeline returns, saved by the answers' own ``to_dict``."""
    from haystack import Document, Pipeline
    from haystack.components.builders import AnswerBuilder

    pipeline = Pipeline()
    pipeline.add_component("answer_builder", AnswerBuilder())
    results = []
    for question, passages, answer in ROWS:
        meta = [{"model": "north-1", "usage": {"prompt_tokens": 120, "completion_tokens": 21}}]
        given = {
            "query": question,
            "replies": [answer],
            "meta": meta,
            "documents": [Document(content=p) for p in passages],
        }
        answers = pipeline.run({"answer_builder": given})["answer_builder"]["answers"]
        results.append({"answer_builder": {"answers": [found.to_dict() for found in answers]}})
    write("haystack.json", results, indent=2)


def openai() -> None:
    """Requests and responses of chat completions, with the passages in the message of a tool; of the same without tools,
    with the passages between marks of the prompt; and of the Responses API with file search."""
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

    tools, marked, responses = [], [], []
    for number, (question, passages, answer) in enumerate(ROWS):
        usage = {"prompt_tokens": 120, "completion_tokens": 21, "total_tokens": 141}
        message = {"role": "assistant", "content": answer}
        made = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1790000000, "model": "north-1"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        completion = ChatCompletion.model_validate({**made, "choices": [choice], "usage": usage}).model_dump(
            mode="json"
        )
        call = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        messages = [
            {"role": "system", "content": "Answer from what the search finds."},
            {"role": "user", "content": question},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(passages, ensure_ascii=False)},
        ]
        tools.append({"request": {"model": "north-1", "messages": messages}, "response": completion})
        context = "\n".join(passages)
        prompt = f"<context>\n{context}\n</context>\n\nQuestion: {question}"
        marked.append({"messages": [{"role": "user", "content": prompt}, message]})
        text = {"type": "output_text", "text": answer, "annotations": []}
        found = [{"file_id": "file_1", "filename": "guide.md", "score": 0.5, "text": passage} for passage in passages]
        search = {
            "id": "fs_1",
            "type": "file_search_call",
            "status": "completed",
            "queries": [question],
            "results": found,
        }
        output = [search, {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [text]}]
        fields = {"id": f"resp_{number}", "object": "response", "created_at": 1790000000, "model": "north-1"}
        rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        response = Response.model_validate({**fields, **rest, "output": output}).model_dump(mode="json", warnings=False)
        responses.append({**response, "input": question})
    write("openai_tools.jsonl", *tools)
    write("openai_marks.jsonl", *marked)
    write("openai_responses.json", {"object": "list", "data": responses}, indent=1)


def inspect_ai() -> None:
    os.environ["INSPECT_DISPLAY"] = "none"
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    @solver
    def answered() -> Any:  # a model would count its tokens with a file from the network
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("north/north-1", answers[state.input_text])
            state.messages.append(state.output.message)
            return state

        return solve

    answers = {question: answer for question, _, answer in ROWS}
    samples = [Sample(input=q, target="", id=f"q{n}", metadata={"passages": p}) for n, (q, p, _) in enumerate(ROWS)]
    folder = HERE / "inspect_logs"
    task = Task(dataset=MemoryDataset(samples), solver=answered())
    eval(task, model="mockllm/model", log_dir=str(folder), max_samples=1)
    log = read_eval_log(str(next(folder.glob("*.eval"))))
    shutil.rmtree(folder)
    log.eval.packages, log.eval.revision, log.eval.task_file = {}, None, None
    for sample in log.samples or []:
        sample.events = []
    for form in ("eval", "json"):
        write_eval_log(log, str(HERE / f"inspect.{form}"))


def opentelemetry() -> None:
    """Spans as the console's exporter prints them, by the conventions of generative AI; and the same as OTLP's JSON."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    printed, provider = io.StringIO(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=printed)))
    tracer = provider.get_tracer("guide")
    for question, passages, answer in ROWS:
        with tracer.start_as_current_span("invoke_agent"):
            with tracer.start_as_current_span("retrieval guide") as span:
                found = [{"id": f"d{n}", "score": 0.5, "content": passage} for n, passage in enumerate(passages)]
                span.set_attribute("gen_ai.operation.name", "retrieval")
                span.set_attribute("gen_ai.retrieval.query.text", question)
                span.set_attribute("gen_ai.retrieval.documents", json.dumps(found, ensure_ascii=False))
            with tracer.start_as_current_span("chat north-1") as span:
                asked = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
                said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.request.model", "north-1")
                span.set_attribute("gen_ai.input.messages", json.dumps(asked, ensure_ascii=False))
                span.set_attribute("gen_ai.output.messages", json.dumps(said, ensure_ascii=False))
                span.set_attribute("gen_ai.usage.input_tokens", 120)
                span.set_attribute("gen_ai.usage.output_tokens", 21)
    (HERE / "opentelemetry_console.json").write_text(printed.getvalue(), "utf-8")
    spans, decoder, text = [], json.JSONDecoder(), printed.getvalue()
    while text.strip():
        span, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        attributes = [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in span["attributes"].items()
        ]
        spans.append({"traceId": span["context"]["trace_id"][2:], "name": span["name"], "attributes": attributes})
    write(
        "opentelemetry_otlp.jsonl", {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "guide"}, "spans": spans}]}]}
    )


def by_hand() -> None:
    """Our own form as a table of a spreadsheet; samples of the harness; and exports of servers."""
    with (HERE / "own.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        table = csv.writer(stream, delimiter=";")
        table.writerow(["question", "answer", "reference", "tenant"])
        table.writerows((question, answer, "\n".join(passages), "north") for question, passages, answer in ROWS)
    samples = (
        {"doc_id": n, "doc": {"question": q, "passages": p}, "resps": [[a]], "filtered_resps": [a], "filter": "none"}
        for n, (q, p, a) in enumerate(ROWS)
    )
    write("harness.jsonl", *samples)
    observations, spans = [], []
    for number, (question, passages, answer) in enumerate(ROWS):
        trace, usage = f"trace-{number}", {"input": 120, "output": 21, "total": 141}
        found = [{"pageContent": passage, "metadata": {}} for passage in passages]
        observations += [
            {"id": f"r{number}", "traceId": trace, "type": "RETRIEVER", "input": question, "output": found},
            {
                **{"id": f"g{number}", "traceId": trace, "type": "GENERATION", "model": "north-1"},
                **{
                    "input": [{"role": "user", "content": question}],
                    "output": {"role": "assistant", "content": answer},
                },
                **{"usageDetails": usage, "totalCost": 0.0004, "latency": 1.2},
            },
        ]
        context = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}"}
        documents = [{"document.content": passage, "document.score": 0.5} for passage in passages]
        asked = [{"message.role": "user", "message.content": question}]
        said = [{"message.role": "assistant", "message.content": answer}]
        spans += [
            {
                "name": "retrieve",
                "span_kind": "RETRIEVER",
                "context": context,
                "attributes.retrieval.documents": documents,
            },
            {
                **{"name": "llm", "span_kind": "LLM", "context": context, "attributes.llm.model_name": "north-1"},
                **{"attributes.llm.input_messages": asked, "attributes.llm.output_messages": said},
                **{"attributes.llm.token_count.prompt": 120, "attributes.llm.token_count.completion": 21},
            },
            {"name": "chain", "span_kind": "CHAIN", "context": context, "attributes.output.value": answer},
        ]
    write("langfuse.json", observations, indent=1)
    write("phoenix.json", spans, indent=1)


MAKERS: list[Callable[[], None]] = [ragas, langchain, llama_index, haystack, openai, inspect_ai, opentelemetry, by_hand]

if __name__ == "__main__":
    for make in MAKERS:
        try:
            make()
        except ImportError as error:
            print(f"{make.__name__}: passed over, {error}")
