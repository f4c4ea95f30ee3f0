"""The signature of a figure: one line that says what it depends on, to paste beside it, as sacrebleu has one.

``nomiracl_de|v:1.8|prompt:vanilla|filter:robust|n:443|rev:ecd0877|lm-eval:0.4.13|plugin:0.1.0``

Figures with equal signatures can be compared, but for the model's own settings. What a run did not record, as one of an
earlier version, is left out. Options that the user did not change are those of the task's version.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval_tasks.data.provenance import LEFT_OUT, PACKAGE, mapping
from lm_eval_tasks.definition import catalogue
from lm_eval_tasks.definition.schema import BALANCED, Metric

Parts = Mapping[str, str]

_SHORT = 7  # characters of a digest
_DIGEST = re.compile("[0-9a-f]{40,64}")
_SEPARATES = re.compile(r"[|\s]+")
_SAID_ELSEWHERE = ("language", "detector", "calibration")  # options that other parts have
_UNCHANGED = (None, "of its weights")  # of a detector's threshold


def parts_of_task(
    task: str,
    config: Mapping[str, Any],
    version: Any = None,
    documents: int = 0,
    harness: str = "",
    shots: int = 0,
    chat_template: str = "",
    system_instruction: str = "",
    cost: float = 1,
) -> dict[str, str]:
    """The parts of the signature of a task's figures, in order, without a filter.

    `config` is as the results file has it under ``configs``, with ``metadata.provenance``; it may be empty or damaged.
    `documents` were asked, with those left unanswered; 0 where that is not known. `chat_template` is the SHA-256 of the
    template that was applied; empty where none was, or a server applied its own. `cost` is that of a made-up answer.
    """
    metadata = mapping(config.get("metadata"))
    record = mapping(metadata.get("provenance"))
    versions, run, prompt = (mapping(record.get(name)) for name in ("versions", "run", "prompt"))
    named = catalogue.variant_of(task)[1].get("prompt", "base")
    asked = documents - sum(n for n in mapping(metadata.get(LEFT_OUT)).values() if isinstance(n, int))
    given = {**mapping(mapping(record.get("answers")).get("metadata")), **metadata}
    options = mapping(record.get("options"))
    options = {name: options[name] for name in options if name in given and name not in _SAID_ELSEWHERE}
    detector, calibration, marks = (mapping(record.get(name)) for name in ("detector", "calibration", "marks"))
    detecting = {"threshold": detector.get("threshold"), **mapping(detector.get("options"))}
    parts = {
        "": task,
        "v": version,
        "prompt": named if named != "base" else prompt.get("template_sha256"),  # the only one, or not ours
        "shots": shots or None,
        "system": system_instruction and hashlib.sha256(system_instruction.encode("utf-8", "replace")).hexdigest(),
        "chat": chat_template or ("served" if run.get("apply_chat_template") is True else None),
        "options": _assigned(options),
        "temperature": mapping(config.get("generation_kwargs")).get("temperature") or None,
        "detector": _at(detector.get("name"), detector.get("version")),
        "tagging": _assigned({name: value for name, value in detecting.items() if value not in _UNCHANGED}),
        "calibration": _at(*str(calibration.get("file") or "").split("@")[:2]),
        "marks": marks.get("draw"),
        "cost": f"{cost:g}" if cost != 1 else None,
        "n": asked if asked > 0 else None,
        "rev": _revision(record),
        **{str(file.get("option")): file.get("sha256") for file in _mappings(record.get("local_files"))},
        "lm-eval": harness,
        "plugin": versions.get(PACKAGE),
    }
    return {name: text for name, value in parts.items() if (text := _text(value))}


def signature(parts: Parts, filter_name: str = "", metric: Metric | None = None) -> str:
    """The line of a task's figure, or of all its figures: what does not enter into a metric's is left out."""
    left_out: set[str] = set()
    if metric is not None:
        left_out |= set() if metric.of_detector else {"detector", "tagging"}
        left_out |= set() if metric.needs else {"calibration"}
        left_out |= set() if metric.name.startswith("marked_") else {"marks"}
        left_out |= set() if metric.name == BALANCED else {"cost"}
    written = {name: text for name, text in parts.items() if name not in left_out}
    if filter_name and filter_name != "none":
        before = {name: written.pop(name) for name in [*written] if name not in ("n", "rev", "lm-eval", "plugin")}
        written = {**before, "filter": _text(filter_name), **written}
    return "|".join(f"{name}:{text}" if name else text for name, text in written.items())


def parts_of_group(group: str, members: Sequence[Parts]) -> dict[str, str]:
    """The parts of the signature of a mean of tasks: those that all share, the sum of their documents with the number of
    tasks, and ``varies`` for what differs."""
    parts: dict[str, str] = {"": _text(group)}
    for name in dict.fromkeys(name for member in members for name in member if name):
        values = [*dict.fromkeys(member.get(name, "") for member in members)]
        parts[name] = values[0] if len(values) == 1 else "varies"
    numbers = [int(member.get("n") or 0) for member in members]
    return parts | {"n": f"{sum(numbers)}_of_{len(members)}_tasks" if all(numbers) else "varies"}


def with_marks(line: str, draw: str) -> str:
    """The signature of a task whose answers people marked, in a draw of this identity, after a detector's part."""
    parts = line.split("|")
    names = [part.partition(":")[0] for part in parts]
    after = max((at for at, name in enumerate(names) if name in ("detector", "tagging", "calibration")), default=0)
    return "|".join([*parts[: after + 1], f"marks:{_text(draw)}", *parts[after + 1 :]])


def _revision(record: Mapping[str, Any]) -> str:
    """The short revisions of the public files. A branch is no revision: then it is the digest of the files. A star stands
    behind them where a file is not the published one."""
    if record.get("read_from") == "sample":
        return "sample"
    files = _mappings(record.get("files"))
    revisions = dict.fromkeys(str(file.get("revision") or "") for file in files)
    if all(map(_DIGEST.fullmatch, revisions)):
        known = "+".join(revision[:_SHORT] for revision in revisions)
    else:
        digests = sorted(str(file.get("sha256") or "") for file in files)
        known = _digest(hashlib.sha256("".join(digests).encode()).hexdigest())
    return known + ("*" if any(file.get("published") is False for file in files) else "") if files else ""


def _at(name: Any, version: Any = "") -> str:
    return f"{name}@{_digest(version)}" if name and version else str(name or "")


def _assigned(values: Mapping[str, Any]) -> str:
    return ";".join(f"{name}={value}" for name, value in sorted(values.items()))


def _digest(value: Any) -> str:
    """A digest in short; any other value as its text."""
    text = str(value)
    return text[:_SHORT] if re.fullmatch("[0-9a-f]{12,64}", text) else text


def _text(value: Any) -> str:
    """A value as a part, on one line and without the separator."""
    return "" if value is None else _SEPARATES.sub("_", _digest(value)).strip("_")


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    entries: Iterable[Any] = values if isinstance(values, (list, tuple)) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]
