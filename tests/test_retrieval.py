"""BM25: what it finds, in parts or whole, the same on every processor; its index; and the command `retrieve`."""

from __future__ import annotations

import csv
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from lm_eval_tasks.clapnq import corpus as corpora
from lm_eval_tasks.clapnq.corpus import Corpus, Passage
from lm_eval_tasks.clapnq.retrieval import RETRIEVERS, Question, Ranking, bm25, open_retriever
from lm_eval_tasks.clapnq.retrieval.bm25 import BM25, split_passage
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.retrieve import published_row, retrieve
from tests.conftest import command, run
from tests.miniature import MINIATURE

ROWS = [
    ("p1", 'The "moon" pulls the water of the sea.', "Tides"),
    ("p2", "Bread is made of flour and water.", "Bread"),
    ("p3", "A violin has four strings.", "Violin"),
    ("p4", "Éclairs are filled with cream.", "Éclair"),
]


@pytest.fixture
def tsv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    return write_corpus(tmp_path / "passages.tsv", ROWS)


def write_corpus(path: Path, rows: Sequence[tuple[str, str, str]]) -> Path:
    """Passages (id, text, title) as the public file has them."""
    path.write_text("id\ttext\ttitle\n" + "".join("\t".join(map(quoted, row)) + "\n" for row in rows), "utf-8")
    return path


def quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if '"' in field else field


def asked(*texts: str) -> list[Question]:
    return [Question(f"q{number}", text) for number, text in enumerate(texts, 1)]


def ids(ranking: Ranking) -> list[str]:
    return [passage for passage, _ in ranking]


def test_a_corpus_is_a_table_of_passages(tsv: Path) -> None:
    corpus = Corpus.open(tsv)
    assert len(corpus) == 4
    assert corpus[0] == Passage("p1", "Tides", 'The "moon" pulls the water of the sea.')
    assert corpus.passage("p3").title == "Violin"
    assert corpus.contents(1, 3) == ["Bread Bread is made of flour and water.", "Violin A violin has four strings."]
    bread = "Bread is made of flour and water."
    assert corpus.ids_of_texts([f"{bread} ", "nowhere"]) == {bread: "p2"}


def test_a_question_without_a_known_word_and_no_question_at_all_are_survived(tsv: Path) -> None:
    retriever = open_retriever("bm25", Corpus.open(tsv))
    assert [len(found) for found in retriever.search(asked("", "???", "zzz"), 2)] == [2, 2, 2]
    assert retriever.search([], 2) == []


def test_it_says_what_its_rankings_depend_on(tsv: Path) -> None:
    described = [open_retriever("bm25", Corpus.open(tsv), {"bm25_split": on}).describe() for on in (False, True)]
    assert [one.pop("split") for one in described] == [None, {"window": 512, "stride": 256}]
    assert described[0] == described[1]
    assert re.fullmatch(r"bm25s \d+\.\d+\.\d+", described[0].pop("library"))
    assert described[0] == {"retriever": "bm25", "k1": 1.5, "b": 0.75, "method": "lucene"}


def words(first: int, last: int) -> str:
    return " ".join(f"w{number}" for number in range(first, last + 1))


@pytest.mark.parametrize(
    ("length", "parts"),
    [
        *((0, [(1, 0)]), (512, [(1, 512)]), (513, [(1, 512), (257, 513)]), (768, [(1, 512), (257, 768)])),
        *((769, [(1, 512), (257, 768), (513, 769)]), (1025, [(1, 512), (257, 768), (513, 1024), (769, 1025)])),
    ],
)
def test_parts_are_of_512_words_each_256_on_and_keep_the_title(length: int, parts: list[tuple[int, int]]) -> None:
    assert split_passage(Passage("p", "The title", words(1, length))) == [
        f"The title {words(*places)}" for places in parts
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the " * 512, 1),  # a stop word counts
        ("the " * 513, 2),
        ("a I 7 - … " * 2000, 1),  # one letter is no word to BM25, and a sign is none at all
        ("don't " * 513, 2),  # "don" is one, "t" is none
        ("mot-clé " * 257, 2),  # 514 words
    ],
)
def test_a_word_is_what_bm25_counts(text: str, expected: int) -> None:
    assert len(split_passage(Passage("p", "", text))) == expected


def long_corpus(tmp_path: Path) -> Corpus:
    """p1 speaks of the violin at its very end, after 5,000 words; p2 and p3 in passing; p4 not at all."""
    rows = [
        ("p1", words(1, 5000) + " violin violin violin", "Long"),
        ("p2", "violin " + words(1, 60), "Short"),
        ("p3", "violin " + words(1, 90), "Middling"),
        ("p4", words(1, 40), "Other"),
    ]
    return Corpus.open(write_corpus(tmp_path / "long.tsv", rows))


