"""The command line ``lm-eval-grounded``: what is not a harness run."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="lm-eval-grounded",
        description="Companion of the harness tasks nomiracl_*, clapnq_*. To evaluate a model, run `lm_eval`.",
    )
    commands = parser.add_subparsers(dest="command", required=True)

    path = commands.add_parser("path", help="print the task folder, for `lm_eval --include_path`")
    path.set_defaults(run=_path)

    sources = commands.add_parser(
        "sources",
        help="list, verify and fetch the public data files",
        description="Lists every public data file with its revision and the state of the local copy: verified "
        "(pinned checksum), differs (a mirror may hold a subset), readable (pinned by its commit, no checksum "
        "known), unreadable, missing.",
    )
    sources.add_argument("--mirror", help="folder to look in, or `sample` (default: LM_EVAL_GROUNDED_MIRROR)")
    sources.add_argument("--missing", action="store_true", help="list only what is missing or unreadable")
    sources.add_argument(
        "--fetch", metavar="PATTERN", help="download the files whose REPOSITORY/PATH matches, e.g. '*/german/*'"
    )
    sources.add_argument("--into", type=Path, metavar="DIR", help="with --fetch: lay them out there as a mirror")
    sources.set_defaults(run=_sources)

    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader has seen enough; Python must not complain at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError) as error:
        print(f"lm-eval-grounded: {error}", file=sys.stderr)
        return 2
    return status


def _path(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.autoload import task_folder

    print(task_folder())
    return 0


def _sources(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks import sources

    if arguments.into and not arguments.fetch:
        raise ValueError("--into needs --fetch: say which files, e.g. --fetch 'PrimeQA/*'")
    if arguments.fetch and arguments.mirror:
        raise ValueError("--mirror is read, never written; to fill a mirror say --fetch PATTERN --into DIR")
    if arguments.fetch:
        return _fetch(arguments.fetch, arguments.into)
    counts: dict[str, int] = {}
    for file in sources.files():
        state, local = sources.state(file, arguments.mirror)
        counts[state] = counts.get(state, 0) + 1
        if not arguments.missing or state in {"missing", "unreadable"}:
            print(
                f"{state:10} {file.host:6} {file.repository}@{file.revision[:12]}  {file.path}  {local or ''}".rstrip()
            )
    print("; ".join(f"{number} {state}" for state, number in sorted(counts.items())))
    return 1 if counts.get("unreadable") else 0


def _fetch(pattern: str, folder: Path | None) -> int:
    from tqdm import tqdm

    from lm_eval_tasks import sources

    wanted = [f for f in sources.files() if fnmatch.fnmatchcase(f"{f.repository}/{f.path}", pattern)]
    if not wanted:
        raise ValueError(f"no public file matches {pattern!r}; `lm-eval-grounded sources` lists them all")
    failed = 0
    for file in tqdm(wanted, unit="file", disable=len(wanted) < 2):
        try:
            print(sources.fetch(file) if folder is None else sources.fetch_into(file, folder))
        except (OSError, ValueError) as error:
            failed += 1
            print(f"lm-eval-grounded: {error}", file=sys.stderr)
    if failed:
        print(f"{failed} of {len(wanted)} files could not be fetched", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
