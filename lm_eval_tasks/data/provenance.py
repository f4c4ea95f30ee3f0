"""Provenance: a results file says where its numbers come from, in ``configs.<task>.metadata.provenance``.

A loader makes a :class:`Record` of what it read and left out. It travels with the documents, as the description of their
``datasets.Dataset``, so it is there too when documents come from a cache. The task adds its prompt, its detector and what
of the run the harness does not write down (:func:`of_task`). ``lm-eval-grounded reproduce`` reads it back.

Everything in it is strict JSON. Public files are named as their source names them, the user's files by their name; no path
of this machine is in it. Beside it stands the command line, as it was typed (:func:`command_line`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import whole_file
from lm_eval_tasks.data.digests import digests_of, sha256_of

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

PACKAGE = "lm-eval-grounded"

LEFT_OUT = "documents_left_out"
"""Key of a task's metadata in the results: how many documents were left out, by reason."""

UNTAGGED = "answers that the detector cannot read"
"""The reason that belongs to the scoring, not to the answers: another detector may read them."""

COMMAND_LINE = "command_line"
"""Key of ``configs.<task>.metadata``: the command line that was typed."""
BLANK = "<secret>"
"""Stands for a secret in it."""
_SECRET = re.compile(
    r"""(?<![\w-])
    ((?:\w+[_-])?(?:api[_-]?key|authorization|credentials?|password|secret)
      |(?:(?:access|api|auth|bearer|hf|hub|use_auth)_)?token)  # bos_token, pad_token and such are none
    (["']?\s*[=:]\s*["']?(?:Bearer\s+)?)
    (?!(?:true|false|none)\b)[^,;"'}]+""",
    re.IGNORECASE | re.VERBOSE,
)
_SECRET_VALUE = re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,})|(?<=://)[^/\s@]+(?=@)")


@dataclass(frozen=True)
class Record:
    """The record of what a loader read, and what became of it.

    Attributes:
        read_from: ``mirror``, ``sample``, ``hub``, ``github``, ``hub and github``, or ``samples`` (an earlier run's).
        files: public files that were read, each a mapping of ``host``, ``repository``, ``revision``, ``path``, ``bytes``,
            ``sha256`` and ``published``: whether that is the pinned content, ``None`` where none is pinned.
        local_files: the user's own: ``option`` that named it, ``name``, ``sha256``.
        split: of the public data set, as its files or its page on the hub name it; empty where that is not known.
        options: effective options of the loader, defaults too.
        kept: number of documents, by kind.
        left_out: number of what was dropped or repaired, by reason.
        corpus: what passages were taken from; empty where there is none.
        retrieval: what chose them; empty where nothing did.
        not_comparable: why a number over these documents is not comparable with the published one.
    """

    read_from: str
    files: list[dict[str, Any]] = field(default_factory=list)
    local_files: list[dict[str, Any]] = field(default_factory=list)
    split: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    corpus: dict[str, Any] = field(default_factory=dict)
    retrieval: dict[str, Any] = field(default_factory=dict)
    not_comparable: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        found: Sequence[sources.Located],
        instead: Mapping[str, str | None] | None = None,
        not_comparable: Iterable[str] = (),
        **said: Any,
    ) -> Record:
        """The record of files that :func:`lm_eval_tasks.data.sources.recording` has noted.

        `instead` has, for the path of a public file, what is said where it is not the published one (``None``: nothing), in
        place of its name. `not_comparable` are further reasons, `said` the other attributes.
        """
        origins = sorted({located.origin for located in found})
        reasons = list(not_comparable)
        files = []
        for located in dict.fromkeys(found):
            entry = public_file(located)
            files.append(entry)
            if entry["published"] is False:
                name = located.file.path
                reason = (instead or {}).get(name, f"{name} is not the published file (its checksum is another)")
                reasons += [reason] if reason else []
        if sources.SAMPLE in origins:  # says it all
            reasons = ["the files are the bundled miniature, which this project wrote (mirror=sample)"]
        left_out = {what: number for what, number in said.pop("left_out", {}).items() if number}
        return cls(" and ".join(origins), files, not_comparable=list(dict.fromkeys(reasons)), left_out=left_out, **said)