def test_a_passage_has_the_score_of_its_best_part_among_all_parts(tsv: Path, tmp_path: Path) -> None:
    """As if every part were a passage of its own."""
    corpus, questions = long_corpus(tmp_path), asked("violin", "w300", "w4000 violin")
    parts = [
        (f"{passage.id}.{number}", part.removeprefix(f"{passage.title} "), passage.title)
        for passage in (corpus[row] for row in range(4))
        for number, part in enumerate(split_passage(passage))
    ]
    apart = BM25(Corpus.open(write_corpus(tmp_path / "parts.tsv", parts)))
    split = BM25(corpus, split=True).search(questions, 4)
    for found, of_parts in zip(split, apart.search(questions, len(parts)), strict=True):
        best: dict[str, float] = {}
        for part, score in of_parts:
            passage = part.split(".")[0]
            best[passage] = max(score, best.get(passage, 0.0))
        assert dict(found) == best


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_passage_stands_once_and_k_are_found_however_many_parts_one_has(tsv: Path, tmp_path: Path, k: int) -> None:
    """The 19 parts of p1 are the 19 best of all; the other passages stand behind it all the same."""
    rows = [("p1", "violin " * 5000, "Long"), *[(f"p{n}", f"violin {words(1, 30 * n)}", "") for n in (2, 3, 4)]]
    corpus = Corpus.open(write_corpus(tmp_path / "crowd.tsv", rows))
    assert len(split_passage(corpus[0])) == 19
    (found,) = BM25(corpus, split=True).search(asked("violin"), k)
    assert ids(found) == ["p1", "p2", "p3", "p4"][:k]
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_parts_are_off_unless_asked_for_and_have_an_index_of_their_own(tsv: Path, tmp_path: Path) -> None:
    corpus = long_corpus(tmp_path)
    for options, whole in (({}, True), ({"bm25_split": False}, True), ({"bm25_split": True}, False)):
        assert (open_retriever("bm25", corpus, options).search(asked("violin"), 1)[0][0][0] == "p2") is whole
    folders = [folder for folder in (tmp_path / "cache" / "bm25").iterdir() if folder.is_dir()]
    assert sorted((folder / "passage_of_part.npy").is_file() for folder in folders) == [False, True]


@pytest.mark.parametrize("split", [False, True])
def test_blocks_of_passages_rank_alike(tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: bool) -> None:
    corpus, questions = long_corpus(tmp_path), asked("violin w4000", "w17")
    whole = BM25(corpus, split).search(questions, 4)
    monkeypatch.setattr(bm25, "_BLOCK", 3)
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "another cache"))
    assert BM25(corpus, split).search(questions, 4) == whole


