"""Tasks: their names, and what the trivial strategies get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import nomiracl
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import hint
from lm_eval_tasks.harness.autoload import task_folder
from lm_eval_tasks.harness.short_errors import as_ours
from lm_eval_tasks.nomiracl.benchmark import LITE_LANGUAGES, PROMPTS, suffix
from lm_eval_tasks.nomiracl.dataset import LANGUAGES
from tests.conftest import Harness
from tests.miniature import MINIATURE

PARSERS = ("strict", "robust")
CLAPNQ_PROMPTS = ("", "_gpt", "_llama")
CLAPNQ_RETRIEVERS = ("", "_minilm", "_bge", "_e5", "_dense", "_run")


def test_the_harness_knows_every_task_and_group() -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=task_folder(), include_defaults=False)
    assert set(manager.all_subtasks) == {
        *(f"nomiracl_{language}{suffix(prompt)}" for language in LANGUAGES for prompt in PROMPTS),
        *(f"nomiracl_lite_{language}" for language in LITE_LANGUAGES),
        *(f"clapnq_gold{prompt}" for prompt in CLAPNQ_PROMPTS),
        *(f"clapnq_rag{retriever}{prompt}" for retriever in CLAPNQ_RETRIEVERS for prompt in CLAPNQ_PROMPTS),
        *("clapnq_judge", "clapnq_judge_pairs"),
        *(f"mfava_{language}" for language in MFAVA),
        *(f"mfava_detection_{language}_gold{variant}" for language in GOLD for variant in VARIANTS),
        *(f"mfava_detection_{language}_silver{variant}" for language in SILVER for variant in VARIANTS),
        *(f"mfava_make_{step}" for step in MAKING),
        "mfava_translate",
        *(f"mushroom_{language}" for language in MUSHROOM),
        *(f"memerag{judge}_{language}" for judge in ("", "_judge") for language in MEMERAG),
        *(f"mtragun_{domain}" for domain in ("clapnq", "cloud", "fiqa", "govt")),
        *("mtrag_ratings", "mtrag_ratings_judge"),
        *(f"ragtruth{judge}_{part}" for judge in ("", "_judge") for part in ("qa", "summary", "data2txt")),
    }
    assert set(manager.all_groups) == {
        *("nomiracl", "nomiracl_role", "nomiracl_repeat", "nomiracl_explanation", "mfava", "mushroom"),
        *("memerag", "memerag_judge", "mtragun", "ragtruth", "ragtruth_judge", "clapnq"),
        *("nomiracl_lite", "grounded_lite"),
        *(f"mfava_detection_{kind}{variant}" for kind in ("gold", "silver") for variant in VARIANTS),
    }


MFAVA = ("ar zh de ru tr eu yue ca cs eo fi fr he hi hu id it ja ko la lt ms pl pt ro sr sd es ur vi fa").split()
GOLD = ("ar", "zh", "de", "ru", "tr")
SILVER = [language for language in MFAVA if language != "ja"]
VARIANTS = ("", "_category")
MAKING = ("queries", "answers", "silver")
MUSHROOM = "ar ca cs de en es eu fa fi fr hi it sv zh".split()
MEMERAG = ("de", "en", "es", "fr", "hi")


@pytest.mark.parametrize(("strategy", "hallucination", "error"), [("abstain", 0.0, 1.0), ("answer", 1.0, 0.0)])
def test_trivial_strategies_trivial_rates(harness: Harness, strategy: str, hallucination: float, error: float) -> None:
    prompts = [f"nomiracl_sw{suffix(prompt)}" for prompt in PROMPTS]
    results = harness(prompts, "grounded-baseline", f"strategy={strategy}", metadata={"mirror": MINIATURE})
    for task in prompts:
        for parser in PARSERS:
            names = ("hallucination_rate", "error_rate", "accuracy", "invalid_rate", "balanced_error")
            rates = [results["results"][task][f"{name},{parser}"] for name in names]
            assert rates == [hallucination, error, 0.5, 0.0, 0.5]


def test_bounds_hold_their_rate_and_an_empty_rate_is_absent(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    metadata = {"mirror": MINIATURE, "subset": "relevant"}
    got = harness(["nomiracl_ja"], "grounded-baseline", "strategy=lexical", metadata=metadata)
    figures = got["configs"]["nomiracl_ja"]["metadata"]["figures"]["robust"]
    error = figures["error_rate"]
    assert error["low"] <= error["value"] == got["results"]["nomiracl_ja"]["error_rate,robust"] <= error["high"]
    assert (error["n"], error["denominator"]) == (4, "relevant questions whose answer can be read")
    for absent in ("hallucination_rate", "balanced_error"):
        assert not any(absent in key for key in (*got["results"]["nomiracl_ja"], *figures))
    assert "left out of the results" in caplog.text
    (listed,) = [text.split(": ")[-1].split(", ") for text in caplog.messages if "left out of the results" in text]
    left_out = {f"{metric},{parser}" for parser in PARSERS for metric in ("balanced_error", "hallucination_rate")}
    assert {*listed} == left_out


def test_a_model_argument_named_language_is_not_ours(harness: Harness) -> None:
    metadata = {"mirror": MINIATURE, "language": "en"}
    results = harness(["nomiracl_sw"], "grounded-baseline", "strategy=abstain", metadata=metadata)
    assert {s["doc"]["language"] for s in results["samples"]["nomiracl_sw"]} == {"sw"}


def test_a_users_own_prompt_includes_our_base(harness: Harness, tmp_path: Path) -> None:
    """The README's recipe, word for word."""
    readme = Path(nomiracl.__file__).with_name("README.md").read_text("utf-8")
    recipe = readme.split("```yaml\n")[1].split("```")[0]
    base = "FOLDER/nomiracl/_nomiracl_base"
    assert f"include: {base}" in recipe
    ours = Path(nomiracl.__file__).with_name("_nomiracl_base")
    (tmp_path / "mine.yaml").write_text(recipe.replace(base, str(ours)), "utf-8")
    task = yaml.safe_load(recipe)["task"]
    asked: dict[str, Any] = {"metadata": {"mirror": MINIATURE}, "include_path": [str(tmp_path)]}
    results = harness([task], "grounded-baseline", "strategy=abstain", **asked)
    (prompt, _) = results["samples"][task][0]["arguments"][0]
    assert prompt.startswith("Do these passages answer the question")
    assert results["results"][task]["error_rate,strict"] == 1.0


