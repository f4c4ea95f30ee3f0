"""Unknown names of tasks and models: which of ours was meant. The harness's errors about others stay as they are."""

from __future__ import annotations

import pytest

from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.catalogue import hint
from lm_eval_tasks.harness.short_errors import as_ours

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
