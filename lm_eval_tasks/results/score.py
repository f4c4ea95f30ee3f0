"""Scoring as a second step: tag and count logged answers, and write results in the harness's format.

``lm_eval --predict_only --log_samples`` writes samples files; :func:`score` runs the same harness tasks over their
documents and answers, so the numbers are those of a run in one step.

Several processes of a launch can each tag a part. Each stores its spans in a file of its own
(:class:`detector_plugin.span_store.StoredDetector`). The process that scores afterwards reads them all.

Rates by people's labels are added to finished results. No answer is read anew, so neither documents nor a detector are
needed.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

from custom_metrics.usage.plain_errors import UsageError
from detector_plugin import filters, processes
from detector_plugin.detector import DEFAULT_DETECTOR
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks.data import locked_folder, move_whole
from lm_eval_tasks.data.provenance import COMMAND_LINE, CUT, of_scored, strict_json
from lm_eval_tasks.data.samples import parse_sample, read_rows_with_offsets, read_samples, samples_files
from lm_eval_tasks.data.sources import MissingSource
from lm_eval_tasks.definition import pairs
from lm_eval_tasks.models import DocumentAnswerer
from lm_eval_tasks.results import LOGGED, is_tagged
from lm_eval_tasks.results.marks.draw import TaskAnswers
from lm_eval_tasks.results.marks.lines import Mark, join, read_marks
from lm_eval_tasks.results.marks.rates import with_labels, with_spans
from lm_eval_tasks.runs import read_runs
from lm_eval_tasks.runs.results_file import metadata_of, read_results

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_SHARED = ("system_instruction", "system_instruction_sha", "chat_template", "chat_template_sha", "fewshot_as_multiturn")


def score(
    path: Path,
    detector: str = DEFAULT_DETECTOR,
    detector_args: Mapping[str, Any] | str | None = None,
    calibration: str | None = None,
    calibration_annotations: str | None = None,
    output: Path | None = None,
    marks: Sequence[Path] = (),
    complete_to: int | None = None,
) -> list[Path]:
    """Tag and score the answers of earlier runs; return the results files, one for each model.

    Processes that ``accelerate launch`` or ``torchrun`` started share the tagging. One of them scores, so the numbers are
    those of one process; the others return nothing. The detector's spans are stored in ``.spans_<detector>.jsonl`` beside
    the results until these are written. After a kill, the same command continues from there.

    Args:
        path: a samples file, or a folder: of each folder below it, which is one model's, the newest samples of each task.
        detector, detector_args, calibration, calibration_annotations: as for :func:`lm_eval_tasks.mfava.dataset.load`.
        output: folder for the files; for several models, the parent of a folder for each. Default: beside the samples.
        marks: files of people's marks: spans for ``marked_rate``; labels, without a detector, for
            ``marked_balanced_error`` and so on.
        complete_to: count only the first draws of marks, so many.

    Raises:
        MissingSource: there are no samples of a task whose answers a detector tags.
        CorruptSource: a samples file is damaged in the middle, or a line of marks cannot be used.
        UsageError: marks are not of these answers, or drawn answers have none.
        UnusableDetector, CalibrationError: see :func:`lm_eval_tasks.detection.calibrated.settings_of`.
        OSError: the results could not be written; the spans are stored for the next run.
    """
    names = ("detector", "detector_args", "calibration", "calibration_annotations")
    values = (detector, detector_args, calibration, calibration_annotations)
    metadata = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    read = read_marks(marks) if marks else []
    if len(kinds := {mark.kind for mark in read}) > 1:
        raise UsageError(
            "labels change results that are finished: score with people's spans first, and what that writes with the labels"
        )
    by_labels = kinds == {"labels"}
    samples = samples_files(path)
    if not by_labels:
        samples = _tagged(samples, path)
    added: dict[Path, dict[str, _Adding]] = {}
    for folder, files in samples.items():
        of_tasks = {task: _adding(read, task, file, complete_to) for task, file in files.items()}
        added[folder] = {task: adding for task, adding in of_tasks.items() if adding is not None}
    if read and not any(added.values()):
        raise UsageError(f"{path}: no mark in {', '.join(map(str, marks))} is of an answer of these runs")
    folders = {folder: files for folder, files in samples.items() if added[folder] or not by_labels}
    below = {folder: folder.name for folder in folders}
    if len({*below.values()}) < len(folders):  # of one model
        above = os.path.commonpath(folders)
        below = {folder: str(folder.relative_to(above)) for folder in folders}
    written: list[Path] = []
    for folder, files in folders.items():
        target = (folder if output is None else output / below[folder] if len(folders) > 1 else output).resolve()
        target.mkdir(parents=True, exist_ok=True)
        source = next(iter(files.values()))
        work = Work(files, {**metadata, "samples": str(source if len(files) == 1 else source.parent)}, target)
        if LOGGED in files and not added[folder]:
            raise UsageError(f"{folder}: `detect` has read these answers; name people's marks of them with --marks")
        if by_labels or LOGGED in files:
            written += _write_anew(files, added[folder], target)
        elif processes.here().rank == 0:
            written.append(_score_model(work, _earlier_results(source), added[folder]))
        else:
            processes.barrier()  # until the first process has the folder to itself
            _tag_together(work)
    return written


_Adding = Callable[[dict[str, Any], Iterable[dict[str, Any]]], Iterator[dict[str, Any]]]
"""What adds rates by marks to results, and their values to the rows of a task, which it passes through."""


def _tagged(samples: Mapping[Path, Mapping[str, Path]], path: Path) -> dict[Path, dict[str, Path]]:
    """The samples, by folder and task, whose answers a detector tags; a MissingSource where there are none."""
    tagged = {folder: {task: file for task, file in of.items() if is_tagged(task)} for folder, of in samples.items()}
    others = ", ".join(sorted({task for files in samples.values() for task in files if not is_tagged(task)}))
    if not any(tagged.values()):
        raise MissingSource(
            f"{path.resolve()}: samples of {others}, none of mfava_<language>, clapnq_gold* or clapnq_rag*, whose answers "
            f"a detector tags"
        )
    if others:
        log.info("passed over, as no detector tags their answers: %s", others)
    return {folder: files for folder, files in tagged.items() if files}


def _adding(marks: Sequence[Mark], task: str, samples: Path, complete_to: int | None) -> _Adding | None:
    """What adds the marks of a task's samples; ``None`` where no mark is of this run."""
    kinds = [mark.kind for mark in marks if mark.task == task]
    if not kinds:
        return None
    (run,) = read_runs([samples])
    answers = TaskAnswers.of(run.model, run.tasks[task], kinds[0])
    joined = join(marks, answers, complete_to)
    if not joined.answers:
        return None
    if kinds[0] == "spans":
        return partial(with_spans, answers, joined)
    return partial(with_labels, run.tasks[task].table, answers, joined)


