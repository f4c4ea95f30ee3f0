"""Pictures: SVG that a page can hold, whatever a model is called, with none, one or all of its numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib", reason="matplotlib (the extra `report`) is not installed")

from lm_eval_tasks.mfava.languages import LANGUAGES as MFAVA
from lm_eval_tasks.mushroom.dataset import LANGUAGES as MUSHROOM
from lm_eval_tasks.nomiracl.dataset import LANGUAGES as NOMIRACL
from lm_eval_tasks.results.report.plots import plots_of, save
from lm_eval_tasks.results.report.plots.drawing import COLOURS, INK, MARKERS
from lm_eval_tasks.results.report.plots.model_names import readable, short_names, wrapped
from lm_eval_tasks.results.report.plots.point_labels import Box, arranged
from lm_eval_tasks.runs import TaskRun, read_runs
from tests.made_runs import figure, run, share, task

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "org/<script>alert(1)</script> & \"'$\\frac{x}{0}$ \x00\x1b\ud800 ‮טקסט 日本 ]]> -->"


def tasks_of(strength: float) -> list[TaskRun]:
    """Every benchmark in every language; rates differ with the model."""
    rate = {"hallucination_rate": share(round(200 * strength), 250), "error_rate": share(round(90 * strength), 250)}
    found = [task(f"nomiracl_{code}", {"strict": rate, "robust": rate}, code) for code in NOMIRACL]
    for place, code in enumerate(MFAVA):
        value = strength * (0.2 + 0.02 * place)
        names = ("detected_rate", "estimated_rate", "rogan_gladen_rate")
        figures = {
            name: figure(value * by, value * by / 2, value * by * 1.5)
            for name, by in zip(names, (1, 0.8, 0.9), strict=True)
        }
        words = {"response_words": figure(50 + 9 * place, 40, 400), "hallucinated_words": figure(5 + place, 4, 60)}
        found.append(task(f"mfava_{code}", {**figures, **words}, code))
    found += [
        task(f"mushroom_{code}", {"iou": figure(strength, 0, 1), "rho": figure(-0.1, -0.3, 0.1)}, code)
        for code in MUSHROOM
    ]
    of_answers = {
        **{"rougeL": figure(strength / 2, 0.1, 0.5), "length": figure(300, 200, 400), "gold_retrieved": share(6, 10)},
        **{"unanswerable_accuracy": share(3, 10), "answerable_abstention_rate": share(2, 10)},
        **{
            f"{name}_{part}": figure(0.3, 0.2, 0.4)
            for name in ("rougeL", "answerable_abstention_rate")
            for part in ("retrieved", "missed")
        },
    }
    found += [task(name, of_answers) for name in ("clapnq_gold", "clapnq_rag", "clapnq_rag_bge")]
    found.append(
        task("clapnq_judge", {name: figure(3, 2, 4) for name in ("f_plus_a", "faithfulness", "appropriateness")})
    )
    found.append(task("clapnq_judge_pairs", {f"win_rate_{HOSTILE}": figure(0.5, 0.4, 0.6)}))
    return found


UNDEFINED = [
    task("nomiracl_de", {}, "de"),
    task("mfava_de", {}, "de"),
    task("mfava_fr", {}, "fr"),
    task("clapnq_rag", {}),
]
CASES = {
    "three models, every language": [run(f"org/model-{place}", tasks_of(0.3 * place)) for place in (1, 2, 3)],
    "hostile names": [run(HOSTILE, tasks_of(0.5)[:5]), run(HOSTILE * 9, tasks_of(0.6)[:5] + tasks_of(0.6)[-6:])],
    "nothing defined": [
        run(
            "m",
            [
                *UNDEFINED,
                task("mushroom_de", {}, "de"),
                task("clapnq_judge", {"f_plus_a": 0, "faithfulness": 0, "appropriateness": 0}),
            ],
        )
    ],
    "one language": [run("m", [task("nomiracl_de", {"robust": {"error_rate": share(0, 3)}}, "de")])],
    "nine models": [run(f"model-{place}", tasks_of(0.1 * place)[:3]) for place in range(9)],
}


def checked(svg: str, name: str) -> ElementTree.Element:
    """An SVG that parses, is named and described, and holds nothing that runs or loads."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    title, description = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert title is not None
    assert title.text
    assert description is not None
    assert description.text
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert len(ids) == len({*ids})
    assert all(id and id.startswith(f"{name}-") for id in ids)
    for element in root.iter():
        assert element.tag.removeprefix(SVG) in {*"svg g path use text tspan defs clipPath rect title desc".split()}
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on")
            assert "javascript:" not in value
            if "url(#" in value:
                assert re.search(r"url\(#([^)]+)\)", value)[1] in ids  # type: ignore[index]
            if key.endswith("href"):
                assert value.startswith("#")
                assert value[1:] in ids
    return root


