"""All fuzzers, each with the inputs that it begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.fuzz import pure, wires
from tests.fuzz.fuzzing import Fuzzer
from tests.support.events import called, closed, completed, created, delta, failed, opened, reply
from tests.support.raw_client import BINARY, CLOSE, CONT, PING, PONG, TEXT
from tests.support.raw_http_server import END, HEAD, answer, chunk

_TAPES: Final = Path(__file__).parent.parent / "tapes"
_JSON: Final = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b"-1", b"1e999", b"NaN", b"{}"),
    *(b"[]", b'""', b'"\\ud800"', b"\\u0000", b"\xff", b"\xed\xa0\x80", b"1" * 400, b"[" * 200),
    *(b'"type":', b'"id":', b'"error":', b'"code":', b'"message":', b'"stream_id":', b'"item":'),
)
_LINES: Final = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\n\n",
    b": ",
    b"\x00",
    b" ",
    b"\t",
    b"\xff",
    b"\xef\xbb\xbf",
)
_HTTP: Final = (
    *_LINES,
    *(b"HTTP/1.1 ", b"HTTP/1.0 ", b"100 ", b"204 ", b"content-length: 5\r\n", b"0\r\n\r\n"),
    *(b"transfer-encoding: chunked\r\n", b"connection: close\r\n", b"expect: 100-continue\r\n"),
    *(b"upgrade: websocket\r\n", b"connection: upgrade\r\n", b"POST ", b"host: a\r\n", b"ffffffff"),
    *(b"keep-alive: timeout=5\r\n", b"sec-websocket-version: 8\r\n", b"x: " + b"y" * 900),
)


def _frame(body: bytes = b"", opcode: int = TEXT, *, fin: bool = True) -> bytes:
    """Return a client's frame under a mask of zeros, so that words fit into it."""
    size = len(body)
    head = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([opcode | (0x80 if fin else 0)]) + head + bytes(4) + body


_FRAMES: Final = (
    *(
        _frame(body, opcode)
        for body in (b"", b"{}", b"\x03\xe8", b"\xff\xfe", b"a" * 200)
        for opcode in (CONT, TEXT, BINARY, PING, PONG, CLOSE)
    ),
    *(b"\x88\x00", b"\x81\x7f", b"\x81\xfe", b"\xf1", b"\x09\x80", b"\x82\xff" + b"\xff" * 8),
)


def _tapes(pattern: str) -> list[bytes]:
    """Return the beginnings of tapes: a fuzzer is for many inputs, not for long ones."""
    return [path.read_bytes()[:6000] for path in sorted(_TAPES.glob(pattern))]


def _text(body: bytes) -> bytes:
    """Return a server's text frame."""
    head = bytes([0x81, len(body)]) if len(body) < 126 else b"\x81\x7e" + len(body).to_bytes(2)
    return head + body


def _events(lane: bytes, parts: list[bytes]) -> bytes:
    bodies = (part.partition(b"data: ")[2].strip() for part in parts)
    return b"".join(_text(b'{"stream_id":"%b",%b' % (lane, body[1:])) for body in bodies)


_ANSWERS: Final = [
    [created(), *opened(), delta("abc"), *closed("abc"), completed()],
    [*reply("hi")],
    [created(), *called("f"), completed()],
    [created(), failed()],
]
_STREAMS: Final = [b"".join(parts) for parts in _ANSWERS]
_CREATE: Final = (
    b'{"type":"response.create","stream_id":"a","model":"m","input":"hi","store":false}'
)
_STEER: Final = (
    b'{"type":"response.steer","previous_response_id":"resp_1",'
    b'"input":[{"role":"user","content":[{"type":"input_text","text":"t"}]}]}'
)
_CANCEL: Final = b'{"type":"response.cancel","response_id":"resp_1","stream_id":"a"}'
_SETTINGS: Final = (
    b'upstream = "http://127.0.0.1:1/v1"\nretries = 0\nmax_frame_bytes = "1MiB"\n',
    (
        b'[[upstreams]]\nname = "a"\nurl = "http://h/v1?x=1"\nmodels = ["gpt-*"]\n'
        b'fallbacks = ["b"]\nheaders = { "X-Team" = "a b" }\n[[upstreams]]\nname = "b"\nurl = "http://h/v1"\n'
        b'aliases = { fast = "q" }\ndefault = "fast"\nconcurrency = 2\nsteerable = false\n'
    ),
)
_REFUSALS: Final = (
    (
        b"429\nretry-after: 7\nx-ratelimit-limit: 3\ncontent-type: application/json\n\n"
        b'{"error":{"message":"no","type":"t","code":"c","param":"p"}}'
    ),
    b'422\n\n{"detail":[{"loc":["body","input",0],"msg":"wrong","type":"value_error"}]}',
    b"503\ncontent-type: text/html\n\n<html><body>no<script>x</script></body></html>",
    b'200\n\n{"data":[{"id":"a","created":5,"owned_by":"vllm"}]}',
)
_CHAT: Final = [b"\x00\x00" + tape for tape in _tapes("chat_*.sse")]

