"""``replay``: a harness model that returns stored answers, to score them with today's filters and metrics.

``--model replay --model_args path=FILE[,model=NAME][,name=NAME]`` reads, from a file, a folder or a glob (``*.jsonl``,
``*.jsonl.gz``):

- one answer a line: ``{"query_id", "id" or "task_id", "response", and where needed "task", "language", "subset",
  "model"}``;
- the released NoMIRACL results: ``{"query_id", "results": {model: answer}, "template"}``, language and subset also from
  the file's path (``.../relevant/en.test.vanilla_prompt.jsonl``);
- the harness's own ``samples_<task>_<date>.jsonl`` (the unfiltered ``resps``).

A stored answer belongs to a document with the same id, unless its task, language or subset differs from the document's.
"""

from __future__ import annotations

import glob
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import finished
from lm_eval_tasks.data.provenance import local_file
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.data.tables import read_lines
from lm_eval_tasks.harness import Unanswered
from lm_eval_tasks.models import DocumentAnswerer, digest_of, options_of
from lm_eval_tasks.nomiracl import LANGUAGES

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_UPSTREAM_FILE = re.compile(r"(?P<language>[a-z]{2})\.(?:test|dev)\.(?P<template>vanilla|role|repeat|explanation)")
REFUSE, SKIP, EMPTY = "refuse", "skip", "empty"  # treatments of documents without a stored answer
_ID_COLUMNS = ("query_id", "id", "task_id")


class StoredAnswer(NamedTuple):
    """An answer, and task, language and subset of its document, ``None`` where they are unknown."""

    response: str
    source: str
    task: str | None = None
    language: str | None = None
    subset: str | None = None

    def fits(self, task: str | None, doc: dict[str, Any]) -> bool:
        """Whether the known ones of task, language and subset agree with a document's."""
        own, wanted = (self.task, self.language, self.subset), (task, doc.get("language"), doc.get("subset"))
        return all(a is None or b is None or a == b for a, b in zip(own, wanted, strict=True))


