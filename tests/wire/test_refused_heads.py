"""Each head that is no proper request is refused at once, in JSON, and its connection ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.raw_answer import WEBSOCKET, head, last_answer, one_answer, rest
from tests.support.raw_client import PING, PONG, Frame, Raw, frame, tcp
from tests.support.serve_process import process
from tests.support.wire_stand import disconnected, standing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.wire_stand import WireStand

GET = "GET /v1/responses HTTP/1.1"


def without(name: str, *more: str) -> tuple[str, ...]:
    """The lines of an upgrade without one of them."""
    return (*(line for line in WEBSOCKET if not line.startswith(f"{name}:")), *more)


LARGE, WRONG = "request_head_too_large", "invalid_http_request"
UPGRADES: dict[str, tuple[bytes, int, str]] = {
    "a cookie of 8.3 KB": (head([*WEBSOCKET, f"Cookie: {'c' * 8300}"]), 431, LARGE),
    "129 header lines": (head([*WEBSOCKET, *(f"X-{n}: 1" for n in range(124))]), 431, LARGE),
    "a URL over 8 KB": (head(WEBSOCKET, f"GET /v1/responses?{'q' * 8200} HTTP/1.1"), 431, LARGE),
    "a head over 64 KiB": (
        head([*WEBSOCKET, *(f"X-{n}: {'x' * 8000}" for n in range(9))]),
        431,
        LARGE,
    ),
    "a body": (head([*WEBSOCKET, "Content-Length: 5"]) + b"hello", 413, "request_body_too_large"),
    "a body that does not come": (
        head([*WEBSOCKET, "Content-Length: 5"]),
        413,
        "request_body_too_large",
    ),
    "a chunked body": (head([*WEBSOCKET, "Transfer-Encoding: chunked"]), 400, WRONG),
    "both lengths": (
        head([*WEBSOCKET, "Transfer-Encoding: chunked", "Content-Length: 5"]),
        400,
        WRONG,
    ),
    "HTTP/1.0": (head(WEBSOCKET, "GET /v1/responses HTTP/1.0"), 400, WRONG),
    "HTTP/2.0": (head(WEBSOCKET, "GET /v1/responses HTTP/2.0"), 400, WRONG),
    "no version": (head(WEBSOCKET, "GET /v1/responses"), 400, WRONG),
    "no Host": (head(without("Host")), 400, WRONG),
    "two Hosts": (head([*WEBSOCKET, "Host: other"]), 400, WRONG),
    "another method": (head(WEBSOCKET, "POST /v1/responses HTTP/1.1"), 405, "method_not_allowed"),
    "no key": (head(without("Sec-WebSocket-Key")), 400, WRONG),
    "two keys": (head([*WEBSOCKET, WEBSOCKET[-1]]), 400, WRONG),
    "a short key": (head(without("Sec-WebSocket-Key", "Sec-WebSocket-Key: MDEy")), 400, WRONG),
    "a key that is no base64": (
        head(without("Sec-WebSocket-Key", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2R!!!!!")),
        400,
        WRONG,
    ),
    "no version of the protocol": (head(without("Sec-WebSocket-Version")), 400, WRONG),
    "two versions of the protocol": (head([*WEBSOCKET, "Sec-WebSocket-Version: 13"]), 400, WRONG),
    "an old version of the protocol": (
        head(without("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8")),
        426,
        "unsupported_websocket_version",
    ),
    "two Origins": (head([*WEBSOCKET, "Origin: http://a", "Origin: http://b"]), 400, WRONG),
    "a subprotocol that is no token": (
        head([*WEBSOCKET, "Sec-WebSocket-Protocol: a b"]),
        400,
        WRONG,
    ),
    "an option that is no token": (
        head(without("Connection", "Connection: Upgrade, (")),
        400,
        WRONG,
    ),
    "a control character in a value": (head([*WEBSOCKET, "X-Odd: a\x7fb"]), 400, WRONG),
    "a folded line": (head([*WEBSOCKET, "X-Odd: a", " b"]), 400, WRONG),
    "a space before the colon": (head([*WEBSOCKET, "X-Odd : a"]), 400, WRONG),
    "a URL beyond ASCII": (head(WEBSOCKET, "GET /v1/responses?\xe9 HTTP/1.1"), 400, WRONG),
    "a URL that is none": (head(WEBSOCKET, "GET nowhere HTTP/1.1"), 400, WRONG),
    "lines without CR": (head(WEBSOCKET).replace(b"\r", b""), 400, WRONG),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, WRONG),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, WRONG),
    "noise": (b"hello\r\n\r\n", 400, WRONG),
}
PLAIN: dict[str, tuple[bytes, int, str]] = {
    "no Host": (head([]), 400, WRONG),
    "two Hosts": (head(["Host: a", "Host: a"]), 400, WRONG),
    "129 header lines": (head(["Host: a", *(f"X-{n}: 1" for n in range(128))]), 431, LARGE),
    "a long line": (head(["Host: a", f"Cookie: {'c' * 8300}"]), 431, LARGE),
    "a Host with a path": (head(["Host: a/b"]), 400, WRONG),
    "a fragment": (head(["Host: a"], "GET /health#a HTTP/1.1"), 400, WRONG),
    "a URL of another scheme": (head(["Host: a"], "GET ftp://a/health HTTP/1.1"), 400, WRONG),
    "a URL with a user": (head(["Host: a"], "GET http://b:c@a/health HTTP/1.1"), 400, WRONG),
    "a URL without a host": (head(["Host: a"], "GET http:///health HTTP/1.1"), 400, WRONG),
    "a URL of two hosts": (head(["Host: a"], "GET http://a,b/health HTTP/1.1"), 400, WRONG),
    "CONNECT": (head(["Host: a"], "CONNECT a:80 HTTP/1.1"), 400, WRONG),
    "two lengths": (head(["Host: a", "Content-Length: 1", "Content-Length: 2"]), 400, WRONG),
    "a length that is no number": (head(["Host: a", "Content-Length: x"]), 400, WRONG),
    "a coding that is unknown": (head(["Host: a", "Transfer-Encoding: gzip"]), 400, WRONG),
    "a coding within chunks": (head(["Host: a", "Transfer-Encoding: gzip, chunked"]), 400, WRONG),
}


#: Values of Host, and whether each is one host, with a port or without (RFC 9112, 3.2).
HOSTS: dict[str, bool] = {
    **dict.fromkeys(("a", "A.b-c_d~e", "127.0.0.1", "a:", "a:8080", "[::1]", "[::1]:80"), True),
    **dict.fromkeys(("%61", "a.", "a!$&'()*+;=b", "[v1.a:b]", "[fe80::1%25eth0]:1"), True),
    **dict.fromkeys(("", " ", "a, b", "a,b", "a b", "a/b", "a?b", "a#b", "a@b", "b:c@a"), False),
    **dict.fromkeys(("a:b", "a:80:80", "a:999999", "a:-1", ":80", "[::1", "::1", "[::1]a"), False),
    **dict.fromkeys(("[a]b]", "[]", "a\\b", "a\xe9", '"a"', "%6", "<a>", "a\tb", "{a}"), False),
}


async def refused(stand: WireStand, data: bytes, status: int, code: str) -> None:
    """The one answer is this refusal, and it is counted."""
    before = stand.server.gateway.peers.refused
    async with tcp(stand.port) as client:
        await client.write(data)
        answer = await last_answer(client)
    assert (answer.status, answer.error["code"]) == (status, code)
    if status == 426:
        assert answer.headers["sec-websocket-version"] == "13"
    assert stand.server.gateway.peers.refused == before + 1


@pytest.mark.parametrize("name", UPGRADES)
async def test_an_upgrade_that_is_none(name: str) -> None:
    async with standing() as stand:
        await refused(stand, *UPGRADES[name])
        await disconnected(stand, 10)
        assert stand.server.gateway.peers.open == 0


@pytest.mark.parametrize("name", PLAIN)
async def test_a_request_that_is_none(name: str) -> None:
    async with standing() as stand:
        await refused(stand, *PLAIN[name])


async def test_a_host_is_one_host() -> None:
    """The same for an upgrade, a plain request and one of HTTP/1.0; that one may have none."""
    upgraded = without("Host")
    async with standing() as stand:
        for host, right in HOSTS.items():
            line = f"Host: {host}"
            for good, whole in (
                (101, head([line, *upgraded])),
                (200, head([line, "Connection: close"], "GET /health HTTP/1.1")),
                (200, head([line], "GET /health HTTP/1.0")),
            ):
                if not right:
                    await refused(stand, whole, 400, WRONG)
                    continue
                async with tcp(stand.port) as client:
                    await client.write(whole)
                    assert (await client.read(1 << 16)).startswith(b"HTTP/1.1 %d " % good), host
        async with tcp(stand.port) as client:
            await client.write(head([], "GET /health HTTP/1.0"))
            assert (await last_answer(client)).status == 200


async def test_what_is_within_the_limits_is_let_in() -> None:
    fine = (
        head([*WEBSOCKET, "Cookie: " + "c" * 8100]),
        head([*WEBSOCKET, *(f"X-{n}: 1" for n in range(123))]),
        head(WEBSOCKET, f"GET /v1/responses?{'q' * 8100} HTTP/1.1"),
        head([*WEBSOCKET, "Content-Length: 0"]),
        head(without("Connection", "Connection: keep-alive", "Connection: Upgrade")),
        head(without("Upgrade", "Upgrade: WebSocket")),
        b"\r\n\r\n" + head(WEBSOCKET),
    )
    async with standing() as stand:
        for data in fine:
            async with tcp(stand.port) as client:
                await client.write(data)
                await switched(client)
                await client.send(b"there?", PING)
                assert await client.frame() == Frame(PONG, b"there?")


async def switched(client: Raw) -> None:
    """The upgrade is answered by 101; reads no byte more."""
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += await client.read(1)
    assert got.startswith(b"HTTP/1.1 101 "), got


async def test_frames_that_come_with_the_head_are_read() -> None:
    async with standing() as stand, tcp(stand.port) as client:
        await client.write(head(WEBSOCKET) + frame(b"early", PING))
        await switched(client)
        await client.send(b"late", PING)
        assert [await client.frame() for _ in range(2)] == [(PONG, b"early"), (PONG, b"late")]


async def test_an_upgrade_to_something_else_is_ignored() -> None:
    async with standing() as stand, tcp(stand.port) as client:
        lines = ("Host: a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
        await client.write(head(lines, "GET /health HTTP/1.1"))
        assert (await last_answer(client)).status == 200


async def test_a_refusal_arrives_although_the_client_goes_on_sending() -> None:
    async with standing(api_keys=("k",)) as stand:
        for lines in ([*WEBSOCKET, "Content-Length: 9999999"], WEBSOCKET):
            async with tcp(stand.port) as client:
                await client.write(head(lines))
                for _ in range(50):
                    await client.write(b"x" * 65536)
                assert (await last_answer(client)).status in (401, 413)


@pytest.mark.parametrize("close", ["HTTP/1.0", "HTTP/1.1"])
async def test_a_last_answer_arrives_although_the_body_does_not_end(close: str) -> None:
    lines = ("Host: a", "Connection: close", "Content-Length: 9999999")
    async with standing() as stand, tcp(stand.port) as client:
        await client.write(head(lines, f"POST /nowhere {close}"))
        for _ in range(50):
            await client.write(b"x" * 65536)
        assert (await last_answer(client)).status == 404


async def test_requests_behind_each_other_are_answered_in_order() -> None:
    wanted = ["/health", "/nowhere", "/health", "/v1/responses"]
    async with standing() as stand, tcp(stand.port) as client:
        await client.write(
            b"".join(head(["Host: a"], f"GET {path} HTTP/1.1") for path in wanted[:-1])
            + head(["Host: a", "Content-Length: 3"], "POST /nowhere HTTP/1.1")
            + b"abc"
            + head(["Host: a", "Connection: close"], "GET /health HTTP/1.1")
        )
        got = (await rest(client)).split(b"HTTP/1.1 ")[1:]
        assert [int(one[:3]) for one in got] == [200, 404, 200, 404, 200]


async def test_a_chunked_body_is_read_and_what_is_behind_it_is_not() -> None:
    async with standing() as stand, tcp(stand.port) as client:
        lines = ("Host: a", "Transfer-Encoding: chunked")
        chunked = head(lines, "POST /nowhere HTTP/1.1") + b"3\r\nabc\r\n0\r\n\r\n"
        await client.write(chunked)
        assert (await one_answer(client)).status == 404
        await client.write(chunked + head(["Host: a"], "GET /health HTTP/1.1"))
        assert (await last_answer(client)).status == 404


@pytest.mark.parametrize(("path", "status"), [("/v1/responses?a=b", 101), ("/no", 404), ("", 404)])
async def test_a_whole_url_is_taken_for_its_path(path: str, status: int) -> None:
    async with standing() as stand, tcp(stand.port) as client:
        await client.write(head(WEBSOCKET, f"GET http://a{path} HTTP/1.1"))
        got = await client.read(1 << 16)
        assert got.startswith(b"HTTP/1.1 %d " % status)
        assert status == 101 or b'"not_found"' in got


async def test_many_requests_at_once_wait_in_bounds() -> None:
    one = head(["Host: a"], "GET /nowhere HTTP/1.1")
    async with standing() as stand, tcp(stand.port) as client:
        await client.write(one * 500 + head(["Host: a", "Connection: close"], "GET / HTTP/1.1"))
        assert (await rest(client)).count(b"HTTP/1.1 404 ") == 501


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 20))
async def test_any_bytes_within_a_head_are_answered(odd: bytes, at: int, cut: int) -> None:
    async with standing() as stand, tcp(stand.port) as client:
        good = head([*WEBSOCKET, "X-More: 1"])
        await client.write(good[:at] + odd + good[at + cut :] + b"\r\n\r\n")
        got = b""
        while b"\r\n\r\n" not in got:
            data = await client.read(1 << 16)
            assert data, (got, odd, at, cut)
            got += data
        assert got.startswith(b"HTTP/1.1 "), got


async def test_the_process_ends_in_order_whatever_is_open(tmp_path: Path) -> None:
    async with process(tmp_path) as own:
        clients = []
        for data in (b"", b"GET", *(data for data, _, _ in UPGRADES.values())):
            context = tcp(own.port)
            client = await context.__aenter__()
            clients.append(context)
            await client.write(data)
        async with tcp(own.port) as client:  # all before it are read by now
            await client.write(head(["Host: a", "Connection: close"], "GET /health HTTP/1.1"))
            assert b'"sockets"' in await rest(client)
        own.child.send_signal(signal.SIGTERM)
        await own.ends()
        for context in clients:
            await context.__aexit__(None, None, None)
