"""Many questions under way at once: an event loop in a thread of its own, and answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from threading import Thread
from typing import Any, TypeVar

__all__ = ["Loop"]

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Loop:
    """An event loop that runs beside the caller, who needs none and may be in one of his own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for one answer."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def each(
        self, ask: Callable[[Question], Awaitable[Answer]], questions: Iterable[Question], at_once: int
    ) -> Iterator[tuple[Question, Answer]]:
        """Questions with their answers, in the order in which these come.

        What fails first ends it: the answers that have come by then are given first, what is under way is called off.

        Args:
            ask: gives the answer to a question.
            questions: of which no more than `at_once` are taken before the first is answered.
            at_once: questions under way, at most.
        """

        async def asked(question: Question) -> Answer:
            return await ask(question)

        under_way: dict[Future[Answer], Question] = {}
        left = iter(questions)
        more = True
        try:
            while more or under_way:
                while more and len(under_way) < at_once:
                    try:
                        question = next(left)
                    except StopIteration:
                        more = False
                    else:
                        under_way[asyncio.run_coroutine_threadsafe(asked(question), self._loop)] = question
                if not under_way:
                    return
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: future.exception() is not None):
                    question = under_way.pop(future)
                    yield question, future.result()
        finally:
            for future in under_way:
                future.cancel()

    def call_off(self) -> None:
        """Call off what is under way, and wait until it has ended."""

        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(end())

    def close(self) -> None:
        """End the loop and its thread."""
        self.call_off()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
