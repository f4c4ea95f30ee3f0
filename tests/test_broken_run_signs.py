"""Signs of a broken run, counted to the answer, and the warning in full."""

from __future__ import annotations

from collections import Counter

import pytest

from custom_metrics.broken_run import Answered, Labels, Signs, signs_of, warning
from custom_metrics.reading.no_answer import no_answer
from custom_metrics.relevance import NO_ANSWER, nomiracl_label, robust_label

LOOP = "Die Stadt liegt am Fluss. " * 4
LATE_LOOP = f"Berlin ist eine Stadt im Norden. {'und so weiter ' * 9}"
CJK_LOOP = "我不知道你说的是什么。" + "好的" * 30
TEMPLATE = "a missing --apply_chat_template, or a model that is not tuned to follow instructions"
ROOM = "too few max_gen_toks, or a stop string that comes at once (--gen_kwargs)"
REASONING = "a reasoning block that never ended: give it room (--gen_kwargs max_gen_toks=4096)"


def answers(*responses: object, language: str | None = "de", labelled: bool = False) -> list[Answered]:
    read = [Labels(nomiracl_label(r), robust_label(str(r), language)) if labelled else None for r in responses]
    return [
        Answered(response, "Wo liegt Berlin?", ("Berlin: a city",), language, labels)
        for response, labels in zip(responses, read, strict=True)
    ]


def test_answers_without_labels_are_counted_by_kind() -> None:
    found = signs_of(answers("Berlin", "", None, "<think>hm", LOOP, "Berlin", LATE_LOOP))
    assert found == Signs(7, Counter({"empty": 2, "unfinished": 1, "loop": 2}), 5, 5)


def test_answers_with_labels_count_what_cannot_be_read_and_what_is_said_in_other_words() -> None:
    found = signs_of(
        answers("Yes, answer is present", "Berlin", "", "Please answer the question", LATE_LOOP, labelled=True)
    )
    assert (found.total, found.invalid, found.different) == (5, 2, 5)
    assert found.kinds == {"empty": 1, "other": 1}
    assert found.apart == 2  # "Berlin" and what goes round behind an answer


def test_of_answers_that_can_be_read_only_loops_are_counted() -> None:
    foreign, passages = "我不知道这个问题的答案", ("Berlin: a city",)
    said = [f"{NO_ANSWER}. " * 4, foreign]
    assert [no_answer(text, "Wo liegt Berlin?", passages) for text in said] == ["loop", "script"]
    found = signs_of(answers(*said, labelled=True))
    assert (found.total, found.invalid, found.kinds) == (2, 0, {"loop": 1})


def test_what_the_passages_hold_is_an_answer() -> None:
    song = Answered("Boom Boom Boom Boom", "Welches Lied?", ("Boom Boom Boom Boom!!: a song",), "de")
    assert signs_of([song, song._replace(passages=())]).kinds == {"loop": 1}


@pytest.mark.parametrize(
    ("signs", "says"),
    [
        (Signs(0, Counter(), 0, 0), None),
        (Signs(10, Counter(empty=1), 2, 9), None),  # a fifth, and a tenth, are not more than that
        (
            Signs(10, Counter(empty=1, noise=2), 3, 9),
            "t: this run looks broken: 3 of 10 answers are no answers (2 noise, 1 empty). Usual reasons: "
            f"{TEMPLATE}; {ROOM}.",
        ),
        (
            Signs(10, Counter(unfinished=2, other=1), 3, 9, True, 0),
            "t: this run looks broken: 3 of 10 answers are Invalid (2 in a reasoning block that never ended, 1 asking "
            f"back). Usual reasons: {REASONING}; {TEMPLATE}.",
        ),
        (
            Signs(20, Counter(unfinished=1, empty=1, loop=1, noise=1), 4, 18),
            "t: this run looks broken: 3 of 20 answers are empty or loop (1 in a reasoning block that never ended, "
            f"1 empty, 1 in a loop). Usual reasons: {REASONING}; {ROOM}; {TEMPLATE}.",
        ),
        (Signs(20, Counter(empty=1, loop=1), 2, 18), None),
        (Signs(9, Counter(), 0, 9, True, 3), None),  # a third is not more than a third
        (
            Signs(9, Counter(), 0, 9, True, 4),
            "t: strict and robust differ on 4 of 9 answers: they are not in the prompt's own words. "
            f"Usual reasons: {TEMPLATE}.",
        ),
        (Signs(9, Counter(), 0, 1, True, 0), None),
        (Signs(10, Counter(), 0, 1, True, 0), "t: all 10 answers are equal."),
        (
            Signs(10, Counter(empty=10), 10, 1, True, 4),
            "t: this run looks broken: 10 of 10 answers are Invalid (10 empty); strict and robust differ on 4 of 10 "
            f"answers: they are not in the prompt's own words; all 10 answers are equal. Usual reasons: {ROOM}; "
            f"{TEMPLATE}.",
        ),
    ],
)
def test_a_warning_says_what_was_seen_and_what_it_usually_means(signs: Signs, says: str | None) -> None:
    assert warning("t", signs) == says


def test_a_loop_is_read_by_the_words_of_its_language() -> None:
    for language, kinds in (("zh", {"loop": 1}), (None, {})):  # without a language there is one word
        assert signs_of([Answered(CJK_LOOP, None, (), language)]).kinds == kinds