FUZZERS: Final = (
    Fuzzer("frames", pure.frames, (_CREATE, _STEER, _CANCEL), _JSON),
    Fuzzer(
        "settings",
        pure.settings,
        _SETTINGS,
        (*_LINES, b"[[", b"]]", b"=", b'"', b"[[upstreams]]\n"),
    ),
    Fuzzer("errors", pure.errors, _REFUSALS, (*_JSON, *_LINES, b"<!--", b"<style>")),
    Fuzzer(
        "streams",
        pure.streams,
        tuple(
            bytes([at, 7 * at, 0]) + body
            for at in range(len(pure.DIALECTS))
            for body in (*_STREAMS, *_tapes(f"{pure.DIALECTS[at]}_*.sse"))
        ),
        (*_JSON, *_LINES, b"data: ", b"event: error\n", b"response.failed", b'"output_index":'),
    ),
    Fuzzer("chat", pure.chat, tuple(_CHAT), (*_JSON, *_LINES, b"data: [DONE]\n\n", b"tool_calls")),
    Fuzzer(
        "door",
        wires.door,
        (
            b"\x00" + wires.UPGRADE,
            b"\x07GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            (
                b"\x00POST /v1 HTTP/1.1\r\nHost: a\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
            ),
        ),
        _HTTP,
    ),
    Fuzzer(
        "client_socket",
        wires.client_socket,
        (
            b"\x00" + _frame(_CREATE) + _frame(b"", PING) + _frame(b"\x03\xe8", CLOSE),
            b"\x01" + _frame(b"ab", fin=False) + _frame(b"p", PING) + _frame(b"cd", CONT),
            b"\x03" + _frame(b"x" * 300, BINARY) + _frame(b"", CLOSE),
        ),
        (*_FRAMES, *_JSON),
    ),
    Fuzzer(
        "answers",
        wires.answers,
        (
            b"\x00" + HEAD + chunk(1) + chunk(2, 3) + END,
            b"\x05HTTP/1.1 100 C\r\n\r\n" + HEAD + chunk(1) + END,
            b"\x00" + answer(503, b'{"error":"busy"}', retry_after="1", keep_alive="timeout=5"),
            b"\x00HTTP/1.1 200 OK\r\n\r\ndata: x\n\n",
        ),
        _HTTP,
    ),
    Fuzzer(
        "upstream_socket",
        wires.upstream_socket,
        (
            *(
                bytes([flags, 0]) + _events(b"lane15", parts)
                for parts in _ANSWERS
                for flags in (0, 4)
            ),
            *(bytes([2, 9]) + _events(b"", parts) for parts in _ANSWERS),
            b"\x00\x00"
            + _text(b'{"type":"error","error":{"code":"websocket_connection_limit_reached"}}'),
            b"\x00\x00" + _text(b'{"type":"error","stream_id":"lane14","status":429,"error":{}}'),
            b"\x01\x00HTTP/1.1 503 X\r\ncontent-length: 2\r\n\r\n{}",
            b"\x00\x00\x88\x02\x03\xe8",
        ),
        (
            *_JSON,
            b"\x88\x02\x03\xe9",
            b"\x89\x00",
            b"\x01\x01a",
            b"\x80\x01b",
            b"\x81\x05",
            b"\x81\x7e",
        ),
    ),
)
