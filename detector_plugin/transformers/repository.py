"""A model's files, on the hub or on disk, and what they say about it."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from custom_metrics.usage.entry_points import DETECTORS, names
from detector_plugin.detector import UnusableDetector


def library(name: str, extra: str = "hf") -> Any:
    """A library that only an extra of this package brings; UnusableDetector where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnusableDetector(
            f"detectors of Hugging Face need {name}, which cannot be imported ({error}): pip install "
            f"'lm-eval-grounded[{extra}]'"
        ) from error


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
        except Exception:  # who needs the file says why: `_download_problem`
            return None

    def json(self, name: str) -> dict[str, Any]:
        file = self.file(name)
        try:
            content = json.loads(file.read_text("utf-8")) if file else {}
        except ValueError as error:
            raise UnusableDetector(f"detector {self.name}: {file} is no JSON ({error})") from error
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


DETECTOR_FILE = "detector.json"


@dataclass(frozen=True)
class StoredSettings:
    """Settings that a trained detector brings along in ``detector.json``: what it was trained and measured with, by the
    names of a detector's options. Every part may be missing. Options of the user are stronger. Labels are the names of the
    classes in their order; an adapter has no ``config.json`` to hold them.
    """

    form: str | None = None
    attention: str | None = None
    threshold: float | None = None
    max_length: int | None = None
    labels: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any], name: str) -> StoredSettings:
        """From the file's content; keys that are not known here are passed over. UnusableDetector where a value is of the
        wrong kind; `name` is the detector's."""
        kinds = {"form": str, "attention": str, "threshold": float, "max_length": int, "labels": list}
        values = {key: content[key] for key in kinds if content.get(key) is not None}
        for key, value in values.items():
            kind = kinds[key]
            if not isinstance(value, (float, int) if kind is float else kind) or isinstance(value, bool):
                raise UnusableDetector(
                    f"detector {name}: {DETECTOR_FILE} has {key}={value!r}, which is no {kind.__name__}"
                )
        if "labels" in values:
            values["labels"] = tuple(map(str, values["labels"]))
        return cls(**values)

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
    except (errors.HFValidationError, errors.EntryNotFoundError, errors.HfHubHTTPError, OSError) as error:
        raise UnusableDetector(f"{what} {_download_problem(repository, error, errors)}") from error


def _download_problem(repository: Repository, error: Exception, errors: Any) -> str:
    """Why a file of the hub cannot be had, and what to do. `errors` are the hub's, of which some are kinds of others."""
    page = f"https://huggingface.co/{repository.name}"
    if isinstance(error, errors.HFValidationError):
        folder = Path(repository.name).expanduser().resolve()
        return f"is neither a folder ({folder}) nor a name that the hub could have ({first_line(error)})"
    if isinstance(error, errors.GatedRepoError):
        return f"is gated: ask for access at {page}, then log in (hf auth login, or HF_TOKEN)"
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"there is no such model at {page} (or it is private and HF_TOKEN is not set), no folder of that name here, "
            f"and the detectors with a name of their own are {', '.join(names(DETECTORS))}"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"has no revision {repository.revision!r}; see {page}/commits/main"
    if isinstance(error, (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)):
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        return (
            f"is no folder here, is not in the cache {library('huggingface_hub.constants').HF_HUB_CACHE}, and cannot be "
            f"fetched ({'HF_HUB_OFFLINE is set' if offline else 'the hub cannot be reached'}). On a machine with a "
            f"connection, run 'hf download {repository.name}' and copy it here, or name its folder. "
            f"Detectors with a name of their own are {', '.join(names(DETECTORS))}."
        )
    if isinstance(error, errors.EntryNotFoundError):
        return f"has no config.json at {page}: it is no model of transformers"
    return f"cannot be fetched from {page}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """Kind and message of an error, in one line of at most 400 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:400] if lines else ''}"
