"""Mu-SHROOM in the harness: documents of answers, their contexts without marks, runs, and what goes wrong loudly."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from custom_metrics.filters import CopiedAnswer
from custom_metrics.reading.spans import HALLUCINATION, Span
from custom_metrics.reading.tagged_text import parse
from custom_metrics.scores.detection import count_words
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.models import detector as detector_model
from lm_eval_tasks.mushroom import dataset
from lm_eval_tasks.mushroom.dataset import LANGUAGES, REPOSITORY, hard_spans, plain_text, soft_labels
from tests.conftest import Harness, figures_of
from tests.growth import exponent
from tests.labelled_facts import write_lines
from tests.logged_runs import lines
from tests.miniature import MINIATURE, SAMPLE
from tests.test_character_labels import published_iou, published_rho

ROOT = f"github/{REPOSITORY}"
GERMAN = LANGUAGES["de"]


class Flags:
    """A detector that flags the same of every answer: (start, end, probability)."""

    name, version, licence = "flags", "1", "CC0"

    def __init__(self, *found: tuple[int, int, float]) -> None:
        self.found = found

    def detect(self, references: Sequence[str], answers: Sequence[str], *_: Any, **__: Any) -> list[list[Span]]:
        return [[Span(a, min(b, len(of)), HALLUCINATION, p) for a, b, p in self.found if a < len(of)] for of in answers]


def documents(language: str, **options: Any) -> list[dict[str, Any]]:
    return list(dataset.load(language, **options)["evaluation"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sample_has_answers_of_every_language(language: str) -> None:
    found = documents(language, **SAMPLE)
    splits = LANGUAGES[language].splits
    ids = [f"tst-{language}-1", f"val-{language}-1", f"tst-{language}-2"]  # in turns, for --limit
    assert [row["id"] for row in found] == (ids if len(splits) == 2 else ids[::2])
    for row in found:
        assert row["url"].startswith(f"https://{language}.wikipedia.org/wiki/")
        assert "%" not in row["url"]
        assert not set("[]*#") & set(row["reference"])
        assert parse(row["target"]) == (row["answer"], [Span(s["start"], s["end"]) for s in row["spans"]])
        assert [s for s in row["soft_labels"] if s["prob"] > 0.5] == [
            {"start": s["start"], "end": s["end"], "prob": pytest.approx(p)}
            for s, p in zip(row["spans"], (1.0, 2 / 3), strict=False)
        ]
    assert [len(row["spans"]) for row in found] == ([2, 1, 0] if len(splits) == 2 else [2, 0])


COUNTS = [
    # language, answers, models, share of hallucinated words
    ("ar", 200, 3, 0.430),
    ("ca", 100, 3, 0.267),
    ("cs", 100, 2, 0.306),
    ("de", 200, 3, 0.474),
    ("en", 204, 3, 0.330),
    ("es", 202, 3, 0.158),
    ("eu", 99, 2, 0.473),
    ("fa", 100, 6, 0.230),
    ("fi", 200, 2, 0.536),
    ("it", 200, 4, 0.473),
]


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(("language", "answers", "models", "share"), COUNTS)
def test_real_answers_have_their_contexts(hub: str, language: str, answers: int, models: int, share: float) -> None:
    found = documents(language, mirror=hub)
    assert len(found) == len({row["id"] for row in found}) == answers
    assert len({row["model"] for row in found}) == models
    spans = ([Span(s["start"], s["end"]) for s in row["spans"]] for row in found)
    counts = [count_words(row["answer"], language, marked, []) for row, marked in zip(found, spans, strict=True)]
    words, hallucinated = sum(map(sum, counts)), sum(count.fn for count in counts)
    assert hallucinated / words == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "page"}, "the option reference is gone; every answer is judged by its published context"),
        ({"split": "validation"}, "no validation answers in Catalan are public, only test"),
        ({"spilt": "test"}, "'spilt' is not known; did you mean 'split'"),
    ],
)
def test_what_a_language_does_not_have_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^mushroom_ca: .*{message}"):
        dataset.load_task(task_language="ca", **options)


HARD = [
    # labels, spans in a text of 10 characters, counted
    ([], [], {}),
    ([[0, 3], [5, 10]], [(0, 3), (5, 10)], {}),
    ([[5, 10], [0, 3]], [(0, 3), (5, 10)], {}),
    ([[8, 14]], [(8, 10)], {"labels that reach beyond the answer, cut there": 1}),
    ([[12, 14], [-2, 1]], [(0, 1)], {"labels that reach beyond the answer, cut there": 2}),
    ([[3, 1], [4, 4]], [], {"labels that end where they start or before, left out": 2}),
    ([[10, 12], [-2, 0]], [], {"labels that reach beyond the answer, cut there": 2}),
    ([[3.0, 4.0], [0, 1]], [(0, 1), (3, 4)], {}),
    ([[0, 5], [3, 8]], [(0, 8)], {"answers with labels that overlap, made disjoint": 1}),
]


@pytest.mark.parametrize(("labels", "spans", "counted"), HARD)
def test_hard_labels_are_made_sound(labels: Any, spans: list[tuple[int, int]], counted: dict[str, int]) -> None:
    seen: Counter[str] = Counter()
    assert hard_spans(labels, 10, seen) == [Span(*span) for span in spans]
    assert seen == counted


SOFT = [
    ([(0, 3, 0.5), (3, 5, 1)], [(0, 3, 0.5), (3, 5, 1.0)], 0),
    ([(0, 30, 0.5)], [(0, 10, 0.5)], 1),
    ([(5, 2, 0.5)], [], 1),
    ([(9, 11, 0), (10, 12, 1)], [(9, 10, 0.0)], 2),
    ([(0, 6, 0.5), (2, 4, 1.0)], [(0, 2, 0.5), (2, 4, 1.0), (4, 6, 0.5)], 1),  # the last one holds, as in the scorer
    ([(2, 4, 1.0), (0, 6, 0.5)], [(0, 6, 0.5)], 1),
]


@pytest.mark.parametrize(("labels", "expected", "repaired"), SOFT)
def test_soft_labels_are_made_sound(labels: Any, expected: Any, repaired: int) -> None:
    seen: Counter[str] = Counter()
    got = soft_labels([{"start": a, "end": b, "prob": p} for a, b, p in labels], 10, seen)
    assert [(label["start"], label["end"], label["prob"]) for label in got] == expected
    assert seen.total() == repaired


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror of the German sample, to be damaged."""
    for split in ("test", "validation"):
        folder, answers = Path("github", dataset.CONTEXTS, GERMAN.contexts_folder(split)), GERMAN.answers_file(split)
        shutil.copytree(Path(MINIATURE, folder), tmp_path / folder)
        (tmp_path / ROOT / answers).parent.mkdir(parents=True)
        shutil.copyfile(Path(MINIATURE, ROOT, answers), tmp_path / ROOT / answers)
    return tmp_path


