"""A classifier of tokens or texts, or the PEFT adapter of one: its files, what they say of it, the model ready to run."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from custom_metrics.usage.entry_points import DETECTORS, names
from detector_plugin import processes
from detector_plugin.detector import UnusableDetector

LONGEST = 4096  # tokens of an input where nobody said: the mFAVA paper's appendix A.3, and LettuceDetect's default
DETECTOR_FILE = "detector.json"

_HEAD = re.compile(r"(?:^|\.)(?:score|classifier)\.(?:modules_to_save\.)?(?:default\.)?(?:out_proj\.)?weight$")
_OF_TOKENS, _OF_TEXTS = "TokenClassification", "SequenceClassification"  # as architectures are called in config.json
_FROM_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text", "roberta-prelayernorm"}
"""RoBERTa and its kin count positions from after the padding token's."""
_PROMPT_LEARNING = {"PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "MULTITASK_PROMPT_TUNING", "CPT"}


def library(name: str, extra: str = "hf") -> Any:
    """A library that only an extra of this package brings; UnusableDetector where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnusableDetector(
            f"detectors of Hugging Face need {name}, which cannot be imported ({error}): pip install "
            f"'lm-eval-grounded[{extra}]'"
        ) from error


def first_line(error: BaseException) -> str:
    """Kind and message of an error, in one line of at most 400 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:400] if lines else ''}"


@dataclass(frozen=True)
class Repository:
    """A model's folder, or its repository on the hub."""

    name: str
    revision: str | None

    @property
    def folder(self) -> Path | None:
        folder = Path(self.name).expanduser()
        return folder if folder.is_dir() else None

    @property
    def source(self) -> str:
        return str(self.folder or self.name)

    def file(self, name: str) -> Path | None:
        """One of its files; ``None`` where there is none or it cannot be had."""
        if self.folder:
            return self.folder / name if (self.folder / name).is_file() else None
        hub = library("huggingface_hub")
        try:
            return Path(hub.hf_hub_download(self.name, name, revision=self.revision))
        except Exception:  # who needs the file says why: `check_configuration`
            return None

    def json(self, name: str) -> dict[str, Any]:
        """The object in one of its files; empty where there is none."""
        file = self.file(name)
        try:
            content = json.loads(file.read_text("utf-8")) if file else {}
        except ValueError as error:
            raise UnusableDetector(f"detector {self.name}: {file} is not JSON ({error})") from error
        return content if isinstance(content, dict) else {}

    def version(self) -> str:
        """The commit; of a folder, a hash of what decides the answers: configuration, tokenizer and weights."""
        if not self.folder:
            file = self.file("config.json") or self.file("adapter_config.json")
            return file.parent.name if file else "unknown"  # the hub's cache has snapshots/<commit>/config.json
        files = sorted(path.name for path in self.folder.iterdir() if path.is_file())
        weights = [name for name in files if name.endswith(".safetensors")]
        names = ("config.json", "adapter_config.json", "tokenizer.json", "tokenizer_config.json", DETECTOR_FILE)
        digest = hashlib.sha256()
        for name in [*(name for name in names if name in files), *weights]:
            digest.update(name.encode() + b"\0")
            with (self.folder / name).open("rb") as content:
                while block := content.read(1 << 24):
                    digest.update(block)
        return digest.hexdigest()[:16]

    def licence(self) -> str:
        """As the model card has it, else ``unknown``."""
        card = self.file("README.md")
        try:
            metadata = (library("huggingface_hub").metadata_load(card) if card else None) or {}
        except (ValueError, yaml.YAMLError):  # no text, or no table
            return "unknown"
        licence = metadata.get("license")
        if licence == "other":
            licence = metadata.get("license_name") or licence
        return ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence or "unknown")


@dataclass(frozen=True)
class StoredSettings:
    """Settings that a trained detector brings along in ``detector.json``, by the names of a detector's options, which are
    stronger. Labels are the names of the classes in their order; an adapter has no ``config.json``."""

    form: str | None = None
    attention: str | None = None
    threshold: float | None = None
    max_length: int | None = None
    labels: tuple[str, ...] | None = None

    @classmethod
    def of(cls, repository: Repository) -> StoredSettings:
        """Those of a repository; unknown keys are passed over. The detector checks the values."""
        content = repository.json(DETECTOR_FILE)
        values = {each.name: content[each.name] for each in fields(cls) if content.get(each.name) is not None}
        return cls(**values | ({"labels": tuple(map(str, values["labels"]))} if "labels" in values else {}))

    def save(self, folder: Path) -> None:
        content = {key: value for key, value in asdict(self).items() if value is not None}
        (folder / DETECTOR_FILE).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")


