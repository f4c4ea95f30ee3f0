"""Abstentions that name their source otherwise than as a passage: "The handbook does not mention it"."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from custom_metrics.abstention import is_abstention, read_abstention
from tests.conftest import run


def test_an_abstention_names_whatever_source_it_has(shared: Path, tmp_path: Path) -> None:
    """The case is a program, and prints `ok` before each text that is read as an abstention."""
    done = run([sys.executable, str(shared / "cases" / "36_abstention_sources.py")], tmp_path, fresh=True)
    read = done.stdout.splitlines()
    assert len(read) == 34
    assert [line for line in read if not line.startswith("ok ")] == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The report was written in 1990.", "en"),
        ("He wrote the handbook of the company.", "en"),
        ("The database holds 4,000 songs.", "en"),
        ("Das Handbuch erschien 1990.", "de"),
        ("El informe se publicó en 1990.", "es"),
        ("Le manuel date de 1990.", "fr"),
        ("报告是1990年写的。", "zh"),
    ],
)
def test_an_answer_about_such_a_source_stays_one(text: str, language: str) -> None:
    assert not is_abstention(text, language)


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("The handbook does not mention it.", True),
        ("I'm not certain, but it was Paris.", True),  # a phrase, and a turn behind it
        ("Paris", False),  # nothing decides
        ("", True),
    ],
)
def test_a_decision_is_sure_where_a_phrase_decides(text: str, sure: bool) -> None:
    assert read_abstention(text, "en").sure is sure
