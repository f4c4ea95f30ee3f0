"""Data of one's own, from articles to files that training and the evaluation tasks read, each step a run of the harness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from custom_metrics.reading.spans import CATEGORIES, Span
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.make import collect
from lm_eval_tasks.data.sources import CorruptSource, MissingSource
from lm_eval_tasks.making import steps
from lm_eval_tasks.making.dataset import TEXTS, load, read_rows
from tests.conftest import command, figures_of, loaded_tasks, results_of, run
from tests.labelled_facts import write_lines
from tests.logged_runs import lines as rows
from tests.shared_once import SharedOnce

DATA = Path(__file__).parent / "data" / "making"
ARTICLES = DATA / "articles.jsonl"


def evaluate(folder: Path, tasks: str, articles: Path, *options: str, model: str = "replay") -> Path:
    """A run over our data with stored replies; returns the folder of its results."""
    arguments = ["--model", model, *(["--model_args", f"path={DATA / 'replies.jsonl'}"] if model == "replay" else [])]
    output = folder / tasks
    given = json.dumps({"articles": str(articles), "language": "de"})
    how = ["--metadata", given, "--output_path", str(output), "--log_samples", *options]
    run([command("lm_eval"), *arguments, "--tasks", tasks, *how], folder)
    return output


@pytest.fixture(scope="module")
def made(shared_once: SharedOnce) -> Path:
    """The German steps one after the other, each with what the one before it made."""

    def make(folder: Path) -> None:
        articles = ARTICLES
        for step in ("queries", "answers", "silver"):
            results = evaluate(folder, f"mfava_make_{step}", articles)
            articles = folder / f"{step}.jsonl"
            collect([results], articles, faithful=step == "silver")
        collect([evaluate(folder, "mfava_translate", ARTICLES)], folder / "translated.jsonl")

    return shared_once("made data", make)


def counts(path: Path) -> dict[str, Any]:
    record = json.loads(path.with_name(f"{path.name}.provenance.json").read_text("utf-8"))
    assert record["local_files"][0]["name"].startswith("samples_mfava_")
    collected: dict[str, Any] = record["collected"]
    return collected


def test_questions_are_made_of_articles(made: Path) -> None:
    found = rows(made / "queries.jsonl")
    assert [row["id"] for row in found] == ["elbe/1", "elbe/2", "astrolabium/1", "astrolabium/2"]
    assert found[0] == {
        **{"id": "elbe/1", "title": "Elbe", "url": "https://de.example/Elbe", "article": "https://de.example/Elbe"},
        "language": "de",
        "question": "Welcher Nebenfluss der Elbe ist bei der Vereinigung länger und führt mehr Wasser als der Hauptfluss?",
        "reference": rows(ARTICLES)[0]["text"],
    }
    left_out = {"a line that is no question": 1, "another language": 1, "a double": 1}
    assert counts(made / "queries.jsonl") == {"step": "queries", "rows": {"de": 4}, "replies": 2, "left_out": left_out}


def test_a_question_that_the_reference_does_not_answer_is_left_out(made: Path) -> None:
    found = rows(made / "answers.jsonl")
    assert [row["id"] for row in found] == ["elbe/1", "elbe/2", "astrolabium/1"]
    assert all(row["spans"] == [] and row["model"] == "replies" for row in found)
    assert counts(made / "answers.jsonl")["left_out"] == {"the reference does not answer the question": 1}


def test_errors_are_inserted_where_the_tags_say(made: Path) -> None:
    """Rows that training reads. The article's own tags are text, before and after."""
    found = {row["id"]: row for row in rows(made / "silver.jsonl")}
    assert list(found) == ["elbe/1", "elbe/1/faithful", "astrolabium/1", "astrolabium/1/faithful"]
    assert {"question", "reference", "answer", "spans", "language"} <= set(found["elbe/1"])
    assert [(found["elbe/1"]["answer"][start:end], category) for start, end, category in found["elbe/1"]["spans"]] == [
        ("Oder", "entity"),
        ("kürzer", "relation"),
        ("Sie ist der schönste Fluss.", "subjective"),
    ]
    assert found["elbe/1/faithful"]["spans"] == []
    assert found["elbe/1/faithful"]["answer"] == rows(made / "answers.jsonl")[0]["answer"]
    trapped = found["astrolabium/1"]
    assert trapped["answer"] == "Mit dem Instrument <entity>misst</entity> man die Tiefe von Gestirnen, und a < b."
    assert [trapped["answer"][start:end] for start, end, _ in trapped["spans"]] == ["Tiefe"]
    assert counts(made / "silver.jsonl")["left_out"] == {"tags that cannot be read": 1}


