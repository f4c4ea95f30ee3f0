"""Models that encode texts as vectors: their names, their files, and a check against the pinned weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.digests import sha256_of

# The files of a sentence-transformers model, without pickled weights and those for other runtimes.
_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
_OTHER_RUNTIMES = ("onnx/", "openvino/")
# Pooling and maximum length of a text: without these files the vectors differ, and no error is raised.
_POOLING = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")


@dataclass(frozen=True)
class Encoder:
    """A sentence-transformers model and its prefixes."""

    repository: str  # ``owner/name`` on the Hugging Face hub
    revision: str | None = None  # the commit; ``None`` for the newest
    weights: str | None = None  # SHA-256 of ``model.safetensors``, where it is pinned
    query_prefix: str | None = None  # before a question; ``None`` for that of the model's configuration
    passage_prefix: str | None = None  # before title and text of a passage; ``None`` for the same
    folder: Path | None = None  # of its files; ``None`` for the hub and its cache


@cache
def encoders() -> dict[str, Encoder]:
    """The named models (``encoders.yaml``)."""
    import yaml

    table = resources.files("lm_eval_tasks.clapnq.retrieval").joinpath("encoders.yaml").read_text("utf-8")
    return {name: Encoder(**fields) for name, fields in yaml.safe_load(table).items()}


def encoder_for(name: str, options: Mapping[str, Any]) -> Encoder:
    """The model of a dense retriever: a named one, or for ``dense`` that of the options.

    Raises:
        ValueError: the retriever is ``dense``, and the options name no model.
        MissingSource: the options name a folder that does not exist.
    """
    pinned = encoders().get(name)
    option = name if pinned else "encoder"
    place = str(options.get(option) or "")
    if not place:
        if pinned:
            return pinned
        raise UsageError(
            f"clapnq: retriever {name} needs a model: encoder=OWNER/NAME (or a folder), and where the model "
            f"wants them query_prefix='...' passage_prefix='...'"
        )
    folder = Path(place).expanduser()
    on_hub = pinned is None and not folder.is_absolute() and not place.startswith(".") and place.count("/") <= 1
    local = folder.is_dir()
    if not local and not on_hub:
        raise sources.MissingSource(
            f"{folder.resolve()}: no such folder ({option}=DIR names the folder of that model's files)"
        )
    if pinned:
        return replace(pinned, folder=folder)
    given = {key: str(value) for key, value in options.items() if value is not None}
    return Encoder(
        folder.resolve().name if local else place,
        revision=None if local else given.get("encoder_revision"),
        query_prefix=given.get("query_prefix"),
        passage_prefix=given.get("passage_prefix"),
        folder=folder if local else None,
    )


def weights_of(encoder: Encoder) -> tuple[Path, str]:
    """The folder of a model's files, and a digest of those that determine its vectors. Missing files are downloaded.

    Raises:
        MissingSource: the model is not available, has no safetensors, or (a pinned one) is incomplete.
        CorruptSource: the weights are not the pinned ones.
    """
    folder = encoder.folder or _from_hub(encoder)
    digests = {
        name: sha256_of(path)
        for pattern in _FILES
        for path in sorted(folder.rglob(pattern))
        if not (name := path.relative_to(folder).as_posix()).startswith(_OTHER_RUNTIMES)
    }
    if not any(name.endswith(".safetensors") for name in digests):
        raise sources.MissingSource(
            f"{folder} holds no *.safetensors, so it is no model that can be used here (pickled weights can run code)"
        )
    if encoder.weights and digests.get("model.safetensors") != encoder.weights:
        raise sources.CorruptSource(
            f"{folder} does not hold {encoder.repository}: the SHA-256 of model.safetensors is "
            f"{digests.get('model.safetensors')}, not {encoder.weights}. Any other model: retriever dense "
            f"(clapnq_rag_dense) with encoder=DIR."
        )
    absent = [name for name in _POOLING if name not in digests]
    if encoder.weights and absent:
        raise sources.MissingSource(
            f"{folder} lacks {', '.join(absent)}, so {encoder.repository} would make other vectors than it should; "
            f"`{_download(encoder)}` fetches all of it"
        )
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items()))
    return folder, hashlib.sha256(lines.encode()).hexdigest()


def _from_hub(encoder: Encoder) -> Path:
    from huggingface_hub import snapshot_download

    ignored = [f"{folder}*" for folder in _OTHER_RUNTIMES]
    try:
        place = snapshot_download(
            encoder.repository, revision=encoder.revision, allow_patterns=list(_FILES), ignore_patterns=ignored
        )
    except Exception as error:  # the hub raises a dozen kinds: offline, timeout, gone, no such name
        why = (str(error).splitlines() or [type(error).__name__])[0]
        option = next((name for name, pinned in encoders().items() if pinned is encoder), "encoder")
        raise sources.MissingSource(
            f"The encoder {encoder.repository} is not here and could not be downloaded: {why} "
            f"With internet, `{_download(encoder)}` fetches it; for a cluster without, copy DIR there and say "
            f"{option}=DIR."
        ) from error
    return Path(place)


def _download(encoder: Encoder) -> str:
    revision = f" --revision {encoder.revision}" if encoder.revision else ""
    return f"hf download {encoder.repository}{revision} --local-dir DIR"


def load(encoder: Encoder, folder: Path, device: str) -> Any:
    """Load a ``SentenceTransformer``.

    Raises:
        ValueError: sentence-transformers is not installed, or cannot load the folder, or the model's similarity is neither
            the cosine nor the dot product.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise UsageError(
            f"clapnq: dense retrieval needs sentence-transformers, which cannot be imported ({error}): "
            f"pip install 'lm-eval-grounded[dense]'"
        ) from error
    try:
        model = SentenceTransformer(
            str(folder),
            device=device,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # the libraries raise many kinds for files that are no model
        raise UsageError(f"clapnq: {folder} is no sentence-transformers model that loads: {error}") from error
    if str(model.similarity_fn_name) not in ("cosine", "dot"):
        raise UsageError(
            f"clapnq: {encoder.repository} compares by {model.similarity_fn_name} distance; retrieval here needs a model "
            f"for cosine similarity or dot products"
        )
    return model
