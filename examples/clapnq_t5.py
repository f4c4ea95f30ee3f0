"""Fine-tune FLAN-T5 on CLAPnq as the paper does (Rosenthal et al. 2025, appendix C), with transformers' Seq2SeqTrainer.

    lm-eval-grounded export clapnq --split train -o train.jsonl
    lm-eval-grounded export clapnq --split dev -o dev.jsonl
    python examples/clapnq_t5.py --train train.jsonl --dev dev.jsonl -o clapnq-t5-lg
    lm_eval --model hf --model_args pretrained=clapnq-t5-lg --tasks clapnq_gold

For the models of its RAG setting, export with `--setting rag` or `--setting rag-gold`, add `--rag` here, and evaluate
`clapnq_rag_e5`. Needs torch, transformers, accelerate and datasets (`pip install "lm-eval-grounded[hf]"`). A run that was
stopped goes on from its last epoch when it is started again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

# Appendix C. The learning rate of the small training sets (200 examples) is 1e-3 there.
GOLD = {"epochs": 6, "batch": 32, "input_tokens": 412}
RAG = {"epochs": 10, "batch": 8, "input_tokens": 1024}
OUTPUT_TOKENS = 100
INSTRUCTION = " Please answer a question about this article."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="JSON lines of `lm-eval-grounded export clapnq`")
    parser.add_argument("--dev", required=True, help="the same of dev: the epoch with the lowest loss is kept")
    parser.add_argument("-o", "--output", required=True, help="folder of the model")
    parser.add_argument("--base", default="google/flan-t5-large")
    parser.add_argument("--rag", action="store_true", help="the paper's settings for several passages")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int, help="examples a step; on several GPUs, divide it by their number")
    parser.add_argument("--seed", type=int, default=42)
    given = parser.parse_args()
    paper = RAG if given.rag else GOLD
    set_seed(given.seed)
    tokenizer = AutoTokenizer.from_pretrained(given.base)
    model = AutoModelForSeq2SeqLM.from_pretrained(given.base, dtype=torch.float32)

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        """The passage is cut at its end where the prompt is too long; the question always stays."""
        passages, found, question = row["prompt"].rpartition(INSTRUCTION)
        if not found:
            raise SystemExit("the prompts are not the FLAN-T5 ones: export with --prompt flan")
        asked = tokenizer(found.strip() + question).input_ids
        room = max(paper["input_tokens"] - len(asked), 0)
        read = tokenizer(passages, add_special_tokens=False).input_ids
        labels = tokenizer(text_target=row["completion"].strip(), max_length=OUTPUT_TOKENS, truncation=True).input_ids
        return {"input_ids": read[:room] + asked, "labels": labels, "cut": len(read) > room}

    data = load_dataset("json", data_files={"train": given.train, "dev": given.dev})
    data = data.map(encode, remove_columns=data["train"].column_names)
    for name, split in data.items():
        print(f"{name}: {len(split)} examples, {sum(split['cut'])} with a passage that was cut")
    settings = Seq2SeqTrainingArguments(
        output_dir=given.output,
        num_train_epochs=given.epochs or paper["epochs"],
        learning_rate=given.lr,
        per_device_train_batch_size=given.batch or paper["batch"],
        per_device_eval_batch_size=given.batch or paper["batch"],
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,  # and the best
        load_best_model_at_end=True,  # by the loss on dev; the paper does not say by what
        logging_steps=10,
        bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),  # T5 overflows in fp16
        seed=given.seed,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=settings,
        train_dataset=data["train"].remove_columns("cut"),
        eval_dataset=data["dev"].remove_columns("cut"),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )
    whole = Path(given.output).glob("checkpoint-*/trainer_state.json")  # the file that is written last
    last = max((path.parent for path in whole), key=lambda folder: int(folder.name.split("-")[1]), default=None)
    trainer.train(resume_from_checkpoint=last and str(last))
    trainer.save_model(given.output)
    print(f"{given.output}: loss on dev {trainer.evaluate()['eval_loss']:.4f}")


if __name__ == "__main__":
    main()
