"""What is no answer, and of which kind; both sides of each border, in several languages."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from custom_metrics.reading.no_answer import no_answer, without_prompt
from custom_metrics.reading.response import final_answer
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, read_label, robust_label
from lm_eval_tasks.nomiracl.dataset import LANGUAGES
from tests.conftest import loaded_tasks
from tests.development.released_sample import RELEASED, released_answers
from tests.miniature import MINIATURE

QUESTION = "Welche Stadt ist die Hauptstadt Deutschlands?"
PASSAGES = (
    "Berlin: Berlin ist die Hauptstadt und ein Land der Bundesrepublik Deutschland.",
    "Bonn: Bonn war bis 1990 Regierungssitz. Das Lied heißt Boom Boom Boom Boom.",
    *(f"Stadt {number}: Die Stadt {number} liegt in Deutschland." for number in range(3, 11)),
)
INSTRUCTION = (
    "I will give you a question and several contexts containing information about the question. Read the contexts "
    'carefully. If any of the contexts answers the question, respond as either "Yes, answer is present" or "I don\'t know".'
)

CASES = [
    # answers that look odd
    *((text, None) for text in ("Paris", "[3]", "東京", "H2O", "3.5 km/h", "x² + y² = z²")),
    *((text, None) for text in ("https://de.wikipedia.org/wiki/Berlin?x=1&y=2", "I", "**Berlin**")),
    *((text, None) for text in ("<answer>Berlin</answer>", "<Paris>", r"\boxed{Berlin}", "```\nBerlin\n```")),
    *((text, None) for text in ('{"capital": "Berlin"}', "New York, New York")),
    ("Boom Boom Boom Boom", None),  # a passage says so
    ("1111", None),
    ("Die Hauptstadt ist Berlin. der der der der der der der der der", None),
    ("Berlin ist die Hauptstadt.\n[11] Bonn: Bonn war Regierungssitz.", None),
    ("Question: Which city is the capital of Germany? Answer: Berlin", None),
    *((text, None) for text in (f"{QUESTION}\n\nBerlin", "OUTPUT:\nBerlin", "[1] Berlin ist die Hauptstadt.")),
    *((text, None) for text in ("assistant professor", "def ist eine Abkürzung im Sport.", "print (Zeitschrift)")),
    *((text, None) for text in ("y = sin(x)", "In Python: def answer(question):")),
    # nothing
    ("... !?", "empty"),
    ("🤷", "empty"),
    # the prompt
    (INSTRUCTION, "prompt"),
    (f"{INSTRUCTION}\n\nQUESTION:\n{QUESTION}\n\nCONTEXTS:\n[1] {PASSAGES[0]}\n\n[2] {PASSAGES[1]}", "prompt"),
    ("[11] Berlin: Berlin ist die Hauptstadt.", "prompt"),
    ("\n\n[11] München: München ist die Landeshauptstadt.\n\n[12] Köln: Köln liegt am Rhein.", "prompt"),
    (f"[1] {PASSAGES[0]}\n\n[2] {PASSAGES[1]}\n\n[3]", "prompt"),
    ("QUESTION:\nWer war Bismarck?\n\nCONTEXTS:\n[1] Otto von Bismarck: Er war Kanzler.", "prompt"),
    *((text, "prompt") for text in (QUESTION, f"{QUESTION}\n{QUESTION}\n{QUESTION}", QUESTION.removesuffix("?"))),
    *((text, None) for text in (f"{QUESTION.removesuffix('?')} ist Berlin.", "<html><body><p>Rom</p></body></html>")),
    ("1 1 1 1", None),
    *((text, "prompt") for text in ("Remember to read the contexts carefully.", "User: Wie alt ist er?")),
    ("[title]: Berlin [document]: Berlin ist die Hauptstadt", "prompt"),
    # loops
    *((text, "loop") for text in ("the the the the", "哈哈哈哈哈哈", "東京の東京の東京の東京の")),
    ("Die Antwort ist die Die Antwort ist die Die Antwort ist die Die Antwort ist die", "loop"),
    ("Es ist so. Es ist so. Es ist so. Es ist so.", "loop"),
    ("丹麦首都都都都都都都都都首都首都首都首都首都首都首都首都首都首都首都首都", "loop"),
    ("Laut Forbesbesbesbesbesbesbesbesbesbesbesbesbesbesbes", "loop"),
    ("Berlin. Berlin. Berlin. Berlin.", None),  # the line stands in a passage
    # markup, code, debris
    ("</div></div>", "markup"),
    (r"\begin{document}\end{document}", "markup"),
    ("def answer(question):\n    return 'Berlin'", "code"),
    ("```python\nimport os\nprint(os.getcwd())\n```", "code"),
    ("#include <stdio.h>\nint main() { return 0; }", "code"),
    *((text, "debris") for text in ("assistant\n\nassistant\n\nassistant", "im_end|>", "<extra_id_0>")),
    ("<0x0A><0x0A>", "debris"),
    ("\ufffd\ufffd\ufffd\ufffdx", "debris"),  # bytes that were no text
    # services that failed
    *((text, "failure") for text in ("Unable to generate response.", "[error]", "null", "429 Too Many Requests")),
    *((text, "failure") for text in ("HTTP 503: Service Unavailable", "502 Bad Gateway\nnginx")),
    ("openai.RateLimitError: Rate limit reached for requests", "failure"),
    ('{"error": {"code": 500, "message": "Internal server error"}}', "failure"),
    ("Sorry, something went wrong. Please try again later.", "failure"),
    ("Ein unerwarteter Fehler ist aufgetreten.", None),  # not in the table, which says what is read
    ("Es ist ein Fehler aufgetreten. Bitte versuchen Sie es später erneut.", "failure"),
    ("Une erreur s'est produite lors du traitement. Veuillez réessayer.", "failure"),
    ("申し訳ございません。エラーが発生しました。しばらくしてからもう一度お試しください。", "failure"),
    *((text, "failure") for text in ("系统繁忙，请稍后再试。", "حدث خطأ، يرجى المحاولة لاحقاً.")),
    ("Hitilafu imetokea. Tafadhali jaribu tena.", "failure"),
    ("404", None),
    ("An error occurred in the Hauptstadt.", None),  # goes on with a word of the question
    ("None", None),
]


@pytest.mark.parametrize(("text", "kind"), CASES)
def test_a_text_is_an_answer_or_of_one_kind(text: str, kind: str | None) -> None:
    assert no_answer(text, QUESTION, PASSAGES) == kind


def test_a_repeated_prompt_is_invalid_in_all_four_forms() -> None:
    names = ["nomiracl_de", "nomiracl_de_role", "nomiracl_de_repeat", "nomiracl_de_explanation"]
    for name, task in loaded_tasks(names, mirror=MINIATURE).items():
        for doc in list(task.eval_docs)[:6]:
            prompt = task.doc_to_text(doc)
            asked = ("de", doc["query"], doc["passages"])
            assert robust_label(prompt, *asked) == INVALID, name
            assert robust_label(prompt * 3, *asked) == INVALID, name
            # one that repeats the prompt and then answers has answered
            assert robust_label(prompt.removesuffix("OUTPUT:\n") + "OUTPUT:\nI don't know", *asked) == NO_ANSWER, name


@pytest.mark.one_python("counts released answers; the code reads the cases above")
@pytest.mark.slow("every released answer; a sample of 500 is in test_relevance.py")
def test_of_48631_released_answers_these_are_no_answer(shared: Path) -> None:
    """With the question where the public topics hold it. Every change of a label was looked at: nomiracl/README.md."""
    topics: dict[tuple[str, str], str] = {}
    for code in RELEASED:
        for path in (shared / "hub" / "miracl" / "nomiracl" / "data" / LANGUAGES[code] / "topics").glob("*.tsv"):
            for line in path.read_text("utf-8").splitlines():
                query_id, query, *_ = line.split("\t")
                topics[code, query_id] = query
    kinds: Counter[str] = Counter()
    labels: Counter[tuple[str, str]] = Counter()  # strict, and robust
    asked = 0
    for row in released_answers(shared):
        question = topics.get((row["language"], row["query_id"]))
        asked += question is not None
        labels[row["label"], label := robust_label(row["response"], row["language"], question)] += 1
        if label == INVALID:
            text = final_answer(row["response"])
            kind = no_answer(text, question) or no_answer(without_prompt(text, question))
            kinds[kind or ("broken off" if text.strip("\n .,") == "I" else "asks back")] += 1
    assert (labels.total(), asked) == (48_631, 41_591)
    # what is said plainly stays; the rest is "No, answer is present" and answers that repeat an instruction
    for label, kept in ((NO_ANSWER, 0.98), (ANSWER, 0.99)):
        assert labels[label, label] > kept * sum(n for (strict, _), n in labels.items() if strict == label)
    whole = {"asks back": 2984, "broken off": 130, "empty": 158, "failure": 33}
    assert kinds == {**whole, "prompt": 151, "loop": 80, "debris": 8}


@pytest.mark.xdist_group("phrase tables")  # one worker reads all of them
@pytest.mark.one_python("how good the tables are; the code reads the cases above")
def test_answers_that_people_labelled_stay_answers_in_37_languages() -> None:
    folder = Path(__file__).parent / "data" / "abstention"
    read = 0
    for path in sorted(path for part in ("examples", "tuning", "unseen") for path in (folder / part).glob("*.jsonl")):
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            label, reason, _ = read_label(row["text"], path.stem)
            if reason == "it only asks":
                continue
            read += 1
            assert label != INVALID, row["text"]
    assert read > 3_800


TWO_LETTERS = "aababbabaabbbabaaabbabababbbaaab"  # 32 letters in no order
EIGHT_PAIRS = "srerrrersersesreresreesesersrsres"  # 33 letters


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("12 34 " * 4, None),
        ("12 34 " * 8, "loop"),
        ("* - " * 8, "empty"),
        ("XXXXXX", "loop"),
        ("11111111111", None),
        ("111111111111", "loop"),
        (TWO_LETTERS, "loop"),
        (TWO_LETTERS[:-1], None),
        (EIGHT_PAIRS, None),  # a quarter of 32
        (f"{EIGHT_PAIRS}e", "loop"),
        (f"Paris. {TWO_LETTERS}", None),  # an answer stands before it
        ("kein Bild von hier rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("Kein Bild von hier. rot blau gold rot blau gold rot blau gold rot blau gold", None),
        ("Rot blau gold. rot blau gold rot blau gold rot blau gold rot blau gold", "loop"),
        ("rot blau gold. kein Bild" + " rot blau gold" * 5, "loop"),  # its first sentence is of the loop
        ("kein Bild von" + " rot blau gold" * 3, None),  # three copies
        ("kein Bild * - / * - / * - / * - /", None),  # marks alone go round
        # a text that is no answer
        ("well no no no no", None),  # five words are too few to say that most of them go round
        ("1234123412341", None),  # three copies and a digit
        ("1234123412341234", "loop"),
        ("." * 900 + "Berlin", None),  # nothing but marks in the 800 characters
        ("12" * 400 + "7", "loop"),  # 800 characters are read
        ("print(1)```Das ist ein ganzer Satz.", None),
        ("print(1)```Ein Satz.", "code"),  # two words are no sentence
        ("print(1)\nDas ist {kein} Satz.", "code"),
        ("print(1)\n1. Das ist kein Satz.", "code"),
        ("print(1)\nDas ist ein Satz.```", None),
        ("print(1)\nDas ist Plan X", "code"),
        ("print(1)\nI know it.", None),  # its first word has one letter
        ("\n \tdef f(x):", "code"),
        ("<b>&nbsp;</b>", "markup"),
        ("<0x0A>Ġ", "debris"),
        ("", "empty"),
    ],
)
def test_a_text_alone_is_of_a_kind_or_none(text: str, kind: str | None) -> None:
    assert no_answer(text) == kind


ASKED = "Was ist die Hauptstadt?"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Was ist die Hauptstadt? Berlin", "Berlin"),
        ("was ist die hauptstadt Berlin", "Berlin"),
        ("Was ist die Hauptstadtregion", "Was ist die Hauptstadtregion"),
        ("Was ist die Hauptstadt2 ist Berlin", "Was ist die Hauptstadt2 ist Berlin"),
        ("Was ist die Hauptstadt?", ""),
        (" Berlin", " Berlin"),  # the text itself
        ("QUESTION: Was ist die Hauptstadt?\nOUTPUT: Berlin", "Berlin"),
        ("CONTEXTS: [1] Berlin: eine Stadt", ""),
        ("CONTEXTS: [1] Berlin: eine Stadt OUTPUT: Berlin", "Berlin"),
        ("Was ist die Hauptstadt? CONTEXTS: [1] Eine Stadt", ""),  # also without the title
        ("OUTPUT: QUESTION: Wer ist das?", ""),  # it stands before the question
        ("[3] Berlin: eine Stadt", ""),  # two were given
        ("[2] Berlin: eine Stadt", "[2] Berlin: eine Stadt"),
        ("Berlin", "Berlin"),
        ("Yes, answer is present", "Yes, answer is present"),
    ],
)
def test_what_stands_behind_a_copied_prompt(text: str, left: str) -> None:
    assert without_prompt(text, ASKED, ["Berlin: eine Stadt", "Paris: eine Stadt"]) == left
