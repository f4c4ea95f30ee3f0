"""mFAVA's public files: the forms they come in, what is left out, and what is wrong with damaged ones."""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

import pytest

from lm_eval_tasks.data.provenance import of_dataset
from lm_eval_tasks.data.sources import MissingSource, source_file
from lm_eval_tasks.definition import pairs
from lm_eval_tasks.mfava import annotations as detection
from lm_eval_tasks.mfava import dataset
from lm_eval_tasks.mfava.dataset import LANGUAGES
from tests.miniature import MINIATURE

REPOSITORY = "github/WorldHellow/mHallucinations-LLM"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for cache in (dataset._documents, detection._documents, detection._records):
        cache.cache_clear()


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / REPOSITORY / name
    path.parent.mkdir(parents=True)
    path.write_text(content, "utf-8")
    return path


def write_queries(folder: Path, header: str, *rows: str) -> Path:
    return write(folder, LANGUAGES["de"].queries_file, "\n".join([header, *rows]) + "\n")


FIVE = "Category,Article Title,URL,reference_1,reference_2,reference_3,reference_4,reference_5,query_1,query_2"

FORMS = [
    # header, row, questions, reference, left out
    (FIVE, "K,T,http://a,R1,R2,,,,Wer?,Was?", ["Wer?", "Was?"], "R1\nR2", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer?,2. Was?", ["Wer?", "Was?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1) Wer?,2) Was?", ["Wer?", "Was?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,١. من؟,٢. ما؟", ["من؟", "ما؟"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer?,2.", ["Wer?"], "R1", {"questions that are empty in the file": 1}),
    # an ordinal is no numbering
    (FIVE, "K,T,http://a,R1,,,,,1. FC Köln wurde wann Meister?,Wer traf?",
     ["1. FC Köln wurde wann Meister?", "Wer traf?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,2. Wer?,1. Wo?", ["2. Wer?", "1. Wo?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,1. Wer gewann 4:2?,2: Wo?", ["Wer gewann 4:2?", "Wo?"], "R1", {}),
    (FIVE, "K,T,http://a,R1,,,,,Wer?,  ", ["Wer?"], "R1", {"questions that are empty in the file": 1}),
    ("Article Title,Category,references,query_1,query_2", "T,K,R1 R2,Wer?,Was?", ["Wer?", "Was?"], "R1 R2", {}),
    ("article title,REFERENCES,Query_1", "T,R1,Wer?", ["Wer?"], "R1", {}),
    ("\ufeffArticle Title,references,query_1", "T,R1,Wer?", ["Wer?"], "R1", {}),
]  # fmt: skip


@pytest.mark.parametrize(("header", "row", "questions", "reference", "left_out"), FORMS)
def test_one_reader_serves_all_forms(
    tmp_path: Path, header: str, row: str, questions: list[str], reference: str, left_out: dict[str, int]
) -> None:
    seen: Counter[str] = Counter()
    articles, total = dataset.read_articles(write_queries(tmp_path, header, row), seen)
    assert total == 1
    assert [question for _, question in articles[0]["queries"]] == questions
    assert articles[0]["reference"] == reference
    assert [articles[0][column] for column in ("row", "title", "category", "url")] == [
        *(0, "T", "K" if "Category" in header else "", "http://a" if "URL" in header else "")
    ]
    assert seen == left_out


def test_articles_without_reference_or_question_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["K,A,u,R,,,,,Wer?,Was?", "K,B,u,,,,,,Wer?,Was?", "K,C,u,R,,,,,,", 'K,D,u,"R ""x"", y\nz",,,,,Wo?,']
    write_queries(tmp_path, FIVE, *rows)
    documents = dataset.load("de", mirror=str(tmp_path))["evaluation"]
    assert documents["title"] == ["A", "D", "A"]  # the subsets in turn: A is in the first, D in the fourth
    assert documents["reference"][1] == 'R "x", y\nz'
    assert "articles left out, without a reference: 1" in caplog.text
    assert "articles left out, without a question: 1" in caplog.text
    assert of_dataset(documents)["left_out"][dataset.EMPTY] == 3


@pytest.mark.parametrize(("articles", "sizes"), [(10, [2, 2, 2, 2, 2]), (12, [3, 3, 2, 2, 2]), (3, [1, 1, 1])])
def test_the_subsets_are_numpys_array_split_of_the_articles(tmp_path: Path, articles: int, sizes: list[int]) -> None:
    write_queries(tmp_path, FIVE, *(f"K,T{number},u,R,,,,,Q{number}a,Q{number}b" for number in range(articles)))
    documents = dataset.load("de", mirror=str(tmp_path))["evaluation"]
    subset_of = dict(zip(documents["article"], documents["subset"], strict=True))
    assert [subset_of[number] for number in range(articles)] == [s for s, size in enumerate(sizes) for _ in range(size)]
    assert documents["subset"][: len(sizes)] == list(range(len(sizes)))  # in turn, so that --limit sees all five
    assert len(set(documents["id"])) == 2 * articles


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("Category,Article Title", ["K,T"], "no columns of references and queries"),
        ("references,query_1", ['R,"Wer?'], "unexpected end of data; delete it and fetch it again"),
        ("references,query_1", [], "no article with a reference and a question"),
        ("references,query_1", [",Wer?"], "no article with a reference and a question"),
    ],
)
def test_damaged_query_files(tmp_path: Path, header: str, rows: list[str], message: str) -> None:
    write_queries(tmp_path, header, *rows)
    with pytest.raises(ValueError, match=message):
        dataset.load("de", mirror=str(tmp_path))


