"""Public files: found in a mirror or a cache, downloaded and verified, or missed with a useful message."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import shutil
import subprocess
import tarfile
import threading
from functools import partial
from pathlib import Path

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.data import sources
from lm_eval_tasks.data.digests import digests_of
from lm_eval_tasks.data.sources import CorruptSource, MissingSource, SourceFile, locate, source_file

TRAIN = "retrieval/train/question_train_answerable.tsv"
DEV = "retrieval/dev/question_dev_unanswerable.tsv"


def test_the_table_names_every_public_file_once() -> None:
    files = sources.files()
    assert (
        len(files)
        == len({(f.repository, f.path) for f in files})
        == (18 * 9 + 4 + 1 + 4 + 31 + 25 + 1 + 10 * 3 + 4 + 24 + 5 * 2)
    )
    assert all(f.checksum or f.revision == "ecd08778d0426a5ca28ac99763b0c9ddc2c78e68" for f in files)


def test_github_files_carry_the_ids_of_the_pinned_commit(shared: Path) -> None:
    rows = [r.split("\t") for r in (shared / "reference" / "upstream_files.tsv").read_text("utf-8").splitlines()[1:]]
    known = {(repository, path): (commit, f"git:{blob}") for repository, commit, path, _, blob in rows}
    folders: dict[tuple[str, str, str], list[tuple[bytes, bytes]]] = {}
    for repository, commit, path, _, blob in rows:
        folder, _, name = path.rpartition("/")
        folders.setdefault((repository, commit, f"{folder}/"), []).append((name.encode(), bytes.fromhex(blob)))
    for (repository, commit, folder), members in folders.items():
        known[repository, folder] = commit, f"git:{tree_id(members)}"
    for file in sources.files():
        if file.host == "github":
            assert known[file.repository, file.path] == (file.revision, file.checksum)


def tree_id(members: list[tuple[bytes, bytes]]) -> str:
    """Git's id of a folder of plain files, by their names and blob ids (`git mktree`)."""
    tree = b"".join(b"100644 %s\0%s" % member for member in sorted(members))
    return hashlib.sha1(b"tree %d\0" % len(tree) + tree).hexdigest()


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git")
def test_the_digest_of_a_folder_is_gits(tmp_path: Path) -> None:
    """Names beside each other in another order than a locale's; hidden files and folders are no part of it."""
    for name in ("b.txt", "a-2.txt", "a.txt", "a10.txt", "ä.txt", "B.txt"):
        (tmp_path / name).write_text(f"{name}[1]\n")
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True)
    git(["git", "init", "-q"])
    git(["git", "add", "."])
    tree = git(["git", "write-tree"]).stdout.strip()
    (tmp_path / ".DS_Store").write_text("x")
    digests = digests_of(tmp_path)
    assert (digests.git, digests.size) == (tree, 59)
    (tmp_path / "b.txt").write_text("b.txt[2]\n")
    assert digests_of(tmp_path).git != tree


def test_real_files_have_their_pinned_checksums(hub: str) -> None:
    states = {f.path: sources.state(f, hub)[0] for f in sources.files() if "clapnq" in f.repository}
    assert states == {
        "clapnq_dev_answerable.jsonl": "verified",
        "clapnq_dev_unanswerable.jsonl": "verified",
        "clapnq_train_answerable.jsonl": "missing",
        "clapnq_train_unanswerable.jsonl": "missing",
        "passages.tsv": "differs",  # the mirror's corpus is a part of the public one
        "retrieval/dev/question_dev_answerable.tsv": "verified",
        "retrieval/dev/question_dev_unanswerable.tsv": "verified",
        "retrieval/train/question_train_answerable.tsv": "missing",
        "retrieval/train/question_train_unanswerable.tsv": "missing",
    }


def test_a_mirror_may_hold_a_file_where_it_was_published_first(hub: str, tmp_path: Path) -> None:
    repository = "WorldHellow/mHallucinations-LLM"
    path = "datasets/hallucination_detection/gold-languages/combined_gold_languages.json"
    assert locate(repository, path, hub).parent.name == "mHallucination_Detection"
    with pytest.raises(MissingSource, match=r"github/WorldHellow.* and WueNLP/mHallucination_Detection/combined_gold"):
        locate(repository, path, tmp_path)
    own = tmp_path / "github" / repository / path
    own.parent.mkdir(parents=True)
    own.write_text("[]")
    assert locate(repository, path, tmp_path) == own


