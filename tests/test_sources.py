"""Public files: found in a mirror or a cache, downloaded and verified, or missed with a useful message."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_eval_tasks.cli import main
from lm_eval_tasks.data import digests_of, sources
from lm_eval_tasks.data.sources import CorruptSource, MissingSource, SourceFile, locate
from tests.miniature import MINIATURE

TRAIN = "retrieval/train/question_train_answerable.tsv"
CORPUS = "data/german/corpus.jsonl.gz"
DEV = "retrieval/dev/question_dev_unanswerable.tsv"


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=0))
    return path


def member(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def test_the_table_names_every_public_file_once() -> None:
    files = sources.files()
    assert len(files) == 18 * 9 + 4 + 1 + 4 + 31 + 25 + 1 + 10 * 2 + 4 + 24 + 5 * 2 + 1 + 5 + 1
    assert len({(f.repository, f.path) for f in files}) == len(files)
    by_commit = {f.repository for f in files if not f.checksum and f.revision != "main"}
    assert by_commit == {"miracl/nomiracl"}


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
        if file.host == "github" and file.checksum:
            assert known[file.repository, file.path] == (file.revision, file.checksum)


def tree_id(members: list[tuple[bytes, bytes]]) -> str:
    """Git's id of a folder of plain files, by their names and blob ids (`git mktree`)."""
    tree = b"".join(b"100644 %s\0%s" % member for member in sorted(members))
    return hashlib.sha1(b"tree %d\0" % len(tree) + tree).hexdigest()


def test_the_digest_of_a_folder_is_gits(tmp_path: Path) -> None:
    for name in ("b.txt", "a-2.txt", "a.txt", "a10.txt", "ä.txt", "B.txt", ".DS_Store"):
        (tmp_path / name).write_text(f"{name}[1]\n")
    tree = "44fbf2117f9f6a3f63d5a4eeb306c88b2eb627f4"  # `git write-tree` without the hidden file
    assert digests_of(tmp_path)[1:] == (tree, 59)
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
    with pytest.raises(MissingSource, match=r"combined_gold_languages.json of github repository WorldHellow"):
        locate(repository, path, tmp_path)
    own = tmp_path / "github" / repository / path
    own.parent.mkdir(parents=True)
    own.write_text("[]")
    assert locate(repository, path, tmp_path) == own


def test_an_argument_is_stronger_than_the_environments_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        f"mirror {tmp_path}. On a machine with internet, `lm-eval-grounded "
        f"sources --fetch 'primeqa/clapnq/{TRAIN}' --into {tmp_path}` puts it there."
    )


@pytest.mark.parametrize(("repository", "path"), [("primeqa/clapnq", TRAIN), ("miracl/nomiracl", CORPUS)])
def test_offline_without_a_mirror_says_what_would_help(repository: str, path: str) -> None:
    with pytest.raises(MissingSource) as missing:
        locate(repository, path)
    message = str(missing.value)
    unset = """No mirror is set (LM_EVAL_GROUNDED_MIRROR or --metadata '{"mirror": "DIR"}')"""
    for part in (path, repository, unset, "--into DIR"):
        assert part in message


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


def test_a_download_damaged_in_the_cache_comes_again(requests: list[str], caplog: pytest.LogCaptureFixture) -> None:
    local = sources.fetch(github("a.tsv"))
    local.write_bytes(b"damaged")
    assert sources.fetch(github("a.tsv")).read_bytes() == CONTENT
    assert caplog.messages == [f"{local} is damaged (not {GOOD}); it is fetched again"]


def test_a_download_with_another_checksum_leaves_nothing_behind(requests: list[str], tmp_path: Path) -> None:
    with pytest.raises(CorruptSource, match=r"a\.tsv of github repository o/n .* not have the pinned checksum git:0"):
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