@pytest.mark.one_python("what a picture holds")
@pytest.mark.parametrize("case", CASES)
def test_every_plot_is_a_picture_that_a_page_can_hold(case: str) -> None:
    plots = plots_of(CASES[case])

    assert plots
    assert len({plot.name for plot in plots}) == len(plots)
    for plot in plots:
        assert re.fullmatch(r"[\w-]+", plot.name)
        assert all(len(row) == len(plot.columns) for row in plot.rows)
        assert len(plot.svg.encode()) < 150_000, plot.name
        assert not re.search(r"\bnan\b|mathdefault|\binf\b|</?script", plot.svg, re.IGNORECASE), plot.name
        checked(plot.svg, plot.name)


def test_colours_of_axes_and_text_are_the_page_s() -> None:
    svg = plots_of(CASES["one language"])[0].svg

    assert INK not in svg
    assert svg.count("currentColor") > 10
    assert not re.search(r"#(000|fff)\w*\b", svg, re.IGNORECASE)


@pytest.mark.one_python("what a picture holds")
def test_text_is_text_and_the_same_figures_give_the_same_bytes(two_models: Path) -> None:
    runs = read_runs([two_models])
    first, again = plots_of(runs), plots_of(runs)
    texts = {text.text for plot in first for text in checked(plot.svg, plot.name).iter(f"{SVG}text")}

    assert {"baseline-lexical", "hallucination rate (%)", "Indonesian  id", "20.8", "gold", "RougeL"} <= texts
    assert [plot.svg for plot in first] == [plot.svg for plot in again]


def test_files(tmp_path: Path) -> None:
    plots = plots_of(CASES["one language"])
    written = save(plots, tmp_path / "svg", tmp_path / "png")

    assert [path.name for path in written] == [
        "nomiracl_rates.svg",
        "nomiracl_rates.png",
        "nomiracl_languages.svg",
        "nomiracl_languages.png",
    ]
    assert (tmp_path / "png" / "nomiracl_rates.png").read_bytes().startswith(b"\x89PNG\r\n")
    alone = ElementTree.parse(tmp_path / "svg" / "nomiracl_rates.svg").getroot()
    assert alone.get("color") == "#1a1a1a"
    assert (alone.get("style") or "").startswith("background:#fff;")
    assert save(plots) == []


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", ["#ffffff", "#16181d"])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_stand_out_on_light_and_dark(colour: str, page: str) -> None:
    """WCAG 2.1, 1.4.11: a contrast of 3."""
    one, other = sorted((luminance(colour), luminance(page)))
    assert (other + 0.05) / (one + 0.05) >= 3


def test_a_marker_for_each_colour() -> None:
    assert len(COLOURS) == len({*COLOURS}) == len(MARKERS) == len({*MARKERS})


FRAME = Box(50, 50, 50, 50)


def test_labels_cover_neither_points_nor_each_other_and_are_nearest_to_their_own() -> None:
    points = [Box(20 + 9 * place, 50 + 3 * (place % 2), 2, 2) for place in range(7)]
    found = [placed.box for placed in arranged(points, [[(4, 3)]] * 7, FRAME, room=2) if placed is not None]

    assert len(found) == 7
    for number, box in enumerate(found):
        assert FRAME.holds(box)
        assert not any(box.meets(point) for point in points)
        assert sum(box.meets(other) for other in found) == 1  # itself
        assert min(points, key=box.gap) == points[number]


def test_a_label_without_room_is_shorter_or_left_out() -> None:
    crowd = [Box(x, y, 3, 3) for x in range(0, 101, 6) for y in range(0, 101, 6)]

    assert arranged(crowd[:1], [[(8, 8)]], FRAME, crowd) == [None]
    assert arranged([Box(50, 50, 1, 1)], [[(60, 2)]], FRAME) == [None]
    (short,) = arranged([Box(50, 50, 1, 1)], [[(60, 2), (3, 2)]], FRAME)
    assert short is not None
    assert short.text == 1
    assert arranged([], [], FRAME) == []


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a/x", "b/y"], ["x", "y"]),
        (["a/x", "b/x"], ["a/x", "b/x"]),
        (["a/", "b\x00"], ["a/", "b\ufffd"]),
        ([], []),
    ],
)
def test_short_names(names: list[str], short: list[str]) -> None:
    assert [short_names(names)[name] for name in names] == short


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("short", "short"),
        ("Meta-Llama-3.1-8B-Instruct", "Meta-Llama-3.1-\n8B-Instruct"),
        ("x" * 20, "x" * 15 + "\n" + "x" * 5),
        ("abcdefghijklmnopqrstuvwxyz" * 2, "abcdefghijklmno\n…mnopqrstuvwxyz"),
        ("", ""),
    ],
)
def test_names_on_lines(name: str, lines: str) -> None:
    assert wrapped(name, 15) == lines
    assert max(map(len, wrapped(name, 15).split("\n"))) <= 15


def test_readable() -> None:
    assert readable("a\x00b\ud800\ufffe\x85\n") == "a\ufffdb\ufffd\ufffd\ufffd\ufffd"
    assert not math.isnan(len(readable(HOSTILE)))


def test_without_matplotlib_there_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = plots_of(CASES["one language"])[0]
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'lm-eval-grounded\[report\]'"):
        _ = plot.svg