def _score_model(work: Work, earlier: Mapping[str, Any], added: Mapping[str, _Adding]) -> Path:
    """Tag and score the answers of one model, which come from the run of the `earlier` results, and add rates by marks;
    return the results file."""
    from lm_eval_tasks.harness import EvaluationTracker, simple_evaluate

    samples = work.samples()
    order = list(earlier.get("n-samples") or ())  # sampled answers depend on the order of the tasks
    tasks = sorted(work.files, key=lambda task: order.index(task) if task in order else len(order))
    listed, manager = earlier.get("group_subtasks") or {}, work.task_manager()
    complete = {group: members for group, members in listed.items() if members and work.files.keys() >= set(members)}
    groups = {group: members for group, members in complete.items() if group in manager.all_groups}
    if absent := sorted(complete.keys() - groups):
        log.warning("groups that are not known here, and have no averages: %s", ", ".join(absent))
    in_groups = {task for members in groups.values() for task in members}
    with locked_folder(work.folder) as partial:
        if processes.here().number > 1:
            processes.barrier()
            _tag_together(work)
        tracker = EvaluationTracker(output_path=str(partial))
        with filters.wrapped(work.stored_detector):
            alone = [task for task in tasks if task not in in_groups]
            options = {"task_manager": manager, "evaluation_tracker": tracker, "log_samples": True}
            results = simple_evaluate(model=LoggedAnswers(samples), tasks=[*groups, *alone], **options)
        assert results is not None
        logged = results.pop("samples")
        for task, rows in logged.items():
            for row in rows:  # the prompt as the model got it: the chat template is not available here
                sample = samples[task][int(row["doc_id"])]
                arguments = sample.get("arguments")
                if isinstance(arguments, Mapping):
                    row["arguments"] = [tuple(fields.values()) for fields in arguments.values()]
                row["prompt_hash"] = sample.get("prompt_hash", row["prompt_hash"])
        _carry_over(earlier, results, tracker.general_config_tracker, work.folder.name)
        results["config"]["scored_from"] = {task: work.files[task].name for task in tasks}
        logged = {task: [*added[task](results, rows)] if task in added else rows for task, rows in logged.items()}
        tracker.save_results_aggregated(results=results, samples=logged)
        for task, rows in logged.items():
            tracker.save_results_samples(task_name=task, samples=rows)
        source = partial / tracker.general_config_tracker.model_name_sanitized
        written = _move(source, work.folder, str(tracker.date_id), {task: len(rows) for task, rows in logged.items()})
        for store in work.span_files():
            store.unlink(missing_ok=True)
    return written


