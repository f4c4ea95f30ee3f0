"""``compare --across`` and ``--pair``: one model under two settings, and tasks of two names over the same documents;
``--plan``: how many documents a difference needs."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import Template

from custom_metrics.statistics.paired_difference import detectable_difference, rows_needed
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.compare import plan
from lm_eval_tasks.definition.catalogue import variant_of
from lm_eval_tasks.nomiracl.dataset import LANGUAGES
from lm_eval_tasks.results.compare import Comparison, Incomparable, compare_runs
from lm_eval_tasks.results.joining import ACROSS, pair_tasks
from lm_eval_tasks.results.report import Report, write_report
from lm_eval_tasks.runs import labels, read_runs
from lm_eval_tasks.runs.answers import Asked, Turns, asked_alike, turns_of
from tests import made_runs
from tests.changed_runs import Row, change_results, change_samples, copied_models, in_a_chat, written_samples
from tests.logged_runs import in_this_process

TASK = "clapnq_rag"
RECORD, KWARGS = f"configs {TASK} metadata provenance", f"configs {TASK} generation_kwargs"
PROMPTED = {"prompt_hash": "0" * 64, "arguments": {"gen_args_0": {"arg_0": "Think."}}}


def compared(*places: Path, **options: Any) -> Comparison:
    return compare_runs(read_runs(places), **options)


def rows_of(comparison: Comparison) -> list[float]:
    rows = comparison.differences
    return [x for row in rows for x in (*row.result[:2], *row.result[3:7])]


def put(folder: Path, place: str, value: Any) -> None:
    """Another value in a results file."""
    *names, last = place.split()
    change_results(folder, lambda of: reduce(lambda at, name: at.setdefault(name, {}), names, of).update({last: value}))


def one_model(two_models: Path, folder: Path, tasks: Sequence[str] = (TASK,)) -> tuple[Path, Path]:
    """The runs of both models, as if they were two runs of a model ``m``."""
    places = copied_models(two_models, folder, tasks)
    for place in places:
        put(place, "model_name", "m")
        change_results(place, lambda of: of.update(configs={name: of["configs"][name] for name in tasks}))
    return places


def rename(folder: Path, names: Mapping[str, str]) -> None:
    """Give tasks and groups of a run other names."""
    for path in [*folder.iterdir()]:
        for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
            if path.name.startswith("results_"):
                path.write_text(path.read_text("utf-8").replace(f'"{old}"', f'"{new}"'), "utf-8")
            elif path.name.startswith(f"samples_{old}_2"):
                path = path.rename(path.with_name(path.name.replace(f"_{old}_2", f"_{new}_2")))


def of_another_retriever(row: Row) -> Row:
    return {**row, **PROMPTED, "doc": {**row["doc"], "passages": [], "gold_ranks": [1], "retriever": '{"k1": 2}'}}


def with_prompts(row: Row) -> Row:
    return row | PROMPTED


SETTINGS: list[tuple[Any, ...]] = [
    # setting, place in the results file, value, change of the samples, and both values as the heading has them
    ("version", f"versions {TASK}", 0.5, None, ("version 0.5", "version 2")),
    ("prompt", f"{RECORD} prompt template_sha256", "f00ba7" * 11, with_prompts, ("prompt f00ba7f", "prompt e68f3a8")),
    ("system_instruction", "system_instruction", "Be brief." * 20, with_prompts, ("f.Be brief.", "no instruction")),
    ("template", "chat_template_sha", "c" * 64, in_a_chat, ("template on", "template off")),
    ("shots", f"n-shot {TASK}", 5, with_prompts, ("5 shots", "0 shots")),
    ("retriever", f"{RECORD} retrieval retriever", "e5", of_another_retriever, ("retriever e5", "retriever bm25")),
    ("generation", KWARGS, {"temperature": 0.3}, None, ("temperature=0.3", "do_sample=False")),
]


@pytest.mark.parametrize("case", SETTINGS, ids=[row[0] for row in SETTINGS])
def test_a_setting_is_compared_where_it_is_named_and_refused_or_noted_elsewhere(
    two_models: Path, tmp_path: Path, case: tuple[Any, ...]
) -> None:
    setting, place, value, change, shown = case
    first, second = one_model(two_models, tmp_path)
    plain = compared(first, second)
    assert (plain.across, plain.models[0]) == ({}, "m (baseline-answer)")
    put(first, place, value)
    if change is not None:
        change_samples(first, TASK, lambda rows: [*map(change, rows)])
    for across in ((setting,), ACROSS, (setting, "detector")):
        found = compared(first, second, across=across)
        assert rows_of(found) == pytest.approx(rows_of(plain), nan_ok=True)  # nothing but the heading is another
        assert [*found.across] == [setting]
        assert all(text in of_run for text, of_run in zip(shown, found.across[setting], strict=True))
        assert [text in model for text, model in zip(shown, found.models, strict=True)] == [True, True]
        assert not any("another" in note for note in found.notes)
    others = [name for name in ACROSS if name not in (setting, "model")]
    for across in ((), others):
        if setting in ("template", "generation"):
            assert any(note.startswith(f"{TASK}: another ") for note in compared(first, second, across=across).notes)
        elif not across or setting in ("version", "system_instruction", "shots", "retriever"):
            with pytest.raises(Incomparable, match=f"--across ({','.join(others)},)?{setting}$"):
                compared(first, second, across=across)


def test_other_versions_are_refused_and_said_first_where_they_are_allowed(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = one_model(two_models, tmp_path)
    put(first, f"versions {TASK}", 1.7)
    folders = [*map(str, (first, second))]
    assert main(["compare", *folders]) == 2
    printed = capsys.readouterr().err
    assert f"{TASK}: the version of the task differs: version 1.7 for m (version 1.7" in printed
    assert printed.endswith("across what differs: --across version\n")
    third = shutil.copytree(second, tmp_path / "third")
    for options in ([], ["--short"], ["--format", "markdown"], [str(third)]):
        assert main(["compare", *folders, *options, "--across", "version"]) == 0
        says = r"(- )?Other versions of the tasks, so a difference need not be one of the models: .*1\.7; .*2"
        assert re.match(says, capsys.readouterr().out)
    runs = read_runs([first, second])
    page, summary = write_report(runs, tmp_path / "report.html").read_text("utf-8"), Report.of(runs).to_markdown()
    assert f'<p class="finding">{TASK}: not compared, as the version of the task differs: version 1.7' in page
    assert f"{TASK}: not compared, as the version of the task differs".replace("_", "\\_") in summary
    put(second, f"versions {TASK}", 1.70)
    assert compared(first, second).refused == ()


def test_a_detector_is_compared_across_and_refused_beside_another_setting(two_models: Path, tmp_path: Path) -> None:
    first, second = one_model(two_models, tmp_path, ["mfava_de"])
    put(first, "configs mfava_de metadata provenance detector version", "0ther")
    put(first, "n-shot mfava_de", 5)
    with pytest.raises(Incomparable, match=r"the detector differs.*--across shots,detector$"):
        compared(first, second, across=["shots"])
    found = compared(first, second, across=["shots", "detector"])
    assert [value.partition(", ")[0] for value in found.across["detector"]] == ["version=0ther", "version=8111b6c960d5"]
    assert "detected_rate" in {row.metric.name for row in found.differences}


def test_one_model_is_compared_unless_models_are_named(two_models: Path, tmp_path: Path) -> None:
    first, second = copied_models(two_models, tmp_path, [TASK])
    put(first, f"n-shot {TASK}", 5)
    with pytest.raises(Incomparable, match=r"the number of shots differs.*--across model,shots$"):
        compared(first, second, tasks=[TASK])
    with pytest.raises(ValueError, match=r"--across shots compares runs of one model.*--across model,shots$"):
        compared(first, second, tasks=[TASK], across=["shots"])
    assert compared(first, second, tasks=[TASK], across=["model", "shots"]).across == {"shots": ("5 shots", "0 shots")}


@pytest.mark.parametrize("column", ["question", "gold_ids", "answers"])
def test_other_questions_are_refused_across_retrievers(two_models: Path, tmp_path: Path, column: str) -> None:
    first, second = one_model(two_models, tmp_path)

    def change(row: Row) -> Row:
        return {**of_another_retriever(row), "doc": {**of_another_retriever(row)["doc"], column: "another"}}

    change_samples(first, TASK, lambda rows: [*map(change, rows)])
    says = f"32 of 32 documents differ; the first is .*, in {column}: 'another' in"
    with pytest.raises(Incomparable, match=says) as error:
        compared(first, second, across=["retriever", "prompt"])
    assert "--across" not in str(error.value)  # it does not help


# ---------------------------------------------------------------------------------------------- prompts of chats and APIs

TEMPLATES = {
    "ChatML": (
        "{%- if messages[0].role != 'system' %}<|im_start|>system\nYou are Qwen, created by Alibaba Cloud.<|im_end|>\n"
        "{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    ),
    "Llama": (
        "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: {{ strftime_now('%d %b %Y') }}\n\n{% if messages[0].role == 'system' %}"
        "{{ messages[0].content | trim }}{% endif %}<|eot_id|>{% for m in messages if m.role != 'system' %}"
        "<|start_header_id|>{{ m.role }}<|end_header_id|>"
        "\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "Gemma": (
        "{{ bos_token }}{% set first = messages[0].content + '\n\n' if messages[0].role == 'system' else '' %}"
        "{% for m in messages if m.role != 'system' %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ first if loop.first else '' }}{{ m.content | trim }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
    ),
    "Mistral": (  # whose instruction stands in the last turn
        "{{ bos_token }}{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST] {% if loop.last and "
        "messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}{{ m.content }}[/INST]{% else %} "
        "{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    ),
}
SYSTEM = "Answer from the passages. PASSAGE 1: 1899 wurde der Buchstabe <b>Jus</b> abgeschafft, 30 blieben."
CHATS: dict[str, Turns] = {
    "one turn": [("user", f"{SYSTEM}\nQUESTION: Wie viele?\nOUTPUT:")],
    "conversation": [("system", SYSTEM), ("user", "Wie viele?"), ("assistant", "30."), ("user", "不知道吗？")],
    "two shots": [("user", "Q: 1?"), ("assistant", "one"), ("user", "Q: 2?"), ("assistant", "two"), ("user", "Q: 3?")],
}
OTHER_CHATS: dict[str, Callable[[Turns], Turns]] = {
    "instruction": lambda turns: [*turns[:-1], (turns[-1][0], f"{turns[-1][1]} Think step by step.")],
    "fewer passages": lambda turns: [(role, text.replace("abgeschafft", "")) for role, text in turns],
    "system instruction": lambda turns: [("system", "Be brief."), *turns],
    "another shot": lambda turns: [("user", "Q: 0?"), ("assistant", "zero"), *turns],
    "no question": lambda turns: turns[:-1],
}
"""Chats that ask something else. A template of "Be helpful." cannot hide one of these: its source has none of the words."""


def asked_in(turns: Turns, form: str) -> Asked:
    """What the log of a run holds of a chat."""
    if form == "messages":
        logged = [json.dumps([{"role": role, "content": text} for role, text in turns], ensure_ascii=False)]
        return Asked("\n\n".join(text for _, text in turns_of(logged)), turns_of(logged))
    if form == "text":
        names = {"user": "User: ", "assistant": "Agent: ", "system": ""}
        lines = [names[role] + text for role, text in turns] if len(turns) > 1 else [text for _, text in turns]
        return Asked("\n".join([*lines, "Agent:"] if len(turns) > 1 else lines), ())
    messages = [{"role": role, "content": text} for role, text in turns]
    tokens = {"bos_token": "<|begin_of_text|>", "eos_token": "</s>", "strftime_now": lambda _: "28 Nov 2026"}
    return Asked(Template(TEMPLATES[form]).render(messages=messages, **tokens), (), TEMPLATES[form])


FORMS = ["messages", "text", *TEMPLATES]


@pytest.mark.parametrize("turns", CHATS.values(), ids=[*CHATS])
def test_prompts_are_alike_if_they_ask_the_same(turns: Turns) -> None:
    for first, second in product(FORMS, FORMS):
        assert asked_alike(asked_in(turns, first), asked_in(turns, second)), (first, second)
        for name, change in OTHER_CHATS.items():
            if (other := change(turns)) not in (turns, []):
                assert not asked_alike(asked_in(turns, first), asked_in(other, second)), (first, second, name)


def test_what_is_not_known_of_a_template_or_a_prompt_is_no_difference() -> None:
    text, unknown, empty = Asked("Why?", ()), Asked("<s>Be kind. Why? [/INST]", (), ""), Asked("", ())
    pairs = [(text, unknown), (unknown, text), (text, empty), (empty, empty), (empty, Asked("", (), "t"))]
    assert [asked_alike(*pair) for pair in pairs] == [True, True, False, False, True]
    assert not asked_alike(Asked("Why? Say why.", ()), unknown)
    parts = [{"role": "user", "content": [{"type": "text", "text": "Why?"}, {"type": "image_url"}]}]
    assert turns_of(parts) == turns_of(json.dumps(parts)) == [("user", "Why?")]
    assert [turns_of(logged) for logged in ("[{", "[{]", ["a", "b"], [{"text": "x"}], None, 1, "[")] == [()] * 7


@pytest.mark.slow("a language model answers")
def test_an_api_is_compared_with_a_replay_and_a_local_model(url: str, llama: Path, tmp_path: Path) -> None:
    """Conversations of mtragun, whose turns are lines without a chat template."""
    runs = {
        "api": ("local-chat-completions", f"model=a,base_url={url},max_length=32000", True),
        "local": ("hf", f"pretrained={llama},device=cpu", True),
        "replay": ("grounded-baseline", "strategy=abstain", False),
    }
    tasks = ["nomiracl_de", "mtragun_clapnq"]
    for name, (model, arguments, chat) in runs.items():
        how = {"apply_chat_template": chat, "fewshot_as_multiturn": chat, "gen_kwargs": "max_gen_toks=4", "limit": 2}
        in_this_process(tasks, model, arguments, tmp_path / name, **how)
    for first, second in combinations(runs, 2):
        found = compared(tmp_path / first, tmp_path / second)
        assert [each.documents for each in found.joined] == [2, 2]
        assert [note for note in found.notes if "another chat template" in note]
    (place,) = (tmp_path / "local").iterdir()
    change_results(place, lambda results: results.update(system_instruction="Be brief."))
    with pytest.raises(Incomparable, match="the system instruction differs"):
        compared(tmp_path / "api", place)


# ------------------------------------------------------------------------------------------------- tasks of other names


def test_tables_say_which_tasks_ask_the_same_documents() -> None:
    assert variant_of("nomiracl_de_role") == ("nomiracl_de", {"prompt": "role"})
    assert variant_of("clapnq_rag_e5_gpt") == ("clapnq_rag", {"prompt": "gpt", "retriever": "e5"})
    assert variant_of("mfava_detection_de_gold_category")[0] == "mfava_detection_de_gold_category"


NOMIRACL = [f"nomiracl_{language}" for language in LANGUAGES]
ROLE = {"nomiracl": "nomiracl_role", **{name: f"{name}_role" for name in NOMIRACL}}


@pytest.mark.slow("all languages twice")
def test_a_group_is_paired_with_that_of_another_prompt(two_models: Path, tmp_path: Path) -> None:
    first, second = one_model(two_models, tmp_path, NOMIRACL)
    plain = compared(first, second)
    rename(second, ROLE)
    says = r"no task is in two runs.*nomiracl_ar and nomiracl_ar_role ask.*--across prompt$"
    with pytest.raises(ValueError, match=says):
        compared(first, second)
    found = compared(first, second, across=["prompt"])
    assert found.models == ("m (prompt vanilla)", "m (prompt role)")
    assert rows_of(found) == pytest.approx(rows_of(plain), nan_ok=True)
    assert [(row.column.name, row.tasks) for row in found.differences if row.column.group] == [("nomiracl", 18)] * 3
    assert found.paired["nomiracl_sw"] == ("nomiracl_sw", "nomiracl_sw_role")
    for name in ("nomiracl_role", "nomiracl"):
        assert len(compared(first, second, across=["prompt"], tasks=[name]).differences) == 3 * 19
    by_groups = compared(first, second, across=["prompt"], pairs=["nomiracl=nomiracl_role"], tasks=["nomiracl"])
    assert rows_of(by_groups) == pytest.approx(rows_of(plain), nan_ok=True)
    with pytest.raises(ValueError, match="they have 18 and 1 tasks; pair these one by one"):
        compared(first, second, pairs=["nomiracl=nomiracl_de_role"])


def test_a_run_with_both_tasks_is_compared_with_itself(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two prompts of two benchmarks are two columns; what has one prompt only is left out."""
    tasks = ["nomiracl_de", "clapnq_gold", "mfava_de"]
    first, second = one_model(two_models, tmp_path, tasks)
    plain = compared(first, second, tasks=tasks[:2])
    rename(second, {"nomiracl_de": "nomiracl_de_role", "clapnq_gold": "clapnq_gold_gpt"})
    results = next(first.glob("results_*.json"))
    mine, theirs = (json.loads(next(place.glob("results_*.json")).read_text("utf-8")) for place in (first, second))
    for key, value in theirs.items():
        if isinstance(value, dict):
            mine[key] = {**(mine[key] or {}), **value}
    results.write_text(json.dumps(mine), "utf-8")
    (date,) = {path.stem.rpartition("_")[2] for path in first.glob("samples_*")}
    for name in ("nomiracl_de_role", "clapnq_gold_gpt"):
        next(second.glob(f"samples_{name}_*")).rename(first / f"samples_{name}_{date}.jsonl")
    says = r"only one run was found.*needs two or more\. .*ask the same.*--across prompt$"
    with pytest.raises(ValueError, match=says):
        compared(first)
    found = compared(first, across=["prompt"])
    assert rows_of(found) == pytest.approx(rows_of(plain), nan_ok=True)
    assert {*found.paired} == {*tasks[:2]}
    assert main(["compare", str(first), "--across", "Prompt"]) == 0
    printed = capsys.readouterr().out
    assert "Compared across prompt: A has prompt vanilla, flan; B has prompt role, gpt\n" in printed
    assert "Paired: nomiracl_de with nomiracl_de_role" in printed