def rewritten(mirror: Path, **changes: Any) -> Path:
    """The test answers with other values in the second row; ``None`` takes a column away."""
    path = mirror / ROOT / GERMAN.answers_file("test")
    rows = lines(path)
    rows[1] = {key: value for key, value in {**rows[1], **changes}.items() if value is not None}
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")  # surrogates, too
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_output_text": None}, "'model_output_text' is NoneType, not a text"),
        ({"model_input": ["x"]}, "'model_input' is list, not a text"),
        ({"wikipedia_url": 7}, "'wikipedia_url' is int, not a text"),
        ({"hard_labels": None}, "'NoneType' object is not iterable"),
        ({"hard_labels": [["a", 3]]}, "a label starts or ends at 'a', which is no place"),
        ({"hard_labels": [[0.5, 3]]}, "a label starts or ends at 0.5"),
        ({"hard_labels": [[0, math.nan]]}, "a label starts or ends at nan"),
        ({"soft_labels": [{"start": 0, "end": 3}]}, "KeyError..prob"),
        ({"soft_labels": [{"start": 0, "end": 3, "prob": 1.5}]}, "a soft label's prob is 1.5, no number from 0 to 1"),
        ({"soft_labels": [{"start": 0, "end": 3, "prob": True}]}, "a soft label's prob is True"),
    ],
)
def test_a_row_that_is_none_is_an_error_with_file_and_line(mirror: Path, changes: Any, message: str) -> None:
    path = rewritten(mirror, **changes)
    with pytest.raises(CorruptSource, match=rf"{path.name}, line 2: no annotated answer of Mu-SHROOM: .*{message}"):
        documents("de", mirror=str(mirror))


