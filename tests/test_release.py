"""A release that could be made today: its files, what they say of themselves, and the demo from the wheel alone."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.architecture import PACKAGES
from tests.conftest import ROOT, run
from tests.test_install import QUICK, Environment

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
NO_DATA = ("*.py", "*.md", "*.jinja", "*.css", "*.js", "*.pth", "*/py.typed")
LICENCES = "lm_eval_tasks/sample/LICENCES.md"

pytestmark = pytest.mark.one_python("what a release holds; the wheel is tried on the oldest and the newest Python")


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        pytest.skip("git does not know which files are the project's")
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def project() -> dict[str, object]:
    import tomllib

    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_every_benchmark_is_cited_and_linked_and_the_version_is_one() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    table = project()
    assert citation["version"] == table["version"]
    cited = {each["url"] for each in citation["references"]}
    linked = {*table["urls"].values()}  # type: ignore[attr-defined]
    papers = {
        url[0]: page.parent.name
        for page in sorted(ROOT.glob("lm_eval_tasks/*/README.md"))
        if (url := re.findall(r"^https://arxiv\.org/abs/\S+", page.read_text("utf-8"), re.MULTILINE))
    }
    assert len(papers) >= 7
    assert {url: name for url, name in papers.items() if url not in cited & linked} == {}
    heading = rf"^## (Unreleased: )?{re.escape(str(table['version']))}\b"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)


def test_no_workflow_runs_what_another_commit_could_change() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        used = re.findall(r"uses: (\S+)(.*)", path.read_text("utf-8"))
        assert used, path
        loose = [name for name, _ in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)]
        assert loose == [], path
        assert all(re.fullmatch(r" # v[\d.]+", comment) for _, comment in used), path
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert (release["permissions"], release["jobs"]["publish"]["permissions"]) == ({}, {"id-token": "write"})
    assert "secrets." not in str(release)


def is_of(name: str, pattern: str) -> bool:
    """Whether a pattern is of the file, from any of its folders on; one that ends in ``/`` is of all in that folder."""
    end = f"{pattern}*" if pattern.endswith("/") else pattern.removeprefix("*/")
    return fnmatch.fnmatch(f"/{name}", f"*/{end}")


def test_every_data_file_of_the_wheel_has_a_licence() -> None:
    rows = re.findall(r"^\| (.+?) \|", (ROOT / LICENCES).read_text("utf-8"), re.MULTILINE)
    patterns = [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row)]
    data = [name for name in tracked() if name.startswith(PACKAGES) and not any(is_of(name, each) for each in NO_DATA)]
    assert len(data) > 300
    assert [name for name in data if not any(is_of(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(is_of(name, pattern) for name in data)] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel, as ``make dist`` builds them, of what git tracks."""
    if find_spec("hatchling") is None:
        pytest.skip("building the project offline needs hatchling (extra dev)")
    source, files = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    run([sys.executable, "-m", "hatchling", "build", "-d", str(files)], source, fresh=True)
    return files


@pytest.mark.slow("builds the project")
def test_the_sdist_is_what_git_tracks_so_its_tests_have_what_they_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names ^ {*tracked()} == {"PKG-INFO"}


@pytest.mark.slow("builds the project")
def test_the_wheel_holds_the_packages_and_passes_twine(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(place).decode("utf-8"))
    folder = place.partition("/")[0]
    rooms = tuple(f"{room}/" for room in (*PACKAGES, folder))
    assert {name for name in names if not name.startswith(rooms)} == {"lm_eval_grounded.pth"}
    assert {f"{folder}/licenses/{name}" for name in ("LICENSE", LICENCES)} <= {*names}
    assert {*metadata.get_all("License-File", ())} == {"LICENSE", LICENCES}
    assert wheel.stat().st_size < 3_000_000
    if find_spec("twine") is None:
        pytest.skip("twine is not installed (extra dev)")
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(built.iterdir()))], ROOT, fresh=True)


def python_with_dependencies(version: str) -> Path | None:
    """The Python of these tests, or of an environment of ``make test-pythons``, where it has what the demo needs."""
    made = ROOT / ".nox" / f"tests-{version.replace('.', '-')}" / "bin" / "python"
    python = Path(sys.executable) if version == OWN else made
    asked = [str(python), "-c", "import lm_eval, matplotlib, pip"]
    fits = python.exists() and not subprocess.run(asked, capture_output=True, check=False).returncode
    return python if fits else None


@pytest.mark.slow("builds and installs the project, and runs the demo")
@pytest.mark.parametrize("version", sorted({"3.10", OWN, "3.13"}, key=lambda each: int(each[2:])))
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(version: str, built: Path, tmp_path: Path) -> None:
    """The commands are those of ``make demo``."""
    python = python_with_dependencies(version)
    if python is None:
        pytest.skip(f"no environment of Python {version}: make test-pythons makes it where the machine has that Python")
    if version == OWN and any(each != OWN and python_with_dependencies(each) for each in ("3.10", "3.13")):
        pytest.skip("the wheel is tried on the oldest and the newest Python")
    environment = Environment(tmp_path / "environment", python)
    (wheel,) = built.glob("*.whl")
    environment.pip("install", "--no-deps", "--ignore-installed", str(wheel))  # the dependencies hold one, too
    code = f"#!{environment.python}\n{QUICK}from lm_eval.__main__ import cli_evaluate; cli_evaluate()\n"
    (script := environment.python.with_name("lm_eval")).write_text(code)
    script.chmod(0o755)
    (environment.python.parents[1] / ".done").touch()
    sample = environment.site / "lm_eval_tasks" / "sample"
    asked = ["make", "-f", str(ROOT / "Makefile"), "demo", f"DEMO={environment.python.parents[1]}", "SOURCES="]
    done = run([*asked, f"SAMPLE={sample}", "RESULTS=out"], environment.empty, **environment.environment)
    assert "GPT-4 errs less than Mistral-7B in German" in done.stdout
    assert (environment.empty / "out" / "report.html").stat().st_size > 100_000
    here = environment("-c", "import lm_eval_grounded, sys; print(sys.version_info[:2], lm_eval_grounded.__file__)")
    assert here.startswith(f"(3, {version[2:]}) {environment.site}{os.sep}")
