"""``hallucination-detector``: a detector as a harness model, so that the detection tasks measure it; and the detector
``llm``, a harness model as a detector.

``--model hallucination-detector --model_args detector=NAME_OR_PATH[,option=value...]``

Its answer to a document is the document's answer with tags around the spans that the detector flags.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from custom_metrics.reading.tagged_text import render
from custom_metrics.usage.plain_errors import UsageError
from custom_metrics.usage.secrets import blank
from detector_plugin.detector import DEFAULT_DETECTOR, SPEED, Detector, describe
from detector_plugin.filters import as_text
from detector_plugin.llm import LLMDetector
from detector_plugin.loading import has_option, load_detector
from detector_plugin.span_store import StoredDetector
from lm_eval_tasks import harness
from lm_eval_tasks.harness import Unanswered
from lm_eval_tasks.models import DocumentAnswerer

_DEFAULT_DEVICES = ("cuda", "cuda:0")  # of the harness, where none is given: then the detector chooses


class HallucinationDetector(DocumentAnswerer):
    """A harness model that tags the answers of a detection task with a detector (:func:`detector_plugin.load_detector`)
    and its `options`. The harness passes ``device``, ``batch_size`` and ``max_batch_size``: for detectors that have
    these options."""

    NAME = "hallucination-detector"
    NAMED_BY = ("detector", "detector", DEFAULT_DETECTOR)

    def __init__(
        self,
        detector: str = DEFAULT_DETECTOR,
        device: Any = None,
        batch_size: Any = None,
        max_batch_size: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        # the harness passes --trust_remote_code to every model
        if "trust_remote_code" in options and not has_option(detector, "trust_remote_code"):
            del options["trust_remote_code"]
        if device and str(device) not in _DEFAULT_DEVICES and has_option(detector, "device"):
            options.setdefault("device", device)
        # 1 is the harness's default
        if str(batch_size or "").isdigit() and int(batch_size) > 1 and has_option(detector, "batch_size"):
            options.setdefault("batch_size", int(batch_size))
        self.options = options
        self.detector: Detector = load_detector(detector, **options)
        self.documents, self.seconds = 0, 0.0

    def get_model_info(self) -> dict[str, Any]:
        speed = {SPEED: round(self.documents / self.seconds, 2)} if self.documents and self.seconds else {}
        return {"detector": {**describe(self.detector), "options": blank(self.options), **speed}}

    def set_cache_hook(self, cache_hook: Any) -> None:
        """With ``--use_cache FILE``, store the detector's spans in ``FILE_rank<n>.spans.jsonl``, under the detector's
        name, version and options and the document's content, so a killed run continues where it stopped."""
        super().set_cache_hook(cache_hook)
        if cache_hook.dbdict is not None:
            path = Path(cache_hook.dbdict.filename).with_suffix(".spans.jsonl")
            self.detector = StoredDetector(self.detector, path, self.options)

    def respond(self, requests: Sequence[Any], disable_tqdm: bool) -> list[str]:
        docs = [request.doc for request in requests]
        for request in requests:
            missing = [column for column in ("reference", "answer") if column not in request.doc]
            if missing:
                raise UsageError(
                    f"hallucination-detector: {request.task_name} asks for answers, and a detector writes none (the "
                    f"document has no {' and no '.join(missing)}, only {sorted(request.doc)}). Run it on "
                    f"mfava_detection_*, mushroom_*, memerag_*, ragtruth_* or mtrag_ratings, or let another model answer "
                    f'mfava_* or clapnq_* tasks and name it with `--metadata \'{{"detector": "NAME"}}\'`.'
                )
        answers = [str(doc["answer"]) for doc in docs]
        store = self.detector if isinstance(self.detector, StoredDetector) else None
        before, began = store.detected if store else 0, time.monotonic()
        spans = self.detector.detect(
            [as_text(doc["reference"]) for doc in docs],
            answers,
            [doc.get("language") for doc in docs],
            [str(doc.get("query") or "") for doc in docs],
        )
        self.documents += store.detected - before if store else len(docs)
        self.seconds += time.monotonic() - began
        return [
            Unanswered() if of_answer is None else render(answer, of_answer)
            for answer, of_answer in zip(answers, spans, strict=True)
        ]


class HarnessLLMDetector(LLMDetector):
    """:class:`detector_plugin.llm.LLMDetector` with a model of any class that ``--model`` knows."""

    @staticmethod
    def model_class(name: str) -> Any:
        return harness.get_model(name)

    def replies(self, prompts: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
        requests = []
        for number, prompt in enumerate(prompts):
            # The name of a task and the number of a document: nobody reads them, every version wants them.
            places = {"idx": number, "doc_id": number, "task_name": "", "metadata": ("", number, 1)}
            requests.append(harness.Instance("generate_until", {}, prompt, **places))
        return [str(reply) for reply in self.lm.generate_until(requests)]
