"""Every parser of foreign text: what it is fed, which errors it may raise, and inputs that would slow a careless one."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from custom_metrics.abstention import affirms_presence, denies_presence, is_abstention
from custom_metrics.broken_run import Answered, Labels, is_repetitive, signs_of, warning
from custom_metrics.reading.no_answer import KINDS, no_answer, without_prompt
from custom_metrics.reading.response import final_answer
from custom_metrics.reading.tagged_text import parse, render, tag_counts
from custom_metrics.reading.words import words
from custom_metrics.relevance import ANSWER, INVALID, NO_ANSWER, nomiracl_label, robust_label
from custom_metrics.scores import judging
from custom_metrics.scores.judging import read_preference, read_rating, read_support
from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import calibration
from lm_eval_tasks.clapnq.retrieval.run import read_run
from lm_eval_tasks.data.samples import read_samples
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import check_readable, read_csv, read_json_lines, read_quoted_tsv, read_tsv
from lm_eval_tasks.detection.language_tags import code_of
from lm_eval_tasks.making import steps
from lm_eval_tasks.making.dataset import read_rows
from lm_eval_tasks.mfava.annotations import AnnotationReport, annotate
from lm_eval_tasks.models.replay import Replay
from tests.parsers import texts
from tests.parsers.data_files import DATA_FILES
from tests.parsers.parser import Parser, from_file, in_bytes, times


def _tagged_text(annotated: str) -> None:
    text, spans = parse(annotated)
    assert spans == sorted(spans)
    assert all(0 <= span.start < span.end <= len(text) and 0 <= span.probability <= 1 for span in spans)
    again, _ = parse(render(text, spans))
    assert again == text
    assert tag_counts(annotated).total() <= annotated.count("<")


def _annotations(both: tuple[str, str]) -> None:
    annotated, original = both
    spans = annotate(annotated, original, AnnotationReport())
    assert spans is None or all(0 <= span.start < span.end <= len(original) for span in spans)


def _making(reply: str) -> None:
    """A reply to every step."""
    of_answer = {"answer": "Die Katze ist Astronaut.", "spans": [{"start": 10, "end": 13, "category": "entity"}]}
    asked = {"question": "Was ist die Katze?", "reference": "Die Katze ist ein Tier.", "language": "de"}
    of_translation = {"part": "answer", "text": "The cat is <entity>red</entity>.", "source_language": "en"}
    for step in steps.STEPS:
        doc = {**of_answer, **asked, **of_translation, "categories": ["entity", "relation"], "step": step}
        rows, reasons = steps.parse_reply(reply, doc)
        assert rows or sum(reasons.values())
        for row in rows:
            text = row.get("text", row.get("answer", ""))
            assert all(0 <= start < end <= len(text) for start, end, _ in row.get("spans", ()))


def _articles(content: bytes) -> None:
    rows = from_file(content, "articles.jsonl", lambda path: list(read_rows(path, "de")))
    for row in rows:
        assert all(isinstance(row[name], str) for name in ("id", "language", "title", "reference", "answer"))
        assert all(0 <= span.start < span.end <= len(row["answer"]) for span in row["spans"])


def _final_answer(response: str) -> None:
    for text in (response, f"{response}x"):
        final = final_answer(text)
        assert isinstance(final, str)
        assert len(final) <= len(text)


def _labels(response: str) -> None:
    read = {nomiracl_label(response), robust_label(response, "de", "Wo ist Berlin?", ("Berlin: a city",))}
    read.add(robust_label("{" + response, "en"))
    assert read <= {ANSWER, NO_ANSWER, INVALID}


def _abstention(text: str) -> None:
    for language in ("de", None):
        read = (is_abstention(text, language), denies_presence(text, language), affirms_presence(text, language))
        assert all(isinstance(value, bool) for value in read)


def _no_answer(text: str) -> None:
    passages = ("Berlin: Berlin is a city.", "Paris: The capital.")
    assert no_answer(text, "Wo ist Berlin?", passages) in (None, *KINDS)
    assert len(without_prompt(text, "Wo ist Berlin?", passages)) <= len(text)
    assert isinstance(is_repetitive(text, "de"), bool)


def _broken_run(responses: list[Any]) -> None:
    for labels in (None, Labels(NO_ANSWER, INVALID)):
        answers = [Answered(response, "Wo ist Berlin?", ("Berlin: a city",), "de", labels) for response in responses]
        signs = signs_of(answers)
        assert signs.total == len(responses) >= signs.invalid
        assert signs.kinds.total() <= signs.total
        warning("task", signs)


def _verdicts(text: str) -> None:
    for said in (f"1{text}x", f"Rating{text} x", text):
        rating = read_rating(said)
        assert rating in (None, 1, 2, 3, 4)
        assert read_preference(said) in (None, "A", "B", "tie")
        assert read_support(said) in (None, True, False)
    judged = judging.process_rating({"id": 1, "aspect": "faithfulness", "answer": text}, [str(rating or "unread")])
    assert judged["unread_rate"] == (1, int(rating is None), 1)


def _words(text: str) -> None:
    for language in ("de", "zh", "ja"):
        found = words(text, language)
        assert all(start < end for start, end in found)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))
        assert sum(end - start for start, end in found) == sum(not char.isspace() for char in text)


def _run_file(content: bytes) -> None:
    for ranking in from_file(content, "x.run", read_run).values():
        assert all(math.isfinite(score) for _, score in ranking)
        assert len({passage for passage, _ in ranking}) == len(ranking)


def _replay(content: bytes) -> None:
    name = "samples_nomiracl_de_2026-01-01T00-00-00.jsonl"
    answers = from_file(content, name, lambda path: Replay(str(path))).answers
    assert all(isinstance(answer.response, str) for stored in answers.values() for answer in stored)


def _samples(content: bytes) -> None:
    found = from_file(content, "samples_x_2026-01-01T00-00-00.jsonl", lambda path: list(read_samples(path)))
    assert len({sample["doc_id"] for sample in found}) == len(found)
    json.dumps(found, ensure_ascii=False).encode("utf-8")


def _calibration(content: bytes) -> None:
    calibration.load.cache_clear()
    calibration._LOADED.clear()
    loaded = from_file(content, "x.json", lambda path: calibration.load(str(path)))
    for language in loaded.languages:
        found = loaded.for_language(language)
        assert found is None or found.kind in calibration.KINDS
    loaded.to_json()


def _code(tag: str) -> None:
    code = code_of(tag)
    assert code
    assert code == code.lower()


def _tables(content: bytes) -> None:
    readers: list[tuple[str, Callable[[Path], Any]]] = [
        ("x.tsv", lambda path: list(read_tsv(path, 2))),
        ("x.tsv", lambda path: list(read_quoted_tsv(path, ("id", "text")))),
        ("x.csv", lambda path: list(read_csv(path))),
        ("x.jsonl", lambda path: list(read_json_lines(path))),
        *((f"x.{kind}", check_readable) for kind in ("tsv", "csv", "json", "jsonl", "txt", "txt.gz")),
    ]
    for name, read in readers:
        with contextlib.suppress(CorruptSource):
            from_file(content, name, read)


_stored = texts.like(
    {
        **{"query_id": st.sampled_from(["q1", "q2", 3]), "id": st.sampled_from(["q1", 2]), "response": texts.anything},
        **{"results": {"m": texts.anything, "n": texts.anything}, "template": st.sampled_from(["vanilla", "role"])},
        **{"task": "nomiracl_de", "language": st.sampled_from(["de", "xx"]), "subset": "relevant"},
        **{"model": st.sampled_from(["m", "n"]), "doc": {"id": st.sampled_from(["q1", 2]), "language": "de"}},
        "resps": [[texts.anything]],
    }
)
_sample = texts.like(
    {
        "doc_id": st.integers(-1, 3) | st.sampled_from(["1", "x", math.inf, math.nan]),
        "doc": {"id": "q1"},
        "resps": [[texts.anything, None]],
        "target": texts.anything,
    }
)
_measured = {
    **{"source": texts.anything, "precision": st.floats(), "recall": st.floats(), "models": ["m", "n"]},
    "documents": [st.lists(st.integers(-1, 9).map(str), min_size=4, max_size=4).map(" ".join)],
}
_calibrations = texts.like(
    {
        "format": 1,
        "detector": {"name": "lexical"},
        "note": texts.anything,
        "languages": {"de": {"real": _measured, "gold": _measured}, "zh": {"silver": _measured, "x": _measured}},
    }
).map(lambda value: json.dumps(value).encode())
_FIELDS = ["id", "text", "q1", "Q0", "p1", "p2", "1", "2", "3", "9.5", "-1e3", "nan", "inf", "1_0", "mine"]
_TREC = texts.table(_FIELDS, 6, " ") | st.lists(
    st.tuples(*(st.sampled_from(_FIELDS[2:]) for _ in range(6))).map(" ".join), max_size=5
).map(lambda rows: "\n".join(rows).encode())
_FILTERS = {"filters": lambda n: b'{"doc_id": 1, "doc": {}, "resps": [["a"]]}\n' * (n // 43)}
_IN = {"language": st.sampled_from(["de", "", None, 3])}
_TAG_PIECES = "de zh cmn Hans CH - _ x pt BR yue mul und art-lojban u-co-phonebk 1996".split()

PARSERS: dict[str, Parser] = {
    "tagged text": Parser(
        _tagged_text,
        texts.tagged,
        growing=times("<entity>¦</invented>¦<entity>a¦<¦< ¦<a ¦&amp;¦<entity a='¦&amp;lt;¦\n<mark>¦<a a=a a=a a=a "),
    ),
    "annotations": Parser(
        _annotations,
        st.tuples(texts.of([*texts.TAGS, *texts.REASONING, *texts.WRAPPING]), texts.of(["die Katze ", "Berlin"])),
        costly=True,
    ),
    "final answer": Parser(
        _final_answer,
        texts.answer,
        growing={
            **times("<think>¦</think>¦<|channel|>¦[INST]¦</s>¦< ¦[¦{¦```\n¦\n\n¦\n \n¦ ¦assistant\n¦\nQUESTION:"),
            **times('{"answer":¦\x1b[¦\x1b]a¦<|im_end|> ¦<|a¦<|a|> ¦<|im_start|>¦<|¦<pad> ¦<|channel>thought¦so ¦嗯'),
            **times("<details type=reasoning>¦assistantfinal¦&lt;think&gt;¦analysis assistant "),
        },
    ),
    "replies to make data": Parser(
        _making,
        texts.tagged | texts.answer,
        growing=times("Wo ist sie?\n¦<entity>¦<delete>¦<entity>a</entity> ¦Die Katze ist ¦1. - ¦?"),
        costly=True,
    ),
    "articles": Parser(
        _articles,
        texts.lines(
            texts.like(
                {"text": texts.answer, "id": texts.json_values, "answer": texts.answer, "spans": [texts.places], **_IN}
            )
        ),
        (UsageError, CorruptSource),
        {"rows": lambda n: b'{"text": "a"}\n' * (n // 14)},
    ),
    "labels": Parser(
        _labels,
        texts.answer,
        growing={
            **times("Yes, answer is present ¦I don't know¦[1]¦context 1 ¦[¦a¦if a¦QUESTION: ¦<div>¦i don't know if "),
            **times("a: ¦\"a\": ¦<a>¦\\boxed{¦1. no\n¦\\text{¦# a\n¦&#39;¦ n't¦(1) ¦not 'no idea' "),
        },
        costly=True,
    ),
    "abstention": Parser(
        _abstention,
        texts.answer,
        growing=times(f"not ¦I do not know. ¦the context does not ¦{'a' * 50} ¦nicht, "),
        costly=True,
    ),
    "no answer": Parser(
        _no_answer,
        texts.answer,
        growing={
            **times(
                "the ¦ha¦a b ¦[1] a: ¦QUESTION: ¦<div>¦\\a{¦&a;¦#¦def f\n¦ ¦\n¦ф ¦x1 ¦Wo ist Berlin? ¦a¦<¦<a ¦[¦\\¦&a"
            ),
            **times("[11] ¦assistant\n¦def f(¦x = (¦Read the contexts carefully.¦* "),
        },
    ),
    "broken run": Parser(_broken_run, st.lists(texts.answer | texts.json_values, max_size=3), costly=True),
    "verdicts": Parser(
        _verdicts,
        texts.verdict,
        growing={
            **times("Rating: ¦rating ¦> ¦\n¦ \n¦| ¦a ¦a a a ¦Rating: 3 ¦3\n¦Preference¦A¦{'¦***¦Rating (a "),
            **times('3¦\n>¦ ¦(¦*_`¦1 ¦1\t¦1 - ¦(1 to ¦from ¦on a scale of ¦\u2028¦.¦rating\t¦rating" ¦rating:[=¦B\n'),
            **times("rating 3 out of ¦Rating: 3 - ¦rating of the ¦preference ¦Preference: response ¦I prefer ¦neither"),
            **times("Verdict: supported "),
        },
    ),
    "words": Parser(
        _words, texts.of(["猫は東京にいる", "我不知道", "a" * 40]), growing=times("a¦a ¦我不知道¦哈"), costly=True
    ),
    "run file": Parser(
        _run_file,
        _TREC,
        (CorruptSource,),
        {
            what: lambda n, of=of: "".join(f"q{at % of} Q0 p{at} {at} {-at} me\n" for at in range(n // 20)).encode()
            for what, of in (("one question", 1), ("questions in turn", 99))
        },
    ),
    "replay file": Parser(
        _replay,
        texts.lines(_stored),
        (UsageError, CorruptSource),
        {
            "one document": lambda n: b'{"id": 1, "response": "a"}\n' * (n // 27),
            "brackets": lambda n: b'{"id": 1, "response": "a"}\n' + b"[" * n,
        },
    ),
    "samples file": Parser(_samples, texts.lines(_sample), (CorruptSource,), _FILTERS),
    "calibration file": Parser(
        _calibration,
        _calibrations | texts.cut(_calibrations),
        (calibration.CalibrationError,),
        {
            "documents": lambda n: json.dumps(
                {"format": 1, "detector": {}, "languages": {"de": {"real": {"documents": ["1 2 3 4"] * (n // 9)}}}}
            ).encode()
        },
    ),
    "language tags": Parser(_code, texts.of(_TAG_PIECES, 5), (UsageError,), times("de-¦a¦x-")),
    "tables": Parser(
        _tables,
        texts.table(_FIELDS, 2, "\t")
        | texts.table(_FIELDS, 2, ",")
        | texts.lines(texts.json_values)
        | st.binary(max_size=40),
        costly=True,
        growing=in_bytes(times('id\ttext\n¦"a\n¦,¦\t¦""¦[¦{"a": 1}\n')),
    ),
    **DATA_FILES,
}
