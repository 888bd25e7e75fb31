"""Frames of a client that would hold a gateway up if it read them in one go (D33)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = b'{"type":"response.create","model":"m"'
_TEXT = b'{"role":"user","content":[{"type":"input_text","text":"%b"}]}'


def _create(field: bytes) -> bytes:
    return b"%b,%b}" % (_HEAD, field)


def _messages(count: int, text: bytes) -> bytes:
    return _create(b'"input":[%b]' % b",".join([_TEXT % text] * count))


def _picture(size: int) -> bytes:
    part = b'{"type":"input_image","image_url":"data:image/png;base64,%b"}' % (
        b"QUJD" * (size // 4)
    )
    return b'{"role":"user","content":[%b]}' % part


def _compacted(item: bytes) -> bytes:
    return _create(b'"input":[%b,{"type":"compaction_trigger"}]' % item)


def _managed(item: bytes) -> bytes:
    before = b'{"role":"user","content":"x"},{"role":"assistant","content":"x"}'
    entry = b'{"type":"compaction","compact_threshold":1000}'
    return _create(b'"context_management":[%b],"input":[%b,%b]' % (entry, before, item))


def _output(size: int) -> bytes:
    call = b'{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}'
    output = b'{"type":"function_call_output","call_id":"c","output":"%b"}' % (
        b"word " * (size // 5)
    )
    return b"%b,%b" % (call, output)


def _steer(size: int) -> bytes:
    head = b'{"type":"response.steer","previous_response_id":"resp_0","input":"%b"}'
    return head % (b"x" * size)


#: Makes each frame of roughly the given number of bytes.
FRAMES: dict[str, Callable[[int], bytes]] = {
    "empty arrays": lambda n: _create(b'"input":[%b[]]' % (b"[]," * (n // 3))),
    "items": lambda n: _messages(n // 60, b"x"),
    "pairs of metadata": lambda n: _create(
        b'"input":"x","metadata":{%b}' % b",".join(b'"%x":"x"' % i for i in range(n // 14))
    ),
    "one base64 string": lambda n: _create(b'"input":[%b]' % _picture(n)),
    "strings of 30 KB": lambda n: _messages(n // 30_000, b"word " * 6000),
    "nested arrays": lambda n: _create(b'"input":' + b"[" * n),
    "escapes": lambda n: _messages(1, b"\\u0041" * (n // 6)),
    "numbers": lambda n: _create(b'"input":[{"k":[%b1]}]' % (b"1234567," * (n // 8))),
    "tools": lambda n: _create(
        b'"input":"x","tools":[%b{}]' % (b'{"type":"function","name":"f"},' * (n // 31))
    ),
    "a steer": _steer,
    "a compaction item": lambda n: _create(
        b'"input":[{"type":"compaction","encrypted_content":"ml1.0123456789abcdef.%b"}]'
        % (b"A" * n)
    ),
    "a text to compact": lambda n: _compacted(_TEXT % (b"word " * (n // 5))),
    "an image to compact": lambda n: _managed(_picture(n)),
    "an output to compact": lambda n: _managed(_output(n)),
    "instructions": lambda n: _create(b'"input":"x","instructions":"%b"' % (b"x" * n)),
    "a small frame of items": lambda _: _create(b'"input":[%b{}]' % (b"{}," * 21_000)),
    "as many items as go": lambda _: _messages(9_000, b"x"),
    "as many values as go": lambda _: _create(
        b'"input":[%b]'
        % b",".join([b'{"role":"user","content":[%b]}' % (b"[]," * 24_000 + b"0")] * 5)
    ),
    "as many escapes as go": lambda _: _messages(1, b"\\u0041" * (16_700_000 // 6)),
    "as many settings as go": lambda _: _create(
        b'"input":"x","tools":[%b{}],"instructions":"%b"'
        % (b'{"type":"function","name":"f"},' * 1_000, b"\\n" * 1_000_000)
    ),
}

#: What is asked over HTTP with such a body: the path, and headers.
REQUESTS: dict[str, tuple[str, dict[str, str]]] = {
    "a key of idempotency": ("", {"idempotency-key": "k"}),
    "the same key again": ("", {"idempotency-key": "k"}),
    "a count of tokens": ("/input_tokens", {}),
    "a compaction over HTTP": ("/compact", {}),
}


def body(size: int) -> bytes:
    """Return the body of a create, of roughly so many bytes."""
    return b'{"model":"m","input":[%b]}' % (_TEXT % (b"word " * (size // 5)))