def test_a_row_is_translated_with_its_tags_or_not_at_all(made: Path) -> None:
    (found,) = rows(made / "translated.jsonl")
    assert found["id"] == "stethoscope/de"
    assert (found["language"], found["translated_from"], found["model"]) == ("de", "en", "some-model")
    assert found["question"] == "Warum rollte Laennec Papier zu einem Zylinder?"
    assert found["reference"].startswith("Das Stethoskop wurde 1816")
    assert [found["answer"][start:end] for start, end, _ in found["spans"]] == ["1826", "Er war ein heiterer Mann."]
    assert found["article"] == "https://en.example/Stethoscope"  # its source's: a split by article keeps both together
    said = counts(made / "translated.jsonl")
    assert said["replies"] == 4
    assert said["left_out"] == {"another language": 1, "a part of the text is missing": 1}


def test_the_results_hold_what_was_kept_and_where_it_came_from(made: Path) -> None:
    results = results_of(made / "mfava_make_queries")
    figures = figures_of(results, "mfava_make_queries")
    assert figures["kept_rate"]["value"] == 1.0
    assert figures["questions"]["value"] == 2.0
    provenance = results["configs"]["mfava_make_queries"]["metadata"]["provenance"]
    assert provenance["kept"] == {"documents": 2}
    assert provenance["left_out"] == {"rows left out, of another language": 2, "rows left out, without a text": 1}
    assert [file["name"] for file in provenance["local_files"]] == ["articles.jsonl"]
    silver = figures_of(results_of(made / "mfava_make_silver"), "mfava_make_silver")
    assert silver["kept_rate"]["value"] == pytest.approx(2 / 3)
    assert silver["errors"]["value"] == 2.0  # three and one, over the two that are kept


def test_what_an_article_says_is_text(made: Path) -> None:
    """No template is run, no order obeyed, and the prompt holds the article as it is."""
    (samples,) = (made / "mfava_make_queries").rglob("samples_*.jsonl")
    prompts = {row["doc"]["row"]: row["arguments"]["gen_args_0"]["arg_0"] for row in rows(samples)}
    text = rows(ARTICLES)[1]["text"]
    assert "{{ 7 * 7 }} {% for x in y %} <entity>Es wurde" in text
    assert text in prompts["astrolabium"]
    assert "49" not in prompts["astrolabium"]
    assert not Path("/tmp/owned").exists()


@pytest.fixture(scope="module")
def mirror(made: Path, shared_once: SharedOnce) -> Path:
    def make(folder: Path) -> None:
        french = {"language": "fr", "title": "S", "reference": "Paris est en France.", "answer": "Paris est en Italie."}
        japanese = {"language": "ja", "reference": "東京。", "answer": "大阪。", "spans": [[0, 2, "entity"]]}
        write_lines(folder / "more.jsonl", [{**french, "spans": [[13, 19, "entity"]]}, japanese, {"language": "xx"}])
        files = [str(folder / "more.jsonl"), str(made / "silver.jsonl"), str(made / "queries.jsonl")]
        (folder / "said").mkdir()
        done = run([command("lm-eval-grounded"), "make", "mirror", *files, "-o", "mirror"], folder)
        (folder / "said" / "mirror.txt").write_text(done.stdout, "utf-8")

    return shared_once("mirror of made data", make)


