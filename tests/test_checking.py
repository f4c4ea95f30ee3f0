"""``lm-eval-grounded check``: everything of a run but the answers."""

from __future__ import annotations

import json
import logging
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.cli import main
from tests.environment.harness_start import json_alone, with_json
from tests.miniature import MINIATURE

SAMPLE = ("--metadata", f"mirror={MINIATURE}")


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `check` sets for its own process is taken back, and only our tasks are indexed, which saves seconds."""
    from lm_eval import tasks

    from lm_eval_tasks.harness.autoload import task_folder

    def ours(include_path: str | None, metadata: dict[str, Any], include_defaults: bool = True) -> Any:
        theirs = [include_path] if include_path else []
        return manager(include_path=[task_folder(), *theirs], include_defaults=False, metadata=metadata)

    manager = tasks.TaskManager
    monkeypatch.setattr(tasks, "TaskManager", ours)
    for name in ("TQDM_DISABLE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    for logger in (logging.getLogger("lm_eval"), logging.getLogger("lm_eval.api.task")):
        monkeypatch.setattr(logger, "level", logger.level)


def said(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> list[str]:
    capsys.readouterr()
    assert main(with_json(["check", *arguments])) == status
    return capsys.readouterr().out.splitlines()


def problems(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("problem: ")]


def test_a_run_that_can_start(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, 0, "--tasks", "nomiracl_de,clapnq_rag", "mfava_de", *SAMPLE)
    assert lines[:3] == [
        "nomiracl_de: 8 questions; prompts of 2515 to 2617 characters, median 2580; answers of up to 200 tokens",
        "clapnq_rag: 32 questions; prompts of 1730 to 1965 characters, median 1833; answers of up to 256 tokens",
        "mfava_de: 9 questions; prompts of 32 to 114 characters, median 87; answers of up to 1024 tokens",
    ]
    assert lines[3].startswith("  detector lexical, version ")
    assert "; calibration lexical.json@" in lines[3]
    assert [line for line in lines if line.startswith("The first prompt of")] == [
        f"The first prompt of {task}:" for task in ("nomiracl_de", "clapnq_rag", "mfava_de")
    ]
    assert "  | Wann wurde der Kölner Dom fertiggestellt?" in lines
    assert "note: tokens are estimated by script: no tokenizer is named" in lines[-2]
    assert lines[-1] == "ready: every file is here, every prompt could be made"


def test_the_cost_of_a_run_and_its_time_at_a_speed(capsys: pytest.CaptureFixture[str]) -> None:
    """A request for each question, prompts by their bytes, answers by what they may have at most: 9 * 1024 + 8 * 200."""
    run = ("--tasks", "mfava_de,nomiracl_lite_de", *SAMPLE)
    cost = "in all: 17 requests; about 5,300 tokens of prompts, up to 10,816 of answers"
    for more, time in (
        ((), ""),
        (("--speed", "10"), "; at most 27 minutes at 10 tokens a second, without loading the model"),
        (("--speed", "17requests"), "; 1 s at 17 requests a second, without loading the model"),
        (("--speed", "0.5 tokens"), "; at most 9.0 hours at 0.5 tokens a second, without loading the model"),
    ):
        assert cost + time in said(capsys, 0, *run, *more)
    with pytest.raises(SystemExit):
        main(["check", *run, "--speed", "0"])
    assert "'0' is no speed, such as 2500" in capsys.readouterr().err


@pytest.mark.skipif(json_alone(), reason="of `--metadata name=value`, which this harness does not read")
def test_the_options_of_lm_eval_are_read_as_it_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Wildcards, groups, JSON, several --metadata, --limit."""
    tasks = ("--tasks", "nomiracl_de*", "mfava_detection_gold", "--limit", "3", "--gen_kwargs", "max_gen_toks=77")
    metadata = ("--metadata", json.dumps({"mirror": MINIATURE}), "--metadata", "subset=relevant")
    lines = said(capsys, 0, *tasks, *metadata)
    names = [line.split(":")[0] for line in lines if " questions; prompts of " in line]
    assert names[:4] == ["nomiracl_de", "nomiracl_de_explanation", "nomiracl_de_repeat", "nomiracl_de_role"]
    assert "nomiracl_de: 3 questions" in lines[0]
    assert lines[0].endswith("answers of up to 77 tokens")
    assert "mfava_detection_de_gold" in names


