"""What the harness tasks of all our benchmarks have in common."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from typing import Any

from lm_eval.api.task import ConfigurableTask

from custom_metrics.plain_errors import UsageError
from custom_metrics.surrogates import without_surrogates
from lm_eval_tasks import needed_files, outcome
from lm_eval_tasks.unanswered import LEFT_OUT, unanswered

__all__ = ["GroundedTask"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class GroundedTask(ConfigurableTask):  # type: ignore[misc]
    """A task as YAML makes it, which differs in six things:

    - Cached requests (``--cache_requests``) are known by their documents and prompts. The harness knows them by the task's
      name, and would take those of other options, another mirror or another version of the prompt.
    - A rank of a distributed run that is left without a question is an error on every rank. The harness raises it on that
      rank alone, and the others wait for it.
    - Answers that no file can hold are made writable, and counted. The harness would lose every sample behind one.
    - Public files that are missing are said all at once, with one command that fetches them
      (:mod:`lm_eval_tasks.needed_files`).
    - A model that does not fit the task, and a handful of questions, are said in a line of the log
      (:mod:`lm_eval_tasks.outcome`).
    - Documents that a model left unanswered (:mod:`lm_eval_tasks.unanswered`) are left out of all figures, and counted.
    """

    _instances: Any
    _left_out: frozenset[int] = frozenset()

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={key: value for key, value in config.items() if key != "class"})

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """The documents, as the harness loads them; files that are missing are said all at once.

        Raises:
            MissingSource: files that the mirror lacks, or that are in no cache and may not be downloaded.
        """
        needed_files.require(
            self.config.custom_dataset, {**(self.config.metadata or {}), **(self.config.dataset_kwargs or {})}
        )
        super().download(dataset_kwargs, **kwargs)

    def build_all_requests(self, **options: Any) -> None:
        """The requests, as the harness builds them or takes them from its cache.

        Raises:
            ValueError: there are fewer questions than processes.
        """
        self._leave_out(frozenset())
        chosen, limit = options.get("samples"), options.get("limit")
        number = len(chosen) if chosen else len(self.eval_docs)
        number = number if limit is None else min(number, limit)
        processes = options.get("world_size", 1)
        if number < processes:
            raise UsageError(
                f"{self.config.task}: {number} questions for {processes} processes, and each needs one; raise --limit, or "
                f"start at most {number}"
            )
        if options.get("rank", 0) == 0 and number < outcome.FEW:
            docs = list(self.eval_docs)
            evaluated = [doc for at, doc in enumerate(docs) if at in (chosen or range(number))]
            outcome.say_of_questions(self.config.task, evaluated, docs)
        if options.get("cache_requests"):
            # The harness makes nothing of the tokenizer's name but a part of the cache's key.
            options["tokenizer_name"] = f"{options.get('tokenizer_name', '')}-content{self._content(options)}"
        super().build_all_requests(**options)

    def _content(self, options: dict[str, Any]) -> str:
        """Digest of the documents, and of the first one's request: template, shots, system prompt, generation settings."""
        alone = {"cache_requests": False, "limit": 1, "samples": None, "rank": 0, "world_size": 1}
        super().build_all_requests(**{**options, **alone})
        said = [request.arguments for request in self._instances]
        digest = hashlib.sha256(json.dumps([said, options.get("samples")], default=str).encode())
        for doc in self.eval_docs:
            digest.update(json.dumps(doc, sort_keys=True, default=str).encode())
        return digest.hexdigest()[:32]

    def apply_filters(self) -> Any:
        """As the harness does, on answers that can be written, of documents that were answered."""
        self._leave_out(unanswered(self._instances or ()))
        mended = 0
        for request in self._instances or ():
            for number, answer in enumerate(request.resps):
                if isinstance(answer, str) and (writable := without_surrogates(answer)) != answer:
                    request.resps[number] = writable
                    mended += 1
        if mended:
            log.warning(
                "%s: %d answers held halves of surrogate pairs, which no file can hold; each is U+FFFD now",
                *(self.config.task, mended),
            )
        filtered = super().apply_filters()
        outcome.say_of_answers(self.config.task, self.config.filter_list or (), self._instances or ())
        return filtered

    def _leave_out(self, docs: frozenset[int]) -> None:
        """Leave these out from now on; nothing is kept of those of an earlier run."""
        self._left_out = docs
        said = {key: value for key, value in (self.config.metadata or {}).items() if key != LEFT_OUT}
        if docs:
            self._instances = [request for request in self._instances or () if request.doc_id not in docs]
            said[LEFT_OUT] = {"no stored answer": len(docs)}
        self.config.metadata = said

    def doc_iterator(self, **options: Any) -> Iterator[tuple[int, Any]]:
        """The documents, as the harness chooses them, but for those that were left unanswered."""
        return (numbered for numbered in super().doc_iterator(**options) if numbered[0] not in self._left_out)
