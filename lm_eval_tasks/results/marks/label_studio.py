"""Marking of spans in Label Studio (https://labelstud.io/guide/task_format): its tasks' data are lines of a marks file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from custom_metrics.reading.spans import HALLUCINATION
from lm_eval_tasks.data.sources import CorruptSource

_INTERFACE = """<View>
  <Style>.htx-text { white-space: pre-wrap; }</Style>
  <Header value="$question"/>
  <Text name="answer" value="$answer" valueType="text" saveTextResult="yes"/>
  <Labels name="spans" toName="answer">%s</Labels>
  <Header size="6" value="Nothing made up: submit without a mark."/>
  <Choices name="verdict" toName="answer"><Choice value="cannot tell"/></Choices>
  <TextArea name="note" toName="answer" placeholder="note" maxSubmissions="1"/>
  <Text name="reference" value="$reference" valueType="text"/>
</View>
"""  # without `pre-wrap` spaces are trimmed, and offsets shift
_NOT_COMPARED = re.compile(r"\s|\\n")  # Label Studio stores a line feed of a marked text as `\n`


def project(content: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The tasks of a page's content, each with the order of the draw, and the labelling interface, XML."""
    tasks = [{"data": {**item["line"], "draw": content["items"][0]["line"]["draw"]}} for item in content["items"]]
    return tasks, _INTERFACE % "".join(f'<Label value="{name}"/>' for name in content["categories"] or [HALLUCINATION])


def lines_from_export(path: Path) -> list[dict[str, Any]]:
    """The lines of a marks file in a JSON export, one for each annotation that was not cancelled; else CorruptSource."""
    try:
        annotated = [
            (task["data"], each) for task in json.loads(path.read_text("utf-8-sig")) for each in task["annotations"]
        ]
        return [_line(data, annotation) for data, annotation in annotated if not annotation.get("was_cancelled")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptSource(f"{path}: not a JSON export of Label Studio ({error!r})") from error


def _line(data: Mapping[str, Any], annotation: Mapping[str, Any]) -> dict[str, Any]:
    values = [(result.get("from_name"), result["value"]) for result in annotation["result"]]
    regions = [value for name, value in values if name == "spans"]
    for start, end, text in ((value["start"], value["end"], value["text"]) for value in regions):
        if _NOT_COMPARED.sub("", marked := data["answer"][start:end]) != _NOT_COMPARED.sub("", text):
            raise ValueError(f"a region of {data['id']} is {marked!r:.80}, not {text!r:.80}")
    cannot_tell, person = any(name == "verdict" for name, _ in values), annotation["completed_by"]
    return {
        **data,
        "annotator": str(person["email"] if isinstance(person, dict) else person),
        "spans": None if cannot_tell else [[at["start"], at["end"], label] for at in regions for label in at["labels"]],
        "cannot_tell": cannot_tell,
        "note": "\n".join(text for name, value in values if name == "note" for text in value["text"]),
        "seconds": annotation.get("lead_time") or 0,
    }
