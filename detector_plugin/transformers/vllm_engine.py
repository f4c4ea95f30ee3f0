"""The engine ``vllm``: vLLM's pooling in this process, with its continuous batching, on one GPU or several.

The task is ``token_classify`` or ``classify`` without its activation: the logits of every token, or of a text. A decoder
attends in both directions by ``is_causal=False`` in its configuration, which vLLM's Llama and its kin read.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from importlib.util import find_spec
from itertools import count, islice
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from detector_plugin import processes
from detector_plugin.detector import UnusableDetector
from detector_plugin.transformers.engine import Engine, Setup, direction_probe
from detector_plugin.transformers.inputs import Window
from detector_plugin.transformers.model import LONGEST, first_line, max_positions

_AT_ONCE = 512  # inputs that vLLM has at once: twice what it runs in one step by default
_USE_TRANSFORMERS = "; use engine=transformers, which runs it"
_SAME_LOGITS = 0.03
"""Of what the last token's logits change by: rounding in bfloat16, in a batch with others, is a third of it."""

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class VLLM(Engine):
    """Runs a classifier through vLLM. Its options are the arguments of vLLM's engine (``AsyncEngineArgs``), such as
    ``tensor_parallel_size``, ``data_parallel_size``, ``quantization`` and ``gpu_memory_utilization``.
    """

    has_options = True

    def __init__(self, setup: Setup) -> None:
        model = setup.model
        self.name = name = model.name
        self.check(name)
        if model.adapter:
            raise UnusableDetector(
                f"detector {name}: is a PEFT adapter, whose classifier vLLM does not load; merge it into its base "
                f"model (peft: merge_and_unload) and name the folder that this is saved to{_USE_TRANSFORMERS}"
            )
        if processes.here().number > 1:
            raise UnusableDetector(
                f"detector {name}: engine=vllm starts its own processes; start the command once, with "
                f"data_parallel_size={processes.here().number} among the detector's options"
            )
        # BERT has an embedding for each of two texts, and is to be told which token is of which.
        has_types = "token_type_ids" in model.tokenizer.model_input_names
        self.types = setup.pairs and has_types and getattr(model.config, "type_vocab_size", 0) > 1
        self.task = "classify" if model.of_texts else "token_classify"
        self.loop = LoopThread()
        self._number = count()
        try:
            self.llm = self.loop.run(_start_engine(setup, self.task))
        except UnusableDetector:
            raise
        except Exception as error:  # vLLM raises what its parts raise
            raise UnusableDetector(
                f"detector {name}: vLLM cannot run it: {first_line(error)} (its log has more){_USE_TRANSFORMERS}"
            ) from error
        atexit.register(self.close)
        self.longest = self.llm.model_config.max_model_len
        kind = type(model.config).__name__.removesuffix("Config")
        if model.decoder and not model.of_texts:
            # Another attention than the one asked for would pass unnoticed.
            probes = direction_probe(model.config.vocab_size)
            first, second = (self.loop.run(self._logits(ids, None)) for ids in probes)
            change = np.abs(first - second).max(-1)
            sees_both_ways = bool(change[0] > _SAME_LOGITS * change[-1])
            if sees_both_ways and not setup.bidirectional:
                raise UnusableDetector(
                    f"detector {name}: its attention is in both directions here, not causal: vLLM runs a {kind} in both"
                    f"{_USE_TRANSFORMERS}, or attention=bidirectional if it was trained so"
                )
            if setup.bidirectional and not sees_both_ways:
                raise UnusableDetector(
                    f"detector {name}: its attention is causal here, not in both directions: vLLM runs a {kind} in one "
                    f"direction only{_USE_TRANSFORMERS}, or attention=causal if it was trained so"
                )

    @staticmethod
    def check(name: str) -> None:
        """UnusableDetector where vLLM is not installed."""
        if find_spec("vllm") is None:
            raise UnusableDetector(
                f"detector {name}: engine=vllm needs vLLM: pip install 'lm-eval-grounded[vllm]', or use engine=transformers"
            )

    def classify(self, windows: Iterable[Window]) -> Iterator[tuple[Window, NDArray[np.float32]]]:
        from scipy.special import softmax

        async def ask(window: Window) -> NDArray[np.float32]:
            try:
                logits = await self._logits(window.ids, window.types if self.types else None)
            except Exception as error:
                raise UnusableDetector(
                    f"detector {self.name}: vLLM failed: {first_line(error)} (its log has more)"
                ) from error
            if not np.isfinite(logits).all():
                raise UnusableDetector(f"detector {self.name}: gives no numbers; set the option dtype=float32")
            return np.asarray(softmax(logits, axis=-1))

        return self.loop.as_completed(ask, windows, _AT_ONCE)

    async def _logits(self, ids: NDArray[np.int64], types: NDArray[np.int64] | None) -> NDArray[np.float32]:
        from vllm import PoolingParams
        from vllm.inputs import TokensPrompt

        extra = None if types is None or not types.any() else {"compressed_token_type_ids": int(types.argmax())}
        params = PoolingParams(task=self.task, use_activation=False, extra_kwargs=extra)
        prompt = TokensPrompt(prompt_token_ids=ids.tolist())
        answers = self.llm.encode(prompt, params, request_id=f"window-{next(self._number)}")
        outputs = [output async for output in answers]
        return np.atleast_2d(outputs[-1].outputs.data.float().numpy())

    def close(self) -> None:
        """End vLLM's processes."""
        atexit.unregister(self.close)
        self.loop.cancel_all()  # or vLLM takes the end of its processes for a failure
        self.llm.shutdown()
        self.loop.close()
        del self.llm  # now, not when the interpreter has forgotten what its end needs


