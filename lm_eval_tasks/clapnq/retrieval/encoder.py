"""Models that encode texts as vectors: their names, where their files are, a check that these are the pinned ones."""

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

# What a model is made of, for sentence-transformers: no pickled weights, none for other runtimes.
_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
_OTHER_RUNTIMES = ("onnx/", "openvino/")
# How a text's vectors become one, and where a text is cut: without them other vectors come out, and nothing says so.
_POOLING = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")


@dataclass(frozen=True)
class Encoder:
    """A sentence-transformers model and how texts are given to it."""

    repository: str  # ``owner/name`` on the Hugging Face hub
    revision: str | None = None  # the commit; else the newest
    weights: str | None = None  # SHA-256 of ``model.safetensors``, where it is pinned
    query_prefix: str | None = None  # stands before a question; else what the model's configuration says
    passage_prefix: str | None = None  # stands before title and text of a passage; else the same
    folder: Path | None = None  # where its files lie; else on the hub or in its cache


@cache
def encoders() -> dict[str, Encoder]:
    """The models that have a name here (``encoders.yaml``)."""
    import yaml

    table = resources.files("lm_eval_tasks.clapnq.retrieval").joinpath("encoders.yaml").read_text("utf-8")
    return {name: Encoder(**fields) for name, fields in yaml.safe_load(table).items()}


def named(name: str, options: Mapping[str, Any]) -> Encoder:
    """The model of a dense retriever: a named one, or for ``dense`` what the options say.

    Raises:
        ValueError: ``dense`` without a model.
        MissingSource: a folder was named that does not exist.
    """
    known = encoders().get(name)
    option = name if known else "encoder"
    place = str(options.get(option) or "")
    if not place:
        if known:
            return known
        raise UsageError(
            f"clapnq: retriever {name} needs a model: encoder=OWNER/NAME (or a folder), and where the model "
            f"wants them query_prefix='...' passage_prefix='...'"
        )
    folder = Path(place).expanduser()
    on_hub = known is None and not folder.is_absolute() and not place.startswith(".") and place.count("/") <= 1
    local = folder.is_dir()
    if not local and not on_hub:
        raise sources.MissingSource(
            f"{folder.resolve()}: no such folder ({option}=DIR names the folder of that model's files)"
        )
    if known:
        return replace(known, folder=folder)
    given = {key: str(value) for key, value in options.items() if value is not None}
    return Encoder(
        folder.resolve().name if local else place,
        revision=None if local else given.get("encoder_revision"),
        query_prefix=given.get("query_prefix"),
        passage_prefix=given.get("passage_prefix"),
        folder=folder if local else None,
    )


def weights_of(encoder: Encoder) -> tuple[Path, str]:
    """The folder of a model's files, and a digest of those that decide the vectors. Missing files are downloaded.

    Raises:
        MissingSource: the model is not to be had, has no safetensors, or (a pinned one) is only there in part.
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

    others = [f"{folder}*" for folder in _OTHER_RUNTIMES]
    try:
        place = snapshot_download(
            encoder.repository, revision=encoder.revision, allow_patterns=list(_FILES), ignore_patterns=others
        )
    except Exception as error:  # the hub raises a dozen kinds: offline, timeout, gone, no such name
        why = (str(error).splitlines() or [type(error).__name__])[0]
        option = next((name for name, known in encoders().items() if known is encoder), "encoder")
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
    """The model itself, a ``SentenceTransformer``.

    Raises:
        ValueError: sentence-transformers is not installed, or cannot load the folder, or the model compares vectors by
            other than cosine similarity or dot products.
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
    except Exception as error:  # whatever a file that is no model makes the libraries raise
        raise UsageError(f"clapnq: {folder} is no sentence-transformers model that loads: {error}") from error
    if str(model.similarity_fn_name) not in ("cosine", "dot"):
        raise UsageError(
            f"clapnq: {encoder.repository} compares by {model.similarity_fn_name} distance; retrieval here needs a model "
            f"for cosine similarity or dot products"
        )
    return model
