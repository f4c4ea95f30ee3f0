"""MTRAG-UN: documents, conversations in prompts, metrics by kind of turn, questions back, and released answers."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.abstention import is_abstention
from custom_metrics.abstention.clarification import KEYS, asks_clarification
from custom_metrics.abstention.folding import fold
from custom_metrics.abstention.patterns import Matcher, PhraseReader
from custom_metrics.abstention.phrases import GAP, GAP_WITHOUT_SPACES, phrase_table
from custom_metrics.usage import shipped_yaml
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.clapnq.judge import load_ratings
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.harness.autoload import task_folder
from lm_eval_tasks.mtragun.benchmark import BENCHMARK
from lm_eval_tasks.mtragun.dataset import DOMAINS, FILE, KINDS, REPOSITORY, is_partial, load, process_results
from lm_eval_tasks.published import rows_for
from lm_eval_tasks.results.compare import compare_runs
from lm_eval_tasks.runs import read_runs
from tests.conftest import Harness, figures_of
from tests.labelled_facts import write_lines
from tests.logged_runs import in_this_process, lines
from tests.miniature import MINIATURE, MINIATURE_FOLDER, SAMPLE

TASKS_FILE = MINIATURE_FOLDER / "github" / REPOSITORY / FILE
LABELS = Path(__file__).parent / "data" / "mtragun" / "clarification.tsv"
SYSTEMS = {"gemini": "gemini-3-pro-preview-high_new_prompt", "llama": "llama3_3_70b_gemini_prompt"}
SYSTEMS["qwen"] = "qwen2_5_32b_taskB"


def documents(domain: str, mirror: str = MINIATURE) -> list[dict[str, Any]]:
    return list(load(domain, mirror=mirror)["evaluation"])


@pytest.mark.one_python("what the public data hold")
@pytest.mark.parametrize(
    ("domain", "numbers", "left_out"),
    [
        ("clapnq", (65, 22, 37, 18), {"passages left out, after the first ten": 32}),
        ("cloud", (81, 36, 9, 5), {}),
        ("fiqa", (51, 12, 7, 7), {}),
        ("govt", (88, 27, 25, 17), {"passages left out, after the first ten": 75}),
    ],
)
def test_the_public_conversations(hub: str, domain: str, numbers: tuple[int, ...], left_out: dict[str, int]) -> None:
    loaded = load(domain, mirror=hub)["evaluation"]
    record = json.loads(loaded.info.description)["provenance"]
    assert record["kept"] == dict(zip(KINDS, numbers, strict=True))
    assert record.get("left_out", {}) == left_out
    assert record["files"][0]["published"] is True
    public = {row["task_id"]: row for row in lines(Path(hub) / "github" / REPOSITORY / FILE)}
    for row in loaded:
        theirs = public[row["id"]]
        assert [turn["content"] for turn in row["conversation"]] == [turn["text"].strip() for turn in theirs["input"]]
        assert [turn["role"] for turn in row["conversation"]][-1] == "user"
        assert row["question"] == row["conversation"][-1]["content"]
        assert len(row["passages"]) == min(len(theirs["contexts"]), 10)
        for passage, context in zip(row["passages"], theirs["contexts"], strict=False):
            assert "".join((passage["title"] + passage["text"]).split()) == "".join(context["text"].split())
        assert row["passage"] == ""  # every conversation has one turn
    assert Counter(loaded["answerable"])[True] == numbers[0]


def test_a_conversation_with_several_turns_is_a_cluster(tmp_path: Path, harness: Harness) -> None:
    rows = [row for row in lines(TASKS_FILE) if row["Collection"] == "govt" and row["answerability"] == ["ANSWERABLE"]]
    (row,) = rows
    again = [{**row, "task_id": f"{row['task_id']}{n}", "conversation_id": f"c{n // 2}"} for n in range(4)]
    mirror = mirror_of(tmp_path, again)
    assert [row["passage"] for row in documents("govt", mirror)] == ["c0", "c0", "c1", "c1"]
    results = harness(["mtragun_govt"], "grounded-baseline", "strategy=abstain", metadata={"mirror": mirror})
    declined = figures_of(results, "mtragun_govt")["answerable_abstention_rate"]
    assert (declined["value"], declined["n"]) == (1.0, 4)
    assert declined["low"] == pytest.approx(0.025**0.5)  # Clopper and Pearson's of two, not of four


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answerability": ["MAYBE"]}, "unknown answerability 'MAYBE'"),
        ({"input": [{"speaker": "agent", "text": "Hello."}]}, "the last turn is not the user's"),
        ({"input": [{"speaker": "system", "text": "Hello."}]}, "KeyError"),
        ({"targets": []}, "IndexError"),
        ({"contexts": [{"text": "no id"}]}, "document_id"),
        ({"Collection": None}, "Collection"),
    ],
)
def test_a_line_that_is_no_task_is_an_error(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rows = lines(TASKS_FILE)
    mirror = mirror_of(tmp_path, [rows[0], {**rows[1], **change}])
    with pytest.raises(CorruptSource, match=rf"reference.jsonl, line 2: no task of MTRAG-UN: .*{message}"):
        documents(next(domain for domain in DOMAINS if DOMAINS[domain] == rows[1]["Collection"]), mirror)


def test_a_domain_without_a_conversation_is_an_error(tmp_path: Path) -> None:
    mirror = mirror_of(tmp_path, [row for row in lines(TASKS_FILE) if row["Collection"] == "fiqa"])
    with pytest.raises(CorruptSource, match="has no document of mtragun_cloud"):
        documents("cloud", mirror)
    with pytest.raises(UsageError, match="unknown domain 'telco'; known are clapnq, cloud, fiqa, govt"):
        load("telco", mirror=MINIATURE)


INSTRUCTION = (
    "Given one or more documents and a user question, generate a response to the question using less than 150 words that "
    'is grounded in the provided documents. If no answer can be found in the documents, say, "I do not have specific '
    'information". If a question is underspecified — e.g., it has multiple possible answers, a broad scope, or needs '
    "explanation — include that further clarification/information is needed from the user in your response."
)
PASSAGE = (
    "PASSAGE 1\nEiffel Tower\nThe tower is 330 metres tall, about as tall as a building of 81 storeys. Its base is square, "
    "125 metres on each side."
)
TURNS = ("Who designed the Eiffel Tower?", "The company of Gustave Eiffel designed and built it.", "How tall is it?")


@pytest.mark.parametrize("multiturn", [True, False])
def test_the_conversation_is_the_chat(harness: Harness, monkeypatch: pytest.MonkeyPatch, multiturn: bool) -> None:
    from lm_eval_tasks.models.baseline import GroundedBaseline

    monkeypatch.setattr(GroundedBaseline, "apply_chat_template", lambda self, turns, **_: json.dumps(turns))
    chat = {"apply_chat_template": True, "fewshot_as_multiturn": multiturn}
    turns = json.loads(prompts(harness, "mtragun_clapnq", **chat)[0])
    assert turns == [
        {"role": "system", "content": f"{INSTRUCTION}\n\n{PASSAGE}"},
        {"role": "user", "content": TURNS[0]},
        {"role": "assistant", "content": TURNS[1]},
        {"role": "user", "content": TURNS[2]},
    ]
    with_system = json.loads(prompts(harness, "mtragun_clapnq", system_instruction="Be brief.", **chat)[0])
    assert [turn["role"] for turn in with_system] == ["system", "user", "assistant", "user"]
    assert with_system[0]["content"].startswith("Be brief.")


def test_the_conversation_is_a_transcript(harness: Harness) -> None:
    first, unanswerable, *_ = prompts(harness, "mtragun_clapnq")
    transcript = f"User: {TURNS[0]}\nAgent: {TURNS[1]}\nUser: {TURNS[2]}\nAgent:"
    assert first == f"{INSTRUCTION}\n\n{PASSAGE}\n\n{transcript}"
    assert unanswerable.startswith(f"{INSTRUCTION}\n\nUser: Where is the Eiffel Tower?\nAgent: It stands")


def test_there_are_no_examples(harness: Harness, tmp_path: Path) -> None:
    """The harness leaves `--num_fewshot` aside where a YAML has 0, and ours refuses a YAML of one's own with more."""
    assert prompts(harness, "mtragun_clapnq", num_fewshot=2) == prompts(harness, "mtragun_clapnq")
    base = Path(task_folder()) / "mtragun" / "mtragun_clapnq.yaml"
    (tmp_path / "mine.yaml").write_text(f"include: {base}\ntask: mine\nnum_fewshot: 1\n", "utf-8")
    with pytest.raises(UsageError, match=r"^mine: num_fewshot 1: there are no examples; leave it out$"):
        prompts(harness, "mine", include_path=[str(tmp_path)])


