"""Contexts of Mu-SHROOM: citation marks and Markdown go, the text itself stays."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_eval_tasks.mushroom.dataset import plain_text
from tests.growth import exponent

CASES = [
    # citations
    ("Born in 1867[1][3]. She [2] won[10], too [4].", "Born in 1867. She won, too."),
    ("出生于华沙[1][3]。و[5]،", "出生于华沙。و،"),
    ("See [3](https://example.org/a_(b)?c=1).", "See."),
    ("[1] https://example.org", "https://example.org"),
    # what looks like one
    ("the interval [1,2], [0], [1920], [sic], [puʁaˈbɑ̃]", "the interval [1,2], [0], [1920], [sic], [puʁaˈbɑ̃]"),
    ("`a[1]` and \\(x[1]\\) and \\[\ny\\]", "a[1] and \\(x[1]\\) and \\[\ny\\]"),
    ("Costs $5 [1] or $$x[1]$$", "Costs $5 or $$x[1]$$"),
    ("```py\n# a comment\nx[1] = **y**\n```\n# End", "# a comment\nx[1] = **y**\nEnd"),
    # links, headings, emphasis
    ("[Curie](https://example.org/Curie) ![a picture](/a.png)", "Curie a picture"),
    ("f[x](y) and [text] (aside)", "f[x](y) and [text] (aside)"),
    ("## Leben ##\n\n### Preise[1]", "Leben\nPreise"),
    ("#1 and C# 9", "#1 and C# 9"),
    ("**Lengua:** *una* __dos__ _tres_ ***cuatro***", "Lengua: una dos tres cuatro"),
    ("在**2020年**的**AI**会议", "在2020年的AI会议"),
    ("2*3*4, 2**3**4, snake_case_name, x * y, *Alamanniz[2]", "2*3*4, 2**3**4, snake_case_name, x * y, *Alamanniz"),
    ("**a *b* _c_**", "a b c"),
    # lists
    ("1. eins\n2. zwei\n   - halb\n   * ganz\n3) drei", "eins\nzwei\nhalb\nganz\ndrei"),
    ("1. a\n\n   text\n\n2. b\n\n1. c\n2. d", "a\ntext\nb\nc\nd"),
    ("1276. urteak 366 egun izan zituen.", "1276. urteak 366 egun izan zituen."),
    ("8. července 1992\n9. července 1992", "8. července 1992\n9. července 1992"),
    ("1. května 1953 - Začátek\n25. února 1954 - Vysílání", "1. května 1953 - Začátek\n25. února 1954 - Vysílání"),
    ("-5 °C, 1.5 m\n3.14 is pi\n1.Wort", "-5 °C, 1.5 m\n3.14 is pi\n1.Wort"),
    # tables
    ("| Year | **Name** |\n|:-----|---:|\n| 1867 | Curie[1] |\n| | x |", "Year | Name\n1867 | Curie\nx"),
    ("|x| is at most |y|\n\n| a | b |", "|x| is at most |y|\n| a | b |"),
    ("", ""),
    (" \n\t\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("markdown", "plain"), CASES)
def test_marks_go_and_text_stays(markdown: str, plain: str) -> None:
    assert plain_text(markdown) == plain


marks = st.sampled_from([*"[1] [12] ** * __ ` |---| ``` \\[ \\] $$ ( ](".split(), "# ", "- ", "1. ", "2. ", "| ", "\n"])
markdowns = st.lists(st.one_of(marks, st.text(max_size=8)), max_size=30).map("".join)


@given(markdowns)
@example("[[1]2]")
def test_nothing_is_added_and_no_letter_is_lost(markdown: str) -> None:
    plain = plain_text(markdown)
    rest = iter(markdown.replace("\r\n", "\n"))
    assert all(character in rest for character in plain if not character.isspace() and character != "|")
    letters = [c for c in markdown if c.isalpha()]
    if "](" not in markdown and "```" not in markdown and "~~~" not in markdown:  # an address, a language of code
        assert [c for c in plain if c.isalpha()] == letters


@given(st.text(st.characters(exclude_characters="[]*_`#-+•.)|\\$~!", exclude_categories=["C", "Z"]), min_size=1))
def test_a_text_without_marks_is_its_own(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.one_python("how time grows")
@pytest.mark.parametrize(
    "body",
    [lambda n: "[1" * n, lambda n: "*a" * n, lambda n: "\\[ $$" * n, lambda n: "1. a\n" * n, lambda n: "](/" * n,
     lambda n: "- " * n, lambda n: "![a](/(" * n, lambda n: "|-" * n],
)  # fmt: skip
@pytest.mark.slow("texts that are long enough to take measurable time")
def test_a_context_is_read_in_linear_time(body: Callable[[int], str]) -> None:
    assert exponent(plain_text, lambda size: body(size // 4), 40_000) < 1.5


@pytest.mark.one_python("what the public data hold")
def test_the_published_contexts(hub: str) -> None:
    """All 1,605: no mark is left but the asterisks of a linguist, and no word is lost."""
    files = [*Path(hub, "github/nlp-ucsc/semeval-2025-task3/data/context").glob("*/*.context.txt")]
    assert len(files) == 1605
    for path in files:
        markdown = path.read_text("utf-8")
        plain = plain_text(markdown)
        assert re.findall(r"\[\d+\]|\*\*|\*(?!Al|al)|^#|^[-•] |^1\. (?!května|ledna)", plain, re.MULTILINE) == [], path
        assert re.findall(r"[^\W\d_]+", plain) == re.findall(r"[^\W\d_]+", markdown)