def test_unknown_names_are_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown calibration_annotations 'bronze'; known are gold, pooled, real"):
        dataset.load("de", calibration_annotations="bronze", mirror=MINIATURE)
    with pytest.raises(ValueError, match="detector_args must be JSON or name=value;name=value, got 'x'"):
        dataset.load("de", detector_args="x", mirror=MINIATURE)
    with pytest.raises(ValueError, match=r"^mfava_de: form, threshold belongs into detector_args; put `;` between"):
        dataset.load("de", mirror=MINIATURE, form="pair", threshold=0.7, pretrained="a-model")
    with pytest.raises(MissingSource, match="sources --fetch 'WorldHellow/mHallucinations-LLM/datasets"):
        dataset.load("de", mirror=str(tmp_path))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (None, {}),
        ("", {}),
        ({"threshold": 0.4}, {"threshold": 0.4}),
        ('{"threshold": 0.4, "form": "pair"}', {"threshold": 0.4, "form": "pair"}),
        ("threshold=0.4;form=pair", {"threshold": 0.4, "form": "pair"}),
    ],
)
def test_detector_args(given: object, options: dict[str, object]) -> None:
    assert pairs("detector_args", given, "mfava_de") == options  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "cut or damaged"),
        ("{}", "expected a list of documents, found dict"),
        ("[1]", "document 0: 'int' object has no attribute 'get'"),
        ('[{"references": "r", "generated_text": null, "silver_annotations": "a"}]', "'generated_text' is NoneType"),
        ('[{"references": "r", "generated_text": "a"}]', "'silver_annotations' is NoneType"),
        ("[]", "no annotated answer in Finnish"),
    ],
)
def test_damaged_annotations(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, LANGUAGES["fi"].silver_file, content)
    with pytest.raises(ValueError, match=message):
        detection.load("fi", "silver", mirror=str(tmp_path))


def test_unreadable_references_are_counted(hub: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        detection.load("la", "silver", mirror=hub)
        detection.load("fi", "silver", mirror=hub)
    said = [record.message for record in caplog.records if "unreadable" in record.message]
    assert len(said) == 1
    assert said[0].startswith("mfava_detection_la_silver: 302 of 309 references are mostly unreadable")


def test_an_annotation_of_another_text_is_left_out_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = {"references": "r", "generated_text": "Kissa on astronautti."}
    good = {**text, "silver_annotations": "Kissa <entity>on astronautti</entity>."}
    bad = {**text, "silver_annotations": "Jotain muuta kuin se mikä tuossa edellä luki."}
    write(tmp_path, LANGUAGES["fi"].silver_file, json.dumps([good, bad]))
    with caplog.at_level(logging.INFO):
        (document,) = detection.load("fi", "silver", mirror=str(tmp_path))["evaluation"]
    assert document["spans"] == [{"start": 6, "end": 20, "category": "entity"}]
    assert document["target"] == good["silver_annotations"]
    assert "1 documents left out, whose annotated text is that of another document" in caplog.text
    assert "50.00% aligned" in caplog.text


def test_every_language_has_its_public_files() -> None:
    assert len(LANGUAGES) == 31
    assert [code for code, language in LANGUAGES.items() if not language.in_paper] == ["fa"]
    assert [code for code, language in LANGUAGES.items() if language.gold] == ["ar", "zh", "de", "ru", "tr"]
    assert [code for code, language in LANGUAGES.items() if not language.silver] == ["ja"]
    for language in LANGUAGES.values():
        assert source_file("WorldHellow/mHallucinations-LLM", language.queries_file).checksum.startswith("git:")
        if language.silver_file:
            assert source_file("WorldHellow/mHallucinations-LLM", language.silver_file).checksum.startswith("git:")


@pytest.mark.parametrize(("language", "questions"), [("de", 297), ("fi", 230), ("zh", 235), ("tr", 278)])
def test_real_questions(hub: str, language: str, questions: int) -> None:
    """The mirror holds 150 articles of each; the counts are the non-empty questions."""
    documents = dataset.load(language, mirror=hub)["evaluation"]
    assert len(documents) == questions
    assert not any(query[:2] in ("1.", "2.", "1)", "2)") for query in documents["query"])
    subsets = Counter(dict(zip(documents["article"], documents["subset"], strict=True)).values())
    assert sum(subsets.values()) == (148 if language == "tr" else 150)
    assert max(subsets.values()) == 30
