"""The contributors' documents name targets, folders and files that exist, and leave none out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
TOP = Path(__file__).parents[2]
CONTRIBUTING = (TOP / "CONTRIBUTING.md").read_text("utf-8")
TESTS = (TOP / "tests" / "README.md").read_text("utf-8")
MAKEFILE = (TOP / "Makefile").read_text("utf-8")
LINKED = [
    TOP / "CONTRIBUTING.md",
    TOP / "SECURITY.md",
    TOP / "README.md",
    TOP / "DECISIONS.md",
    TOP / "tests" / "README.md",
    TOP / "deploy" / "README.md",
    *sorted((TOP / "docs").glob("*.md")),
]


def rows(heading: str) -> list[str]:
    """Return the first cells of the table under a heading of tests/README.md."""
    section = TESTS.partition(f"## {heading}")[2].partition("\n## ")[0]
    return [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]


def test_no_file_is_longer_than_contributing_says() -> None:
    [limit] = re.findall(r"Files have at most (\d+) lines", " ".join(CONTRIBUTING.split()))
    folders = ("multilane", "gateway", "lanes", "steering", "bench", "examples")
    lines = {
        path.relative_to(TOP).as_posix(): len(path.read_text("utf-8").splitlines())
        for folder in folders
        for path in (TOP / folder).rglob("*.py")
    }
    assert {name: size for name, size in lines.items() if size > int(limit)} == {}


def test_each_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", CONTRIBUTING + TESTS)) <= targets


def test_make_help_lists_every_target() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    printed = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=TOP,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert sorted(line.split()[0] for line in printed.splitlines()) == sorted(phony.split())


def test_each_folder_of_tests_has_its_row() -> None:
    named = {name for row in rows("Which folder") for name in re.findall(r"`(\w+)`", row)}
    assert named == {path.parent.name for path in (TOP / "tests").glob("*/__init__.py")}


def test_each_shared_stand_has_its_row() -> None:
    named = {name for row in rows("The stands") for name in re.findall(r"`([\w.]+)`", row)}
    kept = {path.name for path in (TOP / "tests" / "support").glob("*.py")}
    assert named == {name for name in kept if not name.startswith(("test_", "__init__"))}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(TOP)))
def test_each_link_between_files_leads_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings]
            assert anchor in anchors, target


def test_templates_and_workflows_are_yaml() -> None:
    files = sorted((TOP / ".github").rglob("*.yml"))
    assert len(files) >= 5
    for file in files:
        assert yaml.safe_load(file.read_text("utf-8")), file
    workflow = (TOP / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert ".ci/run" in workflow
