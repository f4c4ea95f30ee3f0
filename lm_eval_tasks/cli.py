"""The command line ``lm-eval-grounded``: what is not a harness run."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

_OPTION = "retriever_"  # before the names of the retrievers' options, one of which is `run`

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="lm-eval-grounded",
        description="Companion of the harness tasks nomiracl_*, clapnq_*, mfava_*. To evaluate a model, run `lm_eval`.",
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
        "--fetch",
        nargs="+",
        metavar="PATTERN",
        help="download the files whose REPOSITORY/PATH matches, e.g. '*/german/*'",
    )
    sources.add_argument("--into", type=Path, metavar="DIR", help="with --fetch: lay them out there as a mirror")
    sources.set_defaults(run=_sources)

    _add_check(commands)
    _add_retrieve(commands)
    _add_score(commands)
    _add_detect(commands)
    _add_calibrate(commands)
    _add_train(commands)
    _add_agreement(commands)
    _add_reproduce(commands)
    _add_separate(commands)

    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.run is not _check:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    arguments.of_lm_eval = rest
    _show_log()
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


def _add_check(commands: Commands) -> None:
    check = commands.add_parser(
        "check",
        usage="lm-eval-grounded check --tasks TASK[,TASK...] [any option of lm_eval]",
        help="all of an `lm_eval` run but the answers: files, prompts, detector, calibration",
        description="Takes the options of `lm_eval` (see `lm_eval run --help`) and does everything but generate: looks for "
        "every file (one command fetches those that are missing), makes the documents and prompts, counts them by the "
        "model's tokenizer where that is on this machine, loads detector and calibration, and shows a prompt. Nothing is "
        "downloaded. Exit status 0: the run can start; 1: it cannot; 2: it is not a run.",
        allow_abbrev=False,
    )
    check.set_defaults(run=_check)


def _add_retrieve(commands: Commands) -> None:
    from lm_eval_tasks.clapnq.retrieval import OPTIONS, names

    retrieve = commands.add_parser(
        "retrieve",
        help="rank CLAPnq's passages for its questions, without a language model",
        description="Writes a TREC run of every question and prints nDCG and recall beside the paper's Table 4. Dense "
        "vectors are made here once and used by `lm_eval` afterwards; `clapnq_rag_run --metadata run=FILE` reads the run.",
    )
    retrieve.add_argument("--retriever", required=True, choices=names())
    retrieve.add_argument("--split", default="validation", help="validation (also dev; the default) or train")
    retrieve.add_argument("-k", type=int, default=10, help="passages a question in the run (default: 10)")
    retrieve.add_argument("-o", "--output", type=Path, metavar="RUN", help="where the run goes (default: nowhere)")
    retrieve.add_argument("--mirror", help="folder of the public files, or `sample` (default: LM_EVAL_GROUNDED_MIRROR)")
    options = retrieve.add_argument_group("options of the retrievers", "in lm_eval: --metadata NAME=VALUE")
    for name, (of, means) in OPTIONS.items():
        what = f"{', '.join(of)}: {means}"
        spelt = dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}"))
        if name == "bm25_split":
            options.add_argument(*spelt, dest=_OPTION + name, action="store_true", default=None, help=what)
        else:
            kind = int if name == "encoder_batch_size" else str
            options.add_argument(*spelt, dest=_OPTION + name, type=kind, metavar="VALUE", help=what)
    retrieve.set_defaults(run=_retrieve)


def _add_score(commands: Commands) -> None:
    score = commands.add_parser(
        "score",
        help="tag and score the mfava_* and clapnq_* answers that `lm_eval --predict_only --log_samples` wrote",
        description="Tags the logged answers of mfava_*, clapnq_gold* and clapnq_rag* tasks and writes results_*.json and "
        "samples_*.jsonl as the harness does, with the numbers of a run in one step. After a kill the same command goes on "
        "where it stopped.",
    )
    score.add_argument("path", type=Path, metavar="PATH", help="samples file, or folder of them")
    _add_detector(score)
    score.add_argument(
        "--calibration", help="file of `calibrate`, name of a detector whose calibration ships, or `none`"
    )
    score.add_argument(
        "--annotations",
        choices=("real", "pooled", "gold", "silver"),
        help="which calibration (default: the first of these that there is for the language)",
    )
    score.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: the folder of the samples")
    score.set_defaults(run=_score)


def _add_detect(commands: Commands) -> None:
    detect = commands.add_parser(
        "detect",
        help="show one answer with its hallucinated spans marked",
        description="Marks the spans of an answer that its reference does not bear out: in colours on a terminal, as tags "
        "elsewhere.",
    )
    detect.add_argument("--reference", type=Path, required=True, metavar="FILE", help="text to hold the answer against")
    detect.add_argument("--answer", required=True, metavar="FILE", help="the answer; `-` reads standard input")
    detect.add_argument("--question", default="", help="what was asked, for detectors that read it")
    detect.add_argument(
        "--language",
        help="BCP 47 tag of the answer, e.g. de or zh-Hant: decides what a word is (default: guessed, offline)",
    )
    _add_detector(detect)
    detect.add_argument("--html", nargs="?", const="-", metavar="FILE", help="an HTML page, printed or written to FILE")
    detect.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    detect.set_defaults(run=_detect)


def _add_calibrate(commands: Commands) -> None:
    calibrate = commands.add_parser(
        "calibrate",
        help="make a calibration file from runs of mushroom_* and mfava_detection_*",
        description="Reads the samples of detection runs and writes the detector's precision, recall, false positive rate, "
        "prevalence and word counts of each document, by language.",
    )
    calibrate.add_argument(
        "results", type=Path, nargs="*", metavar="RESULTS", help="folders or samples files of the runs"
    )
    calibrate.add_argument("-o", "--output", type=Path, metavar="FILE")
    calibrate.add_argument(
        "--check",
        metavar="CALIBRATION",
        help="instead: hold the estimates with a calibration (file, or detector whose ships) against its real answers",
    )
    calibrate.add_argument("--note", default="", help="kept in the file")
    calibrate.set_defaults(run=_calibrate)


def _add_train(commands: Commands) -> None:
    train = commands.add_parser(
        "train",
        help="train the lexical detector anew (needs LightGBM)",
        description="Trains the lexical detector on every annotated answer of a mirror, and once more without each "
        "language, and writes weights and calibration. The same mirror gives the same bytes.",
    )
    train.add_argument("--mirror", help="folder of the public files (default: LM_EVAL_GROUNDED_MIRROR)")
    train.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="default: the package's own weights are replaced"
    )
    train.set_defaults(run=_train)


def _add_agreement(commands: Commands) -> None:
    agreement = commands.add_parser(
        "agreement",
        help="how far raters agree: people, or a judge model",
        description="Compares what raters said of the same items: ratings (share of equal ones, Cohen's kappa, "
        "quadratic-weighted kappa, Kendall's tau-b), or mFAVA's tags (kappa of words). With more than two files: every "
        "pair, and their mean.",
    )
    agreement.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help=".jsonl, .jsonl.gz, .json, .csv or .tsv, or a samples file of `lm_eval --log_samples`; one for each rater",
    )
    agreement.add_argument("--kind", choices=("ratings", "tags"), default="ratings", help="default: ratings")
    agreement.add_argument("--id", metavar="NAME", help="column that says which item a row is of (default: id)")
    agreement.add_argument(
        "--column",
        nargs="+",
        default=[],
        metavar="NAME",
        help="column of the ratings (default: rating) or tagged texts (default: annotated): one for all or each file",
    )
    agreement.add_argument(
        "--text", metavar="NAME", help="column of the text that was tagged (default: the first rater's, without tags)"
    )
    agreement.add_argument(
        "--language", help="of the tagged texts; decides what a word is (default: what the column `language` says)"
    )
    agreement.set_defaults(run=_agreement)


def _add_reproduce(commands: Commands) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        help="print the command behind a results file, and what differs here",
        description="Prints the command that made a results file, and compares what its numbers depend on with what is "
        "here: versions, every public file by its SHA-256, detector and calibration. Exit status 0 where all is the same, "
        "else 1.",
    )
    reproduce.add_argument("results", type=Path, metavar="RESULTS", help="results_*.json of `lm_eval` or of `score`")
    reproduce.add_argument("--task", metavar="T", help="one task or group of it (default: all)")
    reproduce.add_argument("--mirror", help="where the public files lie here (default: where the results say)")
    reproduce.set_defaults(run=_reproduce)


def _add_separate(commands: Commands) -> None:
    separate = commands.add_parser(
        "separate",
        help="lay results out one folder a task, for a leaderboard's converter",
        description="Writes below DIR/tasks one folder a task and run, with its results and samples alone, and "
        "below DIR/groups the averages of groups, which have no samples. The files of the run stay as they are.",
    )
    separate.add_argument("path", type=Path, metavar="PATH", help="results file, or folder of them")
    separate.add_argument("-o", "--output", type=Path, metavar="DIR", required=True)
    separate.set_defaults(run=_separate)


def _add_detector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--detector",
        default="lexical",
        help="lexical, llm, one of another package, or a Hugging Face model (default: lexical)",
    )
    parser.add_argument("--detector_args", "--detector-args", metavar="NAME=VALUE,...", help="the detector's options")


def _show_log() -> None:
    """What the tasks and detectors say, on standard error, as `lm_eval` shows it."""
    import logging

    logger = logging.getLogger("lm_eval")
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _score(arguments: argparse.Namespace) -> int:
    import json

    from lm_eval.utils import make_table

    from lm_eval_tasks.harness_results import as_written
    from lm_eval_tasks.scoring import score

    for written in score(
        arguments.path,
        arguments.detector,
        arguments.detector_args,
        arguments.calibration,
        arguments.annotations,
        arguments.output,
    ):
        results = as_written(json.loads(written.read_text("utf-8")))
        print(make_table(results))
        if results.get("groups"):
            print(make_table(results, "groups"))
        print(written)
    return 0


def _retrieve(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.clapnq.retrieval import OPTIONS
    from lm_eval_tasks.clapnq.retrieving import retrieve, table

    options = {name: value for name in OPTIONS if (value := getattr(arguments, _OPTION + name)) is not None}
    found = retrieve(arguments.retriever, arguments.split, arguments.k, arguments.output, options, arguments.mirror)
    print(table(found, arguments.split))
    if arguments.output is not None:
        print(arguments.output)
    return 0


def _detect(arguments: argparse.Namespace) -> int:
    from custom_metrics.tagged_text import render
    from detector_plugin import load_detector
    from detector_plugin.display import as_ansi, as_html, printable
    from lm_eval_tasks.detector_settings import read_options

    reference = _text(arguments.reference)
    answer = sys.stdin.read() if arguments.answer == "-" else _text(Path(arguments.answer))
    language = _language(arguments.language, answer, reference)
    detector = load_detector(arguments.detector, **read_options(arguments.detector_args, "detect"))
    (spans,) = detector.detect([reference], [answer], [language], [arguments.question])
    if arguments.html is not None:
        caption = f"Marked by detector {detector.name}, version {detector.version}, against {arguments.reference.name}."
        page = as_html(answer, spans, arguments.language or language, "Answer with hallucinated spans marked", caption)
        if arguments.html in ("-", ""):
            print(page)
        else:
            Path(arguments.html).write_text(page, "utf-8")
        return 0
    coloured = arguments.color == "always" or (
        arguments.color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    )
    tagged = render(answer, spans)
    print(as_ansi(answer, spans) if coloured else printable(tagged) if sys.stdout.isatty() else tagged)
    return 0


def _language(tag: str | None, answer: str, reference: str) -> str | None:
    """The code of the language that was named; else of the one that is guessed, and said on standard error."""
    from lm_eval_tasks.language_tags import SURE, code_of, guess

    if tag is not None:
        return code_of(tag)
    found = guess(answer, reference)
    if found.code is None:
        said = f"cannot be guessed from {found.of} (less than {SURE:.0%} sure); words are taken to stand between spaces"
    else:
        said = f"guessed from {found.of}: {found.code} ({found.probability:.0%} sure)"
    print(f"lm-eval-grounded: language {said}; --language TAG says it", file=sys.stderr)
    return found.code


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from error


def _calibrate(arguments: argparse.Namespace) -> int:
    from detector_plugin.calibration import load
    from lm_eval_tasks.atomic import whole_file
    from lm_eval_tasks.mfava import cells
    from lm_eval_tasks.mfava.calibrating import calibration_from_runs, table

    if arguments.check:
        found = cells.cells(load(arguments.check))
        if not found:
            raise ValueError(
                f"{arguments.check} has real answers in fewer than three languages, or no model with {cells.FEWEST} of "
                f"them; measure them with `lm_eval --model hallucination-detector --tasks mushroom ...`"
            )
        print(cells.table(found))
        return 0
    if not arguments.results or arguments.output is None:
        raise ValueError("calibrate: name the results of detection runs, and the file to write with -o")
    calibration = calibration_from_runs(arguments.results, arguments.note)
    with whole_file(arguments.output) as partial:
        calibration.save(partial)
    print(table(calibration))
    print(f"{arguments.output}: detector {calibration.detector['name']}, version {calibration.detector['version']}")
    return 0


def _train(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.mfava.training import train_lexical

    for path in train_lexical(arguments.mirror, arguments.output):
        print(path)
    return 0


def _agreement(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.agreement import compare, table

    found = compare(arguments.files, arguments.kind, arguments.column, arguments.id, arguments.text, arguments.language)
    print(table(found))
    return 0


def _reproduce(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.reproduce import reproduce, table

    found = reproduce(arguments.results, arguments.task, arguments.mirror)
    print(table(found))
    return 0 if found.same else 1


def _separate(arguments: argparse.Namespace) -> int:
    from lm_eval_tasks.separate import separate

    print(*separate(arguments.path, arguments.output), sep="\n")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    # Both are read once, when the libraries are imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    os.environ.setdefault("TQDM_DISABLE", "1")
    import logging

    from lm_eval_tasks.checking import check

    logging.getLogger("lm_eval").setLevel(logging.WARNING)
    report = check(arguments.of_lm_eval)
    for line in report.lines():
        print(line)
    return 0 if report.ready else 1


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


def _fetch(patterns: Sequence[str], folder: Path | None) -> int:
    from tqdm import tqdm

    from lm_eval_tasks import sources

    matching = {
        pattern: [f for f in sources.files() if fnmatch.fnmatchcase(f"{f.repository}/{f.path}", pattern)]
        for pattern in patterns
    }
    for pattern, found in matching.items():
        if not found:
            raise ValueError(f"no public file matches {pattern!r}; `lm-eval-grounded sources` lists them all")
    wanted = list(dict.fromkeys(file for found in matching.values() for file in found))
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