@pytest.mark.parametrize("pairs", [[], ["nomiracl_de=nomiracl_de_role"], ["nomiracl_fr_role=nomiracl_fr"]])
def test_pairs_that_are_named_are_among_those_that_are_found(pairs: list[str]) -> None:
    names = ["nomiracl_de", "nomiracl_de_role", "nomiracl_fr", "nomiracl_fr_role", "mfava_de"]
    first, second = pair_tasks([made_runs.run("m", [made_runs.task(name, {}) for name in names])], ["prompt"], pairs)[0]
    assert [task.task for task in first.tasks.values()] == [names[0], names[2], names[4]]
    assert [task.task for task in second.tasks.values()] == [names[1], names[3]]
    assert {*second.tasks} < {*first.tasks}
    assert len(pair_tasks([first], ["prompt"], ["nomiracl_de=nomiracl_fr"])[0]) == 2


def test_tasks_of_ones_own_are_paired_by_name(tmp_path: Path) -> None:
    values = [{"acc": float(number % 3 > 0)} for number in range(30)]
    one = written_samples(tmp_path / "one", "mine", values)
    other = written_samples(tmp_path / "other", "yours", values[::-1])
    (row,) = compared(one, other, pairs=["mine=yours"]).differences
    assert (row.column.name, row.result.n, row.documents) == ("mine", 30, 30)
    elsewhere = written_samples(tmp_path / "elsewhere", "theirs", values, [{"id": f"x{n}"} for n in range(30)])
    with pytest.raises(Incomparable, match=r"mine: no document is in two runs"):
        compared(one, elsewhere, pairs=["mine=theirs"])
    with pytest.raises(ValueError, match=r"--pair mine=your: no run has your; did you mean 'yours'\?"):
        compared(one, other, pairs=["mine=your"])


