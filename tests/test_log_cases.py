"""``detect LOG``: the shapes in which tools write answers, each read without an option; and public reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.results.logs import given_fields, open_log
from lm_eval_tasks.results.logs.answers import LeftOut
from tests.conftest import ROOT

CASES = ROOT.parent / "shared" / "cases"
TALL, FERRY, WHOLE = "It is 42 metres tall.", "The ferry leaves at 9.", "It is 42 metres tall. The ferry leaves at 9."
LIGHTHOUSE, LEAVES = "The Norrvik lighthouse is 42 metres tall.", "The ferry to Norrvik leaves at 9."
ASKED, BOTH, DECLINED = "How tall is the Norrvik lighthouse?", "How tall, and when is the ferry?", "I don't know."
USUAL = [(ASKED, TALL, LIGHTHOUSE)]
PUBLIC: dict[str, list[tuple[str, str, str]]] = {
    "01": [(f"q{n}", TALL, LIGHTHOUSE) for n in range(1, 5)],
    "02": [("q3", TALL, LIGHTHOUSE)],
    **{f"{n:02}": USUAL for n in (3, 4, 5, 6, 7, 8, 15, 16, 17, 19, 20, 23, 25, 26, 27, 28)},
    "09": [("When is the ferry?", FERRY, LEAVES), *USUAL],
    **{n: [(BOTH, WHOLE, f"{LIGHTHOUSE}\n\n{LEAVES}")] for n in ("10", "11")},
    "12": [("When was it built?", DECLINED, LIGHTHOUSE), ("Who built it?", DECLINED, LIGHTHOUSE), *USUAL],
    "13": [
        ("Wie alt ist er?", "I don't know", "Der Turm ist 42 m hoch."),
        ("Wie hoch?", "Er ist 42 m hoch.", "Der Turm ist 42 m hoch."),
        ("Una umri gani?", "I don't know", "Mnara una urefu wa mita 42."),
    ],
    "14": [("灯塔有多高？", "灯塔高42米。", "诺尔维克灯塔高42米。")],
    **{n: [("", TALL, LIGHTHOUSE)] for n in ("18", "21")},
    "22": [(ASKED, TALL, "Lead engineer: Ada Holm\n\nBuilt in 1887\n\n42 metres is its height")],
    "24": USUAL * 2,
    "29": [(ASKED, "I'm sorry, I can't help with that.", LIGHTHOUSE), *USUAL],
}


def read(path: Path, fields: str | None = None) -> list[tuple[str, str, str]]:
    log = open_log(path, path.name, given_fields(fields))
    return [(doc["query"], answer, doc["reference"]) for _, doc, answer in log.answers("en", LeftOut())]


@pytest.mark.parametrize("number", sorted(PUBLIC))
def test_the_public_reports(number: str) -> None:
    if not CASES.exists():
        pytest.skip("../shared/cases is missing")
    (path,) = CASES.glob(f"{number}_*")
    assert read(path) == PUBLIC[number]


ROW = {"question": ASKED, "answer": TALL, "contexts": [LIGHTHOUSE]}
RETRIEVED = {"id": "r", "traceId": "t", "type": "RETRIEVER", "output": [{"page_content": LIGHTHOUSE}]}
IDS = ["langchain", "AIMessage"]
SERIALISED = {"lc": 1, "type": "constructor", "id": IDS, "kwargs": {"content": TALL, "type": "ai"}}
OUTPUTS: dict[str, Any] = {
    "Anthropic": {"role": "assistant", "content": [{"type": "thinking", "thinking": "16"}, {"type": "text", "text": TALL}]},
    "Bedrock": {"output": {"message": {"role": "assistant", "content": [{"text": TALL}]}}, "usage": {"inputTokens": 3}},
    "Cohere": {"id": "x", "message": {"role": "assistant", "content": [{"type": "text", "text": TALL}]}},
    "Gemini": {"candidates": [{"content": {"parts": [{"text": "16", "thought": True}, {"text": TALL}], "role": "model"}}]},
    "Ollama": {"model": "x", "message": {"role": "assistant", "content": TALL}, "done": True},
    "choices": {"choices": [{"message": {"role": "assistant", "content": TALL}}, {"message": {"content": "Another."}}]},
    "responses": {"output": [{"type": "reasoning", "summary": [{"text": "1650"}]}, {"type": "message", "content": TALL}]},
    "LangChain's dumpd": SERIALISED,
    "LangChain's messages_to_dict": [{"type": "ai", "data": {"content": TALL, "type": "ai"}}],
    "LangChain's generations": {"generations": [[{"text": TALL, "message": SERIALISED}]]},
    "LlamaIndex": {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": TALL}]}, "raw": None},
    "Haystack": {"replies": [{"role": "assistant", "name": None, "content": [{"text": TALL}]}]},
    "Haystack 2.0": [{"_role": "assistant", "_content": [{"text": TALL}], "_meta": {}}],
    "Pydantic AI": {
        "kind": "response",
        "parts": [{"part_kind": "thinking", "content": "1650"}, {"part_kind": "text", "content": TALL}],
    },
    "a conversation": [
        *({"role": role, "content": "Hello"} for role in ("user", "assistant")),
        *({"role": "user", "content": ASKED}, {"role": "assistant", "content": TALL}),
    ],
    "a choice event": {"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": TALL}},
    "JSON of messages": json.dumps([{"role": "assistant", "content": TALL}]),
    "a text within quotes": json.dumps(json.dumps(TALL)),
    "a list": [TALL],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_messages_of_all_tools(name: str, tmp_path: Path) -> None:
    spoken = {"id": "g", "traceId": "t", "type": "GENERATION", "input": [{"role": "user", "content": ASKED}]}
    path = tmp_path / "log"
    path.write_text("\n".join(json.dumps(row) for row in (RETRIEVED, {**spoken, "output": OUTPUTS[name]})), "utf-8")
    assert read(path) == USUAL


def chat(*more: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": ASKED}, *more, {"role": "assistant", "content": TALL}]}


CALL = {"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "1"}]}
RECORDS: dict[str, Any] = {
    "a tool's JSON": chat(CALL, {"role": "tool", "content": json.dumps({"results": [{"text": LIGHTHOUSE}]})}),
    "Anthropic's results": chat(
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "1"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": LIGHTHOUSE}]}]},
    ),
    "an earlier question": {
        "messages": [
            *({"type": kind, "content": text} for kind, text in (("human", "Old?"), ("tool", "Old."), ("ai", "Old."))),
            *({"type": kind, "content": text} for kind, text in (("human", ASKED), ("tool", LIGHTHOUSE), ("ai", TALL))),
        ]
    },
    "pandas' split": {"columns": list(ROW), "index": [0], "data": [list(ROW.values())]},
    "pandas' table": {"schema": {"fields": []}, "data": [{"index": 0, **ROW}]},
    "pandas' index": {"0": ROW},
    "pandas' columns with dots": {
        name: {"0": value}
        for name, value in (("outputs.answer", TALL), ("inputs.question", ASKED), ("outputs.context", [LIGHTHOUSE]))
    },
    "Chroma": {**ROW, "contexts": {"ids": [["1"]], "documents": [[LIGHTHOUSE]], "distances": [[0.2]]}},
    "gold beside passages": {**ROW, "reference": "Gold: 42", "ground_truth": "42", "reference_contexts": ["Gold."]},
    "DeepEval": [{"input": ASKED, "actual_output": TALL, "context": ["42"], "retrieval_context": [LIGHTHOUSE]}],
}  # fmt: skip
HEADER, CELLS = "question,answer,contexts", f"{ASKED},{TALL}"
PRINTED = f"[Document(metadata={{'n': 1}}, page_content='{LIGHTHOUSE}')]"
TABLES: dict[str, bytes] = {
    "documents as Python prints them": f'{HEADER}\n{CELLS},"{PRINTED}"\n'.encode(),
    "numpy's texts": f"{HEADER}\n{CELLS},\"[np.str_('{LIGHTHOUSE}')]\"\n".encode(),
    "an array of arrays": f"{HEADER}\n{CELLS},\"[array(['{LIGHTHOUSE}'], dtype=object)]\"\n".encode(),
    "numbered columns": f"question,answer,contexts.0,contexts.1\n{CELLS},{LIGHTHOUSE},\n".encode(),
    "UTF-16": f"{HEADER}\n{CELLS},{LIGHTHOUSE}\n".encode("utf-16"),
    "CR and tabs": f"{HEADER}\n{CELLS},{LIGHTHOUSE}\n".replace(",", "\t").replace("\n", "\r").encode(),
    "sep= and CR LF": f"sep=;\n{HEADER}\n{CELLS},{LIGHTHOUSE}\n".replace(",", ";").replace("\n", "\r\n").encode(),
    "JSON lines with CR": json.dumps(ROW).encode() + b"\r",
}


@pytest.mark.parametrize("name", [*RECORDS, *TABLES])
def test_values_as_tools_store_them(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(TABLES[name] if name in TABLES else json.dumps(RECORDS[name]).encode())
    assert read(path) == USUAL


def span(name: str, parent: str | None, time: int, **values: Any) -> dict[str, Any]:
    """A span of Langfuse that retrieves passages, or answers a question."""
    kind = "RETRIEVER" if "passages" in values else "GENERATION" if "answer" in values else "SPAN"
    output = [{"text": text} for text in values.get("passages", ())] or values.get("answer")
    record = {"id": name, "traceId": "t", "type": kind, "parentObservationId": parent}
    return {**record, "startTime": f"2026-11-28T20:{time:02}", "input": values.get("asked"), "output": output}


STEPS = [
    span("root", None, 0),
    span("a", "root", 1, asked="A?"),
    span("ra", "a", 2, passages=["pa"]),
    span("ga", "a", 5, asked="A?", answer="says a"),
    span("b", "root", 1, asked="B?"),
    span("rb", "b", 3, passages=["pb", "pc"]),
    span("inner", "rb", 3, passages=["pd"]),
    span("gb", "b", 4, asked="B?", answer="says b"),
]


@pytest.mark.parametrize("order", [1, -1])
def test_steps_side_by_side_keep_their_passages_in_any_order(order: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(json.dumps(step) for step in STEPS[::order]), "utf-8")
    assert sorted(read(path)) == [("A?", "says a", "pa"), ("B?", "says b", "pb\n\npc")]


def test_an_answer_has_what_came_since_the_last_one(tmp_path: Path) -> None:
    path, left_out = tmp_path / "log", LeftOut()
    steps = [
        span("g0", "root", 1, asked="Rewrite", answer="a query"),
        span("r1", "root", 2, passages=["p1"]),
        span("g1", "root", 3, asked="A?", answer="says a"),
        span("r2", "root", 4, passages=["p2"]),
        span("g2", "root", 5, asked="B?", answer="says b"),
        span("g3", "root", 6, asked="And?", answer="says c"),  # from the same passages
    ]
    path.write_text("\n".join(json.dumps(step) for step in steps), "utf-8")
    read_answers = [*open_log(path, "log", {}).answers("en", left_out)]
    expected = [("says a", "p1"), ("says b", "p2"), ("says c", "p2")]
    assert [(answer, doc["reference"]) for _, doc, answer in read_answers] == expected
    assert str(left_out) == "an answer before the passages of its trace: 1 (log:1)"