def check_configuration(repository: Repository, adapter: Repository | None) -> None:
    """Check that a model's configuration can be had; UnusableDetector says why it cannot."""
    base = f"base model {repository.name} (of adapter_config.json, or the option base_model)"
    what = f"detector {adapter.name}, {base}:" if adapter else f"detector {repository.name}:"
    if repository.folder:
        if not (repository.folder / "config.json").is_file():
            raise UnusableDetector(
                f"{what} the folder {repository.folder.resolve()} has no config.json and no adapter_config.json; a model's "
                "folder is what save_pretrained writes"
            )
        return
    if re.match(r"[./~\\]|[A-Za-z]:\\", repository.name) or repository.name.count("/") > 1:
        raise UnusableDetector(f"{what} there is no folder {Path(repository.name).expanduser().resolve()}")
    hub, errors = library("huggingface_hub"), library("huggingface_hub.errors")
    try:
        hub.hf_hub_download(repository.name, "config.json", revision=repository.revision)
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        why = f"cannot be fetched from https://huggingface.co/{repository.name}: {' '.join(str(error).split())[:400]}"
        if isinstance(error, (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)):
            constants = library("huggingface_hub.constants")
            reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub cannot be reached"
            why = (
                f"is not a folder here, is not in the cache {constants.HF_HUB_CACHE}, and cannot be fetched ({reason}). "
                f"On a machine with a connection, run 'hf download {repository.name}' and copy it here, or name its folder"
            )
        known = ", ".join(names(DETECTORS))
        raise UnusableDetector(f"{what} {why}. Detectors with a name of their own are {known}.") from error


def find_repositories(name: str, revision: str | None, base_model: str | None) -> tuple[Repository, Repository]:
    """A model's repository, and that of its weights: an adapter's base model, else the same; or UnusableDetector."""
    own = Repository(name, revision)
    adapter = own.json("adapter_config.json")
    if not adapter:
        if base_model:
            raise UnusableDetector(
                f"detector {name}: option base_model is for PEFT adapters, and this has no adapter_config.json"
            )
        check_configuration(own, None)
        return own, own
    if adapter.get("peft_type") in _PROMPT_LEARNING:
        raise UnusableDetector(
            f"detector {name}: is an adapter of the kind {adapter['peft_type']}, which puts tokens before the text; "
            "use one that changes weights, such as LORA"
        )
    base = base_model or adapter.get("base_model_name_or_path")
    if not base:
        raise UnusableDetector(
            f"detector {name}: adapter_config.json names no base model; name it with the option base_model"
        )
    if own.folder and not Path(base).expanduser().is_dir() and (own.folder / base).is_dir():
        base = own.folder / base
    weights = Repository(str(base), None if base_model else adapter.get("revision"))
    check_configuration(weights, own)
    return own, weights


