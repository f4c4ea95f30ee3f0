"""The findings about a run that has not started, task by task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from custom_metrics.usage.plain_errors import PlainError
from custom_metrics.usage.printable import on_one_line, printable
from lm_eval_tasks.data import sources

__all__ = ["Report", "TaskReport", "in_one_line"]


@dataclass
class TaskReport:
    """The findings about one task.

    Attributes:
        task: its name.
        questions: how many would be asked.
        lengths: of their prompts, in words; empty where none could be made.
        answer_tokens: at most so many in an answer; ``None`` where the model decides.
        detector, calibration: what tags and corrects its answers; empty where nothing does.
        example: the first prompt.
        template: of the prompts; of tasks that share one, one example is shown.
        problems: what is wrong, a line each.
    """

    task: str
    questions: int = 0
    lengths: str = ""
    answer_tokens: int | None = None
    detector: str = ""
    calibration: str = ""
    example: str = ""
    template: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass
class Report:
    """The findings about a run.

    Attributes:
        tasks: one by one.
        missing: public files that are not here, of all tasks.
        fetch: the command that fetches them; empty where none is missing.
        notes: what is not checked, and why.
        problems: of the run as a whole.
    """

    tasks: list[TaskReport] = field(default_factory=list)
    missing: list[sources.SourceFile] = field(default_factory=list)
    fetch: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether the run can start."""
        return not (self.missing or self.problems or any(task.problems for task in self.tasks))

    def lines(self) -> Iterator[str]:
        """The report for a person."""
        for task in self.tasks:
            yield from _lines(task)
        shown = set()
        for task in self.tasks:
            if task.example and task.template not in shown:
                shown.add(task.template)
                yield f"\nThe first prompt of {task.task}:"
                yield from (f"  | {printable(line)}" for line in task.example.splitlines())
        yield ""
        yield from (f"note: {on_one_line(note)}" for note in self.notes)
        having: dict[str, list[str]] = {}  # problem to the tasks that have it
        for task in self.tasks:
            for problem in task.problems:
                having.setdefault(problem.removeprefix(f"{task.task}: "), []).append(task.task)
        for problem, tasks in having.items():
            others = f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
            yield on_one_line(f"problem: {tasks[0]}{others}: {problem}")
        yield from (f"problem: {on_one_line(problem)}" for problem in self.problems)
        if self.missing:
            yield f"problem: {len(self.missing)} public files are missing:"
            yield from (f"  {file.repository}/{file.path}" for file in self.missing)
            yield f"On a machine with internet, this fetches them:\n  {self.fetch}"
        yield "ready: every file is here, every prompt could be made" if self.ready else "not ready"


def _lines(task: TaskReport) -> Iterator[str]:
    if not task.lengths:
        yield f"{task.task}: not ready"
        return
    answer = f"; answers of up to {task.answer_tokens} tokens" if task.answer_tokens else ""
    yield f"{task.task}: {task.questions} questions; prompts of {task.lengths}{answer}"
    if task.detector:
        yield f"  detector {task.detector}; calibration {task.calibration or 'none'}"


def in_one_line(error: BaseException) -> str:
    """The message of an error in one line; its class too where it is not meant for users."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PlainError) else f"{type(error).__name__}: {text}"