def test_the_evaluation_tasks_read_made_data(mirror: Path, made: Path, harness: Any) -> None:
    assert (mirror / "said" / "mirror.txt").read_text("utf-8").splitlines() == [
        "mfava_detection_fr_silver: 1",
        "mfava_de: 4",
        "mfava_detection_de_silver: 4",
        "left out, answers in a language without a silver file (mFAVA has no Japanese one): 1",
        "left out, rows in a language that mFAVA has not, or without a reference: 1",
        "mirror",
    ]
    metadata = {"mirror": str(mirror / "mirror")}
    tasks = ["mfava_detection_de_silver", "mfava_detection_fr_silver"]
    results = harness(tasks, "hallucination-detector", "detector=lexical", metadata=metadata, log_samples=True)
    docs = [sample["doc"] for sample in results["samples"]["mfava_detection_de_silver"]]
    assert len(docs) == 4
    assert {span["category"] for doc in docs for span in doc["spans"]} == {"entity", "relation", "subjective"}
    assert docs[2]["answer"].startswith("Mit dem Instrument <entity>misst</entity> man die Tiefe")
    results = harness(["mfava_de"], "grounded-baseline", "", metadata=metadata, log_samples=True)
    asked = {sample["doc"]["query"] for sample in results["samples"]["mfava_de"]}
    assert asked == {row["question"] for row in rows(made / "queries.jsonl")}


@pytest.mark.slow("loads torch, and generates with a model")
def test_the_replies_of_a_model_that_knows_nothing_are_survived_and_counted(llama: Path, tmp_path: Path) -> None:
    tasks = [steps.task_name(step) for step in steps.STEPS]
    article = {"language": "de", "text": "Die Elbe fließt nach Norden.", "question": "Wohin fließt die Elbe?"}
    english = {"language": "en", "text": "It flows.", "answer": "It flows <3.", "spans": [[3, 8, "relation"]]}
    articles = write_lines(tmp_path / "articles.jsonl", [article, english])
    options = ["--metadata", f"articles={articles},language=de", "--output_path", "", "--log_samples", "--gen_kwargs"]
    model = ["--model", "hf", "--model_args", f"pretrained={llama},dtype=float32", "--device", "cpu"]
    cached = ["max_gen_toks=24", "--use_cache", str(tmp_path / "replies")]
    for at in ("first", "again"):  # a run that is started again goes on with what was answered
        options[options.index("--output_path") + 1] = at
        done = run([command("lm_eval"), *model, "--tasks", ",".join(tasks), *options, *cached], tmp_path)
        remaining = 0 if at == "again" else 5
        assert f"Cached requests: {5 - remaining}, Requests remaining: {remaining}" in done.stdout + done.stderr
        assert set(results_of(tmp_path / at)["results"]) == set(tasks)
    for step in steps.STEPS:
        output = tmp_path / f"{step}.jsonl"
        with pytest.raises(UsageError, match=r"collect: nothing of [12] replies can be kept \(\S.*: \d"):
            collect([*(tmp_path / "again").rglob(f"samples_{steps.task_name(step)}_*.jsonl")], output)
        assert not output.exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "mfava_make_silver: name a file of articles.*the task mfava is the evaluation in all languages"),
        ({"articles": ARTICLES, "language": None}, "mfava_make_silver: name the language of the data: --metadata"),
        ({"articles": "nowhere.jsonl"}, "nowhere.jsonl: no such file"),
        ({"articles": ARTICLES, "categories": "entity+lie"}, "mfava_make_silver: unknown categories 'lie'"),
        ({"articles": ARTICLES, "min_characters": 5000}, r"nothing to .*of a text that is too short: 2"),
        ({"articles": ARTICLES, "step": "translate", "source_language": "fi"}, r"nothing to .*of another language: \d"),
        ({"articles": ARTICLES, "article": "x"}, "'article' is not known; did you mean 'articles'"),
        ({"articles": ARTICLES, "step": "translate", "parts": ["title"]}, "unknown parts 'title'"),
        ({"articles": ARTICLES, "step": "translate", "translation_prompt": "plain"}, "unknown translation_prompt"),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any], error: str) -> None:
    given = {"step": "silver", "language": "de", **options}
    given = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    with pytest.raises((UsageError, MissingSource), match=error):
        load(**given)


