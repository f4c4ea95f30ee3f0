"""Provenance: where the numbers of a results file come from, in ``configs.<task>.metadata.provenance``.

A loader makes a :class:`Record` of the files that it read and the rows that it left out. The record is the description of
the documents' ``datasets.Dataset``, so documents from a cache have it too. The task adds its prompt, its detector and the
settings of the run that the harness does not log (:func:`of_task`). ``lm-eval-grounded reproduce`` reads it back.

A record is strict JSON. Public files have the names that their source gives them, the user's files their file name; no
path of this machine and no secret is in it. The command line stands beside it, as it was typed (:func:`command_line`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from custom_metrics.usage.options import assignments
from custom_metrics.usage.secrets import blank
from lm_eval_tasks.data import digests_of, sha256_of, sources, whole_file

if TYPE_CHECKING:
    from datasets import Dataset

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

PACKAGE = "lm-eval-grounded"
package_version = cache(lambda: version(PACKAGE))  # what is kept of every run names it

# Keys of ``configs.<task>.metadata`` in the results.
COMMAND_LINE = "command_line"  # that was typed
LEFT_OUT = "documents_left_out"  # number of documents that were left out, by reason
NO_STATEMENT = "answers_without_statement"  # kind of custom_metrics.broken_run to number, of this process
CUT = "prompts_cut"
"""How many prompts the model's backend cut (``cut`` of ``of``), the tokens of the longest one (``longest``), of the answer
that it had to keep free (``max_gen_toks``), and of both together (``window``)."""

OF_SAMPLE = "the files are the bundled excerpt of the public ones (mirror=sample)"
"""A reason why figures cannot be compared. No log repeats it, as the user named the excerpt."""

UNTAGGED = "answers that the detector cannot read"
"""The reason that depends on the scoring: another detector may be able to read these answers."""


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping; else, as in a damaged file, an empty mapping."""
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Record:
    """The record of a loader: its files, its options, and the number of documents that it kept and left out."""

    read_from: str  # ``mirror``, ``sample``, ``hub``, ``github``, ``hub and github``, or ``samples`` (an earlier run's)
    files: list[dict[str, Any]] = field(default_factory=list)  # public files that were read (:func:`public_file`)
    local_files: list[dict[str, Any]] = field(default_factory=list)  # the user's own files (:func:`local_file`)
    split: str = ""  # of the public data set, as its files or its page on the hub name it; empty if not known
    options: dict[str, Any] = field(default_factory=dict)  # effective options of the loader, with defaults
    kept: dict[str, int] = field(default_factory=dict)  # number of documents, by kind
    left_out: dict[str, int] = field(default_factory=dict)  # number of what was dropped or repaired, by reason
    corpus: dict[str, Any] = field(default_factory=dict)  # description of the corpus of passages, or empty
    retrieval: dict[str, Any] = field(default_factory=dict)  # description of the retriever, or empty
    not_comparable: list[str] = field(default_factory=list)  # with published numbers: the reasons

    @classmethod
    def from_files(
        cls,
        located_files: Sequence[sources.Located],
        explanations: Mapping[str, str] | None = None,
        not_comparable: Iterable[str] = (),
        **rest: Any,
    ) -> Record:
        """The record of files that :func:`lm_eval_tasks.data.sources.recording` has listed. `explanations` has, for the
        path of a public file, the reason to give where it differs from the published one; `not_comparable` are further
        reasons, `rest` the other attributes."""
        origins = sorted({located.origin for located in located_files})
        files = [public_file(located) for located in dict.fromkeys(located_files)]
        changed = [file["path"] for file in files if file["published"] is False]
        why = {name: f"{name} is not the published file (its checksum is another)" for name in changed}
        why |= {name: reason for name, reason in (explanations or {}).items() if name in changed}
        reasons = [*not_comparable, *why.values()]
        if sources.SAMPLE in origins:  # implies all other reasons
            reasons = [OF_SAMPLE]
        left_out = {what: number for what, number in rest.pop("left_out", {}).items() if number}
        return cls(" and ".join(origins), files, not_comparable=list(dict.fromkeys(reasons)), left_out=left_out, **rest)