def prompts(harness: Harness, task: str, **options: Any) -> list[str]:
    results = harness([task], "grounded-baseline", "strategy=abstain", metadata=SAMPLE, **options)
    return [sample["arguments"][0][0] for sample in results["samples"][task]]


ABSTAINS = "I do not have specific information."
ASKS = "Which park are you referring to?"
PARTIAL = "The Suez Canal opened on 17 November 1869. The documents do not say what it cost."


@pytest.mark.parametrize(
    ("kind", "answer", "expected"),
    [
        ("answerable", ABSTAINS, {"answerable_abstention_rate": 1.0, "answerable_clarification_rate": 0.0, "wrong": 1}),
        ("answerable", ASKS, {"answerable_abstention_rate": 0.0, "answerable_clarification_rate": 1.0, "wrong": 0}),
        ("unanswerable", ABSTAINS, {"unanswerable_accuracy": 1.0, "wrong": 0}),
        ("unanswerable", "It costs ten euros.", {"unanswerable_accuracy": 0.0, "wrong": 1}),
        ("underspecified", ASKS, {"clarification_rate": 1.0}),
        ("underspecified", ABSTAINS, {"clarification_rate": 0.0}),
        ("partial", PARTIAL, {"partial_answer_rate": 1.0}),
        ("partial", ABSTAINS, {"partial_answer_rate": 0.0}),
        ("partial", None, {"partial_answer_rate": 0.0}),
    ],
)
def test_what_counts_for_a_kind_of_turn(kind: str, answer: str | None, expected: dict[str, float]) -> None:
    (doc,) = (row for row in documents("govt") if row["kind"] == kind)
    values = {name: value for name, value in process_results(doc, [answer]).items() if value is not None}
    if kind == "answerable":
        quality = {name: values.pop(name) for name in ("rougeL", "recall", "rougeLp", "length")}
        assert quality["length"] == len(answer or "")
        assert ("k_precision" in values) is (answer != ABSTAINS)
        values.pop("k_precision", None)
    if "wrong" in expected:
        assert values.pop("balanced_error") == {"answerable": int(kind == "answerable"), "wrong": expected.pop("wrong")}
    assert values == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (PARTIAL, True),
        ("The passages do not give the price. It opened in 1869, after ten years.", True),
        ("It opened in 1869, after ten years.", False),
        ("I do not know. The documents do not say what it cost.", False),
        ("I do not know. Which canal are you referring to?", False),
        ("I do not know. Please specify which canal you mean.", False),
        ("", False),
    ],
)
def test_a_partial_answer_tells_something_and_says_what_is_missing(answer: str, expected: bool) -> None:
    assert is_partial(answer) is expected