def test_the_environment_names_a_mirror_and_the_argument_is_stronger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        target = tmp_path / name / "github" / "primeqa" / "clapnq" / DEV
        target.parent.mkdir(parents=True)
        target.write_text(f"{name}\n")
    monkeypatch.setenv("LM_EVAL_GROUNDED_MIRROR", str(tmp_path / "a"))
    assert locate("primeqa/clapnq", DEV).read_text() == "a\n"
    assert locate("primeqa/clapnq", DEV, tmp_path / "b").read_text() == "b\n"


def test_the_sample_is_used_only_when_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sample" in str(locate("PrimeQA/clapnq_passages", "passages.tsv", "sample"))
    with pytest.raises(MissingSource):
        locate("PrimeQA/clapnq_passages", "passages.tsv")


def test_a_mirror_is_authoritative(tmp_path: Path) -> None:
    with pytest.raises(MissingSource) as missing:
        locate("primeqa/clapnq", TRAIN, tmp_path)
    assert str(missing.value) == (
        f"{TRAIN} of github repository primeqa/clapnq at revision eb26840d130f4dcf4c4c5c12a47d0beffc9cc586 is not in the "
        f"mirror {tmp_path} (looked for github/primeqa/clapnq/{TRAIN}). On a machine with internet, `lm-eval-grounded "
        f"sources --fetch 'primeqa/clapnq/{TRAIN}' --into {tmp_path}` puts it there."
    )


@pytest.mark.parametrize(
    ("repository", "path"), [("primeqa/clapnq", TRAIN), ("miracl/nomiracl", "data/german/corpus.jsonl.gz")]
)
def test_offline_without_a_mirror_says_what_would_help(repository: str, path: str) -> None:
    with pytest.raises(MissingSource) as missing:
        locate(repository, path)
    message = str(missing.value)
    for part in (path, repository, "No mirror is set (LM_EVAL_GROUNDED_MIRROR or --metadata mirror=DIR)", "--into DIR"):
        assert part in message


def test_a_file_that_is_in_no_table_is_a_key_error() -> None:
    with pytest.raises(KeyError, match=r"x/y: z is in no source_files\.tsv"):
        source_file("x/y", "z")


CONTENT = b"id\tquestion\n1\twhy\n"
GOOD = "git:" + hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is asked of GitHub, which answers; and a cache of its own."""
    import pooch

    asked: list[str] = []

    def download(url: str, output: str, _: None) -> None:
        asked.append(url)
        if "gone" in url:
            raise OSError("404 Client Error: Not Found")
        Path(output).write_bytes(CONTENT)

    monkeypatch.setattr(pooch, "HTTPDownloader", lambda **_: download)
    monkeypatch.setenv("LM_EVAL_GROUNDED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    return asked


def github(path: str, checksum: str = GOOD) -> SourceFile:
    return SourceFile("github", "o/n", "c0ffee", path, checksum)


def test_a_download_is_verified_and_kept(requests: list[str]) -> None:
    first = sources.fetch(github("a.tsv"))
    assert first.read_bytes() == CONTENT
    assert sources.fetch(github("a.tsv")) == first
    assert requests == ["https://raw.githubusercontent.com/o/n/c0ffee/a.tsv"]
    assert sources.state(github("a.tsv")) == ("verified", first)


def test_a_download_that_was_damaged_in_the_cache_is_fetched_again(
    requests: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    local = sources.fetch(github("a.tsv"))
    local.write_bytes(b"damaged")
    assert sources.fetch(github("a.tsv")).read_bytes() == CONTENT
    assert caplog.messages == [f"{local} is damaged (not {GOOD}); it is fetched again"]


def test_a_download_with_another_checksum_leaves_nothing_behind(requests: list[str], tmp_path: Path) -> None:
    with pytest.raises(
        CorruptSource, match=r"a\.tsv of github repository o/n .* does not have the pinned checksum git:0"
    ):
        sources.fetch(github("a.tsv", "git:0"))
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.suffix != ".lock"] == []


def test_a_download_that_fails_names_the_file(requests: list[str]) -> None:
    with pytest.raises(MissingSource, match=r"gone\.tsv of github repository o/n .* could not be downloaded: .*404"):
        sources.fetch(github("gone.tsv"))


def test_threads_download_once(requests: list[str]) -> None:
    threads = [threading.Thread(target=sources.fetch, args=(github("b.tsv"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(requests) == 1


def test_offline_means_no_request(requests: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingSource, match="HF_HUB_OFFLINE is set"):
        sources.fetch(github("a.tsv"))
    assert requests == []


def test_a_wrong_file_in_a_mirror_is_not_taken_for_the_public_one(requests: list[str], tmp_path: Path) -> None:
    target = tmp_path / "github" / "o" / "n" / "a.tsv"
    target.parent.mkdir(parents=True)
    target.write_text("mine")
    with pytest.raises(CorruptSource, match="is there, but is not the public file"):
        sources.fetch_into(github("a.tsv"), tmp_path)
    assert target.read_text() == "mine"


def test_a_changed_hub_file_is_refused_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    changed = tmp_path / "a.jsonl"
    changed.write_text("changed")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: str(changed))
    for _ in range(2):
        with pytest.raises(CorruptSource, match=r"a\.jsonl of hub repository o/n .* does not have the pinned checksum"):
            sources.fetch(SourceFile("hub", "o/n", "main", "a.jsonl", GOOD))


def test_a_mirror_is_filled(requests: list[str], tmp_path: Path) -> None:
    target = sources.fetch_into(github("deep/a.tsv"), tmp_path / "mirror")
    assert target == tmp_path / "mirror" / "github" / "o" / "n" / "deep" / "a.tsv"
    assert target.read_bytes() == CONTENT


# ------------------------------------------------------------------------------------- folders of files, from one archive

FOLDERS = {"data/de/": {"a.txt": b"eins[1].", "b-1.txt": b"zwei."}, "data/fi/": {"a.txt": "yksi ä".encode()}}
TOP = "n-c0ffee"


def packed(members: list[tuple[str, bytes]], kinds: list[tuple[str, bytes]] = ()) -> bytes:  # type: ignore[assignment]
    """An archive as GitHub makes them: all below one folder; then members of other kinds, links to a secret."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "c0ffee"}) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, kind in kinds:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    return gzip.compress(raw.getvalue())