def _carry_over(earlier: Mapping[str, Any], results: dict[str, Any], general: Any, name: str) -> None:
    """Copy the settings of the `earlier` results, whose run made the answers, to the new results and the harness's record
    of model and prompts (`general`). If there are no earlier results, the model has this name."""
    settings = earlier.get("config", {})
    carried = {key: value for key, value in settings.items() if key != "bootstrap_iters"}
    results["config"] = {**results["config"], **carried}
    for task, config in results["configs"].items():
        earlier_config = earlier.get("configs", {}).get(task, {})
        metadata = config["metadata"]
        metadata["provenance"] = of_scored(metadata["provenance"], earlier_config, settings.get("model_args"))
        for key in (COMMAND_LINE, CUT):
            if recorded := metadata_of(earlier_config, key):
                metadata[key] = recorded
        for key in ("generation_kwargs", "num_fewshot", "test_split"):  # the answers were made with these
            if earlier_config.get(key) is not None:
                config[key] = earlier_config[key]
    for task, number in results["n-samples"].items():
        number["original"] = earlier.get("n-samples", {}).get(task, number)["original"]
    results["n-shot"] |= {task: n for task, n in earlier.get("n-shot", {}).items() if task in results["n-shot"]}
    general.model_source = earlier.get("model_source", "logged answers")
    general.model_name = earlier.get("model_name", name)
    # A name of a folder below the one that is written, whatever the file that it comes from says.
    sanitized = str(earlier.get("model_name_sanitized") or name)
    general.model_name_sanitized = re.sub(r"[^\w.-]", "_", sanitized).lstrip(".") or "model"
    for key in _SHARED:
        setattr(general, key, earlier.get(key))


def _move(partial: Path, folder: Path, date: str, rows: Mapping[str, int | None]) -> Path:
    """Move complete files to their place, the results last. They are checked to have all `rows` of a task, where the number
    is known: the harness only logs a failure to write them."""
    results = f"results_{date}.json"
    lengths = {f"samples_{task}_{date}.jsonl": number for task, number in rows.items()}
    for name, number in {**lengths, results: None}.items():
        path = partial / name
        if not path.is_file() or number not in (None, path.read_bytes().count(b"\n")):
            raise OSError(f"{name} could not be written to {folder} (is the disk full?); run the same command again")
    move_whole({partial / name: folder / name for name in (*lengths, results)})
    return folder / results


def _results_of(samples: Path) -> Path:
    return samples.with_name(f"results_{samples.stem.rsplit('_', 1)[-1]}.json")


def _earlier_results(samples: Path) -> dict[str, Any]:
    """The results file that was written with a samples file; empty where there is none."""
    path = _results_of(samples)
    try:
        return read_results(path)
    except (FileNotFoundError, ValueError) as error:
        why = str(error) if isinstance(error, ValueError) else f"{path} is not there"
    log.warning("%s: the results will not say which model gave the answers", why)
    return {}


