"""The engine ``vllm`` on vLLM itself, on CPU: the same spans as the engine ``transformers``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, run
from tests.tiny_models import BINARY, llama_config, llama_tokenizer, word_tokenizer, write_lookup

pytestmark = pytest.mark.vllm

PROGRAM = """
import json, sys
import numpy as np
from detector_plugin.loading import load_detector

if __name__ == "__main__":  # vLLM starts processes that import this
    name, options, output = json.loads(sys.argv[1])
    references = ["the moon is cold. " * n + "a red rock" for n in range(12)]
    answers = ["a red sun is the star, big. " * (n % 4 + 1) for n in range(12)]
    said = {}
    for engine, more in (("transformers", {}), (options.pop("engine"), options)):
        detector = load_detector(name, engine=engine, **{"max_length": 100, **more})
        found = detector.token_probabilities(references, answers, ["en"] * 12)
        said[engine] = [
            {document.index: document.best.tolist() for document in found},
            detector.detect(references, answers, ["en"] * 12),
            detector.version,
        ]
    (best, spans, version), (others, theirs, other) = said.values()
    where = [[[span[:3] for span in answer] for answer in found] for found in (spans, theirs)]
    largest = max(float(np.abs(np.array(best[n]) - np.array(others[n])).max()) for n in range(12))
    with open(output, "w") as stream:
        json.dump({"spans": spans, "same": where[0] == where[1], "largest": largest, "version": version == other}, stream)
"""


def head_of_32(kind: str, folder: Path) -> str:
    """A token classifier as wide as vLLM's attention on CPU wants a head to be."""
    import torch
    import transformers

    torch.manual_seed(0)
    if kind == "BERT in pairs":
        write_lookup(folder, width=32)
    elif kind == "ModernBERT":
        config = transformers.ModernBertConfig(
            **{"vocab_size": 20, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2},
            **{"num_attention_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "id2label": BINARY},
            **{"global_attn_every_n_layers": 2, "local_attention": 8, "initializer_range": 0.5},
        )
        transformers.ModernBertForTokenClassification(config).save_pretrained(folder)
        word_tokenizer(128).save_pretrained(folder)
    else:
        config = llama_config(num_labels=2)
        config.hidden_size, config.head_dim = 64, 32
        transformers.LlamaForTokenClassification(config).save_pretrained(folder)
        llama_tokenizer().save_pretrained(folder)
    return str(folder)


def compared(tmp_path: Path, name: str, **options: Any) -> dict[str, Any]:
    """What the engine ``transformers`` and another find in the same documents, in a process that ends with vLLM's."""
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    output = tmp_path / "found.json"
    run(
        [sys.executable, str(tmp_path / "program.py"), json.dumps([name, options, str(output)])],
        tmp_path,
        fresh=True,
        PYTHONPATH=str(ROOT),
    )
    found: dict[str, Any] = json.loads(output.read_text("utf-8"))
    print(options, {key: found[key] for key in ("same", "largest", "version")})
    assert found["version"]
    assert sum(map(len, found["spans"])) > 5
    return found


@pytest.mark.parametrize("kind", ["BERT in pairs", "ModernBERT", "Llama both ways"])
def test_the_same_probabilities_and_spans(tmp_path: Path, kind: str) -> None:
    """In float32. A Llama attends in both directions by ``is_causal=False``, and is checked to."""
    name = head_of_32(kind, tmp_path / "model")
    found = compared(tmp_path, name, engine="vllm", enforce_eager=True, batch_tokens=256)
    assert found["same"]
    assert found["largest"] < 1e-3  # weights as large as these make sums of which the order matters