async def _start_engine(setup: Setup, task: str) -> Any:
    """vLLM's engine."""
    from vllm import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    if unknown := sorted(setup.options.keys() - AsyncEngineArgs.__dataclass_fields__):
        raise UnusableDetector(
            f"detector {setup.model.name}: no option {', '.join(unknown)}, neither of ours nor of vLLM's AsyncEngineArgs"
        )
    dtype = setup.dtype
    if dtype == "auto":
        gpu_dtype = "bfloat16" if current_platform.has_device_capability(80) else "float16"
        dtype = "float32" if current_platform.is_cpu() else gpu_dtype
    model = setup.model
    longest = setup.max_length or min(
        filter(None, (max_positions(model.config), model.tokenizer.model_max_length, LONGEST))
    )
    overrides = dict(setup.options.get("hf_overrides") or {})
    if setup.bidirectional:
        overrides["is_causal"] = False
    settings = {
        "model": model.own.source,
        "revision": model.own.revision,
        "trust_remote_code": model.trust_remote_code,
        "runner": "pooling",
        "pooler_config": {"task": task},
        "dtype": dtype,
        "max_model_len": longest,
        **({} if setup.batch_size is None else {"max_num_seqs": setup.batch_size}),
        # an encoder reads an input in one step
        **({} if setup.batch_tokens is None else {"max_num_batched_tokens": max(setup.batch_tokens, longest)}),
        **setup.options,
        **({"hf_overrides": overrides} if overrides else {}),
    }
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**settings))


class LoopThread:
    """An event loop in a thread of its own. Many questions are under way at once, and the caller may have another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for one answer."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def as_completed(
        self, ask: Callable[[Question], Coroutine[Any, Any, Answer]], questions: Iterable[Question], at_once: int
    ) -> Iterator[tuple[Question, Answer]]:
        """Questions with their answers, in the order in which these come, of which at most `at_once` are under way. The
        first failure ends it: the answers that have come by then are given first, what is under way is called off.
        """
        under_way: dict[Future[Answer], Question] = {}
        remaining = iter(questions)
        try:
            while True:
                for question in islice(remaining, at_once - len(under_way)):
                    under_way[asyncio.run_coroutine_threadsafe(ask(question), self._loop)] = question
                if not under_way:
                    return
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: future.exception() is not None):
                    yield under_way.pop(future), future.result()
        finally:
            for future in under_way:
                future.cancel()

    def cancel_all(self) -> None:
        """Call off what is under way, and wait until it has ended."""

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(end())

    def close(self) -> None:
        """End the loop and its thread."""
        self.cancel_all()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
