"""A start in an empty directory with no MULTILANE_* variable set."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from gateway.cli import cli
from gateway.config import setting_types
from gateway.upstream import dialect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in [name for name in os.environ if name.startswith("MULTILANE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for module in (setting_types, dialect):
        monkeypatch.setattr(module, "dialect_names", lambda: ["llamacpp", "openai"])
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the commands handed on: stands in for all that they would run."""
    calls: list[Any] = []
    for module, function in (
        ("process.server", "serve"),
        ("tools.rehearse.server", "serve"),
        ("process.demo", "run"),
    ):
        fake = ModuleType(f"gateway.{module}")
        setattr(fake, function, lambda *given: calls.append(given))
        monkeypatch.setitem(sys.modules, f"gateway.{module}", fake)
    return calls


@pytest.fixture
def run(started: list[Any]) -> Callable[..., Result]:
    """Run one command line."""
    return lambda *words: CliRunner().invoke(cli, words, prog_name="multilane")
