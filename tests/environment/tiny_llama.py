"""A Llama of a few hundred thousand random weights with a tokenizer of its own: real code paths, no download.

``python tiny_llama.py FOLDER`` writes it.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

TEMPLATE = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}<|assistant|>"


def write(folder: Path) -> Path:
    """Write model and tokenizer; the same files every time."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    sample = Path(__file__).parents[2] / "lm_eval_tasks" / "sample" / "miracl" / "nomiracl" / "data"
    texts = []
    for corpus in sorted(sample.glob("*/corpus.jsonl.gz")):
        with gzip.open(corpus, "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    special = ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>"]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=4096, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
