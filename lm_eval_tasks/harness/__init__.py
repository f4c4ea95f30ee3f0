"""The plugin in the harness: registration, the base task, figures beside its table, warnings about a run; and the parts of
the harness, lm-eval, that the project takes by name (``from lm_eval_tasks.harness import LM``).

Nothing outside of this room imports the harness. A part is imported when it is asked for. Where the installed version lacks
it, a ``UsageError`` of one line names both versions, and the command that installs one that works.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from custom_metrics.usage.plain_errors import UsageError

WEIGHTLESS = ("grounded-baseline", "replay", "hallucination-detector")
"""Our models without weights, as in ``--model``. They answer from documents and files, not from a prompt, and name their
results themselves."""

unfit: list[Exception] = []
"""Why the installed harness cannot run our tasks, or Python does not find them whole; empty where all is well."""


class Unanswered(str):
    """A missing response of ``replay`` with ``missing=skip``: the harness requires one response a request.
    :class:`lm_eval_tasks.harness.task.GroundedTask` leaves the document out before anything is scored: it is in no
    denominator, in no sample, and not in the number of documents. A task of another package reads an empty answer."""

    __slots__ = ()


def filtered(request: Any, filter_name: str) -> Any:
    """The filtered answer of a request. 0.5 makes lists of one, where 0.4 has the answer."""
    answers = request.filtered_resps[filter_name]
    return answers[0] if isinstance(answers, list) and len(answers) == 1 else answers


def flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A metric or a step of a filter as a YAML has it. 0.5 gathers its options in ``kwargs``."""
    return {**{key: value for key, value in entry.items() if key != "kwargs"}, **(entry.get("kwargs") or {})}


TRIED = ("0.4.13", "0.5.0.dev1")
"""The versions of the harness that every test passes on, the newest last. CONTRIBUTING.md says how another is taken on."""

PARTS = {
    "ContextSampler": "lm_eval.api.samplers",
    "EvaluationTracker": "lm_eval.loggers",
    "EvaluatorConfig": "lm_eval.config.evaluate_config",
    "HarnessCLI": "lm_eval._cli.harness",
    "Instance": "lm_eval.api.instance",
    "LM": "lm_eval.api.model",
    "TaskManager": "lm_eval.tasks",
    "get_model": "lm_eval.api.registry",
    "load_yaml": "lm_eval.tasks._yaml_loader",
    "make_table": "lm_eval.utils",
    "simple_evaluate": "lm_eval",
}
"""Every part and its module; both versions have them there."""

HOOKS = (
    "apply_filters build_all_requests doc_iterator doc_to_target download dump_config override_metric process_results"
)
"""The methods of the harness's task that ours replace on every version."""


def shorten_errors() -> None:
    """Let errors of the user end in one line, by ``sys.excepthook`` (:mod:`lm_eval_tasks.harness.short_errors`), once."""
    before = sys.excepthook
    if getattr(before, "is_one_line", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        show = import_module("lm_eval_tasks.harness.short_errors").show
        return show(kind, error, trace) or before(kind, error, trace)

    hook.is_one_line = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return part(PARTS[name], name)


def part(module: str, name: str) -> Any:
    """A part of the harness, or of a module that builds upon it."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        of_harness = module.partition(".")[0] == "lm_eval"
        raise lacking(f"{module}.{name}" if of_harness else f"what {module} needs ({error})") from error


def require(kind: type, names: Iterable[str]) -> None:
    """Raise a ``UsageError`` where a class of the harness has no attribute of one of these names, which ours replaces: it
    would ask another one in its place, and ours never."""
    for name in names:
        if not hasattr(kind, name):
            raise lacking(f"{kind.__module__}.{kind.__name__}.{name}")


def has_scorers() -> bool:
    """Whether the harness's tasks have scorers, which filter, score and aggregate (0.5); before, the evaluator does."""
    return "scorer_registry" in part("lm_eval.api.registry", "__dict__")


def lacking(what: str) -> UsageError:
    """The error of a harness that is too old or too new: it has nothing, or something else, where `what` is needed."""
    # Here: autoload first sees whether a file of the user's hides the package.
    from custom_metrics.usage.plain_errors import UsageError

    return UsageError(
        f"lm-eval-grounded {version('lm-eval-grounded')} cannot run on lm-eval {installed()}, which lacks {what}; it was "
        f"tried with {' and '.join(TRIED)}: pip install lm-eval=={TRIED[0]}"
    )


def installed() -> str:
    return version("lm_eval")


def chat_template_digest(options: Mapping[str, Any]) -> str:
    """The SHA-256 of the chat template that is applied, as the harness logs it, from what a task is given to build its
    requests; empty without one, or where it is an API's."""
    model: Any = getattr(options.get("chat_template"), "__self__", None)
    applied = options.get("apply_chat_template") and hasattr(model, "chat_template")
    template = str((applied and model.chat_template(True)) or "")
    return template and hashlib.sha256(template.encode("utf-8")).hexdigest()


def untried() -> str:
    """A sentence about an installed version that was never tried; empty for one that was."""
    if (this := installed()) in TRIED:
        return ""
    return f"lm-eval {this} was never tried with lm-eval-grounded; the newest that was is {TRIED[-1]}"