@pytest.mark.parametrize(
    ("changes", "kept", "said"),
    [
        ({"model_output_text": ""}, 2, "answers left out, empty or only white space: 1"),
        ({"model_output_text": " \n\u00a0 "}, 2, "answers left out, empty or only white space: 1"),
        ({"wikipedia_url": None}, 3, "(nothing is left out)"),
        ({"id": "tst-de-9"}, 2, "whose context is not there: 1"),
        ({"hard_labels": [[0, 999], [5, 3]]}, 3, "labels that reach beyond the answer, cut there: 1, labels that end"),
        ({"soft_labels": [{"start": 0, "end": 4, "prob": 1}] * 2}, 3, "labels that overlap, made disjoint: 1"),
        ({"model_id": None}, 3, "3 answers of split both, with contexts"),
        ({"model_output_text": "halb \ud83d"}, 3, "3 answers of split both, with contexts"),
    ],
)
def test_what_can_be_left_out_or_repaired_is_counted_and_said(
    mirror: Path, caplog: pytest.LogCaptureFixture, changes: Any, kept: int, said: str
) -> None:
    rewritten(mirror, **changes)
    with caplog.at_level(logging.INFO):
        assert len(documents("de", mirror=str(mirror))) == kept
    assert said in caplog.text


CONTEXTS = Path("github", dataset.CONTEXTS, LANGUAGES["ca"].contexts_folder("test"))
CUT = "contexts left out, cut: they are not the published ones, and end within a sentence: 1"


@pytest.mark.parametrize(
    ("name", "content", "kept", "said"),
    [
        ("tst-ca-2", None, 1, "answers left out, whose context is not there: 1"),
        ("tst-ca-2", b"", 1, "contexts left out, empty or only white space: 1"),
        ("tst-ca-2", b"\n## [1]\n", 1, "contexts left out, empty or only white space: 1"),
        ("tst-ca-2", "El Danubi és el segon riu més".encode(), 1, CUT),
        ("tst-ca-2", "El Danubi é".encode()[:-1], 1, "contexts left out, cut or no UTF-8 text: 1"),
        ("tst-ca-3", b"x.", 2, "contexts of no annotated answer, not used: 1"),
        ("tst-ca-2", "\ufeffEl Danubi.[1]".encode(), 2, "2 answers of split both, with contexts"),
    ],
)
def test_contexts_that_cannot_be_used_are_counted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: bytes | None, kept: int, said: str
) -> None:
    for place in (CONTEXTS, Path(ROOT, LANGUAGES["ca"].answers_file("test")).parent):
        shutil.copytree(Path(MINIATURE, place), tmp_path / place)
    path = tmp_path / CONTEXTS / f"{name}.context.txt"
    path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
    with caplog.at_level(logging.INFO):
        assert len(documents("ca", mirror=str(tmp_path))) == kept
    assert said in caplog.text
    shutil.rmtree(tmp_path / CONTEXTS)
    dataset._documents.cache_clear()
    with pytest.raises(MissingSource, match=r"--fetch 'nlp-ucsc/semeval-2025-task3/data/context/ca-tst.* --into"):
        documents("ca", mirror=str(tmp_path))


@pytest.mark.one_python("what the public data hold")
def test_versions_of_a_page_are_one_passage_in_every_language(hub: str) -> None:
    basque, catalan, german = ({row["passage"] for row in documents(code, mirror=hub)} for code in ("eu", "ca", "de"))
    assert [len(basque & german), len(catalan & german)] == [27, 51]
    assert dataset.subject("https://ca.wikipedia.org/wiki/Lluís_IX_(rei)") == "lluis ix"


