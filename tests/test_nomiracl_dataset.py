"""NoMIRACL: which questions, in which order, what the loader does with bad files, and what a model is asked."""

from __future__ import annotations

import gzip
import json
import logging
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lm_eval_tasks.data import provenance
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.harness import has_scorers
from lm_eval_tasks.nomiracl import dataset
from lm_eval_tasks.nomiracl.benchmark import PROMPTS, suffix
from lm_eval_tasks.nomiracl.dataset import cut_words, load
from tests.development.released_sample import RELEASED
from tests.miniature import MINIATURE

Files = dict[str, str]
Mirror = Callable[..., str]


def passage(docid: str, text: str = "Some text.") -> str:
    return json.dumps({"docid": docid, "title": "T", "text": text})


def judged(docids: list[str], query: str = "a#0", relevant: str = "") -> str:
    return "".join(f"{query}\tQ0\t{docid}\t{int(docid == relevant)}\n" for docid in docids)


IDS = [f"{n}#0" for n in range(1, 12)]
SKIPPED = "1 questions skipped, without exactly 10 passages"
BOTH_SKIPPED = "2 passages missing from the corpus; 2 questions skipped, without exactly 10 passages"


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    """Makes a mirror with one German question a subset; keyword arguments replace a file's content."""

    def make(**changed: str | bytes) -> str:
        files: dict[str, str | bytes] = {
            "topics_relevant": "a#0\tWhere?\n",
            "topics_non_relevant": "b-0\tWhen?\n",
            "qrels_relevant": judged(IDS[:10], relevant="3#0"),
            "qrels_non_relevant": judged(IDS[:10], "b-0"),
            "corpus": "\n".join(map(passage, IDS)),
            **changed,
        }
        folder = tmp_path / "mirror" / "miracl" / "nomiracl" / "data" / "german"
        for kind in ("topics", "qrels"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for subset in ("relevant", "non_relevant"):
                (folder / kind / f"test.{subset}.tsv").write_text(str(files[f"{kind}_{subset}"]), "utf-8")
        corpus = files["corpus"]
        data = corpus if isinstance(corpus, bytes) else gzip.compress(corpus.encode())
        (folder / "corpus.jsonl.gz").write_bytes(data)
        dataset._documents.cache_clear()
        return str(tmp_path / "mirror")

    return make


def test_a_question_has_ten_passages_the_relevant_first(mirror: Mirror) -> None:
    documents = load("de", mirror=mirror())["evaluation"]
    columns = ("query_id", "language", "subset", "query", "passages", "titles", "docids", "label")
    assert tuple(documents.column_names) == columns
    relevant, other = documents
    assert relevant["docids"] == ["3#0", *(d for d in IDS[:10] if d != "3#0")]
    assert relevant["passages"][0] == "T: Some text."
    assert (relevant["label"], other["label"]) == ("Yes, answer is present", "I don't know")
    assert [relevant["subset"], other["subset"]] == ["relevant", "non_relevant"]


@pytest.mark.parametrize(
    "changed",
    [
        {"corpus": "\n\n" + "\n".join(map(passage, IDS)) + "\n\n"},
        {"topics_relevant": "\na#0\tWhere?\n\n"},
        {"corpus": "\n".join(map(passage, [*IDS, "3#0"]))},
    ],
)
def test_blank_lines_and_repeated_rows_change_nothing(mirror: Mirror, changed: Files) -> None:
    assert (
        load("de", mirror=mirror(**changed))["evaluation"].to_list()
        == load("de", mirror=mirror())["evaluation"].to_list()
    )


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"corpus": "\n".join(map(passage, IDS[1:]))}, BOTH_SKIPPED),
        ({"qrels_relevant": judged(IDS[:9])}, SKIPPED),
        ({"qrels_relevant": judged(IDS)}, SKIPPED),
        ({"qrels_relevant": ""}, SKIPPED),
    ],
)
def test_questions_without_ten_passages_are_skipped_and_counted(
    mirror: Mirror, changed: Files, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    where = mirror(**changed)
    if reported == BOTH_SKIPPED:
        with pytest.raises(ValueError, match=r"has no document of nomiracl_de \(passages missing from the corpus"):
            load("de", mirror=where)
    else:
        assert [d["subset"] for d in load("de", mirror=where)["evaluation"]] == ["non_relevant"]
    assert f"nomiracl_de: {reported}" in [r.message for r in caplog.records]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"topics_relevant": "a#0 Where?\n"}, r"test\.relevant\.tsv, line 1: 1 of 2 columns in 'a#0 Where\?'"),
        ({"qrels_non_relevant": "b-0\tQ0\t1#0\n"}, r"test\.non_relevant\.tsv, line 1: 3 of 4 columns"),
        ({"qrels_relevant": "a#0\tQ0\t1#0\tyes\n"}, "relevance of 1#0 for a#0 is 'yes', neither 0 nor 1"),
        ({"corpus": ""}, r"corpus\.jsonl\.gz: the corpus is empty"),
        ({"corpus": "{broken"}, r"corpus\.jsonl\.gz, line 1: no JSON"),
        ({"corpus": "[1]"}, "line 1: expected a JSON object, found list"),
        (
            {"corpus": '{"docid": 1, "title": "T", "text": ""}'},
            "line 1: no passage: ValueError..'docid' is int, not a text",
        ),
        ({"corpus": gzip.compress("\n".join(map(passage, IDS)).encode())[:-20]}, "is cut or damaged after line"),
        ({"corpus": b"no gzip at all"}, "is cut or damaged after line 0"),
        ({"corpus": gzip.compress(b"\xff\xfe\xff\n")}, "is no UTF-8 text after line 0"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(mirror: Mirror, changed: Files, message: str) -> None:
    with pytest.raises(CorruptSource, match=message):
        load("de", mirror=mirror(**changed))


def test_the_default_is_the_papers_sample(hub: str) -> None:
    """One random.seed(42), random.sample over the ids in file order, relevant first, at most 250 of each."""
    data = Path(hub) / "miracl" / "nomiracl" / "data" / "german" / "topics"
    ids = {s: [line.split("\t")[0] for line in (data / f"test.{s}.tsv").open()] for s in ("relevant", "non_relevant")}
    random.seed(42)
    expected = {s: random.sample(ids[s], min(250, len(ids[s]))) for s in ("relevant", "non_relevant")}
    documents = load("de", mirror=hub)["evaluation"]
    sample = {s: [d["query_id"] for d in documents if d["subset"] == s] for s in expected}
    # 250 and 193 questions are here; those that are skipped have not ten passages in this cut of the data
    assert all([i for i in expected[s] if i in sample[s]] == sample[s] for s in expected)
    assert {s: len(found) for s, found in sample.items()} == {"relevant": 250, "non_relevant": 193}


def test_a_subset_alone_has_the_sample_it_has_with_the_other() -> None:
    both = load("de", mirror=MINIATURE, max_samples=2)["evaluation"]
    for subset in ("relevant", "non_relevant"):
        alone = load("de", mirror=MINIATURE, max_samples=2, subset=subset)["evaluation"]
        assert [d["query_id"] for d in alone] == [d["query_id"] for d in both if d["subset"] == subset]


def test_a_subset_without_questions_is_said_aloud(mirror: Mirror, caplog: pytest.LogCaptureFixture) -> None:
    assert load("de", mirror=mirror(topics_relevant=""))["evaluation"]["subset"] == ["non_relevant"]
    assert "nomiracl_de: no relevant question in split test; there will be no rates over them" in caplog.messages


def test_a_subset_alone_needs_no_file_of_the_other(mirror: Mirror) -> None:
    where = mirror()
    topics = Path(where) / "miracl" / "nomiracl" / "data" / "german" / "topics"
    kept = (topics / "test.relevant.tsv").rename(topics / "aside")
    assert len(load("de", mirror=where, subset="non_relevant", max_samples="all")["evaluation"]) == 1
    kept.rename(topics / "test.relevant.tsv")
    (topics / "test.non_relevant.tsv").unlink()  # what is drawn second changes nothing of what is drawn first
    assert load("de", mirror=where, subset="relevant", max_samples=5)["evaluation"]["subset"] == ["relevant"]


@pytest.mark.parametrize("large", ["relevant", "non_relevant"])
def test_a_sample_of_one_subset_is_not_comparable_under_another_seed(mirror: Mirror, large: str) -> None:
    where = mirror(**{f"topics_{large}": "a#0\tWhere?\nb-0\tWhen?\n"})
    for seed, reasons in ((7, ["another sample (seed 7, where the paper has 42)"]), (42, [])):
        documents = load("de", mirror=where, max_samples=1, seed=seed)["evaluation"]
        said = provenance.of_dataset(documents)["not_comparable"]
        assert said == ["max_samples 1, where the paper has 250 a subset", *reasons]


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("one two three", 2, "one two"),
        ("one  two\nthree ", 3, "one  two\nthree "),
        ("one  two\nthree four", 3, "one  two\nthree"),
        ("", 3, ""),
        ("没有空格的文字不会被切断", 1, "没有空格的文字不会被切断"),
    ],
)
def test_passages_are_cut_behind_a_number_of_words(text: str, limit: int, cut: str) -> None:
    assert cut_words(text, limit) == cut