def public_file(located: sources.Located) -> dict[str, Any]:
    """A public file that was read, as a record has it."""
    file, path, _ = located
    digests = digests_of(path)
    return {
        "host": file.host,
        "repository": file.repository,
        "revision": file.revision,
        "path": file.path,
        "bytes": digests.size,
        "sha256": digests.sha256,
        "published": digests.fit(file.checksum) if file.checksum else None,
    }


def local_file(option: str, path: Path, below: Path | None = None) -> dict[str, Any]:
    """A file of the user's: the option that named it, its name (below a folder that was named), its SHA-256."""
    name = path.name if below is None or below == path else path.relative_to(below).as_posix()
    return {"option": option, "name": name, "sha256": sha256_of(path)}


def documents_of(rows: list[dict[str, Any]], record: Record) -> Dataset:
    """The documents of a loader, which carry their record wherever they go."""
    from datasets import Dataset, DatasetInfo

    entries = {name: plain(value) for name, value in asdict(record).items() if value or name == "not_comparable"}
    said = json.dumps({"provenance": entries}, allow_nan=False)
    return Dataset.from_list(rows, info=DatasetInfo(description=said))


def of_dataset(documents: Any) -> dict[str, Any]:
    """The record that documents carry; empty for those of a loader that makes none."""
    try:
        said = json.loads(documents.info.description)["provenance"]
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return dict(said)


def versions() -> dict[str, str]:
    """Versions of the distributions that decide prompts and scores, by name; the harness has those of the models."""
    names = [PACKAGE, "bm25s", "janome", "jieba", "rouge-score"]
    names += [name for name in ("sentence-transformers", "vllm") if name.replace("-", "_") in sys.modules]
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # vLLM is called otherwise where it is built for CPUs
            found[name] = "unknown"
    return found


def command_line() -> str | None:
    """The command line that started this process, with secrets blanked; ``None`` where that is not ``lm_eval``."""
    program, *words = sys.argv or [""]
    if Path(program).name not in ("lm_eval", "lm-eval") and Path(program).parts[-2:] != ("lm_eval", "__main__.py"):
        return None
    if words[:1] == ["run"]:  # which the harness adds where nobody said it
        del words[0]
    return shlex.join(["lm_eval", *(_SECRET_VALUE.sub(BLANK, _SECRET.sub(rf"\1\2{BLANK}", word)) for word in words)])


def of_task(task: Any) -> dict[str, Any]:
    """The provenance of a task's numbers.

    It is called when a run of a :class:`lm_eval_tasks.harness.task.GroundedTask` is over, so it never raises. What cannot
    be found out is recorded as missing.
    """
    name = str(task.config.task)
    try:
        found = {"versions": versions(), **task.provenance(), "prompt": _prompt(task), "run": task.asked}
        unscored = dict((task.config.metadata or {}).get(LEFT_OUT) or {})
        if unscored:
            found["left_out"] = {**found.get("left_out", {}), **unscored}
        reasons = list(found.pop("not_comparable", []))
        limit, samples, total = task.asked.get("limit"), task.asked.get("samples"), len(task.eval_docs)
        if samples:
            reasons.append(f"{len(samples)} of {total} documents were asked for (--samples)")
        elif limit is not None and limit < total:
            reasons.append(f"the first {limit} of {total} documents (--limit)")
        reasons += [_left_out(why, number) for why, number in unscored.items()]
        if reasons and tuple(reasons) not in _SAID:
            _SAID.add(tuple(reasons))
            log.warning("%s: not comparable with the published figures: %s", name, "; ".join(reasons))
        return {**plain(found), "not_comparable": reasons}
    except Exception as error:
        log.warning("%s: where its numbers come from could not be written down: %r", name, error)
        return {"failed": repr(error)}


_SAID: set[tuple[str, ...]] = set()  # once a run, for what holds of many tasks; the file has it for each


