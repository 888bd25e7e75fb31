"""What comes instead of events, of a stream or of a proper HTTP answer."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.support.events import data, event, message, reply, response

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

#: Each ends a stream: an error of 502 where nothing had begun.
GARBAGE: dict[str, bytes] = {
    "cut json": b'data: {"type":"response.output_text.delta","item_id":"m1","del\n\n',
    "not json": b"data: <html>\n\n",
    "empty data": b"data:\n\n",
    "nothing": b"",
    "blank lines": b"\n\n\n\r\r\r\n\r\n",
    "a name without data": b"event: response.completed\n\n",
    "comments only": b": hold the line\n\n: still here\n\n",
    "scalar": data("5"),
    "array": data("[1]"),
    "string": data('"response.completed"'),
    "null": data("null"),
    "true": data("true"),
    "done only": data("[DONE]"),
    "done thrice": data("[DONE]") * 3,
    "invalid utf-8": b'data: {"type":"response.output_text.delta","delta":"\xff\xfe\n\n',
    "deep": data("[" * 100_000),
    "deep and whole": data('{"type":"response.zebra","x":' + "[" * 10_000 + "]" * 10_000 + "}"),
    "digits": data('{"type":' + "9" * 5000 + "}"),
    "html lines": b"<!doctype html>\n<p>502 Bad Gateway</p>\n\n",
    "binary": bytes(range(256)) * 4,
    "other lines": b"".join(reply("abc")).replace(b"data:", b"body:"),
    "utf-16": "".join(map(bytes.decode, reply("abc"))).encode("utf-16"),
    "torn ndjson": b'{"type":"ping"}\n{"type":"response.comple',
}
_WHOLE_TEXT = json.dumps(response("r1", "completed", output=[message("abc")]))
#: Each is an end in another form: what it is alone, and after a beginning.
MEANT: dict[str, tuple[bytes, str, str]] = {
    "array": (data('[{"type":"response.completed"}]'), "completed", "completed: message par"),
    "a whole response": (
        _WHOLE_TEXT.encode(),
        "completed: message abc",
        "completed: message par",
    ),
    "a whole response as data": (
        data(_WHOLE_TEXT),
        "completed: message abc",
        "completed: message par",
    ),
    "ndjson": (
        b'{"type":"response.created"}\n{"type":"response.completed"}\n',
        "completed",
        "completed: message par",
    ),
    "gzip": (
        gzip.compress(b"".join(reply("abc")), mtime=0),
        "completed: message abc",
        "failed server_error: message par",
    ),
}

_SERVER = "server_error"
_OURS = ("500 server_error", _SERVER)

#: Errors told in a stream, by their shape: as an `error` event, and as the code of a response.
ERRORS: dict[str, tuple[bytes, str, str]] = {
    "nested": (event("error", error={"message": "m", "code": "c"}), "500 c", _SERVER),
    "flat": (event("error", message="m", code="c", param=None), "500 c", _SERVER),
    "bare": (data({"error": {"message": "m", "code": 500}}), *_OURS),
    "a string": (data({"error": "m"}), *_OURS),
    "a list": (data({"error": [{"message": "m"}]}), *_OURS),
    "detail": (data({"detail": "m"}), *_OURS),
    "detail list": (data({"detail": [{"msg": "m"}]}), *_OURS),
    "no success": (data({"success": False, "error": "m"}), *_OURS),
    "error_type": (
        data({"error_type": "rate_limit_error", "message": "m"}),
        "429 rate_limit_exceeded",
        "rate_limit_exceeded",
    ),
    "an integer": (
        data({"error": {"code": 401, "message": "m"}}),
        "401 invalid_api_key",
        "server_error",
    ),
    "digits": (
        data({"error": {"code": "429", "message": "m"}}),
        "429 rate_limit_exceeded",
        "rate_limit_exceeded",
    ),
    "a status beside": (
        data({"status": 503, "error": {"message": "m"}}),
        "503 server_error",
        "server_error",
    ),
    "no message": (data({"error": {"message": None, "code": None}}), *_OURS),
    "nothing known": (data({"error": {"zebra": [1]}}), *_OURS),
    "a number": (data({"error": 5}), *_OURS),
    "true": (data({"error": True}), *_OURS),
    "a huge message": (data({"error": {"message": "m" * 2**20}}), *_OURS),
    "an overflow": (
        data({"error": {"code": 400, "type": "exceed_context_size_error", "message": "m"}}),
        "400 context_length_exceeded",
        "invalid_prompt",
    ),
    "an error object": (
        data({"object": "error", "type": "BadRequestError", "code": 400, "message": "m"}),
        "400 invalid_request_error",
        _SERVER,
    ),
    "an event line": (b'event: error\ndata: {"message":"m"}\n\n', *_OURS),
    "an error in another event": (
        event("response.output_text.delta", item_id="m1", delta="x", error={"message": "m"}),
        *_OURS,
    ),
}

HTML = b"<html><head><title>502</title></head><body><h1>Bad Gateway</h1></body></html>"

#: Whole answers: the status, the headers, the body, and the error they become.
ANSWERS: dict[str, tuple[int, dict[str, str], Any, str]] = {
    "html with 200": (200, {"content-type": "text/html"}, HTML, "502 server_error"),
    "html with 500": (500, {"content-type": "text/html"}, HTML, "500 server_error"),
    "an error with 200": (200, {}, {"error": {"message": "m", "code": "c"}}, "500 c"),
    "an error with 200 and a number": (
        200,
        {},
        {"error": {"code": 429}},
        "429 rate_limit_exceeded",
    ),
    "nothing with 200": (200, {}, b"", "502 server_error"),
    "204": (204, {}, b"", "502 server_error"),
    "torn gzip": (
        200,
        {"content-type": "text/event-stream", "content-encoding": "gzip"},
        gzip.compress(b"".join(reply("abc")), mtime=0)[:40],
        "502 server_error",
    ),
    "a redirect": (302, {"location": "http://127.0.0.1:1/"}, b"", "502 server_error"),
    "null": (400, {}, b"null", "400 invalid_request_error"),
    "a list": (400, {}, b'[{"error":{"message":"m","code":"c"}}]', "400 c"),
    "a bare string": (400, {}, b'"m"', "400 invalid_request_error"),
    "a number": (400, {}, b"5", "400 invalid_request_error"),
    "deep": (400, {}, b"[" * 10_000, "400 invalid_request_error"),
    "not utf-8": (400, {}, b"\xff\xfe\xfd", "400 invalid_request_error"),
    "a lone surrogate": (400, {}, b'{"error":{"message":"\\ud800"}}', "400 invalid_request_error"),
    "a code in digits": (400, {}, {"error": {"code": "400"}}, "400 invalid_request_error"),
    "a huge message": (500, {}, {"error": {"message": "m" * 2**20}}, "500 server_error"),
    "a huge page": (500, {"content-type": "text/html"}, HTML * 2**14, "500 server_error"),
    "an unknown status": (599, {}, b"", "599 server_error"),
}

Play = Callable[["Exchange"], Awaitable[object]]
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_CHUNKED = _HEAD + b"transfer-encoding: chunked\r\n\r\n"
_BODY = b"".join(reply("abc"))


def _write(data: bytes, *, cut: bool = True) -> Play:
    async def play(exchange: Exchange) -> None:
        await exchange.write(data)
        if cut:
            exchange.cut()

    return play


async def _reset(exchange: Exchange) -> None:
    exchange.reset()


#: Answers that break HTTP itself, and the end.
WIRE: dict[str, tuple[Play, str]] = {
    "no answer": (_write(b""), "error 502 server_error"),
    "a reset": (_reset, "error 502 server_error"),
    "half a head": (_write(_HEAD), "error 502 server_error"),
    "no HTTP at all": (_write(b"SSH-2.0-OpenSSH_9.6\r\n", cut=False), "error 502 server_error"),
    "a head without end": (
        _write(_HEAD + b"x: " + b"y" * 2**20, cut=False),
        "error 502 server_error",
    ),
    "a chunk size that is none": (
        _write(_CHUNKED + b"zebra\r\n" + _BODY, cut=False),
        "error 502 server_error",
    ),
    "a chunk that is cut": (
        _write(_CHUNKED + b"%x\r\n%b" % (len(_BODY) + 9, reply("abc")[0])),
        "failed server_error",
    ),
    "a last chunk that is missing": (
        _write(_CHUNKED + b"%x\r\n%b\r\n" % (len(_BODY), _BODY)),
        "completed: message abc",
    ),
    "a body shorter than it says": (
        _write(_HEAD + b"content-length: 99999\r\n\r\n" + reply("abc")[0]),
        "failed server_error",
    ),
    "a body longer than it says": (
        _write(_HEAD + b"content-length: %d\r\n\r\n" % len(reply("abc")[0]) + _BODY),
        "failed server_error",
    ),
    "no length": (_write(_HEAD + b"connection: close\r\n\r\n" + _BODY), "completed: message abc"),
}