@pytest.mark.parametrize("split", [False, True])
def test_the_index_is_built_once_and_mapped_afterwards(tsv: Path, monkeypatch: pytest.MonkeyPatch, split: bool) -> None:
    before = BM25(Corpus.open(tsv), split).search(asked("water"), 4)

    def fail(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(bm25, "_build", fail)
    monkeypatch.setattr(corpora, "_write_table", fail)
    again = BM25(Corpus.open(tsv), split)
    assert again.search(asked("water"), 4) == before
    assert isinstance(again._index.scores["data"], np.memmap)


def test_another_content_gets_another_index(tsv: Path) -> None:
    first = Corpus.open(tsv)
    tsv.write_text(tsv.read_text("utf-8").replace("violin has four", "viola has four"), "utf-8")
    second = Corpus.open(tsv)
    assert first.key != second.key
    assert second.passage("p3").text == "A viola has four strings."
    assert open_retriever("bm25", second).search(asked("viola"), 1)[0][0][0] == "p3"


def search_in_a_process(tsv: str, cache: str) -> tuple[int, list[Ranking]]:
    os.environ["LM_EVAL_GROUNDED_CACHE"] = cache
    built = 0
    build = bm25._build

    def counting(corpus: Corpus, folder: Path, split: bool) -> None:
        nonlocal built
        built += 1
        build(corpus, folder, split)

    bm25._build = counting
    found = open_retriever("bm25", Corpus.open(Path(tsv))).search(asked("water", "violin"), 3)
    return built, found


@pytest.mark.slow("three processes that import the project anew")
def test_processes_that_start_together_share_one_index(tsv: Path, tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        results = pool.starmap(search_in_a_process, [(str(tsv), str(tmp_path / "cache"))] * 3)
    assert results[0][1] == results[1][1] == results[2][1]
    assert sum(built for built, _ in results) == 1
    assert len([p for p in (tmp_path / "cache" / "bm25").iterdir() if p.is_dir()]) == 1


METRICS = ["ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "recall@10"]
BM25_ON_THE_SAMPLE = """\
metric        bm25      95 % bounds   paper (178,891 passages)
ndcg@1        94.4     [72.7, 99.9]   18
ndcg@3        94.4     [72.7, 99.9]   30
ndcg@5        94.4     [72.7, 99.9]   35
ndcg@10       96.1    [75.1, 100.0]   40
recall@10    100.0    [81.5, 100.0]   67
over 18 answerable questions with a gold passage in the corpus, of 32 questions; 60 passages
"""
ROW = re.compile(r"(\S+) +([\d.]+) +(\[[\d.]+, [\d.]+\]|-)(?:   (\d+))?")


def read_table(printed: str) -> dict[str, tuple[str, str, str | None]]:
    """Metric to value, bounds and the paper's value as they are printed."""
    rows = [match.groups() for line in printed.splitlines() if (match := ROW.fullmatch(line))]
    return {metric: (value, bounds, theirs) for metric, value, bounds, theirs in rows}


RETRIEVE = ("retrieve", "--mirror", MINIATURE)


@pytest.fixture
def retrieved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in an empty folder; its exit status, what it printed, and what it said of errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main([*RETRIEVE, *arguments])
        return status, *capsys.readouterr()

    return call


def test_the_command_prints_the_table_and_writes_a_run_that_gives_the_same(
    retrieved: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    first = run([command("lm-eval-grounded"), *RETRIEVE, "--retriever", "bm25", "-o", "bm25.run"], tmp_path)
    assert first.stdout == BM25_ON_THE_SAMPLE + "bm25.run\n"
    lines = [line.split(" ") for line in (tmp_path / "bm25.run").read_text("utf-8").splitlines()]
    assert len(lines) == 32 * 10
    assert len({line[0] for line in lines}) == 32
    assert [int(line[3]) for line in lines] == list(range(1, 11)) * 32
    assert {(line[1], line[5]) for line in lines} == {("Q0", "bm25")}

    _, again, _ = retrieved("--retriever", "run", "--run", "bm25.run")
    ours, theirs = read_table(first.stdout), read_table(again)
    assert list(ours) == list(theirs) == METRICS
    assert {metric: row[:2] for metric, row in theirs.items()} == {metric: row[:2] for metric, row in ours.items()}
    assert [row[2] for row in theirs.values()] == [None] * 5
    assert "paper" not in again


@pytest.mark.parametrize(
    ("arguments", "beside"),
    [
        (["--retriever", "bm25", "--split", "dev"], ["18", "30", "35", "40", "67"]),
        (["--retriever", "bm25", "--bm25-split"], ["18", "30", "35", "40", "67"]),
        (["--retriever", "bm25", "--split", "train"], [None] * 5),
    ],
)
def test_the_papers_column_stands_beside_dev_only(
    retrieved: Callable[..., tuple[int, str, str]], arguments: list[str], beside: list[str | None], tmp_path: Path
) -> None:
    _, printed, _ = retrieved(*arguments)
    assert [theirs for _, _, theirs in read_table(printed).values()] == beside
    assert ("paper" in printed) is (beside[0] is not None)
    assert list(tmp_path.iterdir()) == []  # without -o nothing is written here


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--retriever bm25 -k 0", "lm-eval-grounded: retrieve: k must be a whole number of at least 1, got 0"),
        ("--retriever bm25 -k 61", "lm-eval-grounded: retrieve: k=61 is larger than the corpus (60 passages)"),
        ("--retriever bm25 --split test", "retrieve: unknown split 'test'; known are dev, train, validation"),
        ("--retriever bm25 --encoder some/model", "retrieve: option encoder is for dense, not for bm25"),
        ("--retriever hybrid", "retriever 'hybrid': it is gone; fuse the rankings yourself, and name the run file"),
        ("--retriever run", "clapnq: retriever run needs a TREC run file: run=FILE"),
        ("--retriever dense", "clapnq: retriever dense needs a model: encoder=OWNER/NAME (or a folder)"),
        ("--retriever run --run nowhere.run", "no such run file (run=FILE)"),
        ("--retriever run --run other.run", "other.run: 1 of 1 passages are not in the corpus, such as 'x1'"),
        ("--retriever run --run other_questions.run", "other_questions.run: none of the 32 questions is in it; it has 'x'"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_said_in_one_line(
    retrieved: Callable[..., tuple[int, str, str]], arguments: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "other.run").write_text("1001 Q0 x1 1 2.5 other\n", "utf-8")
    (tmp_path / "other_questions.run").write_text("x Q0 p001 1 2.5 other\n", "utf-8")
    status, printed, said = retrieved(*arguments.split(), "-o", "out.run")
    assert (status, printed) == (2, "")
    (line,) = [line for line in said.splitlines() if "INFO" not in line]
    assert line.startswith("lm-eval-grounded: ")
    assert message in line
    assert not (tmp_path / "out.run").exists()


def test_bm25_wakes_neither_torch_nor_transformers(tmp_path: Path) -> None:
    code = (
        "import sys; from lm_eval_tasks.cli import main; status = main(sys.argv[1:]);"
        "print(status, sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = run([sys.executable, "-c", code, *RETRIEVE, "--retriever", "bm25"], tmp_path)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_the_papers_figures_are_those_of_its_table_4(shared: Path) -> None:
    path = shared / "reference" / "published" / "clapnq_table4_retrieval.csv"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    paper = {row["retriever"]: row for row in csv.DictReader(path.read_text("utf-8").splitlines())}
    names = {"bm25": "BM25", "minilm": "all-MiniLM-L6-v2", "bge": "BGE-base", "e5": "E5-base-v2"}
    assert {name: published_row(name) for name in names} == {
        name: {metric: int(paper[theirs][f"dev_{metric}"]) / 100 for metric in METRICS}
        for name, theirs in names.items()
    }
    assert [name for name in RETRIEVERS if published_row(name) is None] == ["dense", "run"]


@pytest.mark.one_python("figures of the public data")
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [0.7933, 0.8538, 0.8607, 0.8682, 0.9333]), ({"bm25_split": True}, [0.7933, 0.8555, 0.8609, 0.8685, 0.9333])],
)
def test_bm25_finds_the_gold_passages_of_the_mirror(hub: str, options: dict[str, bool], expected: list[float]) -> None:
    """To the four digits they are written with: BM25 adds up a few words a passage, the same way on every machine."""
    found = retrieve("bm25", "dev", 10, None, options, hub)
    assert (found.scored, found.questions, found.passages) == (300, 600, 5494)
    assert [found.figures[metric].value for metric in METRICS] == pytest.approx(expected, abs=5e-5)
    assert found.figures["ndcg@10"].value >= 0.86
    assert all(figure.low < figure.value < figure.high for figure in found.figures.values())


RANK = """
import hashlib, os, sys
if sys.argv[2] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from pathlib import Path
from lm_eval_tasks.commands.retrieve import retrieve
for split in (False, True):
    for k in (10, 20):
        found = retrieve("bm25", "dev", k, Path("run"), {"bm25_split": split} if split else {}, sys.argv[1])
        lines = [line for line in Path("run").read_text().splitlines() if int(line.split()[3]) <= 10]
        values = [round(found.figures[name].value, 4) for name in ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10")]
        print(split, k, hashlib.sha256("\\n".join(lines).encode()).hexdigest(), values)
"""


def vector_code() -> list[str]:
    """What to switch off of numpy: nothing, what needs 512 bits, everything that the processor could do without."""
    from numpy._core import _multiarray_umath as built

    there = [name for name in built.__cpu_dispatch__ if built.__cpu_features__.get(name)]
    wide = [name for name in there if name.startswith("AVX512") or name == "X86_V4"]
    return list(dict.fromkeys(["", " ".join(wide), " ".join(there)]))


def printed_of(mirror: str, disabled: str, threads: str, folder: Path) -> str:
    """What RANK prints in a process that lacks some of the processor's instructions, with one core or all."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("needs sched_setaffinity, to leave a process one core")
    folder.mkdir()
    environment = {"NPY_DISABLE_CPU_FEATURES": disabled} if disabled else {}
    code = [sys.executable, "-c", RANK, mirror, threads]
    return run(code, folder, LM_EVAL_GROUNDED_CACHE=str(folder), **environment).stdout


@pytest.mark.slow  # six processes that each build an index of 5,494 passages and rank them
def test_every_processor_and_number_of_threads_gives_the_same_files(hub: str, tmp_path: Path) -> None:
    """The first ten of each question, from an index built there: the same for k 10 and 20, and these four figures."""
    found = {
        printed_of(os.path.abspath(hub), disabled, threads, tmp_path / f"{number}-{threads}")
        for number, disabled in enumerate(vector_code())
        for threads in ("1", "2")
    }
    (printed,) = found
    rows = [line.split(maxsplit=3) for line in printed.splitlines()]
    whole, split = "[0.7933, 0.8538, 0.8607, 0.8682]", "[0.7933, 0.8555, 0.8609, 0.8685]"
    assert [row[3] for row in rows] == [whole, whole, split, split]
    assert rows[0][2] == rows[1][2]
    assert rows[2][2] == rows[3][2]