def test_all_missing_files_are_said_at_once_with_one_command(mirror: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = [
        "miracl/nomiracl/data/german/qrels/test.non_relevant.tsv",
        "miracl/nomiracl/data/german/corpus.jsonl.gz",
        "PrimeQA/clapnq/clapnq_dev_unanswerable.jsonl",
        "PrimeQA/clapnq_passages/passages.tsv",
        "PrimeQA/clapnq/clapnq_train_answerable.jsonl",  # of the shots
        "PrimeQA/clapnq/clapnq_train_unanswerable.jsonl",
    ]
    for name in gone:
        (mirror / name).unlink()
    tasks = ("--tasks", "nomiracl_de,nomiracl_de_role,mfava_de,clapnq_rag", "--num_fewshot", "1")
    lines = said(capsys, 1, *tasks, "--metadata", f"mirror={mirror}")
    assert lines[-10:] == [
        f"problem: {len(gone)} public files are missing:",
        *(f"  {name}" for name in gone),
        "On a machine with internet, this fetches them:",
        f"  lm-eval-grounded sources --fetch {' '.join(map(repr, gone))} --into {mirror}",
        "not ready",
    ]
    assert "mfava_de: 9 questions" in "\n".join(lines)  # one that is whole is checked all the same


OF_NOMIRACL = ("--tasks", "nomiracl_de", *SAMPLE)
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="detectors of Hugging Face need torch (extra hf)")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--tasks", "nomiracl_de", "--metadata", f"mirror={MINIATURE},max_sample=3"), "did you mean 'max_samples'?"),
        (("--tasks", "nomiracl_de*", "--metadata", "mirror=nowhere"), "nomiracl_de and 3 more: The mirror folder "),
        pytest.param(
            *(("--tasks", "mfava_de", "--metadata", f"mirror={MINIATURE},detector=no/such"), "no/such"),
            marks=NEEDS_TORCH,
        ),
        (("--tasks", "mfava_de", "--metadata", f"mirror={MINIATURE},calibration=no.json"), "no.json"),
        ((*OF_NOMIRACL, "--output_path", f"{__file__}/out"), f"nothing can be written to {__file__}/out: Not a dir"),
        ((*OF_NOMIRACL, "--model", "hfff"), "model hfff: ValueError: "),
        ((*OF_NOMIRACL, "--model", "repaly"), "there is no model repaly; did you mean replay?"),
        ((*OF_NOMIRACL, "--model", "replay"), "model replay: replay: say where the answers are"),
        (
            (*OF_NOMIRACL, "--model", "hallucination-detector"),
            "hallucination-detector: nomiracl_de asks for answers, and a detector writes none",
        ),
    ],
)
def test_what_ends_it_is_said(arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, 1, *arguments)
    (found,) = problems(lines)
    assert problem in found
    assert lines[-1] == "not ready"


def test_replay_is_asked_for_every_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lm_eval_tasks.nomiracl.dataset import load

    ids = load("de", mirror=MINIATURE)["evaluation"]["query_id"]
    rows = [{"query_id": id, "task": "nomiracl_de", "response": "x"} for id in ids[:5]]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    arguments = ("--tasks", "nomiracl_de", *SAMPLE, "--model", "replay", "--model_args", f"path={tmp_path / 'a.jsonl'}")
    (found,) = problems(said(capsys, 1, *arguments))
    assert "of nomiracl_de. Among --model_args, missing=skip" in found
    said(capsys, 0, *arguments, "--limit", "5")