def test_reference_responses_do_what_their_kind_asks_for(harness: Harness, tmp_path: Path) -> None:
    """Replayed by ``task_id``, compared, and rated by CLAPnq's judge with the conversation as the question."""
    rows = [row for domain in DOMAINS for row in documents(domain)]
    told = ({"task_id": row["id"], "response": row["target"]} for row in rows)
    answers = write_lines(tmp_path / "targets.jsonl", told)
    in_this_process(["mtragun"], "replay", f"path={answers}", tmp_path / "out")
    in_this_process(["mtragun"], "grounded-baseline", "strategy=abstain", tmp_path / "out")
    comparison = compare_runs(read_runs([tmp_path / "out"]), ["mtragun"])
    assert {row.metric.name for row in comparison.differences} >= {"balanced_error", "clarification_rate", "rougeL"}
    (samples,) = (tmp_path / "out" / "targets").glob("samples_mtragun_govt_*.jsonl")
    assert [
        (v["rougeL"], v["unanswerable_accuracy"], v["clarification_rate"], v["partial_answer_rate"])
        for v in lines(samples)
    ] == [(1.0, None, None, None), (None, 1.0, None, None), (None, None, 1.0, None), (None, None, None, 1.0)]
    faithfulness, appropriateness = load_ratings(samples=str(samples))["evaluation"]
    assert faithfulness["quoted"]["question"] == (
        "> user: What does the National Park Service do?\n"
        "> assistant: It looks after the national parks of the United States.\n> user: When was Yellowstone founded?"
    )
    assert (faithfulness["aspect"], appropriateness["aspect"]) == ("faithfulness", "appropriateness")