def public_file(located: sources.Located) -> dict[str, Any]:
    """The entry of a public file in :attr:`Record.files`; ``published`` is ``None`` where no content is pinned."""
    file, path, _ = located
    digests = digests_of(path)
    return {
        "host": file.host,
        "repository": file.repository,
        "revision": file.revision,
        "path": file.path,
        "bytes": digests.size,
        "sha256": digests.sha256,
        "published": digests.matches(file.checksum) if file.checksum else None,
    }


def local_file(option: str, path: Path, below: Path | None = None) -> dict[str, Any]:
    """The entry of a user's file in :attr:`Record.local_files`; its name is relative to `below` where that is a folder."""
    name = path.name if below is None or below == path else path.relative_to(below).as_posix()
    return {"option": option, "name": name, "sha256": sha256_of(path)}


def documents_of(rows: list[dict[str, Any]], record: Record) -> Dataset:
    """The data set of a loader's documents, with their record as its description."""
    from datasets import Dataset, DatasetInfo

    entries = {name: strict_json(value) for name, value in asdict(record).items() if value or name == "not_comparable"}
    description = json.dumps({"provenance": entries}, allow_nan=False)
    return Dataset.from_list(rows, info=DatasetInfo(description=description))


def of_dataset(documents: Any) -> dict[str, Any]:
    """The record of a data set of documents; empty where its loader makes none."""
    try:
        record = json.loads(documents.info.description)["provenance"]
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return dict(record)


def versions() -> dict[str, str]:
    """Versions of the distributions that affect prompts and scores; the harness logs those of the models."""
    names = [PACKAGE, "bm25s", "janome", "jieba", "rouge-score"]
    names += ["sentence-transformers"] if "sentence_transformers" in sys.modules else []
    return {name: version(name) for name in names}


def command_line() -> str | None:
    """The command line that started this process, with secrets blanked; ``None`` where that is not ``lm_eval``."""
    program, *words = sys.argv or [""]
    if Path(program).name not in ("lm_eval", "lm-eval") and Path(program).parts[-2:] != ("lm_eval", "__main__.py"):
        return None
    if words[:1] == ["run"]:  # the harness inserts it where it was not typed
        del words[0]
    return shlex.join(["lm_eval", *blank(words)])


def of_task(task: Any) -> dict[str, Any]:
    """The provenance of a task's numbers. It is called when a run of a :class:`lm_eval_tasks.harness.task.GroundedTask`
    is over, so it never raises: after an error, the record holds the message alone."""
    name = str(task.config.task)
    try:
        record = {"versions": versions(), **task.provenance(), "prompt": _prompt(task), "run": task.run_settings}
        unscored = dict((task.config.metadata or {}).get(LEFT_OUT) or {})
        if unscored:
            record["left_out"] = {**record.get("left_out", {}), **unscored}
        reasons = list(record.pop("not_comparable", []))
        limit, samples, total = task.run_settings.get("limit"), task.run_settings.get("samples"), len(task.eval_docs)
        if samples:
            reasons.append(f"{len(samples)} of {total} documents were asked for (--samples)")
        elif limit is not None and limit < total:
            reasons.append(f"the first {limit} of {total} documents (--limit)")
        reasons += [_left_out(why, number) for why, number in unscored.items()]
        if reasons != [OF_SAMPLE] and reasons and tuple(reasons) not in _LOGGED:
            _LOGGED.add(tuple(reasons))
            log.warning("%s: not comparable with the published figures: %s", name, "; ".join(reasons))
        return {**strict_json(record), "not_comparable": reasons}
    except Exception as error:
        log.warning("%s: where its numbers come from could not be written down: %s", name, blank(repr(error)))
        return {"failed": blank(repr(error))}


_LOGGED: set[tuple[str, ...]] = set()  # each list of reasons is logged once a run; many tasks may share it


