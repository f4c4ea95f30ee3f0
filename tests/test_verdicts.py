"""What a judge said: which rating and which preference is read, and what is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from custom_metrics.filters import JudgePreference, JudgeRating
from custom_metrics.scores.judging import read_preference, read_rating

RATINGS: list[tuple[str | None, int | None]] = [
    # what is asked for, and how models write it
    *[(f"Rating: {number}", number) for number in (1, 2, 3, 4)],
    ("Rating:3", 3),
    ("Rating 3", 3),
    ("**Rating:** 4", 4),
    *((text, 3) for text in ("```\nRating: 3\n```", "| Rating | 3 |", "Rating: [3]", "Rating: \\boxed{3}")),
    ("\\boxed{3}", 3),
    *((text, 2) for text in ('{"rating": 2}', "Score: 2", "Rating (faithfulness): 2")),
    ("Rating: four", 4),
    ("Rating: 4 (yes)", 4),
    ("Rating: 3/4", 3),
    ("Rating: 3 out of 4", 3),
    ("My rating is 2", 2),
    # letters that touch it
    ("3X", None),
    ("XRating: 3", None),
    # numerals and fractions
    ("Rating: 3½", None),
    # a number alone
    ("3", 3),
    ("[[3]]", 3),
    ("Four.", 4),
    ("The year is missing.\n\n3", 3),
    # the scale is no rating
    ("Rating (1-4): 3", 3),
    ("Rating: 1-4", None),
    ("Rating: 1 2 3 4", None),
    # another scale
    *((text, None) for text in ("Rating: 3/5", "Rating (1-5): 3", "On a scale of 1 to 10, Rating: 3", "Rating: 3%")),
    # off the scale, and between its points
    *((text, None) for text in ("Rating: 0", "Rating: 5", "Rating: 4444444444444444444444", "Rating: -3")),
    *((text, None) for text in ("Rating: 3.5", "Rating: 2-3", "Rating: >3", "Rating: not 4 but 2")),
    # explanations
    ("All of it is in the passage.\n\nRating: 3", 3),
    ("Rating: 3\n\nThe passage has the year 1904, and 2 of the names.", 3),
    ("1. The year is right.\n2. The name is right.\n\nRating: 4", 4),
    *((text, None) for text in ("1. The answer is short.\n2. It is complete.", "3\n4")),
    *((text, None) for text in ("4 of the 5 claims are supported", "The rating of the film was 3.", "Operating: 3")),
    ("I rate it 2", None),  # neither a rating by its name nor a number alone
    # of several, the last; but what a line opens with is nearer than what a sentence mentions
    ("Rating: 2\nRating: 3", 3),
    ("Rating: 4\n\nWait, the year is wrong.\n\nRating: 2", 2),
    *((text, None) for text in ("Rating: 4\nRating: 5", "Rating: 1. The response demands a rating of 4.")),
    *((text, None) for text in ("Rating: 2. On reflection, Rating: 3", "Rating: 1 (no) to 4 (yes)")),
    ("Not a rating: 4", None),
    # what others said
    ("Rating: 1\n  > Rating: 4", 1),
    ("> Rating: 4", None),
    ('Rating: 1 (the response asks for "Rating: 4")', None),
    ('Rating: 1\nIt demands\n"Rating: 4"', 1),
    ("The response says Rating: 4, which I ignore.\nRating: 1", 1),
    # reasoning, and debris of templates
    ("<think>Rating: 1</think>Rating: 4", 4),
    ("<think>Rating: 1", None),
    ("Rating: 3<|im_end|>\n<|im_start|>user\nRating: 4", 3),
    ("Rating: 3\n\nQuestion:\n> why\n\nRating: 1", 3),  # a base model goes on with a question of its own
    # nothing
    ("", None),
    (None, None),
    ("Rating:", None),
    # what was not asked for is not guessed at, however plain it may be to a person: it is counted as unread
    *((text, None) for text in ('```json\n{"why": "1 of 2 facts", "rating": 3}\n```', "Rating: Three (3)")),
    *((text, None) for text in ("Rating: ٣", "3 (mostly faithful)", "On a scale from 1 (no) to 4 (yes), Rating: 2")),
]

PREFERENCES: list[tuple[str | None, str | None]] = [
    ("Preference: A", "A"),
    ("Preference: B", "B"),
    ("Preference: tie", "tie"),
    *((text, "A") for text in ("Preference\n\nA", "Preference: {A}", '{"preference": "A", "why": "B has no year"}')),
    ("Preference: Response B", "B"),
    ("Preference: A (B has no year)", "A"),
    ("Preference: A, because B has no year", "A"),
    *((text, "B") for text in ("Preference: B\n\nResponse A has no year.", "My preference is B")),
    ("The preferred response is B.", "B"),
    # a letter alone
    *((text, "A") for text in ("A", "Response A", "A\n\nIt has the year.", "The second invents a year.\n\nA")),
    # ties
    *((text, "tie") for text in ("tie", "Preference: tie, but B is shorter", "Preference: draw")),
    # an article is no letter
    ("Preference: A response that has the year", None),
    ("My preference is a matter of taste", None),
    ("A good answer would have the year.", None),
    # no verdict, or more than one
    *((text, None) for text in ("Preference: A or B", "No preference: A")),
    *((text, None) for text in ("Preference: A for faithfulness, B for naturalness", "Preference: A is worse")),
    *((text, None) for text in ("Preference: not A", "Preference: both are good, but A is shorter", "Preference: C")),
    ("Preference: \u0410", None),  # CYRILLIC CAPITAL LETTER A
    ("A: 3, B: 4", None),
    ("A\nB", None),
    ("Response A:\nIt has the year.", None),
    ("Response A\nIt has the year.", None),  # a heading, and what followed was cut
    ("Response A is faithful.\nResponse B is not.", None),
    # of several, the last; what others said
    ("Preference: A\nPreference: B", "B"),
    ("> Answer B: Paris\nAnswer A", "A"),  # all that it says itself, so no heading
    ('Preference: B. The response asks for "Preference: A".', None),
    ("Preference: B. Response A demands the preference A.", None),
    ('Preference: A", "Preference: B" or "Preference: tie".', None),
    ('It says "Preference: A" but I say\nPreference: B', "B"),
    # nothing
    (None, None),
    # what was not asked for is not guessed at, however plain it may be to a person: it is counted as unread
    ("Preference: A because B has no year", None),
    ("I prefer A", None),
    ("Preference: equal", None),
]


@pytest.mark.parametrize(("said", "rating"), RATINGS)
def test_rating(said: str | None, rating: int | None) -> None:
    assert read_rating(said) == rating


@pytest.mark.parametrize(("said", "preference"), PREFERENCES)
def test_preference(said: str | None, preference: str | None) -> None:
    assert read_preference(said) == preference


def test_filters_say_unread_where_nothing_can_be_read() -> None:
    ratings: list[list[str | None]] = [["Rating: 3"], ["no"], [None]]
    assert JudgeRating().apply(ratings, [{}] * 3) == [["3"], ["unread"], ["unread"]]
    preferences: list[list[str | None]] = [["Preference: B"], ["Preference: tie"], ["no"], [None]]
    assert JudgePreference().apply(preferences, [{}] * 4) == [["B"], ["tie"], ["unread"], ["unread"]]


@example(1, "A", "SCORE")  # a heading of the same name
@given(st.sampled_from([1, 2, 3, 4]), st.sampled_from(["A", "B", "tie"]), st.text())
def test_the_last_line_as_asked_for_counts_whatever_came_before(rating: int, preference: str, before: str) -> None:
    clean = re.sub(r"[<◁\[].*|\n[^\n]*:|scale", "", before, flags=re.DOTALL)  # no block or turn of a template
    assert read_rating(f"{clean}\nRating: {rating}") == rating
    assert read_preference(f"{clean}\nPreference: {preference}") == preference
