"""A report in other formats: the block for a model card, which huggingface_hub reads back, and the summary in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from lm_eval_tasks.cli import main
from lm_eval_tasks.commands.export import model_card
from lm_eval_tasks.results.formats import code_block
from lm_eval_tasks.results.formats import escaped_markdown as escaped
from lm_eval_tasks.results.report import render_summary as summary
from lm_eval_tasks.results.report.headlines import headlines
from lm_eval_tasks.runs import Run, read_runs
from tests.golden import golden
from tests.made_runs import figure, run, share, task
from tests.miniature import MINIATURE

PUBLIC = {
    "versions": {"lm-eval-grounded": "9.9"},
    "read_from": "hub",
    "split": "test",
    "not_comparable": [],
    "files": [
        {"host": "hub", "repository": "miracl/nomiracl", "revision": "ecd08778", "path": "a"},
        {"host": "github", "repository": "o/r", "revision": "abc", "path": "b"},
    ],
}


def parsed(card: str) -> tuple[str, list[EvalResult]]:
    """As the hub reads a card whose front matter this is."""
    assert card.startswith("---\n")
    assert card.endswith("\n---\n")
    found: list[EvalResult] = ModelCard(card + "# A model\n").data.eval_results
    name, again = model_index_to_eval_results(yaml.safe_load(card.strip("-\n"))["model-index"])
    assert again == found
    return name, found


def public(*languages: str) -> Run:
    tasks = [
        task(f"nomiracl_{code}", {"robust": {"error_rate": share(1, 9)}}, code, provenance=PUBLIC) for code in languages
    ]
    for one in tasks:
        object.__setattr__(one, "config", {**one.config, "dataset_path": "miracl/nomiracl"})
    return run("org/model", tasks)


def test_the_card_of_two_benchmarks_is_valid(two_models: Path) -> None:
    lexical = read_runs([two_models])[1]
    card = model_card(lexical)
    name, found = parsed(card)

    assert name == "lm-eval-grounded/baseline-lexical"
    assert {one.dataset_type for one in found} == {"miracl/nomiracl", "PrimeQA/clapnq"}  # mFAVA's are not measurable
    left_out = card.count("\n# left out: ")  # one question of four, and what no detector can tell
    assert (len(found), left_out) == (59, 3 * (18 + 1) + 5 + 6 + (2 + 1) - 59)
    mean = next(one for one in found if (one.dataset_config, one.metric_type) == ("nomiracl", "hallucination_rate"))
    assert mean.metric_value == pytest.approx(15 / 72, abs=1e-6)
    assert mean.dataset_name.startswith("NoMIRACL (mean over 18 languages)")


def test_every_entry_of_a_card_of_two_languages_and_their_mean() -> None:
    card = model_card(public("de", "fr"))
    assert card == golden("card.md", card)
    name, found = parsed(card)
    assert name == "org/model"
    assert [one.dataset_config for one in found] == ["nomiracl_de", "nomiracl_fr", "nomiracl"]


def test_what_is_not_measurable_is_left_out_and_said() -> None:
    """The format wants a value, and 0.25 of four questions is none; the mean of twelve is one."""
    tasks = [task(f"nomiracl_{code}", {"robust": {"error_rate": share(1, 4)}}, code) for code in ("de", "fr", "es")]
    endless = run("m", [task("clapnq_gold", {"length": figure(200, 1, 900)})])  # a scale without an end
    _, (length,) = parsed(model_card(endless))
    assert length.metric_value == 200
    card = model_card(run("m", tasks))
    _, (mean,) = parsed(card)
    assert (mean.dataset_config, mean.metric_value) == ("nomiracl", 0.25)
    assert "\n# left out: error_rate of nomiracl_de (robust), not measurable (5 to 70 %)\n# left out: " in card
    alone = model_card(run("m", [task("a\n- b", {"robust": {"error_rate": share(1, 4)}}, "de")]))
    assert yaml.safe_load(alone.strip("-\n")) == {"model-index": []}


def test_what_is_not_defined_is_left_out() -> None:
    assert model_card(run("m", [task("clapnq_gold", {})])) == "---\nmodel-index: []\n---\n"
    _, (found,) = parsed(model_card(run("m", [task("clapnq_gold", {"length": figure(200)}, provenance={})])))
    assert (found.metric_value, found.dataset_revision, found.dataset_split) == (200, None, None)
    assert len(found.metric_args["doubts"]) == 2


@pytest.mark.parametrize("name", ["a: b\n- c", "---", "'\"{}[]", "!!python/object:os.system", "日本 \u202e"])
def test_names_stay_names(name: str) -> None:
    assert parsed(model_card(run(name, [task("clapnq_gold", {"length": figure(200, 1, 2)})])))[0] == name


def test_other_formats(two_models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(two_models), "--format", "markdown"]) == 0
    text = capsys.readouterr().out.replace(MINIATURE, "MINIATURE")
    assert text == golden("two_models.md", text)

    assert main(["export", "model-card", str(two_models / "baseline-lexical"), "-o", str(tmp_path / "card.md")]) == 0
    assert (tmp_path / "card.md").read_text("utf-8").startswith("---\nmodel-index:\n- name: ")
    assert main(["export", "model-card", str(two_models)]) == 2
    assert "a model card is of one model; here are 2" in capsys.readouterr().err


ONE = run(
    "org/a_b",
    [
        task("nomiracl_de", {"robust": {"error_rate": share(1, 4)}}, "de"),
        task("clapnq_gold", {"rougeL": figure(0.4, 0.35, 0.45)}),
    ],
)
OTHER = run("org/c", [task("nomiracl_de", {"robust": {"error_rate": share(2, 40)}}, "de")])


def test_a_summary_of_two_models() -> None:
    """What the golden page of two models has not: a task that one lacks, names with markup, and a command."""
    found = summary(headlines([ONE, OTHER]), "| a | b |\n", "lm-eval-grounded report runs\n")

    assert "| benchmark | number, 95 % bounds | org/a\\_b | org/c |\n|---|---|---:|---:|\n" in found
    assert "| error rate ↓ | *not measurable (5 to 70 %)* <sup>2</sup> | 5.0 % \\[1.4 to 16.5 %, n = 40\\] |\n" in found
    assert "| clapnq\\_gold | RougeL ↑ | 0.400 \\[0.350 to 0.450\\] | – |\n" in found
    assert "\n2. fewer than ten questions (4).\n" in found
    assert found.endswith("### Differences\n\n| a | b |\n\nMade with\n\n```\nlm-eval-grounded report runs\n```\n")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain-name 1.5 (x)", "plain-name 1.5 (x)"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("*x* _y_ ~z~ `c` \\", "\\*x\\* \\_y\\_ \\~z\\~ \\`c\\` \\\\"),
        ("[t](http://evil) ![i](x)", "\\[t\\](http&#58;//evil) !\\[i\\](x)"),
        ("https://x www.y.org FTP://z", "https&#58;//x www&#46;y.org FTP&#58;//z"),
        ("@team #12 $x$", "&#64;team \\#12 \\$x\\$"),
        ("&amp; &", "&amp;amp; &amp;"),
        ("a\r\n| b\u2028c\x00", "a \\| b c "),
        ("- item", "\\- item"),
    ],
)
def test_what_runs_say_stays_text(text: str, markdown: str) -> None:
    assert escaped(text) == markdown


def test_code_cannot_leave_its_block() -> None:
    assert code_block("a") == "```\na\n```"
    assert code_block("a ``` b") == "````\na ``` b\n````"
    assert code_block("````") == "`````\n````\n`````"