def prompts(task: str, **metadata: Any) -> list[str]:
    """What a model is asked, over our articles."""
    given = {"articles": str(ARTICLES), "language": "de", **metadata}
    found = loaded_tasks([task], **given)[task]
    return [found.fewshot_context(document, 0) for document in found.eval_docs]


def test_questions_and_answers_are_asked_for_in_the_papers_words(tmp_path: Path) -> None:
    """Tables 6 and 11; the last sentence of the second one's task is ours."""
    article = {"language": "de", "text": "Die Elbe fließt.", "question": "Was tut die Elbe?"}
    own = {"articles": str(write_lines(tmp_path / "a.jsonl", [article]))}
    assert prompts("mfava_make_queries", **own) == [
        "Given the following reference in language German: Die Elbe fließt.\n\n"
        "Generate two knowledge-intensive queries in German. Ensure the questions are concise but knowledge-intensive. The "
        "questions should require thorough reading of the reference text to answer. Separate the questions with a newline."
    ]
    assert prompts("mfava_make_answers", **own) == [
        "For the following instruction, generate the whole output in German language even though the instruction and input "
        "is in English. Given a passage answer the question in 3-5 sentences using only the information presented in the "
        "reference passage. If the reference passage does not answer the question, say that it does not.\n\n"
        "Question: Was tut die Elbe?\n\nReference Passage: Die Elbe fließt."
    ]


def test_errors_are_asked_for_by_kind_and_the_passage_keeps_its_tags() -> None:
    (every,) = prompts("mfava_make_silver", language="en")
    (one,) = prompts("mfava_make_silver", language="en", categories="subjective")
    for kind in CATEGORIES:
        assert f"- {kind} errors (<{kind}>): " in every
        assert (f"- {kind} errors (<{kind}>): " in one) is (kind == "subjective")
    passage = "in <entity>1826</entity>. <subjective>He was a cheerful man.</subjective>\n\nEdited:"
    assert every.endswith(passage)
    assert one.endswith(passage)
    assert "already existing tokens: subjective. Wrap the insertions in tokens (<subjective>) to make" in one


def test_a_translation_model_is_given_the_text_alone() -> None:
    given = {"source_language": "en", "parts": "answer"}
    (chat,) = prompts("mfava_translate", **given)
    (alone,) = prompts("mfava_translate", **given, translation_prompt="text", translation_prefix="<2de> ")
    text = "Laennec rolled paper into a cylinder in <entity>1826</entity>. <subjective>He was a cheerful man."
    assert chat.startswith("Translate the text below from English into German. Tags such as <entity> and </entity>")
    assert chat.endswith(f"\n\n{text}</subjective>")
    assert alone == f"<2de> {text}</subjective>"


def test_samples_of_several_steps_or_of_none_are_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the samples are of answers and queries and silver and translate; name those"):
        collect([made], tmp_path / "x.jsonl")
    (silver,) = (made / "mfava_make_silver").rglob("samples_*.jsonl")
    assert collect([silver], tmp_path / "s.jsonl").rows == {"de": 2}  # without faithful answers
    (samples,) = (made / "mfava_make_answers").rglob("samples_*.jsonl")
    other = tmp_path / samples.name.replace("mfava_make_answers", "mfava_de")
    other.write_bytes(samples.read_bytes())
    with pytest.raises(UsageError, match=r"the samples are of none \(mfava_de\)"):
        collect([other], tmp_path / "y.jsonl")
    broken = tmp_path / samples.name
    broken.write_text(json.dumps({"doc_id": 0, "doc": {"step": "answers"}, "resps": [["x"]]}) + "\n", "utf-8")
    with pytest.raises(CorruptSource, match="not the samples of a making task"):
        collect([broken], tmp_path / "y.jsonl")


