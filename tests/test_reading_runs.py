"""What runs leave, read back: results and samples files of every version, whole, cut, damaged or alone."""

from __future__ import annotations

import hashlib
import json
import logging
import tracemalloc
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lm_eval_tasks.data import samples
from lm_eval_tasks.data.samples import documents_of_samples, read_samples, samples_files
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.definition.schema import Metric, headline_filter
from lm_eval_tasks.nomiracl.dataset import LANGUAGES
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.results.report import write_report
from lm_eval_tasks.runs import answers as reading
from lm_eval_tasks.runs import differing_columns, labels, read_runs
from lm_eval_tasks.runs.answers import content_of, read_answers
from lm_eval_tasks.runs.results_file import leaves_of, plain_names, read_results
from tests.changed_runs import change_results, copied_models, written_samples
from tests.logged_runs import copied
from tests.many_runs import large_runs

DATE = "2026-01-01T00-00-00.5"
OF_ANSWER = ("resps", "filtered_resps", "filter", "metrics")
PROVENANCE = {
    **{"prompt": {"template_sha256": "ab"}, "run": {"limit": 3.0}, "options": {"language": "de"}},
    **{"detector": {"name": "lexical"}, "not_comparable": ["too few", 7]},
}
CONFIG = {
    "metric_list": [
        {"metric": "rate", "aggregation": "defined_share", "higher_is_better": False, "denominator": "answers"},
        {"metric": "length"},
        "odd",
        {"no": "metric"},
    ],
    "filter_list": [{"name": "strict"}, {"name": "robust"}, "odd"],
    "generation_kwargs": {"until": ["."]},
    "custom_dataset": "lm_eval_tasks.nomiracl.dataset.load",
    "metadata": {"figures": {"strict": {"rate": {"value": 0.5}}}, "provenance": PROVENANCE},
}
RESULTS = {
    "results": {"mine": {"rate,strict": 0.5, "rate,robust": 0.25, "alias": "mine"}, "bare": {"m,none": 1.0}},
    **{"configs": {"bare": {}, "mine": CONFIG}, "n-samples": {"mine": {}, "bare": {}}, "n-shot": {"mine": 2}},
    **{"versions": {"mine": 1.5}, "config": {"model": "hf"}, "model_name": "org/model", "chat_template_sha": "cd"},
    **{"chat_template": "{{ x }}", "system_instruction": "Be brief."},
    "group_subtasks": {"both": ["mine", "bare"], "part": ["mine", "absent"], "empty": []},
    "groups": {"both": {"rate,strict": 0.75}},
}


