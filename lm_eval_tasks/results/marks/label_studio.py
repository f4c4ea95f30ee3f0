"""Marking in Label Studio: the tasks to import, the interface to mark them in, and its JSON export read back.

An export is a list of tasks; what it holds is described at https://labelstud.io/guide/task_format. Its offsets count code
points since 2022, and units of UTF-16 before (HumanSignal/label-studio, issue 1008): the text that is stored with a region
says which.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from custom_metrics.reading.spans import HALLUCINATION
from custom_metrics.scores.judging import ASPECTS
from lm_eval_tasks.data.sources import CorruptSource
from lm_eval_tasks.results.marks.page import INSTRUCTIONS

CANNOT_TELL, TIE = "cannot tell", "tie"
_ANSWERS = ("answer_1", "answer_2")  # of a preference, which are also the names of the texts
_NOT_COMPARED = re.compile(r"\s|\\n")  # a stored text has its line feeds as `\n`


def label_studio_tasks(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks of a page's content, to be imported into a project. Their data are the lines of a marks file."""
    tasks = []
    for item in content["items"]:
        data = {**item["line"], "suggested": content["suggest"]}
        if content["kind"] == "preferences":
            data |= dict(zip(_ANSWERS, data["answers"], strict=True))
        task: dict[str, Any] = {"data": data}
        if item["suggested"]:
            regions = [_region(number, data["answer"], *span) for number, span in enumerate(item["suggested"])]
            task["predictions"] = [{"model_version": "detector", "result": regions}]
        tasks.append(task)
    return tasks