def of_scored(found: Mapping[str, Any], earlier: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """The provenance of answers that were made by one run and scored by another.

    Args:
        found: that of the scoring.
        earlier: configuration of the task in the results of the run that made the answers; empty where there are none.
        arguments: the model's, of that run.

    Returns:
        Documents, prompt and run are those of the answers; detector, calibration, versions, and the answers that the
        detector cannot read those of the scoring. Under
        ``answers``: the ``--metadata`` of their run, its versions, and whether it was ``--predict_only``.
    """
    made = (earlier.get("metadata") or {}).get("provenance") or {}
    if not isinstance(made, Mapping) or "failed" in made or "failed" in found:
        return dict(found)
    answers = made.get("answers") or {
        "metadata": metadata_given(earlier, arguments),
        "versions": made.get("versions", {}),
        "predict_only": [entry.get("metric") for entry in earlier.get("metric_list") or ()] == ["bypass"],
    }
    of_scoring = ("versions", "detector", "calibration", "words")
    of_answers = {name: part for name, part in made.items() if name not in (*of_scoring, "local_files", "answers")}
    earlier_files = [file for file in made.get("local_files") or () if file.get("option") != "samples"]
    local_files = [*earlier_files, *(found.get("local_files") or ())]
    scored = {**of_answers, **{name: found[name] for name in of_scoring if name in found}}
    scored |= {"local_files": local_files, "answers": answers}
    before, untagged = (each.get("left_out") or {} for each in (made, found))
    left_out = {why: number for why, number in before.items() if why != UNTAGGED}
    reasons = [why for why in made.get("not_comparable") or () if not str(why).endswith(_left_out(UNTAGGED, ""))]
    if UNTAGGED in untagged:
        left_out[UNTAGGED] = untagged[UNTAGGED]
        reasons.append(_left_out(UNTAGGED, untagged[UNTAGGED]))
    if left_out or before:
        scored["left_out"] = left_out
    if reasons or "not_comparable" in made:
        scored["not_comparable"] = reasons
    return scored


def sidecar_of(output: Path) -> Path:
    """The file beside made data that says where it comes from."""
    return output.with_name(f"{output.name}.provenance.json")


def write_with_sidecar(output: Path, rows: Iterable[Mapping[str, Any]], record: Mapping[str, Any]) -> None:
    """Write rows as JSON lines, and beside them (:func:`sidecar_of`) their record with the versions of the libraries: both
    files whole, or neither."""
    said = json.dumps(plain({"versions": versions(), **record}), indent=2, ensure_ascii=False)
    with whole_file(sidecar_of(output)) as partial_sidecar, whole_file(output) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        partial_sidecar.write_text(f"{said}\n", "utf-8")


def _left_out(why: str, number: int | str) -> str:
    return f"{number} documents left out: {why}"


_NOT_GIVEN = ("version", "config_source", "provenance", "figures", COMMAND_LINE, LEFT_OUT)


def metadata_given(config: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """The options that were given with ``--metadata``. The harness writes them into a task's configuration, mixed with the
    YAML's and the model's arguments (in the same file, as a mapping or a text)."""
    if isinstance(arguments, str):
        from lm_eval.utils import simple_parse_args_string

        arguments = simple_parse_args_string(arguments)
    theirs = arguments if isinstance(arguments, Mapping) else {}
    given = (config.get("metadata") or {}).items()
    return {
        key: value for key, value in given if key not in _NOT_GIVEN and not (key in theirs and theirs[key] == value)
    }


def _prompt(task: Any) -> dict[str, Any]:
    """Digests of the template as the YAML has it, and of the first prompt that was sent: its ``prompt_hash`` in samples."""
    config = task.config
    template = {}
    for name in ("description", "doc_to_text", "doc_to_target", "target_delimiter", "fewshot_delimiter", "gen_prefix"):
        if (value := getattr(config, name, None)) is not None:
            template[name] = value if isinstance(value, str) else config.serialize_function(value)
    texts = {"template_sha256": json.dumps(template, sort_keys=True, ensure_ascii=False)}
    first = min(task.instances or (), key=lambda request: request.doc_id, default=None)
    if first is not None:
        texts["first_prompt_sha256"] = str(first.arguments[0])
    return {name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in texts.items()}


def plain(value: Any) -> Any:
    """A value as strict JSON, without places of this machine: of an absolute path that exists its last part is kept."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    with suppress(ValueError):  # a null character
        if os.path.isabs(text) and len(text) <= 4096 and os.path.exists(text):
            return Path(text).name
    return text