@pytest.fixture(scope="session")
def public(hub: str) -> dict[str, dict[str, Any]]:
    """Id to document, of all domains."""
    return {row["id"]: row for domain in DOMAINS for row in documents(domain, hub)}


def released(shared: Path, system: str) -> Iterator[dict[str, Any]]:
    path = shared / "reference" / "mtragun_outputs" / f"{SYSTEMS[system]}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


@pytest.mark.one_python("figures of public data")
def test_abstention_agrees_with_the_official_judge(shared: Path) -> None:
    """``idk_eval`` is 1 or 0; 0.5, "partial", is neither. It calls empty answers abstentions; here they are none."""
    agreed: Counter[tuple[bool, bool]] = Counter()
    for system in ("gemini", "qwen"):
        for row in released(shared, system):
            (judged,) = row["metrics"]["idk_eval"]
            if judged in (0, 1):
                agreed[bool(row["response"]), is_abstention(row["response"], "en") is (judged == 1)] += 1
    assert agreed == {(True, True): 866, (True, False): 6, (False, False): 3}
    assert 866 / 872 >= 0.99


@pytest.mark.one_python("figures of public data")
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_reader_of_questions_back_agrees_with_people(shared: Path, system: str) -> None:
    """``gemini`` was held back, and measured once; it never asks back."""
    with LABELS.open(encoding="utf-8") as stream:
        labels = {row["task_id"]: row[system] == "1" for row in csv.DictReader(stream, delimiter="\t")}
    read = {row["task_id"]: asks_clarification(row["response"], "en") for row in released(shared, system)}
    assert {id: read[id] for id in labels} == labels
    assert (len(labels), sum(labels.values())) == (78, {"gemini": 0, "llama": 0, "qwen": 7}[system])


@pytest.mark.one_python("figures of public data")
def test_the_reader_of_questions_back_knows_the_reference_responses(public: dict[str, dict[str, Any]]) -> None:
    asks = Counter(row["kind"] for row in public.values() if asks_clarification(row["target"], "en"))
    assert asks == {"underspecified": 78, "answerable": 1, "partial": 1}  # both of the others do ask back


@pytest.mark.one_python("figures of public data")
def test_partial_answers_agree_with_the_official_judge(shared: Path, public: dict[str, dict[str, Any]]) -> None:
    answers = [
        (is_partial(row["response"]), row["metrics"]["idk_eval"] == [0.5])
        for system in ("gemini", "qwen")
        for row in released(shared, system)
        if public[row["task_id"]]["kind"] == "partial"
    ]
    assert (sum(ours is theirs for ours, theirs in answers), len(answers)) == (81, 94)


