"""The documents of a report: which are shown, and what a reader sees of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from custom_metrics.spans import Span
from lm_eval_tasks.commands.work.reporting.answers import read_task
from lm_eval_tasks.commands.work.reporting.documents import TaskDocuments, read_documents
from lm_eval_tasks.commands.work.reporting.documents.choosing import Candidate, chosen, most_hallucinated
from lm_eval_tasks.commands.work.reporting.documents.document import Piece, Text, address_of, pieces_of, text_of
from lm_eval_tasks.commands.work.reporting.documents.nomiracl import passages_of
from lm_eval_tasks.commands.work.reporting.documents.reading import why_abstention, why_robust, why_strict
from lm_eval_tasks.commands.work.reporting.documents.tagged import spans_in, tagged
from lm_eval_tasks.runs import Run, labels, read_runs


def candidates(*kinds: str) -> list[Candidate]:
    return [
        Candidate(f"{at:02}", frozenset(each.split()), 0.1 * at if "hallucinated" in each else None)
        for at, each in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("kinds", "number", "expected"),
    [
        (("", "", ""), None, [0, 1, 2]),
        ((), 3, []),
        (("", "wrong", ""), 0, []),
        (("", "", "wrong", ""), 2, [2, 0]),  # the kinds come first, then what is of no kind
        (("", "wrong", "wrong", "invalid"), 3, [1, 3, 0]),  # every kind has a turn before one has its second
        (("hallucinated", "hallucinated", "hallucinated wrong"), 2, [2, 1]),  # the largest share first
        (("wrong disagree", "disagree", "abstained"), 3, [0, 1, 2]),
        (("", "wrong"), 9, [1, 0]),
    ],
)
def test_which_documents_are_shown(kinds: tuple[str, ...], number: int | None, expected: list[int]) -> None:
    assert chosen(candidates(*kinds), number) == expected


def test_the_sample_does_not_depend_on_the_order_of_the_file() -> None:
    asked = candidates(*["", "wrong", "abstained wrong", "invalid", "disagree"] * 8)
    backwards = asked[::-1]
    assert [asked[at] for at in chosen(asked, 11)] == [backwards[at] for at in chosen(backwards, 11)]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([], None),
        ([None, 0.0], None),
        ([0.3, None, 0.0], 0.3),
        ([at / 100 for at in range(1, 21)], 0.19),  # two of twenty
    ],
)
def test_the_most_hallucinated_are_a_tenth(shares: list[float | None], expected: float | None) -> None:
    assert most_hallucinated(shares) == expected


@pytest.mark.parametrize(
    ("spans", "limit", "expected"),
    [
        ([], 99, [("Paris is in Spain", "")]),
        ([Span(12, 17, "entity")], 99, [("Paris is in ", ""), ("Spain", "entity")]),
        ([Span(0, 5, "entity")], 99, [("Paris", "entity"), (" is in Spain", "")]),
        ([Span(0, 17)], 8, [("Paris is", "hallucination")]),
        ([Span(3, 9, "relation"), Span(0, 5, "invented")], 8, [("Paris", "invented"), (" is", "relation")]),
        ([Span(12, 400, "entity"), Span(500, 600, "entity")], 99, [("Paris is in ", ""), ("Spain", "entity")]),
        ([Span(3, 3, "entity")], 99, [("Paris is in Spain", "")]),
    ],
)  # fmt: skip
def test_spans_become_pieces(spans: list[Span], limit: int, expected: list[tuple[str, str]]) -> None:
    text = "Paris is in Spain"
    found = pieces_of(text, spans, limit)
    assert [(piece.text, piece.category) for piece in found.pieces] == expected
    assert "".join(piece.text for piece in found.pieces) == text[:limit]
    assert found.left_out == max(0, len(text) - limit)


def test_a_long_text_is_cut_and_the_rest_counted() -> None:
    assert text_of("x" * 1_000_000, 8_000) == Text((Piece("x" * 8_000),), 992_000)
    assert text_of(None, 5) == Text((Piece(""),))
    assert text_of(["a"], 99) == Text((Piece("['a']"),))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://de.wikipedia.org/wiki/Elbe", True),
        ("http://example.org", True),
        ("HTTPS://example.org/%D9%86?a=1&b=2", True),
        ("https://ar.wikipedia.org/wiki/نهر_دجلة", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("java\nscript:alert(1)", False),
        (" https://example.org", False),
        ("data:text/html,<script>", False),
        ("//example.org", False),
        ("https:", False),
        ("https://[::1", False),
        ("file:///etc/passwd", False),
        ("", False),
        (None, False),
        (7, False),
        ("https://example.org/" + "a" * 2000, False),
    ],
)
def test_what_becomes_a_link(value: object, expected: bool) -> None:
    assert address_of(value) == (value if expected else "")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([[1, 3, "entity"], [4, 5, "entity", 0.5]], [Span(1, 3, "entity"), Span(4, 5, "entity")]),
        ([{"start": 1, "end": 3}], [Span(1, 3)]),
        ([[-1, 3, "entity"], [1.5, 3, "entity"], ["1", 3, "x"], "span", None, [], {}], []),
        (None, []),
        ({"start": 1}, []),
    ],
)
def test_logged_spans(listed: object, expected: list[Span]) -> None:
    assert spans_in(listed) == expected


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (json.dumps({"answer": "Paris", "spans": [[0, 5, "entity"]]}), ("Paris", [Span(0, 5, "entity")])),
        ("Paris", ("Paris", [])),
        ('{"answer": 7}', ('{"answer": 7}', [])),
        ('{"answer": "Par', ('{"answer": "Par', [])),
        ("[" * 100_000, ("[" * 100_000, [])),
        ('{"a":' * 100_000, ('{"a":' * 100_000, [])),
        (None, ("as it came", [])),
    ],
)
def test_tagged_answers(read: object, expected: tuple[str, list[Span]]) -> None:
    assert tagged(read, "as it came") == expected


PROMPT = "QUESTION:\nWhy?\n\nCONTEXTS:\n[1] Elbe: A river.\n\n[2] Oder: Another.\n[2] A note.\n\n[3] Saale\n\nOUTPUT:"


@pytest.mark.parametrize(
    ("prompt", "number", "expected"),
    [
        (PROMPT, 3, [(1, "Elbe", "A river."), (2, "Oder", "Another.\n[2] A note."), (3, "", "Saale")]),
        (PROMPT, 0, [(1, "Elbe", "A river."), (2, "Oder", "Another.\n[2] A note."), (3, "", "Saale")]),
        (PROMPT, 1, [(1, "Elbe", "A river.\n\n[2] Oder: Another.\n[2] A note.\n\n[3] Saale")]),
        ("no passages", 10, []),
        ("", 0, []),
    ],
)
def test_the_passages_of_a_prompt(prompt: str, number: int, expected: list[tuple[int, str, str]]) -> None:
    found = passages_of(prompt, number)
    assert [(passage.number, passage.title, passage.text.pieces[0].text) for passage in found] == expected


@pytest.mark.parametrize(
    ("response", "label", "expected"),
    [
        ("Yes, answer is present in [1].", "Yes, answer is present", "it holds “Yes, answer is present”"),
        ("I don't\nknow", "I don't know", "it holds “I don't know”"),
        ("Yes, answer is present or I don't know", "Invalid", "it holds both phrases of the prompt"),
        ("The answer is not present.", "I don't know", "it holds “answer is not present”"),
        ("Berlin", "Invalid", "it holds neither phrase of the prompt"),
        ("[3]", "Yes, answer is present", "it is the number of a passage"),
    ],
)
def test_why_the_strict_reading_says_so(response: str, label: str, expected: str) -> None:
    assert why_strict(response, label) == f"Strict reading: {expected}."


def test_why_the_robust_reading_says_so() -> None:
    assert why_robust("Berlin", "Yes, answer is present", "de", "Wo?").startswith("Robust reading: it answers")
    assert why_robust("###", "Invalid", "de", "Wo?") == "Robust reading: Invalid, for it has no letter and no digit."
    assert why_robust("null", "Invalid", "de", "Wo?").endswith(
        "Invalid, for it is the message of a service that failed."
    )
    said = why_robust("Das steht nicht im Text.", "I don't know", "de", "Wo?")
    assert said.startswith("Robust reading: it does not answer. Phrases that decided: “")
    assert why_abstention("Berlin", "de") == ""


def shown_of(run: Run, number: int | None) -> list[TaskDocuments]:
    return [task.shown(number) for task in read_documents({"lexical": run}, read_task)]


@pytest.fixture(scope="module")
def documents(two_models: Path) -> dict[str, TaskDocuments]:
    runs = read_runs([two_models])
    asked = read_documents(dict(zip(labels(runs), runs, strict=True)), read_task)
    return {each.task: each for each in (task.shown(6) for task in asked)}


@pytest.mark.parametrize(
    ("task", "total", "shown", "kinds"),
    [
        ("nomiracl_de", 8, 6, {"wrong": 5, "invalid": 0, "abstained": 5, "disagree": 5, "hallucinated": 0}),
        ("nomiracl_zh", 8, 6, {"wrong": 8, "invalid": 0, "abstained": 8, "disagree": 8, "hallucinated": 0}),
        ("clapnq_gold", 32, 6, {"wrong": 20, "invalid": 0, "abstained": 15, "disagree": 15, "hallucinated": 0}),
        ("mfava_de", 9, 6, {"wrong": 0, "invalid": 0, "abstained": 0, "disagree": 0, "hallucinated": 0}),
    ],
)
def test_documents_are_counted_by_kind(
    documents: dict[str, TaskDocuments], task: str, total: int, shown: int, kinds: dict[str, int]
) -> None:
    found = documents[task]
    assert (found.total, len(found.shown), found.kinds, found.missing) == (total, shown, kinds, ())


def test_every_model_answers_beside_the_others(documents: dict[str, TaskDocuments]) -> None:
    for task in documents.values():
        for document in task.shown:
            assert [answer.model for answer in document.answers] == [
                "lm-eval-grounded/baseline-answer",
                "lm-eval-grounded/baseline-lexical",
            ]
            assert document.question.pieces[0].text


def test_a_nomiracl_document(documents: dict[str, TaskDocuments]) -> None:
    found = next(each for each in documents["nomiracl_de"].shown if each.key == "non_relevant/6#0")

    assert found.question.pieces[0].text == "Wie tief ist der Bodensee an seiner tiefsten Stelle?"
    assert found.right == "No passage answers the question"
    assert [passage.number for passage in found.passages] == [*range(1, 11)]
    assert found.passages[0].title == "Brandenburger Tor"
    assert found.prompt is None
    answer, lexical = found.answers
    assert (answer.verdict, answer.tone, answer.kinds) == ("hallucination", "bad", {"wrong"})
    assert (lexical.verdict, lexical.tone, lexical.kinds) == ("right: abstained", "good", {"abstained"})
    assert lexical.why == ("Strict reading: it holds “I don't know”.",)
    assert found.kinds == {"wrong", "abstained", "disagree"}


def test_a_clapnq_document_with_retrieval(two_models: Path) -> None:
    (run,) = read_runs([two_models / "baseline-lexical"])
    (task,) = (each for each in shown_of(run, None) if each.task == "clapnq_rag")
    first = task.shown[0]

    assert len(task.shown) == task.total == 32
    assert first.key == "1001"
    assert [passage.mark for passage in first.passages] == ["gold passage, retrieved", "", ""]
    assert [text.pieces[0].text[:15] for text in first.references] == ["Tides are cause"]
    missed = [document for document in task.shown if "gold passage was not among" in document.right]
    assert len(missed) == 1  # gold_retrieved is 17 of 18
    assert not any(passage.mark for passage in missed[0].passages)


def test_an_mfava_document(documents: dict[str, TaskDocuments]) -> None:
    found = next(each for each in documents["mfava_de"].shown if (each.address or "").endswith("/Elbe"))

    assert found.address == "https://de.wikipedia.org/wiki/Elbe"
    assert found.page is not None
    assert not found.kinds  # both answers quote the page
    assert [answer.verdict for answer in found.answers] == ["nothing flagged"] * 2


def test_answers_that_were_not_logged(two_models: Path, tmp_path: Path) -> None:
    (results,) = (two_models / "baseline-lexical").glob("results_*.json")
    (tmp_path / results.name).write_bytes(results.read_bytes())
    (run,) = read_runs([tmp_path])
    (task,) = (each for each in shown_of(run, 3) if each.task == "mfava_de")
    assert (task.total, task.shown, task.missing) == (0, (), ("lexical",))
