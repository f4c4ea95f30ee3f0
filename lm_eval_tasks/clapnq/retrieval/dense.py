"""Dense retrieval with sentence-transformers: passages encoded once, exact search by blocked matrix products.

As in the paper (section 4.1): title and text of a passage, cut at the model's maximum length; the model's own similarity.
Vectors are float16 blocks on disk (``.npy``), written one by one, so a killed encoding continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import definition
from lm_eval_tasks.clapnq.corpus import Corpus
from lm_eval_tasks.clapnq.retrieval import Question, Ranking, top_k
from lm_eval_tasks.data import sha256_of, sources, whole_file

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

_FREE = 4 << 30  # free bytes of a GPU that is used by default
_BATCH = 64

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]


class Dense:
    """Ranking by the similarity of vectors; see the module."""

    def __init__(self, name: str, corpus: Corpus, options: Mapping[str, Any]) -> None:
        self.name = name
        encoder = encoder_for(name, options)
        self._batch_size = definition.positive(
            "encoder_batch_size", options.get("encoder_batch_size", _BATCH), "clapnq"
        )
        folder, weights = weights_of(encoder)
        self._devices = _devices(options.get("encoder_device"))
        self._model = load(encoder, folder, self._devices[0])
        self._normalised = str(self._model.similarity_fn_name) == "cosine"
        prompts = self._model.prompts or {}
        of_passages = prompts.get("document") or prompts.get("passage")
        self._query_prefix = encoder.query_prefix if encoder.query_prefix is not None else prompts.get("query") or ""
        self._passage_prefix = encoder.passage_prefix if encoder.passage_prefix is not None else of_passages or ""
        self._ids = corpus.ids
        self._identity = {
            "weights": weights,
            "passage_prefix": self._passage_prefix,
            "max_length": self._model.max_seq_length,
            "normalised": self._normalised,
            "corpus": corpus.key,
        }
        revision = encoder.revision if encoder.folder else folder.name  # the hub's cache: snapshots/<commit>
        self._labels = {"model": encoder.repository, "revision": revision}
        log.info("clapnq: %s: %s on %s", name, folder, " and ".join(self._devices))
        cache = sources.cache_folder() / "vectors"
        self._blocks = open_vectors(cache, self._identity, len(corpus), partial(self._encode, corpus), self._labels)

    def describe(self) -> dict[str, Any]:
        return {"retriever": self.name, **self._labels, **self._identity, "query_prefix": self._query_prefix}

    def search(self, questions: Sequence[Question], k: int) -> list[Ranking]:
        """For each question the ids of the k best passages with their similarities, best first."""
        if not questions:
            return []
        vectors = self._embed([question.text for question in questions], self._query_prefix)
        rows, scores = best_rows(self._blocks, vectors, k)
        return [
            [(self._ids[row], float(score)) for row, score in zip(*ranked, strict=True)]
            for ranked in zip(rows, scores, strict=True)
        ]

    def _embed(self, texts: Sequence[str], prefix: str, **options: Any) -> Floats:
        vectors: Floats = self._model.encode(
            list(texts),
            prompt=prefix,
            batch_size=self._batch_size,
            normalize_embeddings=self._normalised,
            show_progress_bar=False,
            convert_to_numpy=True,
            **options,
        )
        return vectors

    def _encode(self, corpus: Corpus, starts: Sequence[int]) -> Iterator[Floats]:
        """The vectors of each block; several devices share a block."""
        from tqdm import tqdm

        log.info("clapnq: encoding %d passages with %s (once)", len(corpus), self._labels["model"])
        several = len(self._devices) > 1
        pool = self._model.start_multi_process_pool(list(self._devices)) if several else None
        shared = {"pool": pool, "chunk_size": -(-BLOCK // len(self._devices))} if several else {}
        missing = sum(min(BLOCK, len(corpus) - start) for start in starts)
        bar = tqdm(total=len(corpus), initial=len(corpus) - missing, desc=f"{self.name} vectors", unit="passage")
        try:
            for start in starts:
                texts = corpus.contents(start, min(start + BLOCK, len(corpus)))
                yield self._embed(texts, self._passage_prefix, **shared)
                bar.update(len(texts))
        finally:
            bar.close()
            if several:
                self._model.stop_multi_process_pool(pool)
                self._model.to(self._devices[0])  # the pool has moved the model to the CPU


minilm, bge, e5, dense = (partial(Dense, name) for name in ("minilm", "bge", "e5", "dense"))


def _devices(named: Any) -> tuple[str, ...]:
    """The named devices, else all GPUs with enough free memory, else the CPU."""
    try:
        import torch
    except ImportError:
        return ("cpu",)  # loading the model raises an error with the package to install
    if not named:
        gpus = [f"cuda:{gpu}" for gpu in range(torch.cuda.device_count()) if torch.cuda.mem_get_info(gpu)[0] > _FREE]
        return tuple(gpus) or ("cpu",)
    devices = tuple(part.strip() for part in str(named).split("+"))
    for device in devices:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"clapnq: encoder_device={device} cannot be used: {str(error).splitlines()[0]}") from error
    return devices


# ------------------------------------------------------------------------------------------------------------- the models

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
    """The model of a dense retriever: a named one, or for ``dense`` that of the options. A UsageError where these name
    none, a MissingSource where they name a folder that does not exist."""
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
    """The folder of a model's files, and a digest of those that determine its vectors. Missing files are downloaded. A
    MissingSource where the model is not available, has no safetensors, or (a pinned one) is incomplete; a CorruptSource
    where the weights are not the pinned ones."""
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
    """Load a ``SentenceTransformer``. A UsageError where sentence-transformers is not installed, or cannot load the
    folder, or the model's similarity is neither the cosine nor the dot product."""
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


