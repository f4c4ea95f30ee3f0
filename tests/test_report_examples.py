"""The documents that a card of the first screen links to."""

from __future__ import annotations

import pytest

from lm_eval_tasks.results.report.documents import Document, TaskDocuments
from lm_eval_tasks.results.report.documents.document import Piece, ShownAnswer, Text
from lm_eval_tasks.results.report.page.summary import examples


def document(*kinds: str, language: str = "de", question: str = "Wer?") -> Document:
    """A document with an answer of these kinds for each model; ``""`` for an answer that is right."""
    answers = tuple(
        ShownAnswer(f"model {number}", Text(()), "", "plain", kinds=frozenset(filter(None, kind.split())))
        for number, kind in enumerate(kinds)
    )
    differ = {"disagree"} if len({*kinds}) > 1 else set()
    return Document("", "nomiracl", language, "", Text((Piece(question),)), "", answers, kinds=frozenset(differ))


def of(task: str, *documents: Document) -> TaskDocuments:
    return TaskDocuments(task, "nomiracl", documents[0].language if documents else "", len(documents), {}, documents)


WRONG, RIGHT, SILENT, DECLINES, FLAGGED = "wrong", "", "abstained", "wrong abstained", "hallucinated"


@pytest.mark.parametrize(
    ("listed", "anchors"),
    [
        pytest.param([], [], id="no documents"),
        pytest.param([of("a_de", document(RIGHT), document(SILENT))], [], id="nothing made up"),
        pytest.param([of("a_de", document(DECLINES))], [], id="declining is wrong here, but makes nothing up"),
        pytest.param([of("a_de", document(RIGHT), document(WRONG))], ["a_de-2"], id="numbered as on the page"),
        pytest.param([of("a_de", document(FLAGGED))], ["a_de-1"], id="a detector's finding"),
        pytest.param([of("b_de", document(WRONG))], [], id="another family"),
        pytest.param(
            [of("a_de", document(WRONG, WRONG), document(WRONG, RIGHT))],
            ["a_de-2", "a_de-1"],
            id="where models differ first",
        ),
        pytest.param(
            [
                of("a_de", *[document(WRONG)] * 5),
                of("a_fr", document(WRONG)),
                of("a_en", document(WRONG, language="en")),
            ],
            ["a_en-1", "a_de-1", "a_fr-1"],
            id="of as many tasks as can be, English first",
        ),
        pytest.param([of("a_de", *[document(WRONG)] * 5)], ["a_de-1", "a_de-2", "a_de-3"], id="at most three"),
    ],
)
def test_which_documents(listed: list[TaskDocuments], anchors: list[str]) -> None:
    assert [one.anchor for one in examples(["a_de", "a_fr", "a_en"], listed)] == anchors


def test_a_long_question_is_cut() -> None:
    (one,) = examples(["a"], [of("a", document(WRONG, question="x\n" * 100))])
    assert one.question == " ".join(["x"] * 40) + "…"
