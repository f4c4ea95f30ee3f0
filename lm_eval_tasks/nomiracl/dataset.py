"""NoMIRACL documents: a question and the ten passages that were retrieved for it, with or without its answer.

They are read from the raw files of the public repository (topics, qrels and corpus of a language), because `datasets` no
longer runs the repository's loading script.
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from custom_metrics.relevance import ANSWER, NO_ANSWER
from custom_metrics.usage import shipped_rows
from custom_metrics.usage.plain_errors import UsageError
from lm_eval_tasks import definition
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.tables import read_rows, read_tsv, text_of
from lm_eval_tasks.definition import Documents, Options, Places, TaskLoader, in_turn, positive
from lm_eval_tasks.nomiracl import LANGUAGES

log = logging.getLogger(f"lm_eval.{__name__}")  # shown as the harness shows its own

REPOSITORY = "miracl/nomiracl"
SPLITS = ("dev", "test")
SUBSETS = ("relevant", "non_relevant")
PASSAGES = 10  # per question, in the paper and in the released prompts
PAPER_SEED = 42
PAPER_SPLIT = "test"
PAPER_SAMPLE = 250
PAPER_WORDS = 370


def load(
    language: str,
    split: str = PAPER_SPLIT,
    subset: str = "both",
    max_samples: int | str | None = PAPER_SAMPLE,
    seed: int = PAPER_SEED,
    max_passage_tokens: int = PAPER_WORDS,
    passage_tokenizer: str | None = None,
    mirror: str | None = None,
    documents: int | str | None = None,
    **ignored: Any,
) -> Documents:
    """Load the questions of a language.

    The default is the paper's sample: after one ``random.seed(42)``, ``random.sample`` over the query ids in file order,
    the relevant subset first, at most 250 of each.

    Args:
        language: ISO 639 code, a key of :data:`LANGUAGES`.
        split: ``"test"`` or ``"dev"``.
        subset: ``"relevant"``, ``"non_relevant"`` or ``"both"`` (alternating, so that ``--limit`` sees both). The sample
            of a subset is the same whether or not the other is asked for.
        max_samples: maximum number of questions of each subset; ``None`` or ``"all"``: every question.
        seed: of the sample.
        max_passage_tokens: maximum number of tokens of a passage's text. Tokens are words between white space (scripts
            without spaces are hardly ever cut), or those of `passage_tokenizer`.
        passage_tokenizer: name or path of a Hugging Face tokenizer to count (and cut) by; needs ``transformers``.
        documents: number of questions of each subset that are left of the sample (:func:`first_by_hash`); ``None``: all.

    Returns:
        ``{"evaluation": documents}``. Columns: ``query_id``, ``language``, ``subset``, ``query``, ``passages`` (ten texts
        ``title: text``, the relevant before the others), ``titles``, ``docids``, ``label`` (the correct answer).
    """
    task = _task(language, documents)
    subsets = (*SUBSETS, "both")
    load_task.check(task, ignored, language=(language, LANGUAGES), split=(split, SPLITS), subset=(subset, subsets))
    limit = None if max_samples in (None, "all") else positive("max_samples", max_samples, task)
    positive("max_passage_tokens", max_passage_tokens, task)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UsageError(f"{task}: seed must be a whole number, got {seed!r}")
    if seed != PAPER_SEED:
        log.warning(
            "%s: the questions are sampled with seed %s, not the paper's %s. (A model argument named `seed` arrives here "
            "too; `--metadata '{\"seed\": %s}'` keeps the paper's sample.)",
            *(task, seed, PAPER_SEED, PAPER_SEED),
        )
    kept = None if documents is None else int(documents)
    settings = _Settings(language, split, subset, limit, seed, max_passage_tokens, passage_tokenizer, kept)
    return _documents(settings, sources.mirror_folder(mirror))


def _files(options: Options) -> Places:
    folder = f"data/{LANGUAGES[options['language']]}"
    split, subset = options.get("split", PAPER_SPLIT), options.get("subset", "both")
    takes_all = options.get("max_samples", PAPER_SAMPLE) in (None, "all")
    names = []
    for name in SUBSETS:
        needed = subset in (name, "both")
        if needed or (name == "relevant" and not takes_all):  # the relevant sample is drawn first in any case
            names.append(f"topics/{split}.{name}.tsv")
        if needed:
            names.append(f"qrels/{split}.{name}.tsv")
    return [(REPOSITORY, f"{folder}/{name}") for name in (*names, "corpus.jsonl.gz")]


load_task = TaskLoader(load, _files, of_task=("language", "documents"), logged_elsewhere=("passages", "titles"))


def _task(language: str, documents: object) -> str:
    return f"nomiracl_{language}" if documents is None else f"nomiracl_lite_{language}"


class _Settings(NamedTuple):
    language: str
    split: str
    subset: str
    max_samples: int | None
    seed: int
    max_passage_tokens: int
    passage_tokenizer: str | None
    documents: int | None

    @property
    def task(self) -> str:
        return _task(self.language, self.documents)

    def locate(self, name: str, mirror: Path | None) -> Path:
        return sources.locate(REPOSITORY, f"data/{LANGUAGES[self.language]}/{name}", mirror)


@lru_cache(maxsize=32)  # the four prompts of a language share their documents, also in a run over all languages
def _documents(settings: _Settings, mirror: Path | None) -> Documents:
    seen: Counter[str] = Counter()
    with sources.recording() as read:
        chosen, judged, sampled = _chosen(settings, mirror)
        wanted = {docid for name in chosen for id in chosen[name] for docid in judged[name].get(id, ())}
        corpus, passages = _corpus(settings.locate("corpus.jsonl.gz", mirror), wanted)
    cut = _cutter(settings.max_passage_tokens, settings.passage_tokenizer)
    rows = {
        name: list(_rows(settings.language, name, chosen[name], judged[name], corpus, cut, seen)) for name in chosen
    }
    if settings.documents is not None:
        rows = {name: first_by_hash(of_subset, settings.documents) for name, of_subset in rows.items()}
    kept = {name: len(subset_rows) for name, subset_rows in rows.items()}
    if notes := [f"{number} {what}" for what, number in seen.items() if number]:
        log.warning("%s: %s", settings.task, "; ".join(notes))
    counted = " + ".join(f"{number} {name}" for name, number in kept.items())
    unit = f"tokens of {settings.passage_tokenizer}" if settings.passage_tokenizer else "words"
    return definition.documents(
        settings.task,
        in_turn(rows.values()),
        read,
        f"{counted} questions of split {settings.split}, passages cut at {settings.max_passage_tokens} {unit}",
        seen,
        not_comparable=_not_comparable(settings, kept, sampled),
        kept=kept,
        corpus={"passages": passages},
        split=settings.split,
        options={name: value for name, value in settings._asdict().items() if name != "documents" or value is not None},
    )


def _chosen(
    settings: _Settings, mirror: Path | None
) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, list[str]]], bool]:
    """The questions of each subset, the passages judged for them, and whether any question was left out at random."""
    rng = random.Random(settings.seed)  # noqa: S311 (a sample, not a secret)
    chosen: dict[str, dict[str, str]] = {}
    judged: dict[str, dict[str, list[str]]] = {}
    sampled = False
    limit = settings.max_samples
    for name in SUBSETS:
        # The relevant sample is drawn even where it is not needed: the paper drew it first, from the same generator.
        if settings.subset not in (name, "both") and (name == "non_relevant" or limit is None):
            continue
        path = settings.locate(f"topics/{settings.split}.{name}.tsv", mirror)
        topics = {query_id: query for query_id, query, *_ in read_tsv(path, 2)}
        ids = list(topics)
        if not ids:
            empty = (settings.task, name, settings.split)
            log.warning("%s: no %s question in split %s; there will be no rates over them", *empty)
        sample = ids if limit is None else rng.sample(ids, min(limit, len(ids)))
        if settings.subset in (name, "both"):
            sampled |= len(sample) < len(ids)
            chosen[name] = {id: topics[id] for id in sample}
            judged[name] = _judged(settings.locate(f"qrels/{settings.split}.{name}.tsv", mirror))
    return chosen, judged, sampled


@lru_cache(maxsize=1)
def published_questions() -> dict[str, dict[str, int]]:
    """Language and subset to the number of test questions in the released answers; unknown numbers are absent."""
    return {
        row.pop("language"): {subset: int(number) for subset, number in row.items() if number}
        for row in shipped_rows("lm_eval_tasks.nomiracl", "published_questions.tsv")
    }


def _not_comparable(settings: _Settings, kept: dict[str, int], sampled: bool) -> list[str]:
    reasons = []
    limit, tokenizer = settings.max_samples, settings.passage_tokenizer
    if settings.split != PAPER_SPLIT:
        reasons.append(f"split {settings.split}, where the paper has {PAPER_SPLIT}")
    if limit != PAPER_SAMPLE:
        reasons.append(f"max_samples {'all' if limit is None else limit}, where the paper has {PAPER_SAMPLE} a subset")
    elif settings.split == PAPER_SPLIT:
        published = published_questions().get(settings.language, {})
        reasons += [
            f"{number} of {published[name]} {name.replace('_', '-')} questions"
            for name, number in kept.items()
            if number < published.get(name, 0)
        ]
    if sampled and settings.seed != PAPER_SEED:
        reasons.append(f"another sample (seed {settings.seed}, where the paper has {PAPER_SEED})")
    if tokenizer or settings.max_passage_tokens != PAPER_WORDS:
        unit = "tokens" if tokenizer else "words"
        reasons.append(f"passages cut at {settings.max_passage_tokens} {unit}, by default at {PAPER_WORDS} words")
    return reasons


def _judged(path: Path) -> dict[str, list[str]]:
    """Passages of each question: the relevant before the others, each in file order."""
    judgements: dict[str, dict[str, int]] = {}
    for query_id, _, docid, relevance, *_ in read_tsv(path, 4):
        if relevance.strip() not in ("0", "1"):
            raise sources.CorruptSource(
                f"{path}: relevance of {docid} for {query_id} is {relevance!r}, neither 0 nor 1"
            )
        judgements.setdefault(query_id, {}).setdefault(docid, int(relevance))
    return {query: sorted(passages, key=passages.__getitem__, reverse=True) for query, passages in judgements.items()}


def _corpus(path: Path, wanted: set[str]) -> tuple[dict[str, tuple[str, str]], int]:
    """Title and text of the wanted passages, and the number of all passages of the corpus, which is streamed."""
    corpus: dict[str, tuple[str, str]] = {}

    def note_passage(row: Mapping[str, Any]) -> None:
        if (docid := text_of(row, "docid")) in wanted:
            passage = text_of(row, "title", needed=False), text_of(row, "text", needed=False)
            corpus.setdefault(docid, passage)

    number = sum(1 for _ in read_rows(path, note_passage, "no passage"))
    if not number:
        raise sources.CorruptSource(f"{path}: the corpus is empty; every question needs {PASSAGES} passages of it")
    return corpus, number


def _rows(
    language: str,
    subset: str,
    queries: Mapping[str, str],
    judged: Mapping[str, list[str]],
    corpus: Mapping[str, tuple[str, str]],
    cut: Callable[[str], str],
    seen: Counter[str],
) -> Iterator[dict[str, Any]]:
    for query_id, query in queries.items():
        docids = [docid for docid in judged.get(query_id, ()) if docid in corpus]
        seen["passages missing from the corpus"] += len(judged.get(query_id, ())) - len(docids)
        if len(docids) != PASSAGES:
            seen[f"questions skipped, without exactly {PASSAGES} passages"] += 1
            continue
        yield {
            "query_id": query_id,
            "language": language,
            "subset": subset,
            "query": query,
            "passages": [f"{title}: {cut(text)}" for title, text in map(corpus.__getitem__, docids)],
            "titles": [corpus[docid][0] for docid in docids],
            "docids": docids,
            "label": ANSWER if subset == "relevant" else NO_ANSWER,
        }


def first_by_hash(rows: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """So many rows, those whose SHA-256 of the query id comes first, in their order."""
    by_hash = sorted(rows, key=lambda row: hashlib.sha256(row["query_id"].encode()).digest())
    chosen = {row["query_id"] for row in by_hash[:number]}
    return [row for row in rows if row["query_id"] in chosen]


_WORD = re.compile(r"\S+")


def cut_words(text: str, limit: int) -> str:
    """The text up to its `limit`-th word, with its white space; a shorter text is unchanged."""
    for number, word in enumerate(_WORD.finditer(text), 1):
        if number == limit:
            return text[: word.end()] if text[word.end() :].strip() else text
    return text


def _cutter(limit: int, tokenizer: str | None) -> Callable[[str], str]:
    if tokenizer is None:
        return lambda text: cut_words(text, limit)
    from transformers import AutoTokenizer

    encoder = AutoTokenizer.from_pretrained(tokenizer)

    def cut(text: str) -> str:
        encoded = encoder(text, add_special_tokens=False)["input_ids"]
        return text if len(encoded) <= limit else str(encoder.decode(encoded[:limit]))

    return cut