FOLDERS = {"data/de/": {"a.txt": b"eins[1].", "b-1.txt": b"zwei."}, "data/fi/": {"a.txt": "yksi ä".encode()}}
TOP = "n-c0ffee"
Member = tuple[tarfile.TarInfo, bytes]


def plain(name: str, content: bytes = b"evil") -> Member:
    return tarfile.TarInfo(name), content


WHOLE = [plain(f"{TOP}/{folder}{name}", text) for folder, files in FOLDERS.items() for name, text in files.items()]


@pytest.fixture
def serve(requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has GitHub answer with an archive of some members, but for `cut` bytes; two folders are listed."""
    monkeypatch.setattr(sources, "files", lambda: (GERMAN, FINNISH, github("a.tsv")))

    def answer(members: list[Member], cut: int = 0) -> None:
        content = packed(tmp_path / "archive", members).read_bytes()
        monkeypatch.setitem(globals(), "CONTENT", content[: len(content) - cut])

    return answer


def folder_of(path: str) -> SourceFile:
    blobs = {name: hashlib.sha1(b"blob %d\0" % len(text) + text).digest() for name, text in FOLDERS[path].items()}
    return github(path, f"git:{tree_id([(name.encode(), blob) for name, blob in blobs.items()])}")


GERMAN, FINNISH = map(folder_of, FOLDERS)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_folders_come_in_one_verified_download(serve: Callable[..., None], requests: list[str], tmp_path: Path) -> None:
    serve([plain(f"{TOP}/README.md"), *WHOLE, plain(f"{TOP}/data/sv/a.txt")])
    local = sources.fetch(GERMAN)
    assert contents(local) == FOLDERS["data/de/"]
    assert contents(sources.fetch(FINNISH)) == FOLDERS["data/fi/"]
    assert requests == ["https://codeload.github.com/o/n/tar.gz/c0ffee"]
    target = sources.fetch_into(GERMAN, tmp_path / "mirror")
    assert sources.fetch_into(GERMAN, tmp_path / "mirror") == target == tmp_path / "mirror/github/o/n/data/de"
    assert sources.state(GERMAN, tmp_path / "mirror") == ("verified", target)
    (target / "b-1.txt").write_bytes(b"zw")  # cut
    assert sources.state(GERMAN, tmp_path / "mirror") == ("differs", target)
    with pytest.raises(CorruptSource, match="is there, but is not the public file"):
        sources.fetch_into(GERMAN, tmp_path / "mirror")
    (local / "b-1.txt").unlink()  # damaged in the cache: fetched again
    assert contents(sources.fetch(GERMAN)) == FOLDERS["data/de/"]
    assert len(requests) == 2
    assert {path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {".lock", ".txt"}


def test_no_path_of_an_archive_is_trusted(serve: Callable[..., None], tmp_path: Path) -> None:
    names = ("../fi/evil.txt", "../../../evil.txt", "..", ".evil.txt", "evil\\y.txt", "evil/it.txt")
    hostile = [plain(f"{TOP}/data/de/{name}") for name in names]
    hostile += [plain(f"{top}data/de/evil.txt") for top in ("/", "../", f"{TOP}/../{TOP}/", "")]
    hostile.append(plain(f"{TOP}/data/de/evil.txt", bytes(sources.LARGEST_MEMBER + 1)))
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
    links = [member(f"{TOP}/data/de/evil-{kind.decode()}.txt", kind, "/etc/passwd") for kind in kinds]
    serve([*hostile, *links, member(f"{TOP}/data/no", tarfile.SYMTYPE, "/etc"), *WHOLE])
    before = set(tmp_path.parent.rglob("*"))
    assert contents(sources.fetch(GERMAN)) == FOLDERS["data/de/"]
    written = set(tmp_path.parent.rglob("*")) - before
    assert {path.relative_to(tmp_path).parts[0] for path in written} == {"cache"}
    assert [path for path in written if "evil" in path.name] == []


def test_what_is_whole_of_a_bad_archive_is_kept(
    serve: Callable[..., None], requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed file, a file too many, none at all: the folder is refused, the other kept; so it is before a cut."""
    for finnish in ([plain(f"{TOP}/data/fi/a.txt", b"yksi")], [WHOLE[2], plain(f"{TOP}/data/fi/b.txt")], []):
        serve([*WHOLE[:2], *finnish])
        with pytest.raises(CorruptSource, match=r"data/fi/ of github repository o/n .* not have the pinned checksum"):
            sources.fetch(FINNISH)
        assert [sources.state(file)[0] for file in (GERMAN, FINNISH)] == ["verified", "missing"]
    serve([*WHOLE, plain(f"{TOP}/z", random.Random(1).randbytes(100_000))], cut=50_000)
    with pytest.raises(CorruptSource, match=r"c0ffee\.tar\.gz is cut or damaged .* it came from https://codeload"):
        sources.fetch(FINNISH)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert contents(sources.fetch(FINNISH)) == FOLDERS["data/fi/"]
    assert len(requests) == 4


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_archive_that_unpacks_without_end_is_refused_whatever_holds_the_bytes(
    kind: bytes, serve: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a header, tarfile reads all before a member is seen."""
    monkeypatch.setattr(sources, "LARGEST_ARCHIVE", 1 << 20)
    info, content = plain(f"{TOP}/z", bytes(2 << 20))
    serve([(info, content), *WHOLE])
    if kind != tarfile.REGTYPE:
        raw = bytearray(gzip.decompress(CONTENT))
        raw[156:157] = kind
        raw[148:156] = b"%06o\0 " % (sum(raw[:148]) + 8 * 32 + sum(raw[156:512]))
        monkeypatch.setitem(globals(), "CONTENT", gzip.compress(bytes(raw)))
    with pytest.raises(CorruptSource, match=r"it unpacks to more than 1 MB, as no public archive does\); it came from"):
        sources.fetch(GERMAN)


def test_a_killed_process_download_is_used(serve: Callable[..., None], requests: list[str], tmp_path: Path) -> None:
    serve(WHOLE)
    place = tmp_path / "cache/github/o/n/c0ffee/.c0ffee.tar.gz"
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    assert contents(sources.fetch(GERMAN)) == FOLDERS["data/de/"]
    assert (requests, place.exists()) == ([], False)


def test_sources_lists_states_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", "--mirror", MINIATURE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(sources.files()) + 1
    assert lines[0].startswith("differs    hub    PrimeQA/clapnq@main  clapnq_dev_answerable.jsonl  /")
    arabic = "readable   hub    miracl/nomiracl@ecd08778d042  data/arabic/corpus.jsonl.gz  /"
    assert any(line.startswith(arabic) for line in lines)
    assert lines[-1] == "128 differs; 3 missing; 162 readable"
    context = "differs    github nlp-ucsc/semeval-2025-task3@b82eeb617794  data/context/"
    assert any(line.startswith(context) for line in lines)


def test_damage_is_seen_and_sets_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "miracl" / "nomiracl" / "data" / "german" / "corpus.jsonl.gz"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"\x1f\x8b\x08cut")
    assert main(["sources", "--mirror", str(tmp_path), "--missing"]) == 1
    assert "unreadable hub    miracl/nomiracl@ecd08778d042  data/german/corpus.jsonl.gz" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sources", "--mirror", "/no/where"], "The mirror folder /no/where (named as `mirror`) does not exist"),
        (["sources", "--fetch", "nothing*"], "no public file matches 'nothing*'"),
        (["sources", "--into", "x"], "--into needs --fetch"),
        (["sources", "--fetch", "*", "--mirror", "x"], "--mirror is read, never written"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_fetching_offline_fails_per_file_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sources", "--fetch", "primeqa/clapnq/retrieval/train/*"]) == 1
    error = capsys.readouterr().err
    assert error.count("could not be downloaded") == 2
    assert "2 of 2 files could not be fetched" in error