# ------------------------------------------------------------------------------------------------------- vectors on disk

BLOCK = 1024  # rows in a file: 0.8 MB at 384 dimensions, the maximum that a kill can lose
_QUESTIONS = 256  # scored at a time: 180 MB of scores of the public corpus
_FORM = 3  # version of the folder's layout, part of its key


def open_vectors(
    parent: Path,
    identity: Mapping[str, Any],
    rows: int,
    encode: Callable[[Sequence[int]], Iterator[Floats]],
    labels: Mapping[str, Any],
) -> list[Halves]:
    """The vectors of a model over a corpus, mapped into memory. Missing blocks are encoded.

    Args:
        parent: folder of the cache.
        identity: everything that determines the vectors (weights, prefix, corpus); its hash is the folder's name.
        rows: number of passages, at least one.
        encode: given the first rows of the missing blocks, yields the vectors of each.
        labels: name and revision of the model, written beside the vectors with `identity`, for people.

    Returns:
        float16 arrays of ``BLOCK`` rows each, the last with the rest. A UsageError for a number that float16 cannot hold.
    """
    from filelock import FileLock

    fields = {**identity, "rows": rows, "block": BLOCK, "form": _FORM}
    folder = parent / hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        files = {start: folder / f"{start // BLOCK:05d}.npy" for start in range(0, rows, BLOCK)}
        missing = [start for start, file in files.items() if not file.is_file()]
        if 0 < len(missing) < len(files):
            log.info("clapnq: %d of %d blocks are encoded already", len(files) - len(missing), len(files))
        if missing:
            with whole_file(folder / "about.json") as partial:
                partial.write_text(json.dumps({**labels, **fields}, indent=1, sort_keys=True), "utf-8")
        for start, vectors in zip(missing, encode(missing) if missing else (), strict=True):
            _write(files[start], vectors)
    return [np.load(file, mmap_mode="r", allow_pickle=False) for file in files.values()]


def best_rows(blocks: Sequence[Halves], questions: Floats, k: int) -> tuple[NDArray[np.int64], Floats]:
    """Rows, counted through the blocks, and scores of the `k` largest inner products, both (questions, k), best first;
    of equal scores the earlier row. `blocks` are (rows, dimension) each, `questions` (questions, dimension).

    Products are summed in double precision and rounded to single, so that equal vectors have equal scores in any row: in
    single precision a product of matrices adds up in another order at the edge of a block, on another processor, and
    with more threads.
    """
    rows, best = np.empty((len(questions), k), np.int64), np.empty((len(questions), k), np.float32)
    for first in range(0, len(questions), _QUESTIONS):
        batch = questions[first : first + _QUESTIONS].astype(np.float64)
        scores = np.hstack([(batch @ block.astype(np.float64).T).astype(np.float32) for block in blocks])
        for number, of_question in enumerate(scores, first):
            rows[number] = top_k(of_question, k)
            best[number] = of_question[rows[number]]
    return rows, best


def _write(path: Path, vectors: Floats) -> None:
    with np.errstate(over="ignore"):  # raised below
        halves = np.asarray(vectors).astype(np.float16)
    if not np.isfinite(halves).all():
        raise UsageError(
            f"{path.parent}: the model gave numbers that are not finite in float16; is it one for retrieval?"
        )
    with whole_file(path) as partial, partial.open("wb") as stream:
        np.save(stream, halves, allow_pickle=False)
