"""Abstention in 37 languages: the rules by example, the figures on answers nobody tuned on, and hostile text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from custom_metrics.abstention import HEAD, LANGUAGES, TAIL, excerpt, is_abstention, read_abstention
from tests.conftest import run

DATA = Path(__file__).parent / "data" / "abstention"

ABSTENTIONS = [
    ("en", "I don't know"),
    ("en", "**I DON’T KNOW.**"),
    ("en", '"I don\'t know"'),
    ("en", "Answer: not mentioned"),
    ("en", "The passages do not explicitly mention who built the tower."),
    ("en", "The passages discuss the tower's height. They do not say who built it."),
    ("en", "None of the contexts answers the question. If you provide more, I can help."),
    ("en", "Although the passages mention the tower, they do not say when it was built."),
    ("en", '## Explanation: [2] names the city only.\n## Answer: "I don\'t know"'),
    ("en", "It is 2,850 km long and flows through ten countries. I don't know its discharge."),
    ("de", "Das geht aus den Texten nicht hervor."),
    ("de", "The text does not mention it."),
    ("zh", "文中没有提到！"),
    ("yo", "N ko mo."),
    ("de-AT", "Keine Angabe"),
    ("xx", "Das geht aus den Texten nicht hervor."),
    (None, "В тексте об этом не говорится."),
]

ANSWERS = [
    ("en", "The author is unknown, but the work dates from the 15th century."),
    ("en", "He answered 'I don't know' to every question."),
    ("en", "I don't know exactly, but it was Paris."),
    ("en", "The passages do not give the exact date, but it was built in the 12th century."),
    ("en", "The passages do not say it outright. However, Paris was the capital in 1800."),
    ("en", "Paris, although the text does not mention it directly."),
    ("en", "No, Lisbon is not the capital of Spain."),
    ("en", "The drink contains no alcohol."),
    ("en", "The text of the treaty does not mention fishing."),
    (None, "The Freedom of Information Act was passed in 1966."),
    (None, "No se sabe quién lo escribió, pero data del siglo XV."),
    ("en", "Yes, answer is present in [3]."),
    ("en", "Yes, you can visit a law library. Its staff cannot provide you with legal advice, but can suggest it."),
    ("en", "   "),
    (None, None),
    ("de", "Er antwortete auf jede Frage „Ich weiß nicht“."),
    ("fr", "Le film « Je ne sais pas » date de 1966."),
    ("zh", "作者不详,但作品出自15世纪。"),
]


@pytest.mark.parametrize(("language", "text"), ABSTENTIONS)
def test_an_abstention_is_read_as_one(language: str | None, text: str) -> None:
    assert is_abstention(text, language)


@pytest.mark.parametrize(("language", "text"), ANSWERS)
def test_an_answer_with_words_of_not_knowing_is_an_answer(language: str | None, text: str | None) -> None:
    assert not is_abstention(text, language)


def rows(kind: str, language: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / kind / f"{language}.jsonl").read_text("utf-8").splitlines()]


def f1(pairs: Iterable[tuple[bool, bool]]) -> float:
    """Of the abstentions, from (expected, found)."""
    pairs = list(pairs)
    hit = sum(e and f for e, f in pairs)
    return 2 * hit / (sum(e for e, _ in pairs) + sum(f for _, f in pairs))


LEARNED = pytest.mark.slow("2,400 answers that the tables were written for; those that nobody tuned on are fast")


@pytest.mark.parametrize(
    ("kind", "told", "least", "least_language"),
    [
        pytest.param("unseen", True, 0.978, 0.94, id="unseen, language told"),
        pytest.param("unseen", False, 0.97, 0.85, id="unseen, language unknown"),
        pytest.param("tuning", True, 0.985, 0.95, id="tuning, language told", marks=LEARNED),
        pytest.param("tuning", False, 0.98, 0.90, id="tuning, language unknown", marks=LEARNED),
    ],
)
@pytest.mark.xdist_group("phrase tables")  # one worker reads all of them
@pytest.mark.one_python("how good the tables are; the code reads the cases above")
def test_f1_over_all_languages_and_in_the_worst(kind: str, told: bool, least: float, least_language: float) -> None:
    pairs = {
        language: [
            (bool(row["abstains"]), is_abstention(str(row["text"]), language if told else None))
            for row in rows(kind, language)
        ]
        for language in LANGUAGES
    }
    by_language = {language: f1(found) for language, found in pairs.items()}
    assert f1(pair for found in pairs.values() for pair in found) >= least, by_language
    assert {language: value for language, value in by_language.items() if value < least_language} == {}


def test_gold_answers_and_passages_are_no_abstentions(hub: str) -> None:
    """1,000 real texts: full passages and human answers; only an answer that says "NA" abstains."""
    texts = set()
    for path in Path(hub, "PrimeQA", "clapnq").glob("clapnq_dev_*answerable.jsonl"):
        for record in map(json.loads, path.read_text("utf-8").splitlines()):
            texts |= {f"{each['title']} {each['text']}" for each in record["passages"]}
            texts |= {each["answer"] for each in record["output"]}
    assert len(texts) > 900
    assert {text for text in texts if is_abstention(text, "en")} == {"NA"}


HOSTILE = [
    *("i don't know, but the text does not say ", '"', "' '", ". ", ".", "?!", "\n", "I Don't Know ", "answer: "),
    *("although the text, ", "不知道，但", "م", "\u0301", "\x00", "ﷺ", "does not " * 3),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_of_a_hundred_kilobytes_only_the_ends_are_read(unit: str) -> None:
    """Hostile text costs no more than its ends do; see also `test_patterns.py`."""
    text = unit * (100_000 // len(unit))
    assert len(excerpt(text)) == HEAD + 1 + TAIL
    for language in ("de", "zh", None):
        assert is_abstention(text, language) is is_abstention(excerpt(text), language)


def test_the_metric_is_the_share_that_abstains() -> None:
    from lm_eval_tasks.harness import has_scorers
    from lm_eval_tasks.harness.metrics import abstention

    said = abstention(["x", "x"], ["Ich weiß es nicht.", "Paris"], language="de")
    assert said == ({"abstention": [1.0, 0.0]} if has_scorers() else 0.5)


def test_an_abstention_names_whatever_source_it_has(shared: Path, tmp_path: Path) -> None:
    """The case is a program, and prints `ok` before each text that is read as an abstention."""
    done = run([sys.executable, str(shared / "cases" / "36_abstention_sources.py")], tmp_path, fresh=True)
    read = done.stdout.splitlines()
    assert len(read) == 34
    assert [line for line in read if not line.startswith("ok ")] == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("He wrote the handbook of the company.", "en"),
        ("The database holds 4,000 songs.", "en"),
        ("Das Handbuch erschien 1990.", "de"),
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
