"""`lm-eval-grounded reproduce`: from a results file to the command that made it, and what of its files differs here."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.data.provenance import command_line
from lm_eval_tasks.results.reproduce import commands_of, differences, read_recorded
from tests.conftest import command, run
from tests.miniature import MINIATURE, MINIATURE_FOLDER

TASKS = "nomiracl_de,clapnq_rag,mfava_de"
# What is hard to say in a shell, or differs from what the harness takes when nothing is said.
HARD = [
    *("--model_args", "strategy=lexical", "threshold=0.25"),
    *("--metadata", "mirror=my mirror", "top_k=2", "detector_args=threshold=0.5;spans=words", "seed=42"),
    "bm25_split=true",
    *("--gen_kwargs", '{"max_gen_toks": 64, "until": ["\\n\\n", "it\'s"]}'),
    *("--system_instruction", 'Say "I don\'t know" $HOME;\nno more than `that`.'),
    *("--seed", "1,2,None,4", "--apply_chat_template", "--fewshot_as_multiturn", "false", "--limit", "6"),
    *("--num_fewshot", "1", "--batch_size", "3"),
]


def copy_of_sample(folder: Path) -> Path:
    return Path(shutil.copytree(MINIATURE_FOLDER, folder))


def results_below(folder: Path) -> tuple[Path, dict[str, Any]]:
    (file,) = folder.rglob("results_*.json")
    return file, json.loads(file.read_text("utf-8"))


def differing(file: Path) -> list[str]:
    return differences(read_recorded(file), file)


def shell(line: str, cwd: Path) -> None:
    """A line as a person types it, with the commands of this environment; a shell reads it, quotes and all."""
    words = subprocess.run(["sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True).stdout
    named, *arguments = words.split("\0")[:-1]
    environment = {}
    while "=" in named:
        name, _, environment[name] = named.partition("=")
        named, *arguments = arguments
    run([command(named), *arguments], cwd, **environment)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a mirror and one run over it."""
    folder = tmp_path_factory.mktemp("world")
    copy_of_sample(folder / "my mirror")
    words = ["--model", "grounded-baseline", "--tasks", TASKS, *HARD, "--output_path", "out", "--log_samples"]
    run([command("lm_eval"), *words], folder)
    return folder


Recorded = tuple[dict[str, Any], Callable[[], Path]]


