"""Replay without a harness run: which lines are stored answers, of which document, and every refusal in full."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.harness import Unanswered
from lm_eval_tasks.models.replay import Replay, StoredAnswer


def written(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), "utf-8")
    return path


def request(identity: Any, task: str = "t", number: int = 0, **doc: Any) -> Any:
    return SimpleNamespace(task_name=task, doc_id=number, doc={"id": identity, **doc})


def asked(replay: Replay, *requests: Any) -> list[str]:
    return replay.respond(list(requests), disable_tqdm=True)


def test_plain_lines_say_of_themselves_what_they_know(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        {"id": 1, "response": "one"},
        "",
        {
            "query_id": "q",
            "id": "other",
            "response": "two",
            "task": "t",
            "language": "de",
            "subset": "relevant",
            "model": "m",
        },
        {"id": "n", "response": None},
        {"id": "m", "response": ["x"]},
    )
    replay = Replay(str(path))
    assert replay.answers == {
        "1": [StoredAnswer("one", "a.jsonl:1")],
        "q": [StoredAnswer("two", "a.jsonl:3", "t", "de", "relevant")],
        "n": [StoredAnswer("", "a.jsonl:4")],
        "m": [StoredAnswer("", "a.jsonl:5")],
    }
    assert (replay.broken, replay.missing, replay.model, replay.paths) == (0, "refuse", None, [path])


@pytest.mark.parametrize(
    ("name", "record", "stored"),
    [
        ("relevant/en.test.vanilla_prompt.jsonl", {}, ("nomiracl_en", "en", "relevant")),
        ("non_relevant/de.dev.role.jsonl", {}, ("nomiracl_de_role", "de", "non_relevant")),
        ("other/de.dev.repeat.jsonl", {}, ("nomiracl_de_repeat", "de", None)),
        ("other/de.dev.repeat.jsonl", {"template": "vanilla"}, ("nomiracl_de", "de", None)),
        ("relevant/de.dev.role.jsonl", {"language": "ar", "subset": "x"}, ("nomiracl_ar_role", "ar", "x")),
        ("xx.dev.role.jsonl", {}, (None, "xx", None)),  # no language of NoMIRACL
        ("a.jsonl", {"language": "de"}, (None, "de", None)),
        ("a.jsonl", {"language": "de", "template": "explanation"}, ("nomiracl_de_explanation", "de", None)),
    ],
)
def test_released_results_take_what_they_lack_from_the_path(
    tmp_path: Path, name: str, record: dict[str, Any], stored: tuple[Any, ...]
) -> None:
    path = written(tmp_path / name, {"query_id": "q", "results": {"m": "a"}, **record})
    assert Replay(str(path)).answers == {"q": [StoredAnswer("a", f"{path.name}:1", *stored)]}


def test_samples_of_the_harness_have_their_task_from_the_files_name(tmp_path: Path) -> None:
    doc = {"id": "q", "language": "de", "subset": "relevant"}
    samples = written(
        tmp_path / "samples_a_b_2026-01-01T00-00-00.5.jsonl", {"doc": doc, "resps": [["said"]], "id": "no"}
    )
    other = written(tmp_path / "mine.jsonl", {"doc": {"query_id": "r"}, "resps": [["said"]]})
    assert Replay(str(samples)).answers == {"q": [StoredAnswer("said", f"{samples.name}:1", "a_b", "de", "relevant")]}
    assert Replay(str(other)).answers == {"r": [StoredAnswer("said", "mine.jsonl:1")]}
    plain = written(
        tmp_path / "plain.jsonl", {"id": 1, "response": "a", "doc": "a text"}, {"id": 2, "response": "b", "resps": 1}
    )
    assert list(Replay(str(plain)).answers) == ["1", "2"]  # a sample has both, doc and resps


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting property name"),
        ("7", "iterable"),
        ('{"response": "a"}', "'none of query_id, id'"),
        ('{"id": 1}', "'response'"),
        ('{"id": 1, "results": 5}', "no attribute 'items'"),
        ('{"doc": {}, "resps": [["a"]]}', "'none of query_id, id in doc'"),
        ('{"doc": {"id": 1}, "resps": []}', "list index out of range"),
    ],
)
def test_a_line_that_is_no_stored_answer_is_passed_over_and_said(
    tmp_path: Path, line: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "a.jsonl", line, {"id": 2, "response": "b"})
    with caplog.at_level(logging.WARNING, "lm_eval"):
        replay = Replay(str(path))
    assert (list(replay.answers), replay.broken) == (["2"], 1)
    assert re.search(
        rf"^replay: {re.escape(str(path))}, line 1 is no stored answer and was passed over \(.*{re.escape(why)}.*\)$",
        caplog.messages[0],
    )
    assert caplog.messages[1:] == [f"replay: 1 lines of {path} could not be read and were passed over"]


def test_the_answers_of_one_model_are_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "a.jsonl", {"id": 1, "results": {"m": "a", "n": "b"}}, {"id": 1, "response": "c"})
    chosen = Replay(str(path), model="n")
    assert (chosen.model, [answer.response for answer in chosen.answers["1"]]) == ("n", ["b", "c"])
    with pytest.raises(
        UsageError, match=r"^replay: the files hold answers of several models; say model=NAME, one of \['m', 'n'\]$"
    ):
        Replay(str(path))
    named = written(tmp_path / "n.jsonl", {"id": 1, "response": "a", "model": "m"})
    assert list(Replay(str(named)).answers) == ["1"]
    with pytest.raises(UsageError, match=rf"^replay: no answers of model 'x' in {named}; they hold those of \['m'\]$"):
        Replay(str(named), model="x")
    second = written(tmp_path / "n2.jsonl", {"id": 1, "response": "a", "model": "m"})
    with pytest.raises(UsageError, match=rf"^replay: no answers of model 'x' in {named}, {second}; they hold those"):
        Replay(str(tmp_path / "n*.jsonl"), model="x")
    unnamed = written(tmp_path / "u.jsonl", {"id": 1, "response": "a"})
    with caplog.at_level(logging.WARNING, "lm_eval"):
        assert list(Replay(str(unnamed), model="x").answers) == ["1"]
    assert caplog.messages == ["replay: the files do not say whose answers they hold; model=x chose nothing"]


def test_files_are_found_by_name_in_a_folder_and_by_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = written(tmp_path / "in" / "b.jsonl", {"id": 1, "response": "a"})
    two = tmp_path / "in" / "deep" / "a.jsonl.gz"
    two.parent.mkdir()
    two.write_bytes(gzip.compress(b'{"id": 2, "response": "b"}\n'))
    written(tmp_path / "in" / "c.txt", "no")
    assert sorted(Replay(str(tmp_path / "in")).answers) == ["1", "2"]
    assert Replay(str(tmp_path / "**" / "*.jsonl*")).paths == sorted([one, two])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Replay("~/in/b.jsonl").paths == [one]
    odd = written(tmp_path / "of [1].jsonl", {"id": 1, "response": "a"})
    assert Replay(str(odd)).paths == [odd]  # a file's name is no pattern
    with pytest.raises(
        MissingSource, match=rf"^replay: no file of answers \(\*\.jsonl, \*\.jsonl\.gz\) at {tmp_path}/none$"
    ):
        Replay(str(tmp_path / "none"))


def test_the_files_of_the_answers_go_into_the_results(tmp_path: Path) -> None:
    first = written(tmp_path / "in" / "b.jsonl", {"id": 1, "response": "a"})
    second = written(tmp_path / "in" / "deep" / "b.jsonl", {"id": 2, "response": "b"})

    def listed(path: Path, name: str) -> dict[str, str]:
        return {"option": "path", "name": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    of_folder = {"answers_from": [listed(first, "b.jsonl"), listed(second, "deep/b.jsonl")]}
    assert Replay(str(tmp_path / "in")).get_model_info() == of_folder
    assert Replay(str(second)).get_model_info() == {"answers_from": [listed(second, "b.jsonl")]}
    by_pattern = Replay(str(tmp_path / "in" / "*" / "*.jsonl")).get_model_info()
    assert by_pattern == {"answers_from": [listed(second, "b.jsonl")]}


def test_arguments_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^replay: say where the answers are: --model_args path=FILE_OR_FOLDER$"):
        Replay()
    with pytest.raises(UsageError, match=r"^replay: missing='x' is none of refuse, skip, empty$"):
        Replay(str(tmp_path), missing="x")
    nothing = written(tmp_path / "a.jsonl", "{", "[]")
    with pytest.raises(UsageError) as refused:
        Replay(str(nothing))
    assert str(refused.value) == (
        f"replay: none of the 2 lines of {nothing} is a stored answer. A line is a JSON object with `query_id` or `id`, "
        f"and `response`, `results` ({{model: answer}}), or the harness's `doc` and `resps`."
    )
    also = written(tmp_path / "a2.jsonl", "7")
    with pytest.raises(UsageError, match=rf"^replay: none of the 3 lines of {nothing}, {also} is a stored answer\."):
        Replay(str(tmp_path / "a*.jsonl"))
    empty = written(tmp_path / "e.jsonl", "")
    with pytest.raises(UsageError, match=rf"^replay: no answers in {empty}$"):
        Replay(str(empty))


def test_an_answer_that_names_the_task_is_nearer(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"id": 1, "response": "any"}, {"id": 1, "response": "mine", "task": "t"})
    assert asked(Replay(str(path)), request(1), request(1, "u")) == ["mine", "any"]
    differ = written(
        tmp_path / "d.jsonl", {"id": 1, "response": "a"}, {"id": 1, "response": "b"}, {"id": 1, "response": "a"}
    )
    with pytest.raises(UsageError) as refused:
        asked(Replay(str(differ)), request(1))
    assert str(refused.value) == (
        "replay: several stored answers to '1' of t differ (d.jsonl:1, d.jsonl:2, d.jsonl:3); name fewer files"
    )


WAY = "Among --model_args, missing=skip scores only what is there, missing=empty takes the empty answer."
FIRST = "Stored are the answers to the first documents, as of partial runs:"


@pytest.mark.parametrize(
    ("requests", "says"),
    [
        (
            [request(1), request(9, number=1)],
            f"documents without a stored answer in {{path}}: 1 of 2 of t. {FIRST} t with --limit 1. {WAY}",
        ),
        ([request(9), request(1, number=1)], f"documents without a stored answer in {{path}}: 1 of 2 of t. {WAY}"),
        (
            [request(1), request(9, "u"), request(8, "v")],
            f"documents without a stored answer in {{path}}: 1 of 1 of u, 1 of 1 of v. Leave u, v out of --tasks. {WAY}",
        ),
        (
            [request(1), request(2, number=1), request(9, number=2), request(1, "u"), request(9, "u", 1)],
            f"documents without a stored answer in {{path}}: 1 of 3 of t, 1 of 2 of u. {FIRST} t with --limit 2, "
            f"u with --limit 1. {WAY}",
        ),
        (
            [request(9, "u"), request(8)],
            "none of the 2 documents of t, u has a stored answer in {path} (2 answers to 2 ids, e.g. '1'; asked for e.g. "
            "'9'). Do task, language, subset and ids fit?",
        ),
    ],
)
def test_documents_without_an_answer_are_refused(tmp_path: Path, requests: list[Any], says: str) -> None:
    path = written(tmp_path / "a.jsonl", {"id": 1, "response": "a"}, {"id": 2, "response": "b"})
    with pytest.raises(UsageError) as refused:
        asked(Replay(str(path)), *requests)
    assert str(refused.value) == "replay: " + says.format(path=path)


def test_documents_without_an_answer_are_skipped_or_empty_where_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "a.jsonl", {"id": 1, "response": "a"})
    with caplog.at_level(logging.WARNING, "lm_eval"):
        skipped = asked(Replay(str(path), missing="skip"), request(1), request(9, number=1))
        empty = asked(Replay(str(path), missing="empty"), request(1), request(9, number=1), request(9, "u"))
    assert (skipped[0], empty) == ("a", ["a", "", ""])
    assert [isinstance(answer, Unanswered) for answer in (*skipped, *empty)] == [False, True, False, False, False]
    assert caplog.messages == [
        "replay: 1 of 2 documents of t found no stored answer and are left out of its figures",
        "replay: 1 of 2 documents of t found no stored answer and count as empty",
        "replay: 1 of 1 documents of u found no stored answer and count as empty",
    ]
    with pytest.raises(UsageError) as refused:
        asked(Replay(str(path), missing="skip"), request(1), request(9, "u"))
    assert str(refused.value) == (
        f"replay: no document of u has a stored answer in {path}, which leaves nothing to score; leave it out of --tasks"
    )
    with pytest.raises(UsageError, match=r"^replay: no document of u, v has a stored answer in "):
        asked(Replay(str(path), missing="skip"), request(1), request(9, "u"), request(9, "v"))


def test_a_document_without_an_id_has_no_stored_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"id": "", "response": "of no name"}, {"id": 1, "response": "a"})
    replay = Replay(str(path), missing="empty")
    assert asked(replay, request(""), request(None, number=1), request(1, number=2)) == ["of no name", "", "a"]