def test_a_detector_is_measured_in_every_language(harness: Harness) -> None:
    got = harness(["mushroom"], "hallucination-detector", "detector=lexical", metadata=SAMPLE)
    assert {f"mushroom_{language}" for language in LANGUAGES} < got["results"].keys()
    for language in LANGUAGES:
        values = got["results"][f"mushroom_{language}"]
        for metric in ("iou", "rho"):
            figure = figures_of(got, f"mushroom_{language}")[metric]
            assert figure["value"] == values[f"{metric},tags"]
            assert figure["low"] is None or figure["low"] <= figure["value"] <= figure["high"] > figure["low"]
        assert (values["altered_rate,tags"], values["lost_rate,tags"]) == (0, 0)
    mean = sum(got["results"][f"mushroom_{language}"]["iou,tags"] for language in LANGUAGES) / 14
    assert got["groups"]["mushroom"]["iou,tags"] == pytest.approx(mean)


def test_what_people_marked_scores_one(harness: Harness, tmp_path: Path) -> None:
    """Through `replay`: a language model that tags as the annotators did."""
    rows = [{"id": row["id"], "response": f"<think>Hm.</think>{row['target']}"} for row in documents("zh", **SAMPLE)]
    whole = harness(["mushroom_zh"], "replay", f"path={write_lines(tmp_path / 'a.jsonl', rows)}", metadata=SAMPLE)
    got = whole["results"]["mushroom_zh"]
    for metric in ("iou", "precision", "recall", "f1"):
        assert got[f"{metric},tags"] == figures_of(whole, "mushroom_zh")[metric]["value"] == 1
    # One answer has marks of 1 and of 2/3, which hard labels do not tell apart.
    assert 0.9 < got["rho,tags"] < 1


@pytest.mark.parametrize("flagged", [[(0, 4, 0.25), (6, 12, 0.7)], [(0, 4, 1.0)]])
def test_a_detectors_probabilities_are_its_soft_labels(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, flagged: list[tuple[int, int, float]]
) -> None:
    """A detector without probabilities has 1 everywhere, and writes none."""
    monkeypatch.setattr(detector_model, "load_detector", lambda name, **_: Flags(*flagged))
    got = harness(["mushroom_de"], "hallucination-detector", "detector=flags", metadata=SAMPLE)
    for sample in got["samples"]["mushroom_de"]:
        doc = sample["doc"]
        tag = "<hallucination>" if len(flagged) == 1 else '<hallucination probability="0.25">'
        assert sample["resps"][0][0].startswith(tag)
        soft = [(label["start"], label["end"], label["prob"]) for label in doc["soft_labels"]]
        assert sample["rho"] == pytest.approx(published_rho(soft, flagged, len(doc["answer"])))
        hard = [(span["start"], span["end"]) for span in doc["spans"]]
        assert sample["iou"] == pytest.approx(published_iou(hard, [span[:2] for span in flagged]))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("{}<|im_end|>", "{}<|im_end|>"),  # it is the answer's own
        ("<think>Is it the Black Sea?</think>{}<|im_end|>", "{}<|im_end|>"),
        ("<|im_start|>assistant\n{}<|im_end|>\n<|im_start|>user\nThanks, and where does the Rhine end?", "{}"),
        ("<think>It flows into the Black Sea, which", "<think>It flows into the Black Sea, which"),
        (None, ""),
    ],
)
def test_what_belongs_to_the_answer_is_not_taken_for_debris(response: Any, expected: str) -> None:
    tagged = "Die Donau mündet ins <entity>Rote Meer</entity>."
    response = response and response.replace("{}", tagged)
    ((got,),) = CopiedAnswer().apply([[response]], [{"answer": "Die Donau mündet ins Rote Meer.<|im_end|>"}])
    assert got == expected.replace("{}", tagged)


MARKDOWN = [
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


@pytest.mark.parametrize(("markdown", "plain"), MARKDOWN)
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
