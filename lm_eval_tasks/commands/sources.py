"""List, verify and fetch the public data files.

Lists every public data file with its revision and the state of the local copy: verified (pinned checksum), differs (a
mirror may hold a subset), readable (pinned by its commit, no checksum known), unreadable, missing.

Examples:
  lm-eval-grounded sources --missing
  lm-eval-grounded sources --fetch '*/german/*' --into mirror
"""

from __future__ import annotations

import argparse
import fnmatch
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lm_eval_tasks.commands import add_mirror, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mirror(parser, "folder to look in, or `sample`")
    parser.add_argument("--missing", action="store_true", help="list only what is missing or unreadable")
    fetch = "download the files whose REPOSITORY/PATH matches, e.g. '*/german/*'"
    parser.add_argument("--fetch", nargs="+", metavar="PATTERN", help=fetch)
    parser.add_argument("--into", type=Path, metavar="DIR", help="with --fetch: lay them out there as a mirror")


def run(arguments: argparse.Namespace) -> int:
    if arguments.into and not arguments.fetch:
        raise ValueError("--into needs --fetch: say which files, e.g. --fetch 'PrimeQA/*'")
    if arguments.fetch and arguments.mirror:
        raise ValueError("--mirror is read, never written; to fill a mirror say --fetch PATTERN --into DIR")
    if arguments.fetch:
        return _fetch(arguments.fetch, arguments.into)
    from lm_eval_tasks.data import sources

    counts: Counter[str] = Counter()
    for file in sources.files():
        state, local = sources.state(file, arguments.mirror)
        counts[state] += 1
        if not arguments.missing or state in {"missing", "unreadable"}:
            say(f"{state:10} {file.host:6} {file.repository}@{file.revision[:12]}  {file.path}  {local or ''}".rstrip())
    say("; ".join(f"{number} {state}" for state, number in sorted(counts.items())))
    return 1 if counts["unreadable"] else 0


def _fetch(patterns: Sequence[str], folder: Path | None) -> int:
    from tqdm import tqdm

    from lm_eval_tasks.data import sources

    matching = {
        pattern: [f for f in sources.files() if fnmatch.fnmatchcase(f"{f.repository}/{f.path}", pattern)]
        for pattern in patterns
    }
    for pattern, files in matching.items():
        if not files:
            raise ValueError(
                f"no public file matches {pattern!r}; `lm-eval-grounded sources` lists them all, and "
                f"`lm-eval-grounded check --tasks TASK` those of a task that are missing"
            )
    wanted = list(dict.fromkeys(file for files in matching.values() for file in files))
    failed = 0
    for file in tqdm(wanted, unit="file", disable=len(wanted) < 2):
        try:
            say(sources.fetch(file) if folder is None else sources.fetch_into(file, folder))
        except (OSError, ValueError) as error:
            failed += 1
            say(f"lm-eval-grounded: {error}", error=True)
    if failed:
        say(f"{failed} of {len(wanted)} files could not be fetched", error=True)
    return 1 if failed else 0