@pytest.fixture
def recorded(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """What the run's results file says, to be changed, and what writes it to a file; commands are typed in its folder."""
    file, results = results_below(world / "out")
    monkeypatch.chdir(world)

    def write() -> Path:
        (tmp_path / file.name).write_text(json.dumps(results), "utf-8")
        return tmp_path / file.name

    return results, write


def test_the_printed_command_gives_the_same_numbers_from_the_same_sources(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = results_below(world / "out")
    monkeypatch.chdir(world)
    assert main(["reproduce", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "# nomiracl_de, clapnq_rag, mfava_de"
    (line,), _ = commands_of(read_recorded(file))
    assert "\n".join(printed[1:]).startswith(line)
    assert printed[-1] == "# Versions and files are the same here."
    shell(line, world)
    _, again = results_below(world / "reproduced")
    assert again["results"] == results["results"]
    assert again["task_hashes"] == results["task_hashes"]  # documents, prompts and targets
    for task in results["configs"]:
        mine, theirs = (each["configs"][task] for each in (again, results))
        assert mine["metadata"]["provenance"] == theirs["metadata"]["provenance"]
        assert mine["generation_kwargs"] == theirs["generation_kwargs"]
    for key in "model model_args limit gen_kwargs batch_size random_seed torch_seed fewshot_seed".split():
        assert again["config"][key] == results["config"][key]
    assert again["system_instruction"] == results["system_instruction"]
    read = [entry["path"] for entry in results["configs"]["clapnq_rag"]["metadata"]["provenance"]["files"]]
    assert "clapnq_train_answerable.jsonl" in read  # the shots
    assert str(world) not in json.dumps([config["metadata"]["provenance"] for config in results["configs"].values()])


def test_what_differs_is_named_with_both_sums(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = results_below(world / "out")
    mirror = copy_of_sample(tmp_path / "my mirror")
    corpus = mirror / "miracl/nomiracl/data/german/corpus.jsonl.gz"
    before = hashlib.sha256(corpus.read_bytes()).hexdigest()
    shutil.copy(mirror / "miracl/nomiracl/data/french/corpus.jsonl.gz", corpus)
    after = hashlib.sha256(corpus.read_bytes()).hexdigest()
    (mirror / "miracl/nomiracl/data/german/topics/test.relevant.tsv").unlink()
    (mirror / "PrimeQA/clapnq_passages/passages.tsv").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", str(file)]) == 1
    printed = capsys.readouterr().out
    what = "miracl/nomiracl@ecd08778d042 data/german/corpus.jsonl.gz"
    assert f"# differs here: {what}: {before} there, {after} here\n" in printed
    assert re.search(r"# differs here: PrimeQA/clapnq_passages@main passages\.tsv: \w+ there, nothing here\n", printed)
    assert printed.count("# differs here: ") == 3
    mirror.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("LM_EVAL_GROUNDED_MIRROR", "elsewhere")
    assert main(["reproduce", str(file)]) == 1
    missing = "# differs here: mirror: my mirror there, nothing here"
    assert {*capsys.readouterr().out.splitlines()} == {*printed.splitlines(), missing}
    for option, instead in (("--mirror", "LM_EVAL_GROUNDED_MIRROR"), ("--task", "--tasks")):
        assert main(["reproduce", str(file), option, "x"]) == 2
        assert instead in capsys.readouterr().err


def test_another_version_is_a_difference(recorded: Recorded) -> None:
    results, write = recorded
    record = results["configs"]["mfava_de"]["metadata"]["provenance"]
    assert differing(write()) == []
    record["versions"]["jieba"] = "0.1"
    record["calibration"]["sha256"] = "4567"
    results["lm_eval_version"] = "0.4.12"
    different = {line.split("@")[0].split(":")[0]: line for line in differing(write())}
    assert set(different) == {"jieba", "calibration lexical.json", "lm_eval"}
    assert different["lm_eval"].startswith("lm_eval: 0.4.12 there, ")


def test_what_a_command_line_leaves_to_the_environment(recorded: Recorded) -> None:
    results, write = recorded
    for config in results["configs"].values():
        config["metadata"]["command_line"] = "lm_eval --tasks a,b -o out --limit=2"
    (line,), notes = commands_of(read_recorded(write()))
    assert (line, notes) == ("lm_eval --tasks a,b --limit=2 --output_path reproduced", [])
    for read_from, place in (("sample", "sample"), ("mirror", "DIR")):
        for config in results["configs"].values():
            config["metadata"].pop("mirror", None)
            config["metadata"]["provenance"]["read_from"] = read_from
        assert commands_of(read_recorded(write()))[0] == [f"LM_EVAL_GROUNDED_MIRROR={place} {line}"]


def test_two_steps_are_two_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell(
        "lm_eval --model grounded-baseline --model_args strategy=lexical --tasks mfava_de,clapnq_rag --limit 4 "
        f"--metadata mirror={MINIATURE} top_k=2 --predict_only --output_path predicted",
        tmp_path,
    )
    shell("lm-eval-grounded score predicted --detector_args 'threshold=0.4;spans=words' -o scored", tmp_path)
    file, results = results_below(tmp_path / "scored")
    assert differing(file) == []
    commands, _ = commands_of(read_recorded(file))
    assert commands == [
        "lm_eval --model grounded-baseline --model_args strategy=lexical --tasks mfava_de,clapnq_rag --limit 4 "
        f"""--metadata '{{"mirror": "{MINIATURE}", "top_k": 2}}' --predict_only --output_path reproduced""",
        "lm-eval-grounded score reproduced --detector lexical --detector_args 'threshold=0.4;spans=words'",
    ]
    record = results["configs"]["clapnq_rag"]["metadata"]["provenance"]
    assert record["answers"]["metadata"] == {"mirror": MINIATURE, "top_k": 2}
    assert record["answers"]["predict_only"] is True
    assert (record["run"]["limit"], record["retrieval"]["passages_given"]) == (4, 2)
    assert [entry["option"] for entry in record["local_files"]] == ["samples"]
    for line in commands:
        shell(line, tmp_path)
    scored = sorted((tmp_path / "reproduced").rglob("results_*.json"))[-1]
    again = json.loads(scored.read_text("utf-8"))
    assert again["results"] == results["results"]
    once_more, _ = commands_of(read_recorded(scored))  # scored in place: the samples of the first step are beside it
    assert [line.split()[:2] for line in once_more] == [["lm_eval", "--model"], ["lm-eval-grounded", "score"]]
    predicted, _ = results_below(tmp_path / "predicted")
    assert commands_of(read_recorded(predicted))[0] == commands[:1]


def test_replayed_answers_are_files_too(recorded: Recorded, tmp_path: Path) -> None:
    results, write = recorded
    answers = tmp_path / "answers"
    answers.mkdir()
    (answers / "a.jsonl").write_text("{}")
    entry = {"option": "path", "name": "a.jsonl", "sha256": hashlib.sha256(b"{}").hexdigest()}
    results["config"] |= {"model": "replay", "model_args": {"path": str(answers)}, "answers_from": [entry]}
    assert differing(write()) == []
    (answers / "a.jsonl").write_text("{}\n")
    changed = hashlib.sha256(b"{}\n").hexdigest()
    assert differing(write()) == [f"path: a.jsonl: {entry['sha256']} there, {changed} here"]
    shutil.rmtree(answers)
    assert differing(write()) == [f"path: a.jsonl: {entry['sha256']} there, nothing here"]


FOREIGN = "x\n touch canary; $(touch canary) `touch canary` '; touch canary; ' \x1b]0;title\x07\u202e\x9b"


def with_foreign(value: Any, keep: tuple[str, ...] = ()) -> Any:
    """The same with every text, and every name of a task or file, made foreign."""
    if isinstance(value, dict):
        return {key: part if key in keep else with_foreign(part, keep) for key, part in value.items()}
    if isinstance(value, list):
        return [with_foreign(part, keep) for part in value]
    return f"{value}{FOREIGN}" if isinstance(value, str) else value


def test_no_text_of_a_results_file_is_run_by_the_shell_or_the_terminal(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, results = results_below(world / "out")
    results["configs"]["hellaswag"] = {"metadata": {"version": 1.0}}
    results["n-samples"]["hellaswag"] = {}
    for config in results["configs"].values():
        config["metadata"].setdefault("provenance", {})["not_comparable"] = ["the corpus is smaller"]
    results["config"]["model_sha"] = "c0ffee"
    hostile = with_foreign(results, keep=("read_from", "host"))
    for section in ("configs", "n-samples", "results"):
        hostile[section] = {f"{name}{FOREIGN}": part for name, part in hostile[section].items()}
    for config in hostile["configs"].values():
        config["metadata"]["command_line"] = shlex.join(["lm_eval", "--model", FOREIGN, FOREIGN])
    changed = tmp_path / file.name
    changed.write_text(json.dumps(hostile), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", str(changed)]) == 1
    script = capsys.readouterr().out
    assert script.isprintable() or not [c for c in script if not c.isprintable() and c != "\n"]
    assert [line for line in script.splitlines() if line.startswith("# ") and "touch canary" in line]
    # A harness that runs nothing: all else that the shell runs would be the file's.
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "lm_eval"
    stub.write_text("#!/bin/sh\necho ran\n")
    stub.chmod(0o755)
    environment = {"PATH": f"{stub.parent}:/usr/bin:/bin"}
    options: dict[str, Any] = {"input": script, "text": True, "cwd": tmp_path, "env": environment}
    for flags, said in (([], "ran\n"), (["-n"], "")):
        done = subprocess.run(["sh", *flags], capture_output=True, check=False, **options)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    assert not (tmp_path / "canary").exists()


def with_metadata(task: str, **metadata: Any) -> str:
    """A results file with one task."""
    return json.dumps({"results": {}, "configs": {task: {"metadata": metadata}}, "config": {"model": "hf"}})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 100_000, "is no results file, or a damaged one"),
        (with_metadata("hellaswag"), "does not say where the numbers of its tasks (hellaswag) come from"),
        (with_metadata("mfava_de", provenance={"failed": "ZeroDivisionError()"}), "of its tasks (mfava_de) come from"),
    ],
)
def test_a_file_that_is_none_of_ours_is_said_in_a_line(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results_2026.json"
    file.write_text(content, "utf-8")
    assert main(["reproduce", str(file)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


KEYS = "pretrained=x,api_key=%s,pad_token=<pad>,max_gen_toks=3"
HEADER = '{"api_key": "%s", "header": {"Authorization": "Bearer %s"}}'


@pytest.mark.parametrize(
    ("word", "recorded"),
    [
        (KEYS % "abc", KEYS % "<secret>"),
        (HEADER % ("a b", "x"), HEADER % ("<secret>", "<secret>")),
        ("detector_args=api_key=abc;model=y", "detector_args=api_key=<secret>;model=y"),
        ("base_url=https://me:pass@host/v1", "base_url=https://<secret>@host/v1"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "<secret>"),
    ],
)
def test_a_command_is_recorded_without_secrets(word: str, recorded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("/bin/lm_eval", "lm-eval", "/x/lm_eval/__main__.py"):
        monkeypatch.setattr("sys.argv", [program, "run", "--tasks", "t", word])
        assert command_line() == shlex.join(["lm_eval", "--tasks", "t", recorded])
    for argv in (["pytest", word], ["/x/other/__main__.py", word]):
        monkeypatch.setattr("sys.argv", argv)
        assert command_line() is None


def test_a_run_that_a_program_started_has_no_command_and_a_models_commit_is_said(recorded: Recorded) -> None:
    results, write = recorded
    for config in results["configs"].values():
        del config["metadata"]["command_line"]
    results["config"] |= {"model_sha": "c0ffee"}
    commands, notes = commands_of(read_recorded(write()))
    assert (commands, differing(write())) == ([], [])
    assert ["a program started it" in notes[0], "revision=c0ffee" in notes[1], len(notes)] == [True, True, 2]