@dataclass(frozen=True)
class ModelDescription:
    """A classifier as its files describe it; no weights are loaded to know."""

    name: str  # as the user gave it
    own: Repository
    weights: Repository  # of an adapter's base model, else the same
    config: Any  # of the model, or of an adapter's base model
    tokenizer: Any  # a fast one
    labels: list[str]  # names of the classes in their order
    of_texts: bool  # whether it gives classes to a text, not to its tokens
    version: str  # commit of the hub, or a hash of the files' contents; that of an adapter names its base model's, too
    stored: StoredSettings
    has_head: bool  # whether an adapter brings the classifier's weights along
    trust_remote_code: bool  # whether code of the repository may run

    @property
    def adapter(self) -> bool:
        return self.weights is not self.own

    @property
    def decoder(self) -> bool:
        """Whether models of this kind predict the next token, and no masked ones."""
        auto = library("transformers.models.auto.modeling_auto")
        kind = getattr(self.config, "model_type", None)
        return kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def describe_model(
    name: str,
    revision: str | None = None,
    base_model: str | None = None,
    trust_remote_code: bool = False,
    trained: bool = True,
) -> ModelDescription:
    """What is known of a classifier, or of the PEFT adapter of one, without its weights. Arguments are options of
    :class:`detector_plugin.transformers.TransformersDetector`. UnusableDetector unless it is one or not `trained`."""
    library("torch")  # says what to install
    transformers = library("transformers")
    own, weights = find_repositories(name, revision, base_model)
    with _as_unusable(name, "its configuration cannot be read"):
        config = transformers.AutoConfig.from_pretrained(
            weights.source, revision=weights.revision, trust_remote_code=trust_remote_code
        )
    if hasattr(config, "reference_compile"):
        config.reference_compile = False  # ModernBERT would compile itself in transformers before 5
    config.use_cache = False
    stored = StoredSettings.of(own)
    adapter, head_size = own is not weights, None
    architectures = getattr(config, "architectures", None) or []
    of_texts = any(_OF_TEXTS in kind for kind in architectures)
    if adapter:
        of_texts = own.json("adapter_config.json").get("task_type") == "SEQ_CLS"
        head_size = _head_size(own)
        if head_size and config.num_labels != head_size:
            config.num_labels = head_size
    elif trained and architectures and not of_texts and not any(_OF_TOKENS in kind for kind in architectures):
        raise UnusableDetector(
            f"detector {name}: is a {' and '.join(architectures)}, not a classifier of tokens or texts (config.json: "
            f"architectures). Name a model whose card says token or text classification; for a generative model use "
            f"detector llm with pretrained={name}"
        )
    labels = [str(config.id2label[index]) for index in range(config.num_labels)]
    if adapter:
        given = own.json("config.json").get("id2label")
        if isinstance(given, dict) and len(given) == len(labels):
            labels = [str(given[str(index)]) for index in range(len(labels))]
        elif stored.labels and len(stored.labels) == len(labels):
            labels = list(stored.labels)
    place = own if any(map(own.file, ("tokenizer.json", "tokenizer_config.json"))) else weights
    with _as_unusable(name, f"its tokenizer cannot be loaded from {place.source}"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            place.source, revision=place.revision, trust_remote_code=trust_remote_code, use_fast=True
        )
    if not getattr(tokenizer, "is_fast", False):
        raise UnusableDetector(
            f"detector {name}: its tokenizer ({type(tokenizer).__name__}) is not a fast one and cannot say where a token "
            "stands in the text; the repository needs a tokenizer.json"
        )
    if of_texts and config.pad_token_id is None:  # a decoder's class is that of the last token which is not padding
        config.pad_token_id = padding_of(tokenizer)
    version = f"{own.version()}+base.{weights.version()}" if adapter else own.version()
    return ModelDescription(
        *(name, own, weights, config, tokenizer, labels, of_texts, version, stored, bool(head_size), trust_remote_code)
    )


def _head_size(own: Repository) -> int | None:
    """Number of classes of the head that came with an adapter; ``None`` where none did."""
    file = own.file("adapter_model.safetensors")
    if not file:
        raise UnusableDetector(
            f"detector {own.name}: has adapter_config.json, but no adapter_model.safetensors. Pickled weights "
            "(adapter_model.bin) are not read, because reading them can run code; save them with safe_serialization=True"
        )
    with library("safetensors").safe_open(str(file), framework="np") as weights:
        head = next((key for key in weights.keys() if _HEAD.search(key)), None)  # noqa: SIM118 - it is not a mapping
        return int(weights.get_slice(head).get_shape()[0]) if head else None


def padding_of(tokenizer: Any) -> int:
    """The token that fills inputs up: of a tokenizer without one, the token that ends a text."""
    return (tokenizer.eos_token_id or 0) if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)