@pytest.mark.one_python("figures of public data")
@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("llama", (97, 6, 0, 0, 10)),
        pytest.param("gemini", (97, 5, 0, 0, 19), marks=pytest.mark.slow("507 turns")),
        pytest.param("qwen", (50, 3, 7, 0, 16), marks=pytest.mark.slow("507 turns")),
    ],
)
def test_a_released_system(harness: Harness, shared: Path, hub: str, system: str, expected: tuple[int, ...]) -> None:
    """Its counts over all domains: of 97, 285, 78, 285 and 47 turns."""
    path = shared / "reference" / "mtragun_outputs" / f"{SYSTEMS[system]}.jsonl.gz"
    results = harness(["mtragun"], "replay", f"path={path}", metadata={"mirror": hub})
    counts: Counter[str] = Counter()
    for domain in DOMAINS:
        for name, figure in figures_of(results, f"mtragun_{domain}").items():
            counts[name] += round(figure["value"] * figure["n"])
    shares = [metric.name for metric in BENCHMARK.bases[0].metrics if metric.aggregation == "defined_share"]
    assert tuple(map(counts.get, shares)) == expected


@pytest.mark.one_python("figures of public data")
def test_published_rates_are_the_official_judges(shared: Path, public: dict[str, dict[str, Any]]) -> None:
    for system, model in (("gemini", "Gemini 3 Pro Preview (high), RaguTeam"), ("qwen", "Qwen2.5 32B, RaguTeam")):
        counted: Counter[tuple[str, str]] = Counter()
        for row in released(shared, system):
            doc = public[row["task_id"]]
            counted[doc["domain"], doc["kind"]] += row["metrics"]["idk_eval"] == [1.0]
        for domain in DOMAINS:
            for metric, kind in (("unanswerable_accuracy", KINDS[1]), ("answerable_abstention_rate", KINDS[0])):
                (found,) = (row for row in rows_for(f"mtragun_{domain}", metric) if row.model == model)
                of_kind = sum((doc["domain"], doc["kind"]) == (domain, kind) for doc in public.values())
                assert (found.count, found.n) == (counted[domain, kind], of_kind)


def mirror_of(folder: Path, rows: list[dict[str, Any]]) -> str:
    write_lines(folder / "github" / REPOSITORY / FILE, rows)
    return str(folder)


with (Path(__file__).parent / "data" / "clarification.tsv").open(encoding="utf-8", newline="") as stream:
    _, *ANSWERS = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
CLARIFICATION = shipped_yaml("custom_metrics.abstention", "clarification.yaml")


@pytest.mark.parametrize(("language", "asks", "answer"), ANSWERS)
def test_whether_an_answer_asks_back(language: str, asks: str, answer: str) -> None:
    assert asks_clarification(answer, language) is (asks == "yes")


@pytest.mark.parametrize("answer", [None, "", " \n", 3])
def test_what_is_no_text_asks_nothing(answer: object) -> None:
    assert not asks_clarification(answer, "en")  # type: ignore[arg-type]


@pytest.mark.parametrize("language", [None, "yo", "xx", "de-AT"])
def test_english_counts_in_every_language(language: str | None) -> None:
    assert asks_clarification("Which one are you referring to?", language)


@pytest.mark.parametrize("language", CLARIFICATION)
def test_every_phrase_has_an_example(language: str) -> None:
    table, spaces = CLARIFICATION[language], phrase_table(language).get("spaces", True)
    reader = PhraseReader(table.get("parts", {}), fold, spaces, GAP if spaces else GAP_WITHOUT_SPACES)
    examples = [fold(answer) for code, _, answer in ANSWERS if code == language]
    written = [(key, phrase) for key in KEYS for phrase in table[key]]
    matchers = [(phrase, Matcher(reader.patterns(key, phrase))) for key, phrase in written]
    assert [phrase for phrase, matcher in matchers if not any(map(matcher.search, examples))] == []