# ------------------------------------------------------------------------------------- what so many documents would show


def test_the_smallest_difference_stands_in_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 100 documents 30 are discordant, ten more of one model's."""
    first, second = ([{"acc": float(low <= n < high)} for n in range(100)] for low, high in ((0, 50), (10, 70)))
    folders = [written_samples(tmp_path / name, "mine", values) for name, values in (("a", first), ("b", second))]
    (row,) = compared(*folders).differences
    error = math.sqrt((0.3 - 0.1**2) / 100)
    assert row.detectable == pytest.approx(detectable_difference(error)) == pytest.approx(2.8016 * error, rel=1e-4)
    assert compared(*folders).as_json()["differences"][0]["detectable"] == row.detectable
    assert main(["compare", *map(str, folders)]) == 0
    assert " 0.151\n" in capsys.readouterr().out
    third = written_samples(tmp_path / "c", "mine", second)
    assert main(["compare", *map(str, (*folders, third))]) == 0
    printed = capsys.readouterr().out
    assert "100 documents show a difference of 0.151 (power 80 %, one comparison)" in printed
    assert max(map(len, printed.rpartition("\n\n")[0].splitlines())) <= 100


def test_a_plan_says_how_many_documents_a_difference_needs(
    two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = one_model(two_models, tmp_path)
    runs = read_runs(folders)
    comparison = compare_runs(runs)
    planned, _ = plan(comparison, 0.05)
    assert "length" not in {row["metric"] for row in planned}  # 0.05 characters
    for row, seen in zip(planned, comparison.differences, strict=False):
        variance = seen.result.n * seen.result.standard_error**2
        assert row["needed"] == row["needed_documents"] == rows_needed(0.05, variance, seen.of_shares)
    for seen in (comparison, runs[0]):
        with pytest.raises(UsageError, match=r"such as 0.05 for 5 points, got 5$"):
            plan(seen, 5)
    metrics = ["length", "rougeL"]
    (length,), (_, note) = plan(compare_runs(runs, metrics=metrics), 20, metrics=metrics)
    assert (length["metric"], note) == ("length", "Left out: rougeL differs by less than 1.")
    assert length["needed"] is not None
    (alone,), (how,) = plan(runs[0], 0.05, metrics=["rougeL"])
    numbers = runs[0].tasks[TASK].answers().readings["answer"].columns["rougeL"].numbers
    assert alone["needed"] == rows_needed(0.05, 2 * float(np.nanvar(numbers, ddof=1)))
    assert how.startswith("One run has no pairs")
    assert main(["compare", *map(str, folders), "--plan", "0.05", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["needed"] for row in printed["plan"]] == [row["needed"] for row in planned]


def test_a_plan_counts_clusters_and_documents(two_models: Path, closed_book: Path) -> None:
    runs = read_runs([two_models / "baseline-lexical", closed_book])
    comparison = compare_runs(runs, ["mfava_de"], ["detected_rate"])
    (row,), _ = plan(comparison, 0.02)
    assert (row["unit"], row["n"], row["documents"]) == ("articles", 5, 9)
    assert row["needed_documents"] == math.ceil(row["needed"] * 9 / 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--across", "shot"], "--across shot: no such setting; did you mean 'shots'?"),
        (["--pair", "mine"], "--pair mine: name two tasks"),
        (["--plan", "0"], "--plan takes a difference larger than 0, such as 0.02, got 0"),
        (["--plan", "nan"], "--plan takes a difference larger than 0"),
        (["--plan", "0.1", "--paper"], "--paper goes without --across, --pair and --plan"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(written_samples(tmp_path / name, "mine", [{"acc": 1.0}, {"acc": 0.0}])) for name in "ab"]
    assert main(["compare", *places, *options]) != 0
    assert says in capsys.readouterr().err


def test_labels_name_the_settings_that_differ(two_models: Path, tmp_path: Path) -> None:
    first, second = one_model(two_models, tmp_path)
    put(first, f"n-shot {TASK}", 5)
    put(second, f"{RECORD} detector", {"name": "llm", "threshold": 0.5})
    put(first, f"{RECORD} detector", {"name": "lexical"})
    runs = read_runs([first, second])
    assert labels(runs) == ["m (5 shots, detector=lexical)", "m (0 shots, detector=llm)"]
    put(first, f"{RECORD} detector", {"name": "llm", "threshold": 0.9})
    put(first, "chat_template_sha", "c" * 64)
    named = labels(read_runs([first, second]))
    assert named == ["m (template on, 5 shots, threshold=0.9)", "m (template off, 0 shots, threshold=0.5)"]