def test_several_responses_to_a_document_are_refused(harness: Harness, tmp_path: Path) -> None:
    base = Path(task_folder()) / "mfava" / "wild" / "mfava_de.yaml"
    for repeats in (1, 3):
        text = f"include: {base}\ntask: mine_{repeats}\nrepeats: {repeats}\n"
        (tmp_path / f"mine_{repeats}.yaml").write_text(text, "utf-8")
    asked: dict[str, Any] = {"metadata": {"mirror": MINIATURE}, "include_path": [str(tmp_path)], "limit": 2}
    found = harness(["mine_1"], "grounded-baseline", "strategy=lexical", **asked)
    assert found["n-samples"]["mine_1"]["effective"] == 2
    with pytest.raises(UsageError, match=r"^mine_3: repeats=3, but every document is scored by one response"):
        harness(["mine_3"], "grounded-baseline", "strategy=lexical", **asked)


def test_a_missing_response_goes_through_the_harness(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval_tasks.models.baseline import GroundedBaseline

    monkeypatch.setattr(GroundedBaseline, "answer", lambda self, doc: None)
    tasks = ["nomiracl_de", "clapnq_gold", "clapnq_rag"]
    results = harness(tasks, "grounded-baseline", metadata={"mirror": MINIATURE}, limit=4)["results"]
    assert results["clapnq_rag"]["length,answer"] == 0
    assert results["nomiracl_de"]["invalid_rate,strict"] == 1.0


MEANT = {  # by another code or name of the language, a region, an order, a spelling
    "nomiracl_de": "nomiracl_ger nomiracl_deu nomiracl_german nomiracl_germna NoMIRACL-DE nomirac_de",
    "nomiracl_sw": "nomiracl_swahili nomiracl_swa nomiracl_swh",
    "nomiracl_de_role": "nomiracl_role_de nomiracl_german_role nomiracl_de_rolle",
    "mfava_zh": "mfava_zh-cn mfava_zho mfava_chi mfava_chinese",
    "mfava_detection_de_silver": "mfava_detection_german_silver",
    "mfava_detection_de_gold": "mfava_detection_de",
    "clapnq": "clapnqq CLAPNQ",
    "clapnq_rag_bge": "clapnq_rag_bgee",
    "grounded_lite": "grounded-light grounded_light",
}


@pytest.mark.parametrize("meant", MEANT)
def test_the_task_that_was_meant(meant: str) -> None:
    for name in MEANT[meant].split():
        assert hint([name]) == f"; did you mean {meant}?", name


def test_a_language_that_a_benchmark_lacks() -> None:
    assert hint(["memerag_ja"]) == "; memerag has no Japanese; it has de en es fr hi"
    assert hint(["nomiracl_pt-br"]).startswith("; nomiracl has no Portuguese; it has ar bn de en")
    assert hint(["mfava_nl"]).startswith("; mfava has no language 'nl'; it has ar ca cs")


def test_every_code_and_english_name_of_a_language_is_understood() -> None:
    for table in catalogue.tables().values():
        for task in table.tasks:
            code = task.options.get("language")
            if code is not None and task.name.endswith(f"_{code}"):
                written_out = task.name.removesuffix(code) + table.languages[code].lower()
                assert hint([written_out]) == f"; did you mean {task.name}?", written_out


def test_a_task_that_went_says_what_to_use_instead() -> None:
    names = ("clapnq_rag_hybrid_gpt", "faithbench", "mfava_translate_de")
    for pattern, name in zip(catalogue.GONE, names, strict=True):
        assert hint([name]) == f"; {name} is gone: {catalogue.GONE[pattern]}"


def test_other_names_are_nobodys() -> None:
    for name in ("mmlu_foo", "hellaswg", "arc_easy", "musr", "", "*", "memory"):
        assert hint([name]) == ""
    assert hint(["nomiracl_ger"], ["gsm8k", "mmlu"]) == ""
    assert hint(["nomiracl_ger"], ["nomiracl_de", "gsm8k"]) == "; did you mean nomiracl_de?"
    assert hint(["nomiracl_fr", "clapnq_rag"], ["nomiracl_de", "clapnq_gold"]) == ""  # not in these runs


def test_errors_of_the_harness_about_ours() -> None:
    tasks = as_ours(ValueError("Tasks not found: nomiracl_ger, hellaswg, mfava_ger"))
    assert str(tasks) == "Tasks not found: nomiracl_ger, hellaswg, mfava_ger; did you mean nomiracl_de, mfava_de?"
    model = as_ours(ValueError("Attempted to load model 'grounded-basline', but no model for this name found!"))
    assert str(model) == "there is no model grounded-basline; did you mean grounded-baseline?"
    for text in ("Tasks not found: hellaswg", "Attempted to load model 'hff', but no model for this name found!"):
        assert as_ours(error := ValueError(text)) is error
    assert as_ours(error := KeyError("Tasks not found: nomiracl_ger")) is error
