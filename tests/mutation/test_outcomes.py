"""The table of explained survivors is sound, and outcomes are counted as the README says."""

from __future__ import annotations

import configparser
from collections import Counter
from pathlib import Path

import pytest

from custom_metrics.abstention import folding, is_abstention
from custom_metrics.abstention.phrases import lexicon_of, phrases
from tests.mutation import phrase_tables
from tests.mutation.explained import COLUMNS, EVERY, TABLE, Change, explanation_of, explanations
from tests.mutation.run import ROOT, SETTINGS, share_killed, status


def test_every_explained_survivor_is_in_a_file_that_is_mutated() -> None:
    settings = configparser.ConfigParser()
    settings.read(SETTINGS, encoding="utf-8")
    mutated = settings["mutmut"]["only_mutate"].split()
    assert [file for file in mutated if not (ROOT / file).is_file()] == []
    assert {change.module for change in explanations()} <= {*mutated, EVERY}
    assert TABLE.read_text("utf-8").splitlines()[0].split("\t") == list(COLUMNS)


def test_an_explanation_has_a_reason_and_stands_there_once(tmp_path: Path) -> None:
    table = tmp_path / "explained.tsv"
    line = "a.py\tf\tx < 1\tx <= 1\tx is odd\n"
    table.write_text("\t".join(COLUMNS) + "\n" + line, "utf-8")
    assert explanations(table) == {Change("a.py", "f", "x < 1", "x <= 1"): "x is odd"}
    table.write_text("\t".join(COLUMNS) + "\n" + line * 2, "utf-8")
    with pytest.raises(ValueError, match="twice"):
        explanations(table)
    table.write_text("\t".join(COLUMNS) + "\n" + line.replace("x is odd", " "), "utf-8")
    with pytest.raises(ValueError, match="no reason"):
        explanations(table)


def test_a_line_of_every_module_explains_a_part_of_a_line() -> None:
    own = Change("a.py", "f", "x < 1", "x <= 1")
    part = Change(EVERY, EVERY, "strict=True", "strict=None")
    known = {own: "odd", part: "a check"}
    before = "zip(zip(a, b, strict=True), c, strict=True)"
    assert explanation_of(own, known) == own
    for after in ("zip(zip(a, b, strict=None), c, strict=True)", "zip(zip(a, b, strict=True), c, strict=None)"):
        assert explanation_of(Change("b.py", "g", before, after), known) == part
    for after in (before, before.replace("True", "None"), "zip(zip(a, b, strict=None), None, strict=True)"):
        assert explanation_of(Change("b.py", "g", before, after), known) is None
    assert explanation_of(Change("b.py", "f", "x < 1", "x <= 1"), known) is None


@pytest.mark.parametrize(
    ("exit_code", "outcome"),
    [
        (None, "not run"),
        (0, "survived"),
        (1, "killed"),
        (3, "killed"),
        (-24, "timeout"),
        (-14, "timeout"),
        (33, "no test"),
    ],
)
def test_an_exit_status_is_an_outcome(exit_code: int | None, outcome: str) -> None:
    assert status(exit_code) == outcome


def test_the_share_is_of_what_was_run_and_is_not_explained() -> None:
    counts = Counter({"killed": 7, "timeout": 2, "survived": 1, "explained": 5, "not run": 80})
    assert share_killed(counts) == 0.9
    assert share_killed(Counter({"killed": 1, "no test": 1})) == 0.5
    assert share_killed(Counter()) == 1.0


def test_phrase_tables_are_compiled_anew_for_a_mutant() -> None:
    settings = configparser.ConfigParser()
    settings.read(SETTINGS, encoding="utf-8")
    assert set(phrase_tables.MODULES) <= set(settings["mutmut"]["only_mutate"].split())
    assert is_abstention("Ich weiß es nicht.", "de")
    assert lexicon_of.cache_info().currsize
    assert any(folding._LEFT.values())
    phrase_tables.forget()
    assert lexicon_of.cache_info().currsize == phrases.cache_info().currsize == 0
    assert not any((*folding._LEFT.values(), *folding._RIGHT.values()))