def of_scored(scoring: Mapping[str, Any], earlier: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """The provenance of answers that were made by one run and scored by another (`scoring`).

    `earlier` is the configuration of the task in the results of the run that made the answers (empty where there are
    none), `arguments` are that run's model arguments. Documents, prompt and run come from the answers; detector,
    calibration, marks, versions and the number of answers that the detector cannot read from the scoring. ``answers``
    has the ``--metadata`` of the run that made them, its versions, and whether it was ``--predict_only``.
    """
    made = (earlier.get("metadata") or {}).get("provenance") or {}
    if not isinstance(made, Mapping) or "failed" in made or "failed" in scoring:
        return dict(scoring)
    answers = made.get("answers") or {
        "metadata": metadata_given(earlier, arguments),
        "versions": made.get("versions", {}),
        "predict_only": [entry.get("metric") for entry in earlier.get("metric_list") or ()] == ["bypass"],
    }
    of_scoring = ("versions", "detector", "calibration", "words", "marks", "label_marks")
    of_answers = {name: part for name, part in made.items() if name not in (*of_scoring, "local_files", "answers")}
    of_options = {file.get("option") for file in scoring.get("local_files") or ()}
    earlier_files = [file for file in made.get("local_files") or () if file.get("option") not in of_options]
    local_files = [*earlier_files, *(scoring.get("local_files") or ())]
    scored = {**of_answers, **{name: scoring[name] for name in of_scoring if name in scoring}}
    scored |= {"local_files": local_files, "answers": answers}
    before, untagged = (record.get("left_out") or {} for record in (made, scoring))
    left_out = {why: number for why, number in before.items() if why != UNTAGGED}
    reasons = [why for why in made.get("not_comparable") or () if not str(why).endswith(_left_out(UNTAGGED, ""))]
    if UNTAGGED in untagged:
        left_out[UNTAGGED] = untagged[UNTAGGED]
        reasons.append(_left_out(UNTAGGED, untagged[UNTAGGED]))
    scored |= {"left_out": left_out} if left_out or before else {}
    return scored | ({"not_comparable": reasons} if reasons or "not_comparable" in made else {})


def sidecar_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.provenance.json")


def write_with_sidecar(output: Path, rows: Iterable[Mapping[str, Any]], record: Mapping[str, Any]) -> None:
    """Write rows as JSON lines, and their record with the versions of the libraries to :func:`sidecar_of`: both files, or
    neither."""
    content = json.dumps(strict_json({"versions": versions(), **record}), indent=2, ensure_ascii=False)
    with whole_file(sidecar_of(output)) as partial_sidecar, whole_file(output) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        partial_sidecar.write_text(f"{content}\n", "utf-8")


def _left_out(why: str, number: int | str) -> str:
    return f"{number} documents left out: {why}"


_NOT_GIVEN = (
    *("version", "config_source", "provenance", "figures", "signature"),
    *(COMMAND_LINE, LEFT_OUT, NO_STATEMENT, CUT),
)


def metadata_given(config: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """The options that were given with ``--metadata``. The harness merges them into a task's configuration with the YAML's
    own and with the model's `arguments` (a mapping or a text), which are removed again here."""
    if isinstance(arguments, str):
        arguments = assignments(arguments)
    theirs = mapping(arguments)

    def is_theirs(key: str, value: Any) -> bool:  # "none" is None on 0.4 and a text on 0.5
        return key in theirs and (theirs[key] == value or str(theirs[key]).lower() == str(value).lower())

    given = (config.get("metadata") or {}).items()
    return {key: value for key, value in given if key not in _NOT_GIVEN and not is_theirs(key, value)}


def _prompt(task: Any) -> dict[str, Any]:
    """SHA-256 of the YAML's template, and of the first prompt that was sent: its ``prompt_hash`` in samples."""
    names = ("description", "doc_to_text", "doc_to_target", "target_delimiter", "fewshot_delimiter", "gen_prefix")
    config = task.config.to_dict()  # functions as their source
    template = {name: config[name] for name in names if config.get(name) is not None}
    texts = {"template_sha256": json.dumps(template, sort_keys=True, ensure_ascii=False)}
    first = min(task.instances or (), key=lambda request: request.doc_id, default=None)
    if first is not None:
        texts["first_prompt_sha256"] = str(first.arguments[0])
    return {name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in texts.items()}


def strict_json(value: Any) -> Any:
    """A value as strict JSON without secrets; an absolute path that exists becomes its last part, so that no folder is
    disclosed."""
    return _strict_json(blank(value))


def _strict_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict_json(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    with suppress(ValueError):  # a null character
        if os.path.isabs(text) and len(text) <= 4096 and os.path.exists(text):
            return Path(text).name
    return text