WHOLE = [(f"{TOP}/{folder}{name}", content) for folder, files in FOLDERS.items() for name, content in files.items()]


def blob(content: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).digest()


@pytest.fixture
def of_archive(requests: list[str], monkeypatch: pytest.MonkeyPatch) -> list[SourceFile]:
    """The table's folders, and GitHub, which answers with ``CONTENT``: an archive."""
    ids = {path: tree_id([(n.encode(), blob(c)) for n, c in files.items()]) for path, files in FOLDERS.items()}
    table = [github(path, f"git:{ids[path]}") for path in FOLDERS]
    monkeypatch.setattr(sources, "files", lambda: (*table, github("a.tsv")))
    return table


def answer(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setitem(globals(), "CONTENT", content)


def test_folders_come_in_one_download_and_are_verified(
    of_archive: list[SourceFile], requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, packed([(f"{TOP}/README.md", b"x"), *WHOLE, (f"{TOP}/data/sv/a.txt", b"no folder of ours")]))
    german, finnish = of_archive
    assert sources.state(german) == ("missing", None)
    local = sources.fetch(german)
    assert {path.name: path.read_bytes() for path in local.iterdir()} == FOLDERS["data/de/"]
    assert sources.fetch(finnish).name == "fi"
    assert requests == ["https://codeload.github.com/o/n/tar.gz/c0ffee"]
    assert [sources.state(file)[0] for file in of_archive] == ["verified"] * 2
    mirror = tmp_path / "mirror"
    target = sources.fetch_into(german, mirror)
    assert sources.fetch_into(german, mirror) == target == mirror / "github/o/n/data/de"
    assert sources.state(german, mirror) == ("verified", target)
    (target / "b-1.txt").write_bytes(b"zw")  # cut
    assert sources.state(german, mirror) == ("differs", target)
    with pytest.raises(CorruptSource, match="is there, but is not the public file"):
        sources.fetch_into(german, mirror)
    (local / "b-1.txt").unlink()
    assert sources.fetch(german) == local  # damaged in the cache: fetched again
    assert sorted(path.name for path in local.iterdir()) == ["a.txt", "b-1.txt"]
    assert len(requests) == 2
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix not in (".lock", ".txt")]
    assert left == []


HOSTILE = [
    *(
        f"{TOP}/data/de/{name}"
        for name in ("../fi/evil.txt", "../../../evil.txt", "..", ".hidden.txt", "x\\y.txt", "in/it.txt")
    ),
    *("/data/de/evil.txt", "../data/de/evil.txt", f"{TOP}/../{TOP}/data/de/evil.txt", "evil.txt"),
]


