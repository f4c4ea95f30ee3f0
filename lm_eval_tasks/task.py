"""What the harness tasks of all our benchmarks have in common."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from lm_eval.api.task import ConfigurableTask

from custom_metrics.broken_run import Answered, signs_of, warning
from custom_metrics.surrogates import without_surrogates

__all__ = ["GroundedTask"]

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own


class GroundedTask(ConfigurableTask):  # type: ignore[misc]
    """A task as YAML makes it, which differs in four things:

    - Cached requests (``--cache_requests``) are known by their documents and prompts. The harness knows them by the task's
      name, and would take those of other options, another mirror or another version of the prompt.
    - A rank of a distributed run that is left without a question is an error on every rank. The harness raises it on that
      rank alone, and the others wait for it.
    - Answers that no file can hold are made writable, and counted. The harness would lose every sample behind one.
    - A run that looks broken is warned of, once a task (:mod:`custom_metrics.broken_run`). In a distributed run every rank
      looks at its own answers; none waits for another.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config={key: value for key, value in config.items() if key != "class"})

    def build_all_requests(self, **options: Any) -> None:
        """The requests, as the harness builds them or takes them from its cache.

        Raises:
            ValueError: there are fewer questions than processes.
        """
        chosen, limit = options.get("samples"), options.get("limit")
        number = len(chosen) if chosen else len(self.eval_docs)
        number = number if limit is None else min(number, limit)
        processes = options.get("world_size", 1)
        if number < processes:
            raise ValueError(
                f"{self.config.task}: {number} questions for {processes} processes, and each needs one; raise --limit, or "
                f"start at most {number}"
            )
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
        """As the harness does, on answers that can be written."""
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
        if self.is_labelled or self.is_generated:
            answers = [_answered(request.doc, answer) for request in self._instances or () for answer in request.resps]
            if said := warning(self.config.task, signs_of(answers, self.is_labelled)):
                log.warning("%s", said)
        return filtered

    @property
    def is_labelled(self) -> bool:
        """Whether the answers are read as NoMIRACL labels."""
        pipelines = self.config.filter_list or ()
        return any(step["function"] == "nomiracl_label" for listed in pipelines for step in listed["filter"])

    @property
    def is_generated(self) -> bool:
        """Whether the answers are a model's own words, not labels or a text that is given back with tags."""
        return False


def _answered(doc: Mapping[str, Any], response: Any) -> Answered:
    question = doc.get("query", doc.get("question"))
    given = doc.get("passages") or ()
    if any(isinstance(passage, Mapping) for passage in given):  # title and text, as CLAPnq's
        given = doc.get("groundings") or ()
    passages = tuple(passage for passage in given if isinstance(passage, str))
    return Answered(response, question if isinstance(question, str) else None, passages, doc.get("language"))
