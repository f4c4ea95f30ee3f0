"""``detect LOG``: the fields of known tools are found, of unknown ones guessed, and shown before any answer is read."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.results.logs import Log, given_fields, open_log
from lm_eval_tasks.results.logs.answers import LeftOut
from lm_eval_tasks.results.logs.fields import ROLES, Expression, known_tools
from lm_eval_tasks.results.logs.values import stored, text_of

LOGS = Path(__file__).parent / "data" / "logs"

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
"""Question, passages and answer of the records in every log."""

TOOLS = {
    **{f"{name}.json": name for name in ("haystack", "inspect", "langfuse", "phoenix")},
    **{f"{name}.jsonl": name for name in ("harness", "langchain", "langsmith", "llama_index", "ragas")},
    **dict.fromkeys(("openai_marks.jsonl", "openai_tools.jsonl"), "openai"),
    **dict.fromkeys(("opentelemetry_console.json", "opentelemetry_otlp.jsonl"), "opentelemetry"),
    **dict.fromkeys(("ragas.csv", "ragas.parquet"), "ragas"),
    **{"openai_responses.json": "openai responses", "own.csv": "lm-eval-grounded"},
}


def documents(log: Log, left_out: LeftOut | None = None) -> list[tuple[dict[str, Any], str]]:
    return [row[1:] for row in log.answers("en", LeftOut() if left_out is None else left_out)]


def opened(path: Path, *rows: Any, fields: str | None = None) -> Log:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return open_log(path, path.name, given_fields(fields))


@pytest.mark.parametrize("name", TOOLS)
def test_the_logs_of_every_tool_are_read_without_an_option(name: str) -> None:
    left_out = LeftOut()
    log = open_log(LOGS / name, name, {})
    read = documents(log, left_out)
    assert log.fields.tool == TOOLS[name]
    assert [answer for _, answer in read] == [answer for *_, answer in ROWS]
    assert [doc["query"] for doc, _ in read] == [question for question, *_ in ROWS]
    assert [doc["reference"].split() for doc, _ in read] == [" ".join(passages).split() for _, passages, _ in ROWS]
    spans_of_no_model = {"no answer"} if name.startswith(("opentelemetry", "phoenix")) else set()
    assert left_out.keys() == spans_of_no_model
    again = open_log(LOGS / name, name, given_fields(log.option))
    assert [answer for _, answer in documents(again)] == [answer for _, answer in read]


def test_every_log_of_the_folder_is_in_the_table() -> None:
    logs = {path.name for path in LOGS.iterdir() if path.suffix not in (".md", ".py", "") and "__" not in path.name}
    assert logs == TOOLS.keys() | {"inspect.eval"}
    every = {role for paths in known_tools().values() for role in paths}
    assert every == {*ROLES, "text", "title", "records"}


MODEL = {"model": "north-1", "tokens_in": 120, "tokens_out": 21}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *(("openai_tools.jsonl", MODEL), ("opentelemetry_otlp.jsonl", MODEL)),
        ("langfuse.json", {"query_id": "g0", "tokens_in": 120, "cost": 0.0004, "latency": 1.2}),
        ("langsmith.jsonl", {"labels": {"tenant": "north", "tags": "test"}}),
    ],
)
def test_tokens_cost_latency_and_labels_travel_in_the_document(name: str, more: dict[str, Any]) -> None:
    doc, _ = documents(open_log(LOGS / name, name, {}))[0]
    assert {key: doc[key] for key in more} == more


RECORD = {
    "a": {"b": [{"t": "1", "r": "x"}, {"t": "2", "r": "y"}], "c.d": 3},
    "json": '{"e": ["4", "5"]}',
    "python": "['6', None]",
    "text": "see <doc>one</doc> and <doc> two </doc>. Question: three?",
    "user's text": "8",
    "null": None,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("a.b[].t", ["1", "2"]),
        ("a.b[-1].t", ["2"]),
        ("a.b[?r=='x'].t | [0]", ["1"]),
        ("length(a.b)", [2]),
        ("a.b[7].t", []),
        ("a.c.d", [3]),
        ("json.e[]", ["4", "5"]),
        ("json.e | [-1]", ["5"]),
        ("python[0]", ["6"]),
        ("text:<doc>...</doc>", ["one", "two"]),
        ("text:Question:...", ["three?"]),
        ('"user\'s text"', ["8"]),
        ("null", []),
        ("nowhere.b", []),
        ("join(' ', nowhere)", []),
    ],
)
def test_expressions(path: str, values: list[Any]) -> None:
    found = Expression(path).value(stored(RECORD))
    assert ([] if found is None else found if isinstance(found, list) else [found]) == values


@pytest.mark.parametrize("path", ["a[", "", "a]b", "a[x=[]]", "nothing(a)", "length(a, b)"])
def test_what_is_no_expression(path: str) -> None:
    with pytest.raises(UsageError, match="is no JMESPath expression"):
        Expression(path)


UNKNOWN = {"reply_text": "It is 3.", "ctx": [{"body": "It has 3."}], "asked": {"user_question": "How many?"}, "n": 3}


def test_of_an_unknown_log_the_error_lists_the_fields_and_its_guess_works(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the first record has reply_text \(text\), ctx\[\].body \(text\)") as raised:
        opened(tmp_path / "log", UNKNOWN, {"answer": "x"})
    guess = re.search("--fields '(.*)'", str(raised.value))
    assert guess is not None
    ((doc, answer),) = documents(opened(tmp_path / "log", UNKNOWN, fields=guess[1]))
    assert (answer, doc["reference"], doc["query"]) == ("It is 3.", "It has 3.", "How many?")


LONG = ["It has 3 of them, and never had more."]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"first_reply": "It is 3, as the guide says.", "other_reply": "It is 3, as the book says.", "found": LONG},
            r"'answer=first_reply,passages=found\[\],.*' \(as near: answer=other_reply\)$",
        ),
        (  # a list of passages is not the answer
            {"final_reply": "It is 3.", "found": LONG, "notes": ["It had 3 of them in 1871, and has 4."]},
            r"'answer=final_reply,passages=notes\[\],question=asked'$",
        ),
    ],
)
def test_what_is_guessed(record: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        opened(tmp_path / "log", {"asked": "How many?", **record})


def test_given_fields_replace_those_of_a_tool(tmp_path: Path) -> None:
    row = {"answer": "x", "passages": ["y"], "better": "z", "tenant": "north", "version": 2}
    log = opened(tmp_path / "log", row, fields="answer=better,label=tenant,label=version")
    ((doc, answer),) = documents(log)
    assert (answer, doc["reference"], doc["labels"]) == ("z", "y", {"tenant": "north", "version": "2"})
    assert log.option == "answer=better,passages=passages"


def test_runs_of_a_trace_share_passages_and_an_answer_counts_once(tmp_path: Path) -> None:
    run = {"inputs": {"question": "q"}, "trace_id": "t"}
    rows = [
        {**run, "run_type": "retriever", "outputs": {"documents": [{"page_content": "p"}]}},
        {**run, "run_type": "llm", "outputs": {"generations": [[{"text": "a"}]]}},
        {**run, "run_type": "llm", "outputs": {"generations": [[{"text": "b"}]]}},
        {**run, "run_type": "chain", "outputs": {"answer": "b"}},
        {**run, "run_type": "llm", "trace_id": "u", "outputs": {"generations": [[{"text": "c"}]]}},
    ]
    left_out = LeftOut()
    given = documents(opened(tmp_path / "log", *rows), left_out)
    assert [(answer, doc["reference"]) for doc, answer in given] == [("a", "p"), ("b", "p"), ("c", "")]
    assert str(left_out) == "the same answer of a trace again: 1 (log:4)"


def test_answers_of_a_conversation_are_one_cluster(tmp_path: Path) -> None:
    rows = [{"answer": "x", "reference": f"y{n}", "question": f"q{n}", "conversation": n // 2} for n in range(3)]
    first, second, third = [doc["article"] for doc, _ in documents(opened(tmp_path / "log", *rows))]
    assert first == second != third


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        *((["x"], "x"), ({"content": "x"}, "x")),
        ([{"type": "text", "text": "x"}, {"type": "text", "text": "y"}], "x\ny"),
        *((nothing, None) for nothing in (float("nan"), None, [], ["x", "y"], True)),
    ],
)
def test_answers_that_are_no_texts(answer: Any, read: str | None, tmp_path: Path) -> None:
    log = opened(tmp_path / "log", {"answer": "good", "passages": ["p"]}, {"answer": answer, "passages": ["p"]})
    assert [text for _, text in documents(log)[1:]] == ([read] if read is not None else [])


@pytest.mark.parametrize(
    ("passages", "reference"),
    [
        (["[1] a", "b"], "[1] a\n\nb"),
        ('{"name": "b"}', '{"name": "b"}'),
        ('["a", "b"]', "a\n\nb"),
        ([{"page_content": "a"}, {"node": {"text": "b"}}, {"title": "T", "content": "c"}], "a\n\nb\n\nT\nc"),
        ([None, {"text": None}, "a"], "a"),
    ],
)
def test_passages_of_all_kinds(passages: Any, reference: str, tmp_path: Path) -> None:
    ((doc, _),) = documents(opened(tmp_path / "log", {"answer": "x", "passages": passages}))
    assert doc["reference"] == reference


def test_what_is_printed_has_no_secret_and_nothing_that_acts_on_a_terminal(tmp_path: Path) -> None:
    secret = "sk-abcdefgh12345678ijklmnop"
    row = {"answer": f"Use {secret}\x1b[2J\u202e now", "passages": [f"api_key={secret}"]}
    log = opened(tmp_path / "log", {**row, "label": {"api_key": secret, "a": "b"}})
    ((doc, answer),) = documents(log)
    assert doc["labels"] == {"api_key": "<secret>", "a": "b"}
    assert secret in answer  # which is what the system said
    with pytest.raises(UsageError) as raised:
        opened(tmp_path / "log", {f"\x1b[2J {secret}": "x", "b": "y"})
    for said in (log.description, str(raised.value)):
        assert secret not in said
        assert all(line.isprintable() for line in said.splitlines())


def test_a_record_that_is_nested_as_deeply_as_json_is_read_costs_itself_at_most(tmp_path: Path) -> None:
    path = tmp_path / "log"
    deep = [begin * 900 + '"x"' + end * 900 for begin, end in (("[", "]"), ('{"a":', "}"), ('{"text":', "}"))]
    rows = [
        '{"answer": "x", "passages": ["y"], "label": {"\\ud800": "\\ud800"}}',
        *(f'{{"answer": "x", "passages": ["y"], "label": {value}}}' for value in deep),
        *(f'{{"answer": {value}, "passages": ["y"]}}' for value in deep),
        *(f'{{"answer": "x", "passages": {value}}}' for value in deep),
    ]
    path.write_text("\n".join(rows), "utf-8")
    left_out = LeftOut()
    given = documents(open_log(path, "log", {}), left_out)
    assert len(given) + left_out.total() == len(rows)
    assert given[0][0]["labels"] == {"\ufffd": "\ufffd"}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("['a', \"it's\"]", ["a", "it's"]),
        (
            "[{'text': 'a [1] - b', 'score': 1e-05, 'rank': -1, 'gold': None}]",
            [{"text": "a [1] - b", "score": 1e-05, "rank": -1, "gold": None}],
        ),
        ("[('a', 0.5), []]", [["a", 0.5], []]),
        ("['a'\n 'b']", ["a", "b"]),  # of numpy
        ("[Text(x='a', n=nan), str_('b')]", [{"x": "a", "n": None}, "b"]),
        ("['a\\'b\\n']", ["a'b\n"]),
        ('["a"]', ["a"]),  # JSON, too
        *((code, None) for code in ("[x for x in y]", "[open('x')]", "['a'[0]]", "[1 + 1]", "['a")),
    ],
)
def test_a_cell_that_holds_a_python_list_is_read_and_code_stays_a_text(cell: str, value: Any) -> None:
    assert stored(cell) == (cell if value is None else value)
    assert text_of(stored(cell)) == cell


@pytest.mark.parametrize("part", ["-", "1+", "a.", "a[0]", "[0]", "(", "[", "not ", "'a'", "\\'"])
def test_a_cell_that_nests_without_end_ends_no_process(part: str) -> None:
    """Python 3.10 crashes on some of these if they reach its parser."""
    for end in ("1]", "]", ""):
        cell = f"[{part * 100_000}{end}"
        assert stored(cell) in (cell, ["a" * 100_000])


def test_a_small_file_of_many_empty_records_ends_and_its_places_are_counted(tmp_path: Path) -> None:
    """5 kB that unpack to a million lists, which are no records."""
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress(b"[" + b"[]," * 999_999 + b"[]]"))
    with pytest.raises(UsageError, match=r"not a JSON object: 1000000 \(log.json.gz:1, .* and 999997 more\)$"):
        open_log(path, "log", {})
    usable = json.dumps({"answer": "Mars is red.", "reference": "Mars."}).encode()
    path.write_bytes(gzip.compress(b"[" + usable + b",[]" * 50_000 + b"]"))
    log, left_out = open_log(path, "log", {}), LeftOut()
    assert len(documents(log, left_out)) == 1
    assert str(left_out).startswith("not a JSON object: 50000 (log.json.gz:2, ")