def test_no_path_of_an_archive_is_trusted(
    of_archive: list[SourceFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [
        (f"{TOP}/data/de/{name}", kind) for name in ("c.txt", "d.txt") for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)
    ]
    links += [(f"{TOP}/data/de/pipe.txt", tarfile.FIFOTYPE), (f"{TOP}/data/no", tarfile.SYMTYPE)]
    big = (f"{TOP}/data/de/big.txt", bytes(sources.LARGEST_MEMBER + 1))
    answer(monkeypatch, packed([(name, b"evil") for name in HOSTILE] + [big, *WHOLE], links))
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path / "cache" not in path.parents}
    local = sources.fetch(of_archive[0])
    assert {path.name: path.read_bytes() for path in local.iterdir()} == FOLDERS["data/de/"]
    after = {path for path in tmp_path.parent.rglob("*") if tmp_path / "cache" not in path.parents}
    assert after - before <= {tmp_path / "cache"}
    assert list((tmp_path / "cache").rglob("*evil*")) == []


def test_what_is_whole_of_a_bad_archive_is_kept(
    of_archive: list[SourceFile], requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed file, a file too many, none at all, a cut download: the folder is refused, and the others stay."""
    german, finnish = of_archive
    for members in ([*WHOLE[:2], (WHOLE[2][0], b"yksi")], [*WHOLE, (f"{TOP}/data/fi/b.txt", b"")], WHOLE[:2]):
        answer(monkeypatch, packed(members))
        with pytest.raises(
            CorruptSource, match=r"data/fi/ of github repository o/n .* does not have the pinned checksum"
        ):
            sources.fetch(finnish)
        assert [sources.state(file)[0] for file in of_archive] == ["verified", "missing"]
    long = packed([*WHOLE, (f"{TOP}/z", random.Random(1).randbytes(100_000))])
    answer(monkeypatch, long[: len(long) // 2])
    with pytest.raises(CorruptSource, match=r"c0ffee\.tar\.gz is cut or damaged .* it came from https://codeload"):
        sources.fetch(finnish)
    assert [sources.state(file)[0] for file in of_archive] == ["verified"] * 2
    assert len(requests) == 4
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert sources.fetch(german).name == "de"


def test_a_download_that_was_not_unpacked_is_not_made_again(
    of_archive: list[SourceFile], requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, packed(WHOLE))
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)  # a process that is killed cleans nothing up
        killed.setattr(sources, "unpack", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            sources.fetch(of_archive[0])
    assert sources.fetch(of_archive[0]).name == "de"
    assert len(requests) == 1


def test_sources_lists_states_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", "--mirror", "sample"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(sources.files()) + 1
    assert lines[0].startswith("differs    hub    PrimeQA/clapnq@main  clapnq_dev_answerable.jsonl  /")
    arabic = "readable   hub    miracl/nomiracl@ecd08778d042  data/arabic/corpus.jsonl.gz  /"
    assert any(line.startswith(arabic) for line in lines)
    assert lines[-1] == "124 differs; 162 readable"
    assert any(
        line.startswith("differs    github nlp-ucsc/semeval-2025-task3@b82eeb617794  data/context/") for line in lines
    )


def test_damage_is_seen_and_sets_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "miracl" / "nomiracl" / "data" / "german" / "corpus.jsonl.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"\x1f\x8b\x08cut")
    assert main(["sources", "--mirror", str(tmp_path), "--missing"]) == 1
    assert "unreadable hub    miracl/nomiracl@ecd08778d042  data/german/corpus.jsonl.gz" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["sources", "--mirror", "/no/where"],
            "The mirror folder /no/where (named as `mirror`) does not exist",
        ),
        (["sources", "--fetch", "nothing*"], "no public file matches 'nothing*'"),
        (["sources", "--into", "x"], "--into needs --fetch"),
        (["sources", "--fetch", "*", "--mirror", "x"], "--mirror is read, never written"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_fetching_offline_fails_per_file_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", "--fetch", "primeqa/clapnq/retrieval/train/*"]) == 1
    error = capsys.readouterr().err
    assert error.count("could not be downloaded") == 2
    assert "2 of 2 files could not be fetched" in error


def test_path_prints_the_task_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path"]) == 0
    assert (Path(capsys.readouterr().out.strip()) / "nomiracl" / "_nomiracl_base").is_file()
