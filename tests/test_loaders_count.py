"""What the loaders of mFAVA and NoMIRACL read of a file, and how they count what they leave out, without a harness run."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.mfava.dataset import read_articles
from lm_eval_tasks.nomiracl import dataset as nomiracl
from lm_eval_tasks.nomiracl.dataset import cut_words

ARTICLES = """\
Article Title,Category,URL,Reference 1,Reference 2,Query 1,Query 2
Katze,Tiere,http://x, Die Katze. ,Sie schläft.,1. Wer schläft?,2) Wo?
,,, , ,1. Wer?,2. Wo?
Kuh,,,,,Wer?,Wo?
Hund,,,Der Hund.,,"1. FC Köln spielt wo?",
Maus,,,Die Maus.,, ,
Ente,,,Die Ente.
Gans,,,Die Gans.,,
"""


def articles(tmp_path: Path, content: str) -> tuple[list[dict[str, Any]], int, Counter[str]]:
    path = tmp_path / "queries.csv"
    path.write_text(content, "utf-8")
    seen: Counter[str] = Counter()
    found, total = read_articles(path, seen)
    return found, total, seen


def test_articles_with_a_reference_and_a_question_are_read_and_the_others_counted(tmp_path: Path) -> None:
    found, total, seen = articles(tmp_path, ARTICLES)
    assert total == 7
    assert found[0] == {
        "row": 0,
        "title": "Katze",
        "category": "Tiere",
        "url": "http://x",
        "reference": "Die Katze.\nSie schläft.",
        "queries": [(1, "Wer schläft?"), (2, "Wo?")],
    }
    assert {key: found[1][key] for key in ("row", "title", "category", "url", "reference")} == {
        **{"row": 3, "title": "Hund", "category": "", "url": "", "reference": "Der Hund."},
    }
    assert len(found) == 2
    assert seen["articles left out, without a reference"] == 2
    assert seen["articles left out, without a question"] == 3
    assert seen["rows with fewer fields than the header"] == 2


def test_a_number_is_numbering_where_every_question_has_its_own(tmp_path: Path) -> None:
    def queries(first: str, second: str) -> Any:
        found, _, _ = articles(tmp_path, f"title,reference,query 1,query 2\nT,R,{first},{second}\n")
        assert (found[0]["title"], found[0]["url"]) == ("T", "")
        return found[0]["queries"]

    assert queries("1. Wer gewann 4:2?", "2. Wo?") == [(1, "Wer gewann 4:2?"), (2, "Wo?")]
    assert queries("1. Wer?", "2: Wo?") == [(1, "Wer?"), (2, "Wo?")]
    assert queries("1. FC Köln?", "Wo?") == [(1, "1. FC Köln?"), (2, "Wo?")]
    assert queries("2. Wer?", "1. Wo?") == [(1, "2. Wer?"), (2, "1. Wo?")]
    assert queries("", "2. Wo?") == [(2, "Wo?")]
    assert queries("Wer?", " ") == [(1, "Wer?")]


def test_an_article_may_have_no_title(tmp_path: Path) -> None:
    (found,), _, _ = articles(tmp_path, "reference,query 1\nR,Wer?\n")
    assert (found["title"], found["category"], found["url"]) == ("", "", "")


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    for header in ("title,query 1", "title,reference"):
        with pytest.raises(CorruptSource, match=r"the header has no columns of references and queries: \['title', "):
            articles(tmp_path, f"{header}\na,b\n")


def test_topics_and_judgements_count_once(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    topics = tmp_path / "topics.tsv"
    topics.write_text("q1\tWer?\nq2\tWo?\tmore\nq1\tWas?\n\nq1\tWie?\n", "utf-8")
    assert nomiracl._topics(topics, seen) == {"q1": "Wer?", "q2": "Wo?"}
    assert seen == {"questions listed twice (the first counts)": 2, "blank lines": 1}
    seen.clear()
    judged = tmp_path / "qrels.tsv"
    judged.write_text(
        "q1\t0\tp1\t0\nq1\t0\tp2\t1\nq1\t0\tp3\t0\nq1\t0\tp1\t1\nq2\t0\tp9\t 1\nq1\t0\tp2\t5\n\n", "utf-8"
    )
    assert nomiracl._judged(judged, seen) == {"q1": ["p2", "p1", "p3"], "q2": ["p9"]}
    assert seen == {"judgements listed twice (the first counts)": 2, "blank lines": 1}
    judged.write_text("q1\t0\tp1\t2\n", "utf-8")
    with pytest.raises(
        CorruptSource, match=rf"^{re.escape(str(judged))}: relevance of p1 for q1 is '2', neither 0 nor 1$"
    ):
        nomiracl._judged(judged, seen)


def test_the_wanted_passages_of_a_corpus_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    path = tmp_path / "corpus.jsonl"
    rows = [("p1", "T", "x"), ("p2", None, None), ("p3", "U", "z"), ("p1", "again", ""), ("p3", "again", "")]
    path.write_text(
        "".join(json.dumps(dict(zip(("docid", "title", "text"), row, strict=True))) + "\n" for row in rows), "utf-8"
    )
    assert nomiracl._corpus(path, {"p1", "p2", "p7"}, seen) == ({"p1": ("T", "x"), "p2": ("", "")}, 3)
    assert seen == {"passages listed twice (the first counts)": 2}
    path.write_text('{"docid": "p", "title": ""}\n', "utf-8")
    with pytest.raises(CorruptSource, match=rf"^{re.escape(str(path))}, line 1: no 'text' in the passage$"):
        nomiracl._corpus(path, set(), seen)
    for odd in ({"docid": 1}, {"docid": []}, {"title": {"a": 1}}, {"text": 7}):
        path.write_text(json.dumps({"docid": "p", "title": "", "text": None} | odd) + "\n", "utf-8")
        with pytest.raises(CorruptSource, match=r"line 1: docid, title or text of the passage is no text$"):
            nomiracl._corpus(path, set(), seen)
    path.write_text("\n", "utf-8")
    with pytest.raises(
        CorruptSource, match=rf"^{re.escape(str(path))}: the corpus is empty; every question needs 10 passages of it$"
    ):
        nomiracl._corpus(path, set(), seen)


def test_a_question_needs_ten_passages_in_the_order_of_their_judgements() -> None:
    ids = [f"p{n}" for n in range(10)]
    corpus = {docid: (docid.upper(), f"{docid} a b c") for docid in ids}
    judged = {"q1": ids[::-1], "q2": ids[:9], "q3": [*ids, "gone"], "q4": [*ids[:9], "gone", "lost"]}
    seen: Counter[str] = Counter()
    queries = [("q1", "Wer?"), ("q2", "Wo?"), ("q3", "Was?"), ("q4", "Wie?"), ("q5", "Wann?")]
    found = list(nomiracl._rows("de", "relevant", queries, judged, corpus, lambda text: text[:4], seen))
    assert [row["query_id"] for row in found] == ["q1", "q3"]
    assert found[0] == {
        **{
            "query_id": "q1",
            "language": "de",
            "subset": "relevant",
            "query": "Wer?",
            "label": "Yes, answer is present",
        },
        "passages": [f"P{n}: p{n} a" for n in reversed(range(10))],
        "titles": [f"P{n}" for n in reversed(range(10))],
        "docids": ids[::-1],
    }
    assert seen == {"passages missing from the corpus": 3, "questions skipped, without exactly 10 passages": 3}
    (other,) = nomiracl._rows("de", "non_relevant", queries[:1], judged, corpus, str, seen)
    assert other["label"] == "I don't know"


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("a  b\nc", 2, "a  b"),
        ("a b", 2, "a b"),
        ("a b ", 2, "a b "),
        ("a b c", 1, "a"),
        ("", 1, ""),
        (" a b", 1, " a"),
        ("a b c", 9, "a b c"),
    ],
)
def test_a_text_is_cut_behind_a_word(text: str, limit: int, cut: str) -> None:
    assert cut_words(text, limit) == cut
    assert nomiracl._cutter(limit, None)(text) == cut


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({}, []),
        ({"split": "dev"}, ["split dev, where the paper has test"]),
        ({"limit": None}, ["max_samples all, where the paper has 250 a subset"]),
        ({"limit": 9}, ["max_samples 9, where the paper has 250 a subset"]),
        ({"seed": 7}, ["another sample (seed 7, where the paper has 42)"]),
        ({"seed": 7, "sampled": False}, []),
        ({"max_tokens": 99}, ["passages cut at 99 words, by default at 370 words"]),
        ({"tokenizer": "t"}, ["passages cut at 370 tokens, by default at 370 words"]),
        (
            {"kept": {"relevant": 249, "non_relevant": 200}},
            ["249 of 250 relevant questions", "200 of 217 non-relevant questions"],
        ),
    ],
)
def test_what_differs_from_the_paper_is_said(changed: dict[str, Any], reasons: list[str]) -> None:
    papers = {
        **{
            "language": "de",
            "split": nomiracl.PAPER_SPLIT,
            "limit": nomiracl.PAPER_SAMPLE,
            "seed": nomiracl.PAPER_SEED,
        },
        **{"max_tokens": nomiracl.PAPER_WORDS, "tokenizer": None, "sampled": True},
        "kept": {"relevant": 250, "non_relevant": 250},
    }
    assert nomiracl._not_comparable(**{**papers, **changed}) == reasons


def test_a_report_says_what_was_kept_and_what_was_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lm_eval"):
        nomiracl._report("t", "test", {"relevant": 3, "non_relevant": 4}, Counter({"lost": 2, "none": 0, "cut": 1}))
        nomiracl._report("t", "test", {"relevant": 1}, Counter({"none": 0}))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "t: 3 relevant + 4 non_relevant questions of split test"),
        ("WARNING", "t: 2 lost; 1 cut"),
        ("INFO", "t: 1 relevant questions of split test"),
    ]
