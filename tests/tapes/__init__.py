"""Recorded and written streams of backends, byte for byte as they came over the wire.

`llamacpp_*` and `chat_llamacpp*` were recorded from llama.cpp's own server, but for
`llamacpp_text_tool.sse`: like the others it was written after its backend's documents and source.
An `.sse` file is a body, an `.http` file a whole refusal with its head.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def tape(name: str) -> bytes:
    """The bytes of one file."""
    return (_HERE / name).read_bytes()


def names(pattern: str = "*.sse") -> list[str]:
    return sorted(path.name for path in _HERE.glob(pattern))


def events(name: str) -> list[dict[str, Any]]:
    """The events of a tape, read the plain way: these files have no odd framing."""
    lines = tape(name).decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