def _write_anew(files: Mapping[str, Path], added: Mapping[str, _Adding], folder: Path) -> Iterator[Path]:
    """Write the results beside some samples files anew, with all their samples and what is `added` to tasks."""
    sources: dict[Path, list[str]] = {}
    for task in added:
        sources.setdefault(_results_of(files[task]), []).append(task)
    for source, tasks in sources.items():
        if not source.is_file():
            raise UsageError(f"{files[tasks[0]]}: no results file is beside it to add the rates to")
        results, date = read_results(source), datetime.now().isoformat().replace(":", "-")
        written: dict[str, int | None] = {}
        with locked_folder(folder) as hidden:
            for name in results["configs"]:
                file = source.with_name(f"{source.stem.replace('results', f'samples_{name}', 1)}.jsonl")
                part = hidden / f"samples_{name}_{date}.jsonl"
                if name in tasks:
                    rows = (row for _, row in read_rows_with_offsets(file, parse_sample))
                    with part.open("w", encoding="utf-8") as stream:
                        stream.writelines(
                            json.dumps(row, ensure_ascii=False) + "\n" for row in added[name](results, rows)
                        )
                elif file.is_file():
                    copyfile(file, part)
                else:
                    continue
                written[name] = None
            text = json.dumps(strict_json(results), indent=2, ensure_ascii=False)
            (hidden / f"results_{date}.json").write_text(text, "utf-8")
            moved = _move(hidden, folder, date, written)
        yield moved


# ------------------------------------------------------------------------------------------------------ tagging


class Work(NamedTuple):
    """Answers to tag: task to samples file; the metadata of the tasks, with the detector and its options; and the folder
    of stored spans."""

    files: Mapping[str, Path]
    metadata: Mapping[str, Any]
    folder: Path

    def samples(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Task to its samples by position in the file, which is the harness's number of a document."""
        return {
            task: dict(enumerate(sorted(read_samples(path), key=lambda sample: int(sample["doc_id"]))))
            for task, path in self.files.items()
        }

    def task_manager(self) -> Any:
        """The harness's task manager for our tasks with the detector and its options."""
        from lm_eval_tasks.harness import TaskManager
        from lm_eval_tasks.harness.autoload import task_folder

        return TaskManager(include_path=task_folder(), include_defaults=False, metadata=dict(self.metadata))

    def span_files(self) -> list[Path]:
        """The existing files of spans of this detector, for any number of processes."""
        mine = re.compile(re.escape(self._stem()) + r"(\.part\d+)?\.jsonl")
        return sorted(path for path in self.folder.glob(".spans_*.jsonl") if mine.fullmatch(path.name))

    def stored_detector(self, detector: Any, number: int = 0, size: int = 1) -> StoredDetector:
        """A detector that does the part of one of `size` processes, and reads the stored spans of all."""
        options = pairs("detector_args", self.metadata.get("detector_args"), "score")
        mine = self.folder / f"{self._stem()}{f'.part{number}' if number else ''}.jsonl"
        other_stores = [path for path in self.span_files() if path != mine]
        return StoredDetector(detector, mine, options, other_stores, (number, size))

    def _stem(self) -> str:
        return f".spans_{re.sub(r'[^A-Za-z0-9.-]+', '_', self.metadata['detector'])}"


class LoggedAnswers(DocumentAnswerer):
    """A harness model that gives the logged answers."""

    SHARED = False

    def __init__(self, samples: Mapping[str, Mapping[int, dict[str, Any]]]) -> None:
        super().__init__()
        self.samples = samples

    def respond(self, requests: Any, disable_tqdm: bool) -> list[str]:
        answers = (self.samples[request.task_name][request.doc_id]["resps"][0][0] for request in requests)
        return [answer if isinstance(answer, str) else "" for answer in answers]


def _tag_together(work: Work) -> None:
    """Tag the part of this process, and wait for the others. If the detector fails, its spans so far are stored."""
    launch, answerer = processes.here(), LoggedAnswers(work.samples())
    tasks = work.task_manager().load(list(work.files))["tasks"]
    with filters.wrapped(lambda detector: work.stored_detector(detector, launch.rank, launch.number)):
        for task in tasks.values():
            task.build_all_requests()
            requests = list(task.instances)
            for request, answer in zip(requests, answerer.generate_until(requests), strict=True):
                request.resps.append(answer)
            task.apply_filters()
    processes.barrier()