@pytest.fixture
def words_and_marks(tmp_path: Path) -> str:
    """A tokenizer of words and marks, which puts a token in front of a text."""
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = ["[UNK]", "<s>", "Some", "text", ".", "The", "river", "Danube", "flows"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    core.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}', "utf-8")
    return str(folder)


def test_passages_are_cut_behind_tokens(words_and_marks: str, mirror: Mirror, caplog: pytest.LogCaptureFixture) -> None:
    cut = dataset._cutter(3, words_and_marks)
    texts = ["The river Danube flows.", "The  river  Danube", "The  river", ""]
    assert [cut(text) for text in texts] == ["The river Danube", "The  river  Danube", "The  river", ""]
    where = mirror()
    with caplog.at_level(logging.INFO):
        options = {"max_passage_tokens": 2, "passage_tokenizer": words_and_marks}
        documents = load("de", mirror=where, **options)["evaluation"]
    assert documents["passages"][0][0] == "T: Some text"  # the mark is a third token
    assert f"passages cut at 2 tokens of {words_and_marks} of {where}" in caplog.text


DOC = {"query": "Who?", "passages": [f"T{i}: text {i}" for i in range(1, 11)]}
CONTEXTS = "\n\n".join(f"[{i}] T{i}: text {i}" for i in range(1, 11))
GIVEN = "I will give you a question and several contexts containing information about the question."
READ = "Read the contexts carefully."
EITHER = 'If any of the contexts answers the question, respond as either "Yes, answer is present" or "I don\'t know".'

