"""What a W&B run that was logged offline (``WANDB_MODE=offline``) would send: the records of its ``.wandb`` file.

The file is a log as LevelDB has it: blocks of 32 KiB, in them fragments with a header of checksum (4 bytes), length (2) and
kind (1: whole, 2: first, 3: middle, 4: last); before the first there are 7 bytes of W&B's own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK, _OWN_HEADER, _HEADER = 32768, 7, struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4


class Run(NamedTuple):
    """A run: its project and name, configuration, logged values (the last of each name), and artifacts by type."""

    project: str
    name: str
    config: dict[str, Any]
    logged: dict[str, Any]
    artifacts: dict[str, list[str]]


def read_run(file: Path) -> Run:
    from wandb.proto.wandb_internal_pb2 import Record

    project = name = ""
    config: dict[str, Any] = {}
    logged: dict[str, Any] = {}
    artifacts: dict[str, list[str]] = {}
    for content in _records(file.read_bytes()):
        record = Record.FromString(content)
        if record.HasField("run"):
            project, name = record.run.project, record.run.display_name
        for item in (*record.run.config.update, *record.config.update):
            _put(config, item)
        for item in (*record.history.item, *record.summary.update):
            _put(logged, item)
        for of_artifact in (record.artifact, record.request.log_artifact.artifact):
            if of_artifact.name:
                artifacts.setdefault(of_artifact.type, []).append(of_artifact.name)
    return Run(project, name, config, logged, artifacts)


def _put(values: dict[str, Any], item: Any) -> None:
    *parents, last = item.nested_key or [item.key]
    for parent in parents:
        values = values.setdefault(parent, {})
    values[last] = json.loads(item.value_json)


def _records(content: bytes) -> Iterator[bytes]:
    place, parts = _OWN_HEADER, b""
    while place + _HEADER.size <= len(content):
        left = _BLOCK - place % _BLOCK
        if left < _HEADER.size:  # a header is never cut in two
            place += left
            continue
        _, length, kind = _HEADER.unpack_from(content, place)
        place += _HEADER.size
        parts += content[place : place + length]
        place += length
        if kind in (_WHOLE, _LAST):
            yield parts
            parts = b""
