"""The work of ``lm-eval-grounded check``: all of a harness run but the answers, so that a mistake costs seconds.

It takes the arguments of ``lm_eval`` and reads them as the harness does. It looks for files, makes documents and prompts,
and loads detectors and calibrations. It loads no model with weights, and downloads nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.commands.work.checking.models import check_answers, measure_for, model_of
from lm_eval_tasks.commands.work.checking.report import Checked, Report
from lm_eval_tasks.commands.work.checking.tasks import check_task, leaves_of
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.atomic import check_writable
from lm_eval_tasks.harness.harness_results import output_folder
from lm_eval_tasks.harness.prompt_lengths import Measure

__all__ = ["Checked", "Report", "check"]


def check(arguments: Sequence[str]) -> Report:
    """Check what ``lm_eval`` would run.

    Args:
        arguments: those of ``lm_eval run``.

    Raises:
        SystemExit: arguments that the harness does not have.
        ValueError: no task is named, or one that there is not.
    """
    nothing = UsageError("check: say what would be run, e.g. --tasks nomiracl_de,clapnq_rag")
    if not arguments:  # the harness would print its help
        raise nothing
    given = _parsed(arguments)
    from lm_eval.config.evaluate_config import EvaluatorConfig

    config = EvaluatorConfig.from_cli(given)
    if not config.tasks:
        raise nothing
    logging.getLogger("lm_eval.api.task").setLevel(logging.ERROR)  # a hint about --metadata for every task
    # Few-shot examples have files of their own: so the tasks know before they read any.
    shots = {"num_fewshot": config.num_fewshot} if config.num_fewshot else {}
    manager = config.process_tasks({**config.metadata, **shots})
    report = Report()
    if config.output_path:
        try:
            check_writable(output_folder(config.output_path))
        except UsageError as error:
            report.problems.append(f"--output_path: {error}")
    model = model_of(config, report) if given.model else None
    measure = Measure() if model is not None else measure_for(config, report)
    requests: list[Any] = []
    for spec in leaves_of(manager, config.tasks):
        checked, made = check_task(manager, spec, config, model, measure, report)
        report.tasks.append(checked)
        requests += made
    if model is not None and requests:
        check_answers(model, requests, report)
    report.missing = list(dict.fromkeys(report.missing))
    if report.missing:
        report.fetch = sources.fetch_command(report.missing, sources.mirror_folder(config.metadata.get("mirror")))
    return report


def _parsed(arguments: Sequence[str]) -> Any:
    """As the harness reads its command line."""
    from lm_eval._cli.harness import HarnessCLI

    before = sys.argv
    sys.argv = [before[0], "run", *arguments]
    try:
        return HarnessCLI().parse_args()
    finally:
        sys.argv = before
