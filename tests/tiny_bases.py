"""Base models for detectors to be trained on, with weights made here: a BERT, a ModernBERT and a Llama of two layers.

``python -m tests.tiny_bases bert DIR`` writes one; `make train-tiny` trains it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("bert", "modernbert", "llama")
LONGEST = 1024
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>", "</s>"]
_SAMPLE = Path(__file__).parents[1] / "lm_eval_tasks" / "sample"


def write_base(folder: Path, kind: str, width: int = 32, vocabulary: int = 1200) -> Path:
    """A model of random weights, the same every time, and a tokenizer of the sample's texts."""
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = _tokenizer(kind, vocabulary)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": width, "intermediate_size": 2 * width}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": LONGEST}
    model: Any
    if kind == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, pad_token_id=0))
    elif kind == "modernbert":
        config = transformers.ModernBertConfig(
            **sizes, pad_token_id=0, cls_token_id=2, sep_token_id=3, global_attn_every_n_layers=1
        )
        model = transformers.ModernBertForMaskedLM(config)
    else:
        config = transformers.LlamaConfig(**sizes, num_key_value_heads=1, bos_token_id=4, eos_token_id=5)
        model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\nRandom weights.\n", "utf-8")
    return folder


def _tokenizer(kind: str, vocabulary: int) -> Any:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(_texts(), trainer)
    if kind == "llama":
        core.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 4)])
        return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{part}_token": f"[{part.upper()}]" for part in ("pad", "unk", "cls", "sep")}
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind == "bert" else ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=LONGEST, model_input_names=inputs, **names
    )


def _texts() -> Iterator[str]:
    for path in sorted(_SAMPLE.rglob("silver_*.json")):
        for row in json.loads(path.read_text("utf-8")):
            yield row["references"]


if __name__ == "__main__":
    print(write_base(Path(sys.argv[2]), sys.argv[1]))
