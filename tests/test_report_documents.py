"""The documents of a report: which are shown, and what a reader sees of each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from custom_metrics.reading.spans import Span
from lm_eval_tasks.results.report.documents import (
    TaskDocuments,
    choose,
    examples,
    most_hallucinated,
    read_documents,
    read_task,
)
from lm_eval_tasks.results.report.readers import (
    Document,
    Piece,
    ShownAnswer,
    Text,
    address_of,
    passages_of,
    reader_of,
    spans_in,
    tagged_answer,
    text_of,
)
from lm_eval_tasks.runs import Answer, FilteredAnswer, labels, read_runs
from tests.golden import golden
from tests.made_runs import task


@pytest.mark.parametrize(
    ("kinds", "number", "expected"),
    [
        (("", "", ""), None, [0, 1, 2]),
        ((), 3, []),
        (("", "wrong", ""), 0, []),
        (("", "", "wrong", ""), 2, [2, 0]),  # the kinds come first, then what is of no kind
        (("", "wrong", "wrong", "invalid"), 3, [1, 3, 0]),  # every kind has a turn before one has its second
        (("hallucinated", "hallucinated", "hallucinated wrong"), 2, [2, 1]),  # the largest share first
        (("wrong disagree", "disagree", "abstained"), 9, [0, 1, 2]),
    ],
)
def test_which_documents_are_shown(kinds: tuple[str, ...], number: int | None, expected: list[int]) -> None:
    """Also where the file has another order."""
    contents, each = [b"%02d" % at for at in range(len(kinds))], [frozenset(kind.split()) for kind in kinds]
    shares = [0.1 * at if "hallucinated" in kind else math.nan for at, kind in enumerate(kinds)]
    assert choose(contents, each, shares, number) == expected
    if number is not None:
        assert [~at % len(kinds) for at in choose(contents[::-1], each[::-1], shares[::-1], number)] == expected


def test_the_most_hallucinated_are_a_tenth() -> None:
    assert most_hallucinated([at / 100 for at in range(1, 21)]) == 0.19  # two of twenty
    assert most_hallucinated([0.3, 0.0]) == 0.3
    assert math.isnan(most_hallucinated([0.0]))


def document(*kinds: str, language: str = "de", question: str = "Wer?") -> Document:
    """A document with an answer of these kinds for each model; ``""`` for an answer that is right."""
    answers = tuple(
        ShownAnswer("", kinds=frozenset(kind.split()), share=0.5 if kind == "hallucinated" else None, model=f"{number}")
        for number, kind in enumerate(kinds)
    )
    differ = {"disagree"} if len({*kinds}) > 1 else set()
    return Document(Text((Piece(question),)), language=language, answers=answers, kinds=frozenset(differ))


def of(task: str, *documents: Document) -> TaskDocuments:
    return TaskDocuments(task, "nomiracl", documents[0].language, len(documents), {}, documents)


WRONG, RIGHT, SILENT, DECLINES, FLAGGED = map(document, ("wrong", "", "abstained", "wrong abstained", "hallucinated"))
ENGLISH = document("wrong", language="en")


@pytest.mark.parametrize(
    ("listed", "anchors"),
    [
        pytest.param([of("a_de", RIGHT, SILENT, DECLINES)], [], id="declining makes nothing up, wrong or not"),
        pytest.param([of("a_de", RIGHT, WRONG)], ["a_de-2"], id="numbered as on the page"),
        pytest.param([of("a_de", FLAGGED)], ["a_de-1"], id="a detector's finding"),
        pytest.param([of("b_de", WRONG)], [], id="another family"),
        pytest.param([of("a_de", WRONG, document("wrong", ""))], ["a_de-2", "a_de-1"], id="where models differ first"),
        pytest.param(
            [of("a_de", *[WRONG] * 5), of("a_fr", WRONG), of("a_en", ENGLISH)],
            ["a_en-1", "a_de-1", "a_fr-1", "a_de-2", "a_de-3"],
            id="of as many tasks as can be, English first",
        ),
        pytest.param([of("a_de", *[WRONG] * 6)], [f"a_de-{number}" for number in range(1, 6)], id="at most five"),
    ],
)
def test_documents_that_a_card_of_the_first_screen_links_to(listed: list[TaskDocuments], anchors: list[str]) -> None:
    assert [anchor for anchor, *_ in examples(["a_de", "a_fr", "a_en"], listed)] == anchors


def test_a_long_question_is_cut() -> None:
    ((_, question, _),) = examples(["a"], [of("a", document("wrong", question="x\n" * 100))])
    assert question == " ".join(["x"] * 40) + "…"


MARKED = [("Paris ", "entity", False), ("is", "entity", True), (" in", "", True), (" ", "", False), ("Spain", "", True)]


@pytest.mark.parametrize(
    ("spans", "marks", "limit", "expected"),
    [
        ([], [], 99, [("Paris is in Spain", "", False)]),
        ([Span(0, 5, "entity")], [], 99, [("Paris", "entity", False), (" is in Spain", "", False)]),
        ([Span(0, 17)], [], 8, [("Paris is", "hallucination", False)]),
        ([Span(3, 9, "relation"), Span(0, 5, "x")], [], 8, [("Paris", "x", False), (" is", "relation", False)]),
        ([Span(12, 400, "x"), Span(500, 600, "x")], [], 99, [("Paris is in ", "", False), ("Spain", "x", False)]),
        ([Span(3, 3, "entity")], [], 99, [("Paris is in Spain", "", False)]),
        ([Span(0, 8, "entity")], [Span(6, 11), Span(12, 400)], 99, MARKED),
    ],
)
def test_spans_and_what_people_marked_become_pieces(
    spans: list[Span], marks: list[Span], limit: int, expected: list[tuple[str, str, bool]]
) -> None:
    found = text_of("Paris is in Spain", limit, spans, marks)
    assert [*found.pieces] == expected
    assert found.left_out == max(0, 17 - limit)


def test_a_long_text_is_cut_and_the_rest_counted() -> None:
    assert text_of("x" * 1_000_000, 8_000) == Text((Piece("x" * 8_000),), 992_000)
    assert text_of(None, 5) == Text((Piece(""),))


def test_what_becomes_a_link() -> None:
    for address in ("HTTPS://example.org/%D9%86?a=1&b=2", "https://ar.wikipedia.org/wiki/نهر_دجلة"):
        assert address_of(address) == address
    for other in (
        *("javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "data:text/html,<script>", "//a.org"),
        *(" https://a.org", "https:", "https://[::1", "file:///etc/passwd", "", None, 7, f"https://a.org/{'a' * 2000}"),
    ):
        assert address_of(other) == ""


def written(spans: object) -> str:
    return json.dumps({"answer": "Paris", "spans": spans, "detector": {}})


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (written([[0, 5, "entity"]]), ("Paris", [Span(0, 5, "entity")])),
        (written([[1, 3, "entity", 0.5], {"start": 1, "end": 3}]), ("Paris", [Span(1, 3, "entity", 0.5), Span(1, 3)])),
        (written([[-1, 3, "x"], [1.5, 3, "x"], ["1", 3, "x"], "span", None, [], {}, [None] * 3]), ("Paris", [])),
        (written({"start": 1}), ("Paris", [])),
        ("Paris", ("Paris", [])),
        ('{"answer": 7}', ('{"answer": 7}', [])),
        ('{"answer": "Par', ('{"answer": "Par', [])),
        ('{"a":' * 100_000, ('{"a":' * 100_000, [])),
        (None, ("as it came", [])),
    ],
)
def test_tagged_answers(read: object, expected: tuple[str, list[Span]]) -> None:
    text, spans = tagged_answer(read, "as it came")
    assert (text, spans_in(spans)) == expected


PROMPT = "QUESTION:\nWhy?\n\nCONTEXTS:\n[1] Elbe: A river.\n\n[2] Oder: Another.\n[2] A note.\n\n[3] Saale\n\nOUTPUT:"
PASSAGES = [(1, "Elbe", "A river."), (2, "Oder", "Another.\n[2] A note."), (3, "", "Saale")]


@pytest.mark.parametrize(
    ("prompt", "number", "expected"),
    [
        (PROMPT, 3, PASSAGES),
        (PROMPT, 0, PASSAGES),
        (PROMPT, 1, [(1, "Elbe", "A river.\n\n[2] Oder: Another.\n[2] A note.\n\n[3] Saale")]),
        ("no passages", 10, []),
    ],
)
def test_the_passages_of_a_prompt(prompt: str, number: int, expected: list[tuple[int, str, str]]) -> None:
    found = passages_of(prompt, number)
    assert [(passage.number, passage.title, passage.text.pieces[0].text) for passage in found] == expected


def six_of_each(*places: Path) -> dict[str, TaskDocuments]:
    runs = read_runs(places)
    asked = read_documents(dict(zip(labels(runs), runs, strict=True)), read_task)
    return {each.task: each for each in (task.sample(6) for task in asked)}


def test_documents_as_a_reader_sees_them(two_models: Path) -> None:
    """How many there are of each kind, and the first of three benchmarks."""
    documents = six_of_each(two_models)
    of_task = "{0.task}: {1} of {0.total}, of all {0.kinds}, missing {0.missing}"
    lines = [of_task.format(task, len(task.documents)) for task in documents.values()]
    for name in ("nomiracl_de", "clapnq_rag", "mfava_de"):
        lines += [line.rstrip() for document in documents[name].documents[:3] for line in seen(name, document)]
    text = "\n".join([*lines, ""])
    assert text == golden("documents.txt", text)


def seen(task: str, document: Document) -> Iterator[str]:
    """What a page shows of a document, line by line."""
    page = [document.page] if document.page else []
    yield f"## {task} {document.key} {sorted(document.kinds)}"
    yield f"{document.question.pieces[0].text} | {document.right} | prompt: {document.prompt is not None}"
    yield from (f"[{passage.number}] {passage.title} | {passage.mark}" for passage in document.passages)
    yield from (f"reference: {text.pieces[0].text[:40]}" for text in document.references)
    yield from (f"page: {document.page_title} {document.address} {text.pieces[0].text[:40]}" for text in page)
    for answer in document.answers:
        yield f"{answer.model}: {answer.verdict} ({answer.tone}) {sorted(answer.kinds)} {answer.share}"
        notes = filter(None, answer.notes)
        yield from (f"  {line}" for line in (answer.text.pieces[0].text[:60], *notes, *map(" ".join, answer.facts)))


def test_the_most_hallucinated_answer_comes_first_with_its_spans(two_models: Path, closed_book: Path) -> None:
    task = six_of_each(two_models / "baseline-lexical", closed_book)["mfava_de"]
    quoting, inventing = task.documents[0].answers
    assert (quoting.verdict, quoting.kinds, len(quoting.text.pieces)) == ("nothing flagged", frozenset(), 1)
    assert (inventing.verdict, inventing.kinds) == ("46.2 % of the words flagged", frozenset({"hallucinated"}))
    flagged = [piece.text for piece in inventing.text.pieces if piece.category]
    assert flagged == ["Winter 1893", "Erdbeben seine Pfeiler beschädigte."]


def test_answers_that_were_not_logged(two_models: Path, tmp_path: Path) -> None:
    (results,) = (two_models / "baseline-lexical").glob("results_*.json")
    (tmp_path / results.name).write_bytes(results.read_bytes())
    task = six_of_each(tmp_path)["mfava_de"]
    assert (task.total, task.documents, task.missing) == (0, (), ("lm-eval-grounded/baseline-lexical",))


ORIGINAL = "The tower was built in 1889 in Paris."
TAGGED = "The tower was built in <entity>1889</entity> in Paris."
MISSED = {"answerable": True, "gold_ids": ["7"], "passages": [{"id": "8", "title": "T", "text": "x"}]}


@pytest.mark.parametrize(
    ("name", "doc", "response", "values", "expected"),
    [
        ("mushroom_de", {"answer": ORIGINAL}, TAGGED, {"iou": 0.6}, ("agreement 0.60", "good", [])),
        ("mushroom_de", {"answer": ORIGINAL}, TAGGED, {"iou": 0.4, "f1": 0.9}, ("agreement 0.40", "bad", ["wrong"])),
        ("mfava_detection_de_gold", {"answer": ORIGINAL}, TAGGED, {"f1": 0.5}, ("agreement 0.50", "good", [])),
        ("mushroom_de", {"answer": ORIGINAL}, TAGGED, {}, ("agreement unknown", "plain", [])),
        (
            *("mushroom_de", {"answer": ORIGINAL}, "I cannot do that.", {"iou": 1.0, "lost_rate": 1.0}),
            ("Invalid: another text came back", "unsure", ["invalid"]),
        ),
        ("mfava_de", {}, ORIGINAL, {"detected_rate": 0.25}, ("25.0 % of the words flagged", "bad", [])),
        ("mfava_de", {}, ORIGINAL, {"detected_rate": None}, ("no detector has read it", "unsure", [])),
        ("mfava_de", {}, "Das weiß ich nicht.", {"abstention_rate": 1.0}, ("abstained", "plain", ["abstained"])),
        ("clapnq_rag", MISSED, ORIGINAL, {"answerable_abstention_rate": 0.0}, ("answered", "plain", [])),
        ("clapnq_judge", {}, "Rating: 4", {"faithfulness": 4.0}, ("", "plain", [])),
    ],
)
def test_what_is_said_of_an_answer(
    name: str,
    doc: dict[str, object],
    response: str,
    values: dict[str, float | None],
    expected: tuple[str, str, list[str]],
) -> None:
    run = task(name, {}, "de")
    answer = Answer("k", "c", doc, "", "", response, {run.headline_filter: FilteredAnswer(response, values)})
    document = reader_of(run).lay_out({"m": answer})
    (shown,) = document.answers
    assert (shown.verdict, shown.tone, sorted(shown.kinds)) == expected
    assert document.right.endswith("; the gold passage was not among those retrieved") is (doc is MISSED)
