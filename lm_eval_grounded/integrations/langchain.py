"""A callback for LangChain: ``chain.invoke(question, config={"callbacks": [collector]})`` fills ``collector.records``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document


class AnswerCollector(BaseCallbackHandler):  # type: ignore[misc, unused-ignore]  # Any where it is not installed
    """Records of the outermost runs that retrieved something: ``question``, ``answer``, ``passages``, ``id``.

    The answer is the run's output: a text, a message, or the value of the first of ``answer``, ``output``, ``result``.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self._roots: dict[UUID, UUID] = {}  # a run to its outermost run
        self._questions: dict[UUID, str] = {}
        self._passages: dict[UUID, list[str]] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **more: Any) -> None:
        self._enter(run_id, more.get("parent_run_id"))
        if more.get("parent_run_id") is None:
            self._questions[run_id] = _text_of(inputs, ("question", "input", "query"))

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **more: Any) -> None:
        self._enter(run_id, more.get("parent_run_id"))

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **more: Any) -> None:
        root = self._roots.pop(run_id, run_id)
        self._passages.setdefault(root, []).extend(document.page_content for document in documents)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        self._roots.pop(run_id, None)
        question, passages = self._questions.pop(run_id, ""), self._passages.pop(run_id, None)
        if passages:
            answer = _text_of(outputs, ("answer", "output", "result"))
            self.records.append({"question": question, "answer": answer, "passages": passages, "id": str(run_id)})

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        for kept in (self._roots, self._questions, self._passages):
            kept.pop(run_id, None)

    on_retriever_error = on_chain_error

    def _enter(self, run_id: UUID, parent: UUID | None) -> None:
        self._roots[run_id] = run_id if parent is None else self._roots.get(parent, parent)


def _text_of(value: Any, keys: Sequence[str]) -> str:
    if isinstance(value, dict):
        value = next((value[key] for key in keys if key in value), "")
    return str(getattr(value, "content", value))