class Replay(DocumentAnswerer):
    """A harness model that answers from files.

    Args:
        path: a file, a folder (searched for ``*.jsonl`` and ``*.jsonl.gz``) or a glob.
        model: name of the model to take, where the files hold the answers of several.
        missing: of documents without a stored answer: ``"refuse"`` the whole run, as a typing error would look like a bad
            model; ``"skip"`` them (in no figure; counted in log and results); or count them as ``"empty"`` answers.
        name: of the model in the results; see :meth:`results_name`.
    """

    NAME = "replay"

    def __init__(
        self, path: str | None = None, model: str | None = None, missing: str = REFUSE, name: str | None = None
    ) -> None:
        super().__init__()
        if not path:
            raise UsageError("replay: say where the answers are: --model_args path=FILE_OR_FOLDER")
        if missing not in (REFUSE, SKIP, EMPTY):
            raise UsageError(f"replay: missing={missing!r} is none of {REFUSE}, {SKIP}, {EMPTY}")
        self.path = path
        self.missing = missing
        self.paths = _paths(path)
        self.answers = _load(self.paths, model)

    @classmethod
    def results_name(cls, model_args: Mapping[str, Any] | str | None) -> str:
        """The option ``name``; else the model of the answers, from the option ``model``, the results file beside logged
        samples, the folder that the harness named after it, or the answers themselves; else the name of their file or
        folder."""
        options = options_of(model_args)
        place = Path(str(options.get("path") or "")).expanduser()
        named = options.get("name") or options.get("model") or _model_of(place)
        if named:
            return str(named)
        from lm_eval_tasks.data.samples import dated_task

        is_logged = dated_task(place) is not None or any(place.glob("samples_*.jsonl"))
        place = place.parent if dated_task(place) is not None else place
        while "*" in place.name:
            place = place.parent
        name = place.name.split(".jsonl")[0] or place.resolve().name or "unnamed"
        return name.replace("__", "/", 1) if is_logged else name

    @classmethod
    def results_folder(cls, plain: str, model_args: Mapping[str, Any] | str | None, output: Path) -> str:
        """The plain name; with a digest where that folder holds other results, such as those of the original run or of
        another file of the same name."""
        options = options_of(model_args)
        sources = answers_from(str(options.pop("path", "")))
        for results in sorted((output / plain).glob("results_*.json")):
            from lm_eval_tasks.runs.results_file import read_results

            try:
                config = read_results(results)["config"]
            except (OSError, ValueError):
                config = {}
            recorded = {name: value for name, value in options_of(config.get("model_args")).items() if name != "path"}
            if (config.get("model"), config.get("answers_from"), recorded) != (cls.NAME, sources, options):
                return f"{plain}-{digest_of({**options, 'path': sources})}"
        return plain

    def get_model_info(self) -> dict[str, Any]:
        return {"answers_from": answers_from(self.path)}

    def respond(self, requests: Sequence[Any], disable_tqdm: bool) -> list[str]:
        """The stored answers; documents without one are treated as `missing` says. Several that differ are an error."""
        answers = [self._answer(request) for request in requests]
        answered: dict[str, dict[int, bool]] = {}  # task to document to whether it has an answer
        for request, answer in zip(requests, answers, strict=True):
            answered.setdefault(request.task_name, {})[request.doc_id] = answer is not None
        if requests and all(answer is None for answer in answers):
            raise UsageError(
                f"replay: none of the {len(requests)} documents of {', '.join(sorted(answered))} has a stored answer in "
                f"{self.path} ({sum(map(len, self.answers.values()))} answers to {len(self.answers)} ids, e.g. "
                f"{next(iter(self.answers))!r}; asked for e.g. {_identity(requests[0].doc)!r}). Do task, language, "
                f"subset and ids fit?"
            )
        incomplete = {task: docs for task, docs in sorted(answered.items()) if not all(docs.values())}
        untouched = [task for task, docs in incomplete.items() if not any(docs.values())]
        if incomplete and self.missing == REFUSE:
            numbers = [f"{[*docs.values()].count(False)} of {len(docs)} of {task}" for task, docs in incomplete.items()]
            raise UsageError(
                f"replay: documents without a stored answer in {self.path}: {', '.join(numbers)}. "
                + (f"Leave {', '.join(untouched)} out of --tasks. " if untouched else "")
                + "Among --model_args, missing=skip scores only what is there, missing=empty takes the empty answer."
            )
        if untouched and self.missing == SKIP:
            raise UsageError(
                f"replay: no document of {', '.join(untouched)} has a stored answer in {self.path}, which leaves nothing "
                f"to score; leave it out of --tasks"
            )
        outcome = "count as empty" if self.missing == EMPTY else "are left out of its figures"
        for task, docs in incomplete.items():
            counts = ([*docs.values()].count(False), len(docs), task, outcome)
            log.warning("replay: %d of %d documents of %s found no stored answer and %s", *counts)
        instead = Unanswered() if self.missing == SKIP else ""
        return [instead if answer is None else answer for answer in answers]

    def _answer(self, request: Any) -> str | None:
        identity = _identity(request.doc)
        if identity is None:
            return None
        stored = [answer for answer in self.answers.get(identity, ()) if answer.fits(request.task_name, request.doc)]
        # Answers that name the task take precedence.
        named = [answer for answer in stored if answer.task is not None] or stored
        if len({answer.response for answer in named}) > 1:
            sources = ", ".join(sorted({answer.source for answer in named}))
            raise UsageError(
                f"replay: several stored answers to {identity!r} of {request.task_name} differ ({sources}); "
                f"name fewer files"
            )
        return named[0].response if named else None


def _identity(doc: dict[str, Any]) -> str | None:
    return next((str(doc[column]) for column in _ID_COLUMNS if doc.get(column) is not None), None)


def _model_of(place: Path) -> str:
    """The model of stored answers, from the results beside samples or the first line of a file; empty where it is unknown,
    or there are several."""
    from lm_eval_tasks.data.samples import dated_task
    from lm_eval_tasks.runs.finding import find_files
    from lm_eval_tasks.runs.results_file import read_results

    try:
        places = [place] if place.exists() else _paths(str(place))
        if place.is_dir() or all(dated_task(path) is not None for path in places):
            models = {
                str(read_results(files.results[date]).get("model_name") or "")
                for path in places
                for files in find_files(path)
                for date in files.samples.keys() & files.results.keys()
            }
            return models.pop() if len(models) == 1 else ""
        first = json.loads(next((line for _, line in read_lines(place) if line.strip()), "{}"))
    except (OSError, ValueError, RecursionError):  # `Replay` raises the error later
        return ""
    if not isinstance(first, Mapping):
        return ""
    results = first.get("results")
    model = next(iter(results)) if isinstance(results, Mapping) and len(results) == 1 else first.get("model")
    return model if isinstance(model, str) and model.strip() else ""


