"""The detector ``llm`` on the models of the harness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detector_plugin.llm import LLMDetector
from lm_eval_tasks.harness import host


class HarnessLLMDetector(LLMDetector):
    """:class:`detector_plugin.llm.LLMDetector` with a model of any class that ``--model`` knows."""

    @staticmethod
    def model_class(name: str) -> Any:
        return host.get_model(name)

    def replies(self, prompts: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
        requests = []
        for number, prompt in enumerate(prompts):
            # The name of a task and the number of a document: nobody reads them, every version wants them.
            places = {"idx": number, "doc_id": number, "task_name": "", "metadata": ("", number, 1)}
            requests.append(host.Instance("generate_until", {}, prompt, **places))
        return [str(reply) for reply in self.lm.generate_until(requests)]