def written(folder: Path, results: Any = RESULTS, date: str = DATE, **samples: list[Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{date}.json"
    path.write_text(json.dumps(results), "utf-8")
    for task, rows in samples.items():
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / f"samples_{task}_{date}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def samples_of(folder: Path, *rows: Any, task: str = "mine") -> Path:
    """A samples file, with a results file beside it."""
    return written(folder, **{task: [*rows]}).with_name(f"samples_{task}_{DATE}.jsonl")


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"doc_id": number, "doc": {"id": f"d{number}"}, "resps": [[f"answer {number}"]], **more}


def test_what_a_results_file_says_of_a_task(tmp_path: Path) -> None:
    written(tmp_path)
    (run,) = read_runs([tmp_path])
    assert (run.model, run.date, run.config, [*run.tasks]) == ("org/model", DATE, {"model": "hf"}, ["mine", "bare"])
    assert run.groups == {"both": ("mine", "bare")}
    assert run.group_results == {"both": {"rate,strict": 0.75}}
    task, bare = run.tasks.values()
    assert (task.benchmark, task.language, task.version) == ("nomiracl", "de", 1.5)
    assert task.filters == ("strict", "robust")
    assert task.detector == {"name": "lexical"}
    assert task.not_comparable == ["too few", "7"]
    assert task.figures == {"strict": {"rate": {"value": 0.5}}}
    metrics = [tuple(vars(metric).values())[:4] for metric in task.metrics]
    assert metrics == [("rate", "defined_share", False, "answers"), ("length", "", None, "")]
    assert vars(task.settings) == {
        **{"template": "ab", "shots": 2, "chat_template": "cd", "system_instruction": "Be brief."},
        **{"generation": {"until": ["."]}, "limit": 3.0, "prompting": (True, True), "chat_template_source": "{{ x }}"},
        "harness": "",
    }
    assert (bare.benchmark, bare.language, bare.version, bare.filters) == ("bare", "", None, ("none",))
    assert (bare.detector, bare.not_comparable, bare.figures, bare.provenance) == ({}, [], {}, {})
    assert [(metric.name, metric.higher_is_better) for metric in bare.metrics] == [("m", None)]
    assert vars(bare.settings) == {
        **{"template": "", "shots": 0, "chat_template": "cd", "system_instruction": "Be brief."},
        **{"generation": {}, "limit": None, "prompting": (True, True), "chat_template_source": "{{ x }}"},
        "harness": "",
    }


def test_the_filters_of_a_task_and_the_one_that_compares_models(tmp_path: Path) -> None:
    """Where a task has no list of them, its figures or its results name the filters."""
    for filters, headline in ((("strict", "robust"), "robust"), (("answer", "other"), "answer"), ((), "none")):
        assert headline_filter(filters, (Metric("rate", filter="robust"),)) == headline
    configs = {"a": {"metadata": {"figures": {"f1": {}, "f2": {}}}}, "b": {}}
    scores = {"a": {"m,x": 1}, "b": {"m,y": 1, "n,y": 1, "m,z": 1, "alias": "b"}}
    written(tmp_path, RESULTS | {"configs": configs, "results": scores})
    (run,) = read_runs([tmp_path])
    assert {name: task.filters for name, task in run.tasks.items()} == {"a": ("f1", "f2"), "b": ("y", "z")}


def test_a_folder_is_no_results_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder; name a results file$"):
        read_results(tmp_path)
    written(tmp_path, date="2026-01-01T00-00-00")
    written(tmp_path / "later", date="2026-02-01T00-00-00")
    written(tmp_path / "a", date="2025-12-01T00-00-00")
    with pytest.raises(ValueError, match=r"name a results file, such as results_2026-02-01T00-00-00\.json$"):
        read_results(tmp_path)


def test_runs_have_names_that_differ(tmp_path: Path) -> None:
    for folder, date, model in (("a", "2026-01-01T00-00-00", "m"), ("b", DATE, "m"), ("c", DATE, "other")):
        written(tmp_path / folder, RESULTS | {"model_name": model}, date)
    written(tmp_path / "x" / "a", RESULTS | {"model_name": "m"}, "2026-03-03T00-00-00")
    one, two, three, four = (read_runs([tmp_path / name])[0] for name in ("a", "b", "c", "x/a"))
    assert labels([one, three]) == ["m", "other"]
    assert labels([one, two]) == ["m (a)", "m (b)"]
    assert labels([one, four]) == ["m (a, 2026-01-01T00-00-00)", "m (a, 2026-03-03T00-00-00)"]
    assert labels([one, two, one]) == [*("m (a, 2026-01-01T00-00-00) #1", "m (b)", "m (a, 2026-01-01T00-00-00) #2")]
    # without a name it has that of its kind, or of its folder
    for config, name in (({"model": "hf"}, "hf"), ({}, "f")):
        written(tmp_path / "f", RESULTS | {"model_name": None, "config": config})
        assert read_runs([tmp_path / "f"])[0].model == name


def test_an_answer_has_the_reading_of_every_filter(tmp_path: Path) -> None:
    rows = [
        row(
            1,
            **{"filter": "strict", "filtered_resps": ["A"], "metrics": ["m", 3], "m": 0.5, "n": 9, "prompt_hash": "ff"},
            arguments={"gen_args_0": {"arg_0": "Who?", "arg_1": {}}},
        ),
        row(0, filter="strict", filtered_resps=[], metrics="m", m=1),
        row(1, filter="robust", filtered_resps=["B"], metrics=["m", "gone"], m=None),
        row(1, filter="strict", filtered_resps=["again"]),  # ranks of a distributed run are padded so
        row(0, arguments={"gen_args_0": ["x"]}),
    ]
    first, second = read_answers(samples_of(tmp_path, *rows))
    assert (second.key, second.response, second.prompt, second.prompt_hash) == ("d1", "answer 1", "Who?", "ff")
    assert second.readings == {"strict": ("A", {"m": 0.5}), "robust": ("B", {"m": None, "gone": None})}
    assert (first.key, first.prompt, first.prompt_hash) == ("d0", "", "")
    assert first.readings == {"strict": (None, {}), "none": (None, {})}


def test_a_document_takes_a_few_hundred_bytes_whatever_the_length_of_its_texts(tmp_path: Path) -> None:
    long = {"arguments": {"gen_args_0": {"arg_0": "why? " * 2000}}, "resps": [["because " * 500]]}
    rows = [row(n, **long, filter=name, metrics=["m"], m=n / 2) for name in ("a", "b") for n in range(600)]
    path = samples_of(tmp_path, *rows)
    read_answers(path)  # what is imported and cached
    tracemalloc.start()
    answers = read_answers(path)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / 600 < 200
    assert most / 600 < 1_500
    assert [answers.readings[name].columns["m"].numbers[599] for name in ("a", "b")] == [299.5, 299.5]
    assert (answers[599].response, answers[599].prompt) == ("because " * 500, "why? " * 2000)


def test_a_file_that_changes_meanwhile_is_said(tmp_path: Path) -> None:
    path = samples_of(tmp_path, row(0), row(1))
    answers = read_answers(path)
    path.write_text("", "utf-8")
    with pytest.raises(CorruptSource, match=rf"^{path} has changed while it was read, or is damaged at byte 60$"):
        answers[1]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts that were parsed, when nothing of any run is known."""
    reading._KNOWN.clear()
    for cached in (reading._parse_document, reading._row, reading._values):
        cached.cache_clear()
    lengths: list[int] = []
    parse = samples._PARSE
    monkeypatch.setattr(samples, "_PARSE", lambda line: lengths.append(len(line)) or parse(line))
    return lengths


def test_what_runs_have_in_common_is_parsed_once(two_models: Path, tmp_path: Path, parsed: list[int]) -> None:
    (source,) = (path.parent for path in two_models.rglob("results_*.json") if path.parent.name == "baseline-lexical")
    runs = read_runs([large_runs(source, tmp_path / "runs", 6, 60)])
    texts = [text for run in runs for text in run.tasks["nomiracl_de"].samples.read_text("utf-8").splitlines()]
    values = {json.dumps([row[metric] for metric in row["metrics"]]) for row in map(json.loads, texts)}
    rows = {json.dumps([row[name] for name in (*OF_ANSWER, *row["metrics"])]) for row in map(json.loads, texts)}
    assert (len(texts), len(rows), len(values)) == (6 * 60 * 2, 6, 3)
    assert len(compare_runs(runs[:3]).differences) == 3 * 3  # pairs, metrics
    assert len(parsed) == 60 + len(rows) + len(values)  # documents; different answers; different values of metrics
    compare_runs(runs)
    assert len(parsed) == 60 + len(rows) + len(values)  # three more runs have nothing new
    parsed.clear()
    write_report(runs[:3], tmp_path / "report.html", documents=4)
    assert len(parsed) == len(rows) + 4 * 3 * 2  # a report derives more of them; shown: documents, models, filters


def test_documents_are_parsed_once_where_they_are_many(
    tmp_path: Path, parsed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = {f"{name}_hash": "0" * 64 for name in ("doc", "prompt", "target")}
    rows = [
        {"doc_id": n, "doc": {"id": f"d{n}"}, "target": "", "arguments": {"gen_args_0": {}}, "resps": [["Yes"]]}
        | {"filtered_resps": ["Yes"], "filter": name, "metrics": ["m"], **hashes, "m": 1.0}
        for name in ("a", "b")
        for n in range(5_000)
    ]
    path = samples_of(tmp_path, *rows)
    first, second = read_answers(path), read_answers(path)
    assert (len(parsed), second.keys is first.keys) == (5_000 + 2 + 1, True)
    monkeypatch.setattr(reading, "_MOST_KNOWN", 1_000)  # slower, not wrong
    reading._KNOWN.clear()
    third = read_answers(path)
    assert len(reading._KNOWN) <= 1_000
    assert (third.keys, third.contents.tolist()) == (first.keys, first.contents.tolist())


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("[]", "TypeError: a sample is an object with a doc, which is one too"),
        ('{"doc_id": 1, "doc": [], "resps": [["a"]]}', "TypeError: a sample is an object with a doc"),
        ('{"doc_id": 1, "doc": {}, "resps": [[{}]]}', "TypeError: resps holds lists of answers"),
        ('{"doc_id": 1, "doc": {}, "resps": []}', "IndexError"),
        ('{"doc": {}, "resps": [["a"]]}', "KeyError: 'doc_id'"),
        ('{"doc_id": 1', "JSONDecodeError"),
        ('{"doc_id": Infinity, "doc": {}, "resps": [["a"]]}', "OverflowError"),
        ('{"doc_id": NaN, "doc": {}, "resps": [["a"]]}', "ValueError"),
        ('{"doc_id": null, "doc": {}, "resps": [["a"]]}', "TypeError"),
        ('{"doc_id": "x", "doc": {}, "resps": [["a"]]}', "ValueError"),
    ],
)
def test_a_line_in_the_middle_that_is_no_sample_is_an_error_and_a_last_one_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: str, why: str
) -> None:
    within_a_character = '{"doc_id": 5, "doc": {"id": "ü'.encode()[:-1]
    for last, more in (([bad, " "], b""), ([], within_a_character)):
        caplog.clear()
        path = samples_of(tmp_path, row(4), "", *last)
        path.write_bytes(path.read_bytes() + more)
        assert [sample["doc_id"] for sample in read_samples(path)] == [4]
        assert caplog.messages == [f"{path} is cut in line 3: the 1 samples before it are used, the rest is lost"]
    with pytest.raises(CorruptSource) as refused:
        list(read_samples(samples_of(tmp_path, row(4), bad, row(5))))
    assert str(refused.value).startswith(f"{path}, line 2: no sample ({why}")


def test_a_documents_further_answers_are_counted_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [row(0), row(0), row(0) | {"resps": [["b"]]}, row("1"), row(0) | {"resps": [["c"]]}]
    rows.append(row(2) | {"resps": [["half \ud800 a pair"]]})
    path = samples_of(tmp_path, *rows)
    first = ["answer 0", "answer 1", "half \ufffd a pair"]
    assert [(sample["doc_id"], sample["resps"][0][0]) for sample in read_samples(path)] == [*enumerate(first)]
    assert caplog.messages == [f"{path}: 2 further answers to the same documents; the first of each counts"]


def test_documents_of_a_task_in_their_order(tmp_path: Path) -> None:
    written(tmp_path / "m", mine=[row(2), row(0), row(1)], other=[row(0)], empty=[])
    assert [doc["id"] for doc in documents_of_samples(tmp_path, "mine", ("id",))[0]] == ["d0", "d1", "d2"]
    place = tmp_path.resolve()
    for task, columns, error, says in (
        ("mine", ("id", "query", "x"), CorruptSource, "a document has no query, x; it is none of mine"),
        ("empty", (), CorruptSource, "no sample can be read"),
        ("absent", (), MissingSource, f"{place}: samples of empty, mine, other, none of absent"),
    ):
        with pytest.raises(error, match=says):
            documents_of_samples(tmp_path, task, columns)
    written(tmp_path / "n", mine=[row(0)])
    with pytest.raises(CorruptSource, match=f"{place}: samples of mine in 2 folders; name one of them"):
        documents_of_samples(tmp_path, "mine", ())
    with pytest.raises(MissingSource, match="no samples file"):
        samples_files(written(tmp_path / "m"))


DETECTOR = {"detector": "lexical", "detector_args": "{}", "calibration": "a", "calibration_annotations": ""}


def test_a_folder_is_read_model_by_model_and_both_were_asked_the_same(two_models: Path) -> None:
    answer, lexical = read_runs([two_models])
    assert (answer.model, lexical.model) == ("lm-eval-grounded/baseline-answer", "lm-eval-grounded/baseline-lexical")
    assert labels([answer, lexical]) == [answer.model, lexical.model]
    others = {"clapnq_gold", "clapnq_rag", "mfava_de", "mfava_ar"}
    assert {*lexical.tasks} == {*(f"nomiracl_{code}" for code in LANGUAGES)} | others
    assert lexical.groups == {"nomiracl": tuple(f"nomiracl_{code}" for code in LANGUAGES)}
    members = [lexical.tasks[name].results["hallucination_rate,strict"] for name in lexical.groups["nomiracl"]]
    assert lexical.group_results["nomiracl"]["hallucination_rate,strict"] == pytest.approx(fmean(members))
    for task in ("nomiracl_de", "clapnq_rag", "mfava_de"):
        assert [a.content for a in answer.tasks[task].answers()] == [b.content for b in lexical.tasks[task].answers()]
    assert "QUESTION:\nWann wurde der Kölner Dom fertiggestellt?" in lexical.tasks["nomiracl_de"].answers()[0].prompt


def test_content_is_what_is_asked_and_not_who_tags_it() -> None:
    said = b'{"id": 1, "query": "f\xc3\xbcr"}'  # JSON with sorted keys, in UTF-8: the same on every machine
    assert content_of({"query": "für", "id": 1}) == hashlib.sha256(said).hexdigest()[:32]
    asked = {"id": 1, "query": "why", "passages": ["a", "b"]}
    assert content_of(asked) == content_of({**dict(reversed(asked.items())), **DETECTOR})
    assert content_of(asked) != content_of({**asked, "passages": ["b", "a"]})
    assert differing_columns(asked, {**asked, **DETECTOR}) == []
    assert differing_columns(asked, {"id": 1, "query": "how", "more": 0}) == ["more", "passages", "query"]
    assert content_of({"query": "\ud800"})  # half of a surrogate pair


def test_a_results_file_or_a_samples_file_alone(two_models: Path, tmp_path: Path) -> None:
    folder = copied(two_models / "baseline-lexical", tmp_path / "baseline-lexical")
    (results,) = folder.glob("results_*.json")
    (samples,) = folder.glob("samples_mfava_de_*.jsonl")

    assert read_runs([results])[0].tasks.keys() == read_runs([folder])[0].tasks.keys()
    (run,) = read_runs([samples])
    assert [*run.tasks] == ["mfava_de"]
    assert run.tasks["mfava_de"].detector["name"] == "lexical"

    results.unlink()
    (run,) = read_runs([samples])  # what our tables say of the task is known all the same
    task = run.tasks["mfava_de"]
    assert (run.model, task.benchmark, task.language) == ("baseline-lexical", "mfava", "de")
    assert task.metrics[0].name == "detected_rate"
    assert len(task.answers()) == 9


def test_of_several_runs_the_newest_of_each_task_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    older = written(tmp_path, mine=[row(0)], bare=[row(0)])
    part = {"configs": {"mine": CONFIG}, "group_subtasks": {}, "versions": {"mine": 9.9}}
    newer = written(tmp_path, RESULTS | part, "2099-01-01T00-00-00")
    with caplog.at_level(logging.WARNING):
        (run,) = read_runs([tmp_path])
    mine, bare = run.tasks["mine"], run.tasks["bare"]
    assert (mine.version, mine.results_file, bare.results_file) == (9.9, newer, older)
    assert mine.samples is None  # the older samples are of other answers
    assert len(bare.answers()) == 1
    assert [*run.groups] == ["both"]
    said = f"{tmp_path}: of each task the newest results count; passed over: mine of {DATE}"
    assert caplog.messages == [said]
    with pytest.raises(MissingSource, match="the answers to mine were not logged beside it; run it with --log_samples"):
        mine.answers()


def test_places_without_results(tmp_path: Path) -> None:
    with pytest.raises(MissingSource, match="there is no such file or folder"):
        read_runs([tmp_path / "nowhere"])
    (tmp_path / "notes_2026.json").write_text("{}", "utf-8")
    with pytest.raises(MissingSource, match=r"no results_<date>\.json and no samples_<task>_<date>\.jsonl"):
        read_runs([tmp_path])


@pytest.mark.parametrize(
    ("damaged", "says"),
    [
        ({"results": {"t": 1}}, "is damaged: results holds something that is no list of metrics"),
        ({"configs": {"t": []}}, "is damaged: configs holds something that is no configuration of a task"),
        *(
            ({key: value}, f"is damaged: {key} is {type(value).__name__}, not an object")
            for key, value in (("n-samples", [1]), ("n-shot", 1), ("versions", "1"), ("groups", 0.5))
        ),
        ({"groups": {"g": None}}, "is damaged: groups holds something that is no list of metrics"),
        ({"group_subtasks": ["t"]}, "is damaged: group_subtasks is list, not an object"),
        ({"group_subtasks": {"g": "t"}}, "is damaged: group_subtasks holds something that is no list of tasks"),
        ({"group_subtasks": {"g": [["t"]]}}, "is damaged: group_subtasks holds something that is no list of tasks"),
        (b"", "is no results file, or a damaged one"),
        (b"\xff\xfe", "is no results file, or a damaged one"),
        (b"[]", "is no results file of `lm_eval`"),
    ],
)
def test_a_damaged_results_file_is_refused(tmp_path: Path, damaged: dict[str, Any] | bytes, says: str) -> None:
    path = tmp_path / "results_2026-01-01T00-00-00.json"
    content = {"results": {}, "configs": {"t": {}}, "config": {}}
    path.write_bytes(damaged if isinstance(damaged, bytes) else json.dumps(content | damaged).encode())
    with pytest.raises(ValueError, match=says):
        read_runs([tmp_path])


def test_what_a_results_file_need_not_say_may_be_anything(tmp_path: Path) -> None:
    odd: dict[str, Any] = {"metric_list": 1, "filter_list": 2, "generation_kwargs": []}
    record = dict.fromkeys(("prompt", "run", "options", "detector", "not_comparable"), 7)
    rest = {"n-samples": None, "versions": None, "n-shot": {"t": "x"}, "group_subtasks": None, "groups": None}
    content = {"results": {"t": {"m,strict": 0.5}}, "configs": {"t": odd}, "config": {}, **rest}
    figures = (3, {"strict": None}, {"strict": {"m": 0.5}}, {"strict": {"m": {}}, "f": [1]})
    records = (record, [], {"failed": "x"})
    for metadata in (None, [1], *({"figures": f, "provenance": r} for f, r in product(figures, records))):
        odd["metadata"] = metadata
        written(tmp_path, content)
        task = read_runs([tmp_path])[0].tasks["t"]
        assert (task.version, task.language) == (None, "")
        assert [metric.name for metric in task.metrics] in ([], ["m"])
        assert task.figures in ({}, {"strict": {"m": {}}})
        assert task.provenance in ({}, record)
        assert (task.detector, task.not_comparable, task.filters) == ({}, [], ("strict",))
        settings = task.settings
        assert (settings.shots, settings.limit, settings.template, settings.generation) == (0, None, "", {})


def test_a_group_that_holds_itself_has_the_tasks_below_it_once() -> None:
    groups = {"all": ["one", "two", "t3"], "one": ["t1", "two", "all"], "two": ["t2", "t1"], "none": ["none"]}
    assert [*leaves_of("all", groups)] == ["t1", "t2", "t3"]
    assert [*leaves_of("t9", groups)] == ["t9"]
    assert [*leaves_of("none", groups)] == []
    deep = {f"g{n}": [f"g{n + 1}", f"g{n + 1}"] for n in range(5000)}
    assert [*leaves_of("g0", deep)] == ["g5000"]


def test_runs_of_a_model_in_a_folder_are_found_and_unfinished_ones_are_not(tmp_path: Path) -> None:
    """The harness names the folders of ``./models/x`` and ``../x`` so."""
    found, hidden = ["..__x", ".__models__x", "org__x"], [".cache", ".__x.host-1-2.part", ".scoring-x", ".git/x"]
    for name in (*found, *hidden):
        written_samples(tmp_path / name, "mine", [{"acc": 1.0}])
    assert sorted(run.folder.name for run in read_runs([tmp_path])) == found
    assert sorted(folder.name for folder in samples_files(tmp_path)) == found


def test_tasks_of_a_group_have_the_same_names_from_every_version_of_the_harness(tmp_path: Path) -> None:
    """0.5 writes ``group::task``."""
    assert plain_names(["a", "g::b", "g::h::c"]) == {"a": "a", "g::b": "b", "g::h::c": "c"}
    assert plain_names(["g::a", "h::a", "g::b"]) == {"g::a": "g::a", "h::a": "h::a", "g::b": "b"}  # which of both?
    runs = {}
    for version, names in (("0.4", ("x", "y")), ("0.5", ("g::x", "g::y"))):
        folder = tmp_path / version
        folder.mkdir()
        by_task = {name: {"acc,none": 0.5} for name in names}
        results = {
            **{"config": {}, "model_name": "m", "groups": {"g": {"acc,none": 0.5}}, "group_subtasks": {"g": [*names]}},
            **{"results": by_task, "configs": {name: {} for name in names}, "versions": dict.fromkeys(names, 1.0)},
        }
        (folder / "results_2026-01-01T00-00-00.0.json").write_text(json.dumps(results), "utf-8")
        for name in names:
            (folder / f"samples_{name}_2026-01-01T00-00-00.0.jsonl").touch()
        (runs[version],) = read_runs([folder])
        (one,) = read_runs([folder / f"samples_{names[0]}_2026-01-01T00-00-00.0.jsonl"])
        assert [*one.tasks] == ["x"]
        assert all(task.samples is not None for task in runs[version].tasks.values())
    assert [*runs["0.5"].tasks] == [*runs["0.4"].tasks] == ["x", "y"]
    assert runs["0.5"].groups == runs["0.4"].groups == {"g": ("x", "y")}
    assert [task.benchmark for task in runs["0.5"].tasks.values()] == ["g", "g"]
    assert runs["0.5"].tasks["x"].version == 1.0


def test_a_run_of_another_version_is_compared_without_a_word_of_it(two_models: Path, tmp_path: Path) -> None:
    """What 0.4 and 0.5 write differently about a task of ours, by a run of the same command on both."""
    tasks = ["nomiracl_de", "clapnq_gold", "mfava_de"]
    first, second = copied_models(two_models, tmp_path, tasks)
    before = compare_runs(read_runs([first, second]), tasks)

    def of_the_other(results: dict[str, Any]) -> None:
        added = {"scorer": {"type": "grounded"}, "multiple_inputs": False, "multiple_targets": False, "tag": []}
        is_new = results["lm_eval_version"].startswith("0.5")
        results["lm_eval_version"] = "0.4.13" if is_new else "0.5.0.dev1"
        for config in results["configs"].values():
            if is_new:
                for key in added:
                    config.pop(key, None)
            else:
                config |= added

    change_results(second, of_the_other)
    after = compare_runs(read_runs([first, second]), tasks)
    content, expected = after.as_json(), before.as_json()
    assert str(content.pop("signatures")) != str(expected.pop("signatures"))  # these name the harness's version
    assert (content, after.notes) == (expected, before.notes)
