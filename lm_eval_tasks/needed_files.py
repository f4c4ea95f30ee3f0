"""Which public files a task reads, known before any is read: so that all that are missing are said at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lm_eval_tasks import sources

__all__ = ["missing", "needed", "require"]

Options = Mapping[str, Any]


def needed(loader: Any, options: Options) -> list[sources.SourceFile]:
    """The files that a task's loader cannot do without, in the order in which it reads them.

    Args:
        loader: the task's ``custom_dataset``.
        options: what it is given: the task's metadata and ``dataset_kwargs``.

    Returns:
        None for a loader of another package, for documents of earlier samples, and for options that the loader refuses.
    """
    of = _LOADERS.get(getattr(loader, "__module__", ""))
    if of is None or options.get("samples") is not None:
        return []
    try:
        return [sources.find(*place) for place in of(options)]
    except (KeyError, TypeError):  # no such language or split: the loader says so
        return []


def missing(files: list[sources.SourceFile], mirror: str | None = None) -> list[sources.SourceFile]:
    """Those that are neither in the mirror, nor without one in the caches.

    Raises:
        MissingSource: the mirror does not exist.
    """
    folder = sources.mirror_folder(mirror)
    return [file for file in files if sources.local_copy(file, folder) is None]


def require(loader: Any, options: Options) -> None:
    """Refuse a task that lacks files which nothing will download: those of a mirror, or offline.

    Args:
        loader, options: see :func:`needed`.

    Raises:
        MissingSource: which they are, with the one command that fetches them all.
    """
    mirror = options.get("mirror")
    files = needed(loader, options) if mirror is None or isinstance(mirror, str) else []
    if not files or (sources.mirror_folder(mirror) is None and not sources.is_offline()):
        return
    lacking = missing(files, mirror)
    if len(lacking) == 1:
        try:
            sources.locate(lacking[0].repository, lacking[0].path, mirror)
        except sources.MissingSource as error:
            error.files = lacking
            raise
    elif lacking:
        several = sources.MissingSource(_said(lacking, mirror))
        several.files = lacking
        raise several


def _said(lacking: list[sources.SourceFile], mirror: str | None) -> str:
    folder = sources.mirror_folder(mirror)
    names = ", ".join(f"{file.repository}/{file.path}" for file in lacking)
    command = sources.fetch_command(lacking, folder)
    if folder:
        return (
            f"{len(lacking)} public files are not in the mirror {folder.resolve()}: {names}. On a machine with internet, "
            f"`{command}` puts them there."
        )
    return (
        f"{len(lacking)} public files are not here and may not be downloaded (HF_HUB_OFFLINE is set): {names}. No mirror "
        f"is set ({sources.MIRROR_VARIABLE} or --metadata mirror=DIR). With internet, `{command}` fetches them."
    )


# --------------------------------------------------------------------------------------------------- what each loader reads

Places = list[tuple[str, str]]


def _nomiracl(options: Options) -> Places:
    from lm_eval_tasks.nomiracl.dataset import LANGUAGES, PAPER_SAMPLE, PAPER_SPLIT, REPOSITORY, SUBSETS

    folder = f"data/{LANGUAGES[options.get('task_language') or options.get('language', '')]}"
    split, subset = options.get("split", PAPER_SPLIT), options.get("subset", "both")
    whole = options.get("max_samples", PAPER_SAMPLE) in (None, "all")
    names = []
    for name in SUBSETS:
        read = subset in (name, "both")
        if read or (name == "relevant" and not whole):  # the relevant sample is drawn first in any case
            names.append(f"topics/{split}.{name}.tsv")
        if read:
            names.append(f"qrels/{split}.{name}.tsv")
    return [(REPOSITORY, f"{folder}/{name}") for name in (*names, "corpus.jsonl.gz")]


def _clapnq(options: Options) -> Places:
    from lm_eval_tasks.clapnq.dataset import ANNOTATIONS, FILE_SPLIT, PASSAGES

    split = FILE_SPLIT[options.get("split", "validation")]
    kinds = ("answerable", "unanswerable")
    places = [(ANNOTATIONS, f"clapnq_{split}_{kind}.jsonl") for kind in kinds]
    if options.get("task_retriever"):
        places.append((PASSAGES, "passages.tsv"))
    if options.get("num_fewshot"):
        places += [(ANNOTATIONS, f"clapnq_train_{kind}.jsonl") for kind in kinds]
    return list(dict.fromkeys(places))


def _mfava(options: Options) -> Places:
    from lm_eval_tasks.mfava.languages import LANGUAGES, REPOSITORY

    return [(REPOSITORY, LANGUAGES[options.get("task_language") or options.get("language", "")].queries_file)]


def _mfava_detection(options: Options) -> Places:
    from lm_eval_tasks.mfava.languages import GOLD_FILE, LANGUAGES, REPOSITORY

    known = LANGUAGES[options.get("task_language") or options.get("language", "")]
    return [(REPOSITORY, GOLD_FILE if known.gold else known.silver_file)]


def _mushroom(options: Options) -> Places:
    from lm_eval_tasks.mushroom.dataset import BOTH
    from lm_eval_tasks.mushroom.languages import LANGUAGES, REPOSITORY, SPLITS

    known = LANGUAGES[options.get("task_language") or options.get("language", "")]
    split = options.get("split", BOTH)
    answers = [known.answers_file(name) for name in SPLITS if split in (name, BOTH)]
    return [(REPOSITORY, name) for name in (known.pages_file, *answers)] if answers else []


_LOADERS: Mapping[str, Callable[[Options], Places]] = {
    "lm_eval_tasks.nomiracl.dataset": _nomiracl,
    "lm_eval_tasks.clapnq.dataset": _clapnq,
    "lm_eval_tasks.mfava.dataset": _mfava,
    "lm_eval_tasks.mfava.detection": _mfava_detection,
    "lm_eval_tasks.mushroom.dataset": _mushroom,
}
"""By the module of the task's ``custom_dataset``."""