def answers_from(path: str) -> list[dict[str, Any]]:
    """The files at a ``path`` of ``replay``, each with its name and SHA-256."""
    place = Path(path).expanduser()
    below = place if place.is_dir() else None
    return [local_file("path", file, below) for file in _paths(path)]


def _paths(path: str) -> list[Path]:
    place = Path(path).expanduser()
    if place.is_dir():
        files = finished(place, "*.jsonl", "*.jsonl.gz")
    else:
        files = [place] if place.is_file() else sorted(map(Path, glob.glob(str(place), recursive=True)))
    if not files:
        raise MissingSource(f"replay: no file of answers (*.jsonl, *.jsonl.gz) at {place}")
    return files


def _load(paths: Sequence[Path], model: str | None) -> dict[str, list[StoredAnswer]]:
    answers: dict[str, list[StoredAnswer]] = {}
    models: set[str] = set()
    broken = 0
    for path in paths:
        for number, line in read_lines(path):
            if not line.strip():
                continue
            try:
                stored = list(_stored(json.loads(line), path, number))
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
                broken += 1
                log.warning("replay: %s, line %d is no stored answer and was passed over (%s)", path, number, error)
                continue
            for identity, name, answer in stored:
                if name is not None:
                    models.add(name)
                if model is None or name is None or name == model:
                    answers.setdefault(identity, []).append(answer)
    files = ", ".join(map(str, paths))
    if model is None and len(models) > 1:
        raise UsageError(f"replay: the files hold answers of several models; say model=NAME, one of {sorted(models)}")
    if model is not None and not models:
        log.warning("replay: the files do not say whose answers they hold; model=%s chose nothing", model)
    if not answers and broken:
        raise UsageError(
            f"replay: none of the {broken} lines of {files} is a stored answer. A line is a JSON object with "
            f"`query_id`, `id` or `task_id`, and `response`, `results` ({{model: answer}}), or the harness's `doc` and "
            f"`resps`."
        )
    if not answers:
        hint = f"; they hold those of {sorted(models)}" if models else ""
        raise UsageError(f"replay: no answers{f' of model {model!r}' if model else ''} in {files}{hint}")
    return answers


def _stored(record: dict[str, Any], path: Path, number: int) -> Iterator[tuple[str, str | None, StoredAnswer]]:
    """The answers of a line, each with the id of its document and the name of its model."""
    harness = "resps" in record and "doc" in record
    doc = record["doc"] if harness else record
    identity = _identity(doc)
    if identity is None:
        raise KeyError(f"none of {', '.join(_ID_COLUMNS)}{' in doc' if harness else ''}")
    language, subset, task = doc.get("language"), doc.get("subset"), record.get("task")
    responses: Mapping[Any, Any]
    if harness:  # once for every filter that was logged; equal answers are no conflict
        from lm_eval_tasks.data.samples import task_of

        task = task_of(Path(path.name.removesuffix(".gz")))
        responses = {None: record["resps"][0][0]}
    elif "results" not in record:
        model = record.get("model")
        responses = {None if model is None else str(model): record["response"]}
    else:
        responses = record["results"]
        upstream = _UPSTREAM_FILE.match(path.name)
        language = language or (upstream and upstream["language"])
        template = record.get("template") or (upstream and upstream["template"])
        if path.parent.name in ("relevant", "non_relevant"):
            subset = subset or path.parent.name
        if template and language in LANGUAGES:
            task = f"nomiracl_{language}" + ("" if template == "vanilla" else f"_{template}")
    for name, response in responses.items():
        text = response if isinstance(response, str) else ""
        yield identity, name, StoredAnswer(text, f"{path.name}:{number}", task, language, subset)