@pytest.mark.skipif(json_alone(), reason="of `--metadata name=value`, which this harness does not read")
def test_what_is_no_run_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--tasks", "nomiracl_xx"]) == 2
    assert "Tasks not found: nomiracl_xx" in capsys.readouterr().err
    assert main(["check"]) == 2
    assert "say what would be run" in capsys.readouterr().err
    for arguments in (["check", "--no-such"], ["sources", "--no-such"], ["check", "--metadata", "mirror"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


def test_prompts_are_counted_by_the_tokenizer(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoTokenizer

    from lm_eval_tasks.nomiracl.dataset import load

    model = Path(shutil.copytree(llama, tmp_path / "model"))  # changed below
    tokenizer = AutoTokenizer.from_pretrained(model)
    arguments = ("--full", "--tasks", "nomiracl_de", *SAMPLE, "--model_args", f"pretrained={model}")
    cut, lines = said(capsys, 0, *arguments[1:]), said(capsys, 0, *arguments)
    shown, prompt = ("\n".join(line[4:] for line in each if line.startswith("  | ")) for each in (cut, lines))
    number = len(prompt) - len(shown) + 1  # which joins the two parts by a line break
    assert f"  [{number:,} characters left out; --full shows them]" in cut
    assert (prompt[:1000], prompt[-300:]) == (shown[:1000], shown[-300:])
    assert load("de", mirror=MINIATURE)["evaluation"][0]["query"] in prompt
    shortest, longest = (int(lines[0].split()[place]) for place in (5, 7))
    assert "tokens, median" in lines[0]
    assert shortest <= len(tokenizer(prompt.rstrip("\n"))["input_ids"]) <= longest
    chat = said(capsys, 0, *arguments, "--apply_chat_template", "--system_instruction", "Answer.")
    assert "  | <|system|>Answer.<|end|><|user|>I will give you a question" in "\n".join(chat)
    (found,) = problems(said(capsys, 1, *arguments, "--model_args", f"max_length={longest + 199}"))
    assert f"the longest has {longest} tokens, an answer up to 200 (max_gen_toks), and the model takes" in found
    (model / "chat_template.jinja").unlink(missing_ok=True)
    configuration = json.loads((model / "tokenizer_config.json").read_text("utf-8"))
    configuration.pop("chat_template", None)
    (model / "tokenizer_config.json").write_text(json.dumps(configuration), "utf-8")
    assert problems(said(capsys, 1, *arguments, "--apply_chat_template")) == [
        "problem: --apply_chat_template: the tokenizer has no chat template"
    ]


def test_check_knows_what_an_api_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    """Its own default, by an estimate of tokens; a chat's messages go out whole."""
    pytest.importorskip("tenacity", reason="models of APIs need lm_eval[api]")
    api, much = ("--model", "local-completions"), ("--gen_kwargs", "max_gen_toks=8192")
    for more, problem in (
        (api, ""),
        ((*api, "--gen_kwargs", "max_gen_toks=1400"), "problem: nomiracl_de: 5 of 8 prompts would lose"),
        ((*api, *much), "problem: nomiracl_de: nothing of 8 of 8 prompts "),
        ((*api, *much, "--model_args", "max_length=16384"), ""),
        (("--model", "local-chat-completions", *much), ""),
    ):
        lines = said(capsys, int(bool(problem)), *OF_NOMIRACL, *more)
        assert "".join(problems(lines)).startswith(problem)
        assert not problem or " tokens by an estimate, an answer up to " in problems(lines)[0]
    allowed = json.dumps({"mirror": MINIATURE, "cut_prompts": "allow"})
    lines = said(capsys, 0, "--tasks", "nomiracl_de", "--metadata", allowed, *api, *much)
    assert "note: 8 of 8 prompts of nomiracl_de will be cut, which cut_prompts allows" in lines


def test_a_detector_named_as_the_model_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="reading a model's configuration needs transformers (extra hf)")
    configuration = {"architectures": ["ModernBertForTokenClassification"], "model_type": "modernbert"}
    (tmp_path / "config.json").write_text(json.dumps(configuration), "utf-8")
    lines = said(capsys, 1, "--tasks", "nomiracl_de", *SAMPLE, "--model_args", f"pretrained={tmp_path}")
    (found,) = problems(lines)
    assert "is a ModernBertForTokenClassification: it marks words and writes no answers" in found
    (note,) = (line for line in lines if line.startswith("note: tokens are estimated by script"))
    assert ": the tokenizer of " in note


def test_a_tokenizer_that_is_not_here_is_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, 0, "--tasks", "nomiracl_de", *SAMPLE, "--model_args", "pretrained=nobody/has-this")
    assert "characters, median" in lines[0]
    assert "the tokenizer of nobody/has-this cannot be loaded on this machine" in lines[-2] or "needs" in lines[-2]
