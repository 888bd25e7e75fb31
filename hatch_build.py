"""Adds to a package what depends on where the repository lives: its URLs, and the README's links.

On an index there are no files beside the README, so its links have to lead to the repository: the
one that MULTILANE_REPOSITORY names, the sdist that is being built came from, or `origin` of the git
checkout. Where none of them is known the words of a link stay, without the link.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE: Final = "MULTILANE_REPOSITORY"
#: A link of Markdown to a file beside the README: its words, and the file.
LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")
#: `git@host:owner/name`, as git writes a repository that is reached by SSH.
SSH: Final = re.compile(r"(?:ssh://)?git@([^:/]+)[:/](.+)")


class RepositoryLinks(MetadataHookInterface):
    """Set `readme` and `urls`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in both, for hatchling to validate."""
        root = Path(self.root)
        url = repository(root)
        text = linked((root / "README.md").read_text("utf-8"), url)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {} if url is None else project_urls(url)


def repository(root: Path) -> str | None:
    """Return the repository's web address without a slash at its end, or None if it is unknown."""
    given = os.environ.get(VARIABLE) or _of_sdist(root) or _of_checkout(root)
    if given is None:
        return None
    url = SSH.sub(r"https://\1/\2", given.strip()).rstrip("/").removesuffix(".git")
    if re.fullmatch(r"https://[\w.-]+(?::\d+)?/[\w./~-]+", url):
        return url
    if os.environ.get(VARIABLE):
        raise ValueError(f"{VARIABLE} must be an https:// address, not {given!r}")
    return None  # a clone of a directory, or one whose address holds a password


def project_urls(url: str) -> dict[str, str]:
    """Return the links that an index shows beside the package."""
    return {
        "Repository": url,
        "Documentation": f"{url}/blob/main/docs/README.md",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
        "Security": f"{url}/blob/main/SECURITY.md",
    }


def linked(text: str, url: str | None) -> str:
    """Return the README with its links to files made absolute, or taken away without a URL."""
    return LINK.sub(r"\1" if url is None else rf"[\1]({url}/blob/main/\2)", text)


def _of_sdist(root: Path) -> str | None:
    path = root / "PKG-INFO"
    if not path.is_file():
        return None
    head = path.read_text("utf-8").partition("\n\n")[0]
    found = re.search(r"^Project-URL: Repository, (.+)$", head, re.MULTILINE)
    return found[1] if found else None


def _of_checkout(root: Path) -> str | None:
    if not (root / ".git").exists():
        return None
    words = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        ran = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    except OSError:  # there is no git
        return None
    return ran.stdout.strip() or None