@contextmanager
def _as_unusable(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except UnusableDetector:
        raise
    except Exception as error:
        hint = " (its code may run only with trust_remote_code=True)" if "trust_remote_code" in str(error) else ""
        raise UnusableDetector(f"detector {name}: {what}: {first_line(error)}{hint}") from error


def max_positions(config: Any) -> int | None:
    """Tokens of an input by a model's configuration; ``None`` where it does not say."""
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    return limit - (config.pad_token_id or 0) - 1 if config.model_type in _FROM_PADDING else limit


def learned_positions(model: Any) -> int | None:
    """Positions that were learned: there are no more. Others can be had, at the user's risk."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("position_embeddings", "wpe") and hasattr(module, "num_embeddings"):
            padding = getattr(module, "padding_idx", None)  # as in :func:`max_positions`
            return int(module.num_embeddings - (0 if padding is None else padding + 1))
    return None


def load_model(described: ModelDescription, device: str, dtype: str) -> Any:
    """The model, in evaluation mode, on its device; UnusableDetector where that fails or weights are lacking."""
    torch = library("torch")
    name, config, repository = described.name, described.config, described.weights
    if device == "auto":
        device = processes.gpu() if torch.cuda.is_available() else "cpu"
    try:
        torch_device = torch.device(device)
        torch.empty(1, device=torch_device)
    except Exception as error:
        raise UnusableDetector(f"option device: {device!r} cannot be used here: {first_line(error)}") from error
    if dtype == "auto":
        on_gpu = torch_device.type == "cuda"
        modern = on_gpu and torch.cuda.get_device_capability(torch_device) >= (8, 0)
        dtype = "bfloat16" if modern else "float16" if on_gpu else "float32"
    torch_dtype = getattr(torch, dtype)
    options = {
        "config": config,
        "dtype": torch_dtype,
        "revision": repository.revision,
        "trust_remote_code": described.trust_remote_code,
        "output_loading_info": True,
    }
    what = f"detector {name}: {repository.source}"
    # not every encoder has an attention to choose
    attentions = ("sdpa", "eager" if described.decoder else None)
    model, info = load_classifier(repository, options, attentions, what, described.of_texts)
    # Weights outside its base model, or of another size, that the files lack.
    mismatched = [key[0] if isinstance(key, tuple) else key for key in info.get("mismatched_keys") or []]
    inner = f"{model.base_model_prefix}."
    missing = sorted({*mismatched, *(key for key in info["missing_keys"] if not key.startswith(inner))})
    if missing and not described.has_head:
        raise UnusableDetector(
            f"detector {name}: is not a trained classifier: {repository.source} has no weights {', '.join(missing)}. Name "
            "a model whose card says token or text classification, or an adapter with such a head."
        )
    if described.adapter:
        own = described.own
        with _as_unusable(name, f"its adapter cannot be put on {repository.source}"):
            model = library("peft").PeftModel.from_pretrained(model, own.source, revision=own.revision)
    with _as_unusable(name, f"it cannot be brought onto {torch_device} in {torch_dtype}"):
        if not getattr(config, "quantization_config", None):
            model = model.to(device=torch_device, dtype=torch_dtype)
    return model.eval()


def load_classifier(
    repository: Repository,
    options: Mapping[str, Any],
    attentions: Sequence[str | None],
    what: str,
    of_texts: bool = False,
) -> Any:
    """The result of transformers' ``AutoModelForTokenClassification.from_pretrained``, or that of texts, with the first of
    several implementations of attention that the model has, ``None`` being its own: flash attention takes no mask of ours.
    UnusableDetector says that `what` cannot be loaded."""
    transformers, quiet = library("transformers"), library("transformers.utils.logging")
    kind = _OF_TEXTS if of_texts else _OF_TOKENS
    options = {**options, "ignore_mismatched_sizes": True}  # a head of other classes
    options["use_safetensors"] = True  # pickled weights can run code
    level = quiet.get_verbosity()
    quiet.set_verbosity_error()  # it warns of heads without weights, which the callers know
    load = getattr(transformers, f"AutoModelFor{kind}").from_pretrained
    try:
        for attention in attentions:
            chosen = {"attn_implementation": attention} if attention else {}
            try:
                return load(repository.source, **options, **chosen)
            except ValueError as error:
                if attention == attentions[-1] or "attention" not in str(error):
                    raise
    except Exception as error:
        why = first_line(error)
        if isinstance(error, ValueError) and "Unrecognized configuration class" in str(error):
            why = f"transformers {transformers.__version__} has no {kind} of the kind {options['config'].model_type}"
        raise UnusableDetector(f"{what} cannot be loaded: {why}") from error
    finally:
        quiet.set_verbosity(level)
