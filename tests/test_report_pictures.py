"""Pictures: whatever a model is called, with none, one or all of its numbers, they parse, and can be read."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="matplotlib (the extra `report`) is not installed")

from custom_metrics.hallucination import RATES as WORD_RATES
from custom_metrics.scores.judging import ASPECTS
from lm_eval_tasks.mfava.dataset import LANGUAGES as MFAVA
from lm_eval_tasks.mushroom.dataset import LANGUAGES as MUSHROOM
from lm_eval_tasks.nomiracl.dataset import LANGUAGES as NOMIRACL
from lm_eval_tasks.results.formats import short_names
from lm_eval_tasks.results.report.drawing import COLOURS, INK, MARKERS, save, ticks, wrapped
from lm_eval_tasks.results.report.plots import plots_of
from lm_eval_tasks.runs import TaskRun
from tests.made_runs import figure, run, share, task

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "org/<script>alert(1)</script> & \"'$\\frac{x}{0}$ \x00\x1b\ud800 ‮טקסט 日本 ]]> -->"


def tasks_of(strength: float) -> list[TaskRun]:
    """Every benchmark in every language; rates differ with the model."""
    rate = {"hallucination_rate": share(round(200 * strength), 250), "error_rate": share(round(90 * strength), 250)}
    found = [task(f"nomiracl_{code}", {"strict": rate, "robust": rate}, code) for code in NOMIRACL]
    for place, code in enumerate(MFAVA):
        value = strength * (0.2 + 0.02 * place)
        found.append(task(f"mfava_{code}", dict.fromkeys(WORD_RATES, figure(value, value / 2, value * 1.5)), code))
    figures = {"iou": figure(strength, 0, 1), "rho": figure(-0.1, -0.3, 0.1)}
    found += [task(f"mushroom_{code}", figures, code) for code in MUSHROOM]
    of_answers = {
        **{"rougeL": figure(strength / 2, 0.1, 0.5), "length": figure(300, 200, 400), "gold_retrieved": share(6, 10)},
        **{"unanswerable_accuracy": share(3, 10), "answerable_abstention_rate": share(2, 10)},
    }
    found += [task(name, of_answers) for name in ("clapnq_gold", "clapnq_rag", "clapnq_rag_bge")]
    found.append(task("clapnq_judge", dict.fromkeys(ASPECTS, figure(3, 2, 4))))
    found.append(task("clapnq_judge_pairs", {f"win_rate_{HOSTILE}": figure(0.5, 0.4, 0.6)}))
    return found


CASES = {
    "three models, every language": [run(f"org/model-{place}", tasks_of(0.3 * place)) for place in (1, 2, 3)],
    "hostile names": [run(HOSTILE, tasks_of(0.5)[:5]), run(HOSTILE * 9, tasks_of(0.6)[:5] + tasks_of(0.6)[-6:])],
    "one language": [run("m", [task("nomiracl_de", {"robust": {"error_rate": share(0, 3)}}, "de")])],
    "nine models": [run(f"model-{place}", tasks_of(0.1 * place)[:3]) for place in range(9)],
}


def texts_of(svg: str) -> list[str]:
    """The texts of a picture, which parses, and holds nothing that runs or loads."""
    root = ElementTree.fromstring(svg)
    ids = {element.get("id") for element in root.iter()}
    known = {*"svg g path use text tspan defs clipPath rect style title desc".split()}
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in known
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on")
            assert {*re.findall(r"url\(#([^)]+)\)", value)} <= ids
            if key.endswith("href"):
                assert value.startswith("#")
                assert value[1:] in ids
    return [text.text or "" for text in root.iter(f"{SVG}text")]


@pytest.mark.one_python("what a picture holds")
@pytest.mark.parametrize("case", CASES)
def test_every_plot_is_a_picture(case: str) -> None:
    plots = plots_of(CASES[case])

    assert plots
    assert len({plot.name for plot in plots}) == len(plots)
    for plot in plots:
        svg = plot.svg()
        assert re.fullmatch(r"[\w-]+", plot.name)
        assert texts_of(svg)
        assert len(svg.encode()) < 100_000, plot.name
        assert not re.search(r"\bnan\b|mathdefault|\binf\b|</?script", svg, re.IGNORECASE), plot.name
        assert svg.startswith("<svg ")


def test_the_same_runs_give_the_same_picture() -> None:
    plot, again = (plots_of(CASES["nine models"])[0] for _ in range(2))
    assert again.svg() == plot.svg()


def test_texts_that_look_like_markup_stay_as_they_are() -> None:
    name = 'a style="fill:red" 0.12345 >< d="M 1.23456"'
    (plot,) = plots_of([run(name, [task("clapnq_gold", {"length": figure(9)})])])
    assert name in " ".join(texts_of(plot.svg()))


def test_files(tmp_path: Path) -> None:
    plots = plots_of(CASES["one language"])
    written = save(plots, tmp_path / "svg", tmp_path / "png")

    assert [path.name for path in written] == ["nomiracl_intervals.svg", "nomiracl_intervals.png"]
    assert written[1].read_bytes().startswith(b"\x89PNG\r\n")
    alone = ElementTree.parse(written[0]).getroot()
    assert alone.get("role") == "img"
    assert [alone.findtext(f"{SVG}{tag}") for tag in ("title", "desc")] == [plots[0].title, plots[0].caption]
    assert save(plots) == []


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("ground", "ink"), [("#ffffff", INK), ("#14171c", "#e9ecf1")])
def test_colours_stand_out_on_light_and_dark(ground: str, ink: str) -> None:
    """WCAG 2.1: 1.4.11 asks for a contrast of 3, 1.4.3 for 4.5 of text. A marker tells apart what a colour does not."""
    assert len(COLOURS) == len({*COLOURS}) == len(MARKERS) == len({*MARKERS})
    for colour, least in [*((colour, 3) for colour in COLOURS), (ink, 4.5)]:
        one, other = sorted((luminance(colour), luminance(ground)))
        assert (other + 0.05) / (one + 0.05) >= least, colour


def test_names_that_fit() -> None:
    assert short_names(["a/x", "b/y"]) == {"a/x": "x", "b/y": "y"}
    assert short_names(["a/x", "b/x"]) == {"a/x": "a/x", "b/x": "b/x"}
    assert short_names(["a/", "b\x00"]) == {"a/": "a/", "b\x00": r"b\u0000"}
    assert wrapped("short", 15) == "short"
    assert wrapped("Meta-Llama-3.1-8B-Instruct", 15) == "Meta-Llama-3.1-\n8B-Instruct"
    assert wrapped("x" * 20, 15) == "x" * 15 + "\n" + "x" * 5
    assert wrapped("x" * 99, 15) == "x" * 15 + "\n" + "x" * 14 + "…"
    assert wrapped("\x00", 15) == r"\u0000"


@pytest.mark.parametrize(
    ("end", "values"),
    [
        (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.23, [0, 0.05, 0.1, 0.15, 0.2]),
        (7, [0, 2, 4, 6]),
        (0.0009, [0, 0.0002, 0.0004, 0.0006, 0.0008]),
    ],
)
def test_ticks_are_round_numbers(end: float, values: list[float]) -> None:
    assert ticks(end) == pytest.approx(values)