EXPECTED = {
    "vanilla": f"{GIVEN} {READ} {EITHER}\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\nOUTPUT:\n",
    "role": (
        "You are an evaluator checking whether the question contains the answer within the contexts or not. "
        f"{GIVEN} {READ} {EITHER} Do not add any other information in your output."
        f"\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\nOUTPUT:\n"
    ),
    "repeat": (
        f"{GIVEN} {READ} {EITHER}\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\n"
        "Remember to read the contexts carefully. If any of the contexts answers the question: Who?, respond as either "
        '"Yes, answer is present" or "I don\'t know".\n\nOUTPUT:\n'
    ),
    "explanation": (
        f"{GIVEN} Read the contexts carefully and provide a step-by-step explanation for your answer. {EITHER} "
        "You must follow the output format with: ## Explanation:... "
        '## Answer: "Yes, answer is present" OR "I don\'t know"'
        f"\n\nQUESTION:\nWho?\n\nCONTEXTS:\n{CONTEXTS}\n\n"
    ),
}


def templates() -> Any:
    """The harness's function from a template and a document to a text."""
    place = "lm_eval.config.templates" if has_scorers() else "lm_eval.utils"
    return import_module(place).apply_template


def template(prompt: str) -> str:
    from lm_eval.tasks._yaml_loader import load_yaml

    import lm_eval_tasks.nomiracl

    folder = Path(lm_eval_tasks.nomiracl.__file__).parent
    config: dict[str, Any] = load_yaml(folder / prompt / f"nomiracl_de{suffix(prompt)}.yaml", resolve_func=False)
    return str(config["doc_to_text"])


@pytest.mark.parametrize("prompt", PROMPTS)
def test_each_prompt_has_its_published_text(prompt: str) -> None:
    apply_template = templates()

    assert apply_template(template(prompt), DOC) == EXPECTED[prompt]


# Prompts whose source the mirror does not hold to the letter: it wrote two spaces in a question as one (ar, en, yo), and
# its copy of a passage ends earlier than the one in the prompt (sw).
NOT_IN_THE_MIRROR = {"ar": 3, "en": 1, "sw": 17, "yo": 1}
COUNT = {"yo": 56}


@pytest.mark.parametrize(
    "language", [pytest.param(code, marks=pytest.mark.slow("all prompts") if code != "yo" else ()) for code in RELEASED]
)
@pytest.mark.one_python("the text of a template beside released prompts")
def test_vanilla_prompts_equal_all_released_ones(language: str, hub: str, shared: Path) -> None:
    apply_template = templates()

    documents = load(language, mirror=hub, max_samples="all")["evaluation"]
    built = {(d["subset"], d["query_id"]): apply_template(template("vanilla"), d) for d in documents}
    path = shared / "reference" / "nomiracl_prompts" / f"{language}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        released = [json.loads(line) for line in lines]
    assert len(released) == COUNT.get(language, 60)
    differing = [r for r in released if built[r["subset"], r["query_id"]] != r["prompt"]]
    assert len(differing) == NOT_IN_THE_MIRROR.get(language, 0)
    for r in differing:
        ours, theirs = split(built[r["subset"], r["query_id"]]), split(r["prompt"])
        assert ours[0].split() == theirs[0].split()
        assert len(ours) == len(theirs) == 11
        assert all(full.startswith(part) for part, full in zip(ours[1:], theirs[1:], strict=True))
        # and from upstream's own words the template makes upstream's prompt
        document = {"query": theirs[0], "passages": theirs[1:]}
        assert apply_template(template("vanilla"), document) == r["prompt"]


def split(prompt: str) -> list[str]:
    """The question and the ten passages of a vanilla prompt."""
    head, _, rest = prompt.removesuffix("\n\nOUTPUT:\n").partition("\n\nCONTEXTS:\n")
    parts = [head.split("QUESTION:\n")[1]]
    for number in range(1, 11):
        _, _, rest = rest.partition(f"[{number}] ")
        parts.append(rest.partition(f"\n\n[{number + 1}] ")[0] if number < 10 else rest)
    return parts


def test_a_passage_is_data_and_never_a_template() -> None:
    apply_template = templates()

    hostile = {"query": "{{ 7 * 7 }}", "passages": ["T: {% raw %}{{ config }}"] * 10}
    text = apply_template(template("vanilla"), hostile)
    assert "{{ 7 * 7 }}" in text
    assert "{% raw %}{{ config }}" in text