def _region(number: int, answer: str, start: int, end: int, category: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": answer[start:end], "labels": [category]}
    return {"id": f"s{number}", "from_name": "spans", "to_name": "answer", "type": "labels", "value": value}


def labelling_interface(content: Mapping[str, Any]) -> str:
    """The labelling interface of a project with these tasks, XML."""
    view = Element("View")
    SubElement(
        view, "Style"
    ).text = ".htx-text { white-space: pre-wrap; }"  # else spaces are trimmed, and offsets shift
    instructions = content["instructions"] or INSTRUCTIONS[content["kind"]]
    panel = SubElement(SubElement(view, "Collapse"), "Panel", value="Instructions")
    for line in filter(None, map(str.strip, instructions.splitlines())):
        SubElement(panel, "Header", size="6", value=line.replace("**", ""))
    SubElement(view, "Header", size="4", value="$question")
    texts = _ANSWERS if content["kind"] == "preferences" else ("answer",)
    for name in texts:
        _text(view, name, selectionEnabled=str(content["kind"] == "spans").lower())
    choices = [CANNOT_TELL]
    if content["kind"] == "spans":
        labels = SubElement(view, "Labels", name="spans", toName="answer")
        suggested = (category for item in content["items"] for *_, category in item["suggested"])
        for category in dict.fromkeys((*(content["categories"] or [HALLUCINATION]), *suggested)):
            SubElement(labels, "Label", value=category)
        SubElement(view, "Header", size="6", value="Nothing made up: submit without a mark.")
    elif content["kind"] == "ratings":
        for aspect in ASPECTS:
            SubElement(view, "Header", size="6", value=aspect)
            SubElement(view, "Rating", name=aspect, toName="answer", maxRating="4")
    else:
        choices = [*_ANSWERS, TIE, CANNOT_TELL]
    verdict = SubElement(view, "Choices", name="verdict", toName=texts[0], choice="single", showInline="true")
    for choice in choices:
        SubElement(verdict, "Choice", value=choice)
    SubElement(view, "TextArea", name="note", toName=texts[0], placeholder="note", maxSubmissions="1")
    SubElement(view, "Header", size="6", value="Reference")
    _text(view, "reference", selectionEnabled="false")
    indent(view)
    return tostring(view, "unicode") + "\n"


def _text(view: Element, name: str, **more: str) -> None:
    # Said in full, as an installation may have other defaults: texts stand in the data, and are stored with regions.
    SubElement(view, "Text", {"name": name, "value": f"${name}", "valueType": "text", "saveTextResult": "yes", **more})


def lines_from_export(path: Path) -> list[dict[str, Any]]:
    """The lines of a marks file in an export of Label Studio (format JSON).

    Every annotation of a task is a line, of the annotator who completed it. Cancelled annotations and predictions are left
    out. One without a region says that nothing is made up.

    Raises:
        CorruptSource: it is no such export, or a task is damaged, or an annotator has two annotations of one.
    """
    try:
        tasks = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CorruptSource(f"{path}: no JSON of Label Studio ({error})") from error
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise CorruptSource(f"{path}: not a list of tasks; export the project from Label Studio as JSON")
    lines: list[dict[str, Any]] = []
    stated = []  # draws with their order, which a task may say that nobody has annotated
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {task.get('id', number)}"
        try:
            own, draw = [*_lines(task)], task["data"].get("draw")
            lines += own
            if not own and isinstance(draw, Mapping) and "order" in draw:
                stated.append((task["data"], draw))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            why = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise CorruptSource(f"{where}: {why}") from error
    for data, draw in stated:
        bare = {name: value for name, value in draw.items() if name != "order"}
        same = (line for line in lines if line.get("draw") == bare and line.get("task") == data.get("task"))
        for line in islice(same, 1):
            line["draw"] = draw
    return lines


def _lines(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    annotations = task.get("annotations", task.get("completions"))
    if not isinstance(annotations, list):
        raise ValueError("no annotations; export as JSON, not as JSON-MIN")
    line = {name: value for name, value in task["data"].items() if name not in _ANSWERS}
    annotators = set()
    for annotation in annotations:
        if annotation.get("was_cancelled"):
            continue
        person = annotation.get("completed_by")
        annotator = str(person.get("email") or person.get("id") if isinstance(person, Mapping) else person)
        if annotator in annotators:
            raise ValueError(f"{annotator} has annotated it twice; delete one of the annotations")
        annotators.add(annotator)
        seconds = annotation.get("lead_time")
        said = _said(line, annotation["result"])
        yield {**line, "annotator": annotator, **said, "seconds": round(float(seconds or 0), 1)}


def _said(line: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What an annotator says in the results of an annotation."""
    values = [(result.get("from_name"), result["value"]) for result in results if result.get("type") != "relation"]
    verdict = next((value["choices"][0] for name, value in values if name == "verdict" and value["choices"]), None)
    note = "\n".join(text for name, value in values if name == "note" for text in value["text"])
    cannot_tell = verdict == CANNOT_TELL
    said = {"cannot_tell": cannot_tell, "note": note}
    if line["kind"] == "preferences":
        preferred = {_ANSWERS[0]: 0, _ANSWERS[1]: 1, TIE: TIE}.get(str(verdict))
        if preferred is None and not cannot_tell:
            raise ValueError("an annotation does not say which answer is better")
        return {"preferred": preferred, **said}
    if line["kind"] == "ratings":
        ratings = {name: value["rating"] for name, value in values if "rating" in value}
        return {"ratings": {aspect: None if cannot_tell else ratings.get(aspect) for aspect in ASPECTS}, **said}
    regions = [value for name, value in values if name == "spans"]
    spans = [[*_offsets(line["answer"], region), label] for region in regions for label in region["labels"]]
    if cannot_tell and spans:
        raise ValueError(f"an annotation marks parts and says `{CANNOT_TELL}`; undo one of them")
    return {"spans": None if cannot_tell else sorted(spans), **said}


def _offsets(answer: str, value: Mapping[str, Any]) -> tuple[int, int]:
    """Start and end of a region in code points."""
    start, end, text = value["start"], value["end"], value.get("text")
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        raise ValueError(f"a region from {start!r} to {end!r}")
    units = answer.encode("utf-16-le")
    candidates = [(start, end), tuple(len(units[: 2 * at].decode("utf-16-le", "ignore")) for at in (start, end))]
    if text is None and end <= len(answer):
        return start, end
    for compared in (str, _bare):
        for first, last in candidates:
            if last <= len(answer) and compared(answer[first:last]) == compared(str(text)):
                return first, last
    raise ValueError(f"a region from {start} to {end} of the answer does not hold {text!r:.80}")


def _bare(text: str) -> str:
    return _NOT_COMPARED.sub("", text)