def test_what_two_models_made_is_kept_once(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (samples,) = (made / "mfava_make_queries").rglob("samples_*.jsonl")
    for model in ("one", "two"):
        (tmp_path / model).mkdir()
        (tmp_path / model / samples.name).write_bytes(samples.read_bytes())
    capsys.readouterr()
    assert main(["make", "collect", str(tmp_path / "one"), str(tmp_path / "two"), "-o", str(tmp_path / "q.jsonl")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "queries: 4 de of 4 replies"
    assert "left out, a double of another row: 4" in said


EMPTY = {**dict.fromkeys(TEXTS, ""), "language": "de", "spans": []}


def rows_of(tmp_path: Path, *rows: Any) -> list[dict[str, Any]]:
    path = tmp_path / "articles.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return list(read_rows(path, "de"))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": " The Elbe. \n"}, {"reference": "The Elbe."}),
        ({"text": "a", "reference": "b"}, {"reference": "b"}),
        ({"text": "a", "reference": None}, {"reference": "a"}),
        ({"title": " T ", "url": "u", "question": "q "}, {"title": "T", "url": "u", "question": "q"}),
        ({"id": "x", "language": "fi"}, {"id": "x", "language": "fi"}),
        ({"id": 7, "language": ""}, {"id": "7"}),
        ({"id": "", "title": None, "more": 3}, {}),
        ({"title": "half \ud800"}, {"title": "half ?"}),
        # An answer keeps its white space: spans are places in it.
        ({"answer": " a b ", "spans": [[1, 2, "entity"]]}, {"answer": " a b ", "spans": [Span(1, 2, "entity")]}),
        ({"answer": "ab", "spans": None}, {"answer": "ab"}),
        (
            {"answer": "a b", "spans": [[2, 3, "relation"], [0, 1, "entity"]]},
            {"answer": "a b", "spans": [Span(0, 1, "entity"), Span(2, 3, "relation")]},
        ),
    ],
)
def test_a_row_has_every_field(tmp_path: Path, row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert rows_of(tmp_path, "", row) == [EMPTY | {"id": "2"} | expected]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"title": 1}, "'title' is int, not a text"),
        ({"text": ["a"]}, "'reference' is list, not a text"),
        ({"language": 3}, "'language' is int, not a text"),
        *(({"answer": "ab", "spans": [span]}, "spans that do not fit") for span in ([0, 3, "entity"], [0, 1, "odd"])),
        ({"answer": "ab", "spans": [["a"]]}, "'a'"),
    ],
)
def test_a_row_that_is_none_is_named_with_its_line(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptSource, match=rf"articles\.jsonl, line 2: .*{message}"):
        rows_of(tmp_path, {"text": "kept"}, row)


def test_an_id_names_one_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 3: an earlier row has the id '2', too; an id names"):
        rows_of(tmp_path, {"id": 2}, {"id": "a"}, {"id": "2"})
    with pytest.raises(UsageError, match="line 2: an earlier row has the id '2'"):  # its line is the name of the second
        rows_of(tmp_path, {"id": "2"}, {"text": "a"})
    with pytest.raises(CorruptSource, match="line 2: expected a JSON object"):
        rows_of(tmp_path, {}, "[]")
    with pytest.raises(MissingSource, match=r"""none\.jsonl: no such file \(--metadata '{"articles": "FILE"}'"""):
        list(read_rows(tmp_path / "none.jsonl", "de"))
