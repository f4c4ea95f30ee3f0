"""Files that hold data: public files as their loaders read them, runs, labelled answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from lm_eval_tasks.clapnq import dataset as clapnq
from lm_eval_tasks.clapnq.dataset import logged_questions
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.data.tables import read_tsv
from lm_eval_tasks.detection.labelled_answers import read_labelled_lines
from lm_eval_tasks.memerag import dataset as memerag
from lm_eval_tasks.mfava.dataset import read_articles
from lm_eval_tasks.mushroom import dataset as mushroom
from lm_eval_tasks.nomiracl import dataset as nomiracl
from lm_eval_tasks.runs import labels
from lm_eval_tasks.runs.finding import read_runs
from tests.parsers import texts
from tests.parsers.parser import Parser, from_file


def _labelled(content: bytes) -> None:
    for found in from_file(content, "own.jsonl", lambda path: read_labelled_lines(path, Counter())):
        assert found.answer.strip()
        assert found.language
        assert all(0 <= span.start <= span.end <= len(found.answer) for span in (*found.spans, *(found.soft or ())))


def _nomiracl(both: tuple[bytes, bytes, bytes]) -> None:
    topics, judged, corpus = both
    seen: Counter[str] = Counter()
    questions = {row[0]: row[1] for row in from_file(topics, "topics.tsv", lambda path: [*read_tsv(path, 2)])}
    passages = from_file(judged, "qrels.tsv", nomiracl._judged)
    assert all(len({*found}) == len(found) for found in passages.values())
    wanted = {docid for found in passages.values() for docid in found}
    known, total = from_file(corpus, "corpus.jsonl", lambda path: nomiracl._corpus(path, wanted))
    assert known.keys() <= wanted
    assert len(known) <= total
    for row in nomiracl._rows("de", "relevant", questions, passages, known, str, seen):
        assert len(row["passages"]) == len(row["docids"]) == 10


def _mfava(content: bytes) -> None:
    seen: Counter[str] = Counter()
    articles, total = from_file(content, "queries.csv", lambda path: read_articles(path, seen))
    left_out = sum(number for what, number in seen.items() if what.startswith("articles left out"))
    assert len(articles) + left_out == total
    assert all(article["reference"].strip() and article["queries"] for article in articles)


def _mushroom(content: bytes) -> None:
    seen: Counter[str] = Counter()
    contexts = {"val-de-1": "text"}
    rows = from_file(content, "val.jsonl", lambda path: mushroom._answers(path, "de", "val", contexts, seen))
    for row in rows:
        assert all(0 <= span["start"] < span["end"] <= len(row["answer"]) for span in row["spans"])
        json.dumps(row, ensure_ascii=False).encode("utf-8")


def _memerag(content: bytes) -> None:
    for row in from_file(content, "de.jsonl", lambda path: [*memerag.judged_answers(path, Counter())]):
        places = [place for span, _ in row.sentences for place in span[:2]]
        assert places == sorted(places)
        assert places[-1] == len(row.answer)
        assert all(row.answer[span.start : span.end].strip() for span, _ in row.sentences)


def _clapnq(content: bytes) -> None:
    def read(path: Path) -> Any:
        with patch.object(clapnq.sources, "locate", return_value=path):
            return clapnq._read_annotations("dev", None, "answerable")

    rows = from_file(content, "clapnq_dev_answerable.jsonl", read)
    assert rows
    assert all(row["passages"] and all(row["answers"]) for row in rows)


def _logged(content: bytes) -> None:
    name = "samples_clapnq_rag_2026-01-01T00-00-00.jsonl"
    found = from_file(content, name, lambda path: logged_questions(str(path), "clapnq_rag", True, {}))
    assert len(found)


def _run(both: tuple[bytes, bytes]) -> None:
    """Results and samples of a run, as ``compare``, ``report`` and ``export`` find them."""
    results, samples = both
    date = "2026-01-01T00-00-00"
    from_file(samples, f"run/samples_nomiracl_de_{date}.jsonl", str)
    found = from_file(results, f"run/results_{date}.json", lambda path: read_runs([path.parent]))
    assert len(labels(found)) == len(found)
    for run in found:
        for task in run.tasks.values():
            assert isinstance(task.headline_filter, str)
            assert all(isinstance(figure, dict) for of in task.figures.values() for figure in of.values())
            assert isinstance(task.detector, dict)
            assert all(isinstance(reason, str) for reason in task.not_comparable)
            if task.samples is not None:
                answers = task.answers()
                assert len({answer.key for answer in answers}) <= len(answers)
        assert all(run.tasks.keys() >= {*members} for members in run.groups.values())
        assert all(isinstance(scores, dict) for scores in run.group_results.values())


_ids = ["q1", "q2", "p1", "p2", "0", "1", "2"]
_passage = {"title": texts.anything, "text": texts.anything}
_span_lists = [st.lists(texts.places, min_size=2, max_size=4)]
_labelled_answer = texts.like(
    {
        **dict.fromkeys(("question", "reference"), texts.anything),
        **{"answer": "Die Katze ist Astronaut.", "language": st.sampled_from(["de", "", "zh"])},
        **{"spans": [[4, 9, "entity"], *_span_lists], "soft": [[4, 9, 0.5], *_span_lists]},
        "annotations": st.sampled_from(["real", "gold", "silver", "x", None]),
    }
)
_article = texts.table(["Katze", "1. Wer?", "2) Wo?", "Die Katze.", " "], 4, ",").map(
    lambda rows: b"\xef\xbb\xbfArticle Title,Reference 1,Query 1,Query 2\n" + rows
)
_headers = texts.table(["title", "Reference", "reference_2", "query 1", "Query_2", "query"], 4, ",")
_mushroom_answer = texts.like(
    {
        **{"id": "a", "model_input": texts.anything, "model_output_text": "Die Katze."},
        **{"wikipedia_url": st.sampled_from(["u", "%75"])},
        "hard_labels": [st.lists(st.integers(-1, 12), min_size=2, max_size=2)],
        "soft_labels": [{"start": texts.places, "end": texts.places, "prob": st.floats(0, 1)}],
    }
)
_sentence = {"sentence": texts.anything, "factuality": st.sampled_from(["Supported", "Not Supported", "x", None])}
_judged = {"query_id": "a", "query": "Wer?", "context": [{"text": texts.anything}], "answer": [_sentence]}
_asked = {"id": "a", "input": texts.anything, "output": [{"answer": texts.anything}], "passages": [_passage]}
_ids_of = {"gold_ids": [texts.anything], "retrieved_ids": [texts.anything], "gold_ranks": [st.integers(1, 3)]}
_logged_doc = {
    **{"id": "a", "question": texts.anything, "answerable": st.booleans(), "answers": [texts.anything]},
    **{"passages": [{"id": "p", **_passage}], **_ids_of},
    "retriever": st.sampled_from(["{}", "[]", "null", "1", "[" * 5000, '{"name": "bm25"}']),
}
_logged_question = texts.like({"doc_id": st.integers(0, 3), "doc": _logged_doc, "resps": [["a"]], "filter": "none"})
_provenance = {
    **{"prompt": {"template_sha256": "a"}, "run": {"limit": 3}, "options": {"language": "de"}},
    **{"detector": {"name": "lexical"}, "not_comparable": ["a"]},
}
_config = {
    "metric_list": [{"metric": "m", "higher_is_better": st.booleans()}],
    "filter_list": [{"name": "strict"}, {"name": "robust"}],
    "generation_kwargs": {"until": ["a"]},
    "custom_dataset": "lm_eval_tasks.nomiracl.dataset",
    "metadata": {"figures": {"strict": {"m": {"value": 0.5}}}, "provenance": _provenance},
}
_results = texts.like(
    {
        "results": {"nomiracl_de": {"m,strict": 0.5}, "group": {"m,strict": 0.5}},
        "configs": {"nomiracl_de": _config, "other": _config},
        "config": {"model": "hf"},
        "n-samples": {"nomiracl_de": {"original": 3}},
        "n-shot": {"nomiracl_de": st.integers(0, 2)},
        "versions": {"nomiracl_de": 1},
        "groups": {"group": {"m,strict": 0.5}},
        "group_subtasks": {"group": ["nomiracl_de", "group", "other"]},
        "model_name": texts.anything,
    }
).map(lambda value: json.dumps(value).encode())
_sample = texts.like(
    {
        **{"doc_id": st.integers(0, 2), "doc": {"query_id": "q1", "subset": "relevant"}, "resps": [["a"]]},
        **{"filtered_resps": ["a"], "filter": st.sampled_from(["strict", "robust"]), "metrics": ["m"], "m": 0.5},
        "arguments": {"gen_args_0": {"arg_0": "Wer?"}},
    }
)


def _grown(line: str) -> Any:
    """A file of so many bytes: a line again and again; ``%d`` in it is a number that counts them."""
    return lambda n: "".join(line.replace("%d", str(at)) for at in range(n // len(line) + 1)).encode()


_in_corpus = texts.like({"docid": st.sampled_from(_ids), **_passage})
_EMPTY_RUN = b'{"results": {}, "configs": {}, "config": {}}'
_PASSAGE = '{"docid": "p%d", "title": "", "text": "a"}\n'
DATA_FILES: dict[str, Parser] = {
    "labelled answers": Parser(
        _labelled,
        texts.lines(_labelled_answer),
        (CorruptSource,),
        {"spans": lambda n: json.dumps(_whole("a" * 9, [[0, 3, "entity"]] * (n // 16))).encode()},
    ),
    "NoMIRACL": Parser(
        _nomiracl,
        st.tuples(texts.table(_ids, 2, "\t"), texts.table(_ids, 4, "\t"), texts.lines(_in_corpus)),
        (CorruptSource,),
        {"judgements": lambda n: (b"q\ta\n", _grown("q\t0\tp%d\t1\n")(n), _grown(_PASSAGE)(n))},
    ),
    "mFAVA's articles": Parser(
        _mfava,
        _article | _headers,
        (CorruptSource,),
        {"rows": lambda n: b"title,reference,query 1\n" + _grown("T,R,1. Wer?\n")(n)},
    ),
    "Mu-SHROOM's answers": Parser(
        _mushroom,
        texts.lines(_mushroom_answer),
        (CorruptSource,),
        {"nested labels": lambda n: json.dumps(_marked([[0, at % 10 + 1] for at in range(n // 40)])).encode() + b"\n"},
    ),
    "MEMERAG's answers": Parser(
        _memerag,
        texts.lines(texts.like(_judged)),
        (CorruptSource,),
        {
            "sentences": lambda n: (
                b'{"query_id": "a", "query": "", "context": [{"text": "a"}], "answer": ['
                + b", ".join([b'{"sentence": "b ", "factuality": "Supported"}'] * n)
                + b"]}\n"
            )
        },
    ),
    "CLAPnq's questions": Parser(_clapnq, texts.lines(texts.like(_asked)), (CorruptSource,)),
    "logged questions": Parser(_logged, texts.lines(_logged_question), (CorruptSource,), costly=True),
    "run": Parser(
        _run,
        st.tuples(_results, texts.lines(_sample)),
        (ValueError,),
        {"answers": lambda n: (_EMPTY_RUN, _grown('{"doc_id": %d, "doc": {}, "resps": [["a"]]}\n')(n))},
        costly=True,
    ),
}


def _whole(answer: str, spans: list[Any]) -> dict[str, Any]:
    return {"answer": answer, "reference": "a", "language": "de", "spans": spans}


def _marked(hard: list[list[int]]) -> dict[str, Any]:
    """An answer of Mu-SHROOM with labels that lie within each other."""
    soft = [{"start": start, "end": end, "prob": 0.5} for start, end in hard]
    answer = {"id": "a", "model_input": "Wer?", "model_output_text": "Die Katze.", "wikipedia_url": "u"}
    return {**answer, "hard_labels": hard, "soft_labels": soft}
