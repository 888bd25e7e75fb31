"""What is not the gateway's own goes to the upstream as it is, and its answer comes back so."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.events import reply as events
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.http_client import Answer, requested
from tests.support.raw_client import tcp
from tests.support.raw_http_server import running as raw_server
from tests.support.several_upstreams import several
from tests.support.wire_stand import disconnected, standing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange

JSON = {"content-type": "application/json"}
CHAT = "/chat/completions"
BOUND = 64 << 10


def chat(
    url: str, body: Any, headers: dict[str, str] | None = None
) -> AbstractAsyncContextManager[Answer]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return requested(url, "POST", CHAT, data, JSON | (headers or {}), judged=False)


def form(*parts: tuple[str, str], boundary: str = "b") -> bytes:
    """A multipart form: each part's parameters, and its value."""
    made = [
        f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n{value}\r\n"
        for named, value in parts
    ]
    return "".join([*made, f"--{boundary}--\r\n"]).encode()


async def echo(exchange: Exchange) -> None:
    await exchange.reply(200, {"path": exchange.path, "got": exchange.raw.decode("latin-1")})


async def test_a_request_and_its_answer_are_left_as_they_are() -> None:
    body = b'{ "messages": [],"model":"m" ,"x":1}'
    async with standing(upstream_key="backend-key", api_keys=("k",)) as stand:
        headers = {
            "authorization": "Bearer k",
            "openai-organization": "org",
            "cookie": "a=b",
            "x-forwarded-for": "10.0.0.1",
            "accept": "application/json",
        }
        async with anyio.create_task_group() as tasks:

            async def answered() -> None:
                exchange = await stand.fake.next()
                assert exchange.path == "/v1/chat/completions?a=b&c"
                assert exchange.raw == body
                assert exchange.headers["content-length"] == str(len(body))
                assert exchange.headers["authorization"] == "Bearer backend-key"
                assert exchange.headers["accept"] == "application/json"
                assert exchange.headers["openai-organization"] == "org"
                assert "cookie" not in exchange.headers
                assert "x-forwarded-for" not in exchange.headers
                back = {"x-request-id": "r", "set-cookie": "s", "openai-organization": "theirs"}
                await exchange.reply(418, b'{"odd": 1}', back | {"x-ratelimit-limit-tokens": "7"})

            tasks.start_soon(answered)
            async with requested(
                stand.url, "POST", f"{CHAT}?a=b&c", body, JSON | headers, judged=False
            ) as answer:
                assert answer.status == 418
                assert await answer.body() == b'{"odd": 1}'
                assert answer.headers["content-type"] == "application/json"
                assert answer.headers["x-request-id"] == "r"
                assert answer.headers["x-ratelimit-limit-tokens"] == "7"
                assert not {"set-cookie", "openai-organization"} & answer.headers.keys()


async def test_a_stream_comes_piece_by_piece() -> None:
    async with standing() as stand, anyio.create_task_group() as tasks:
        said = anyio.Event()

        async def streamed() -> None:
            exchange = await stand.fake.next()
            await exchange.send(b"data: {}\n\n")
            await said.wait()
            await exchange.send(b": a comment\n\ndata: [DONE]\n\n")
            await exchange.end()

        tasks.start_soon(streamed)
        async with chat(stand.url, {"stream": True}) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            assert await answer._block() == "data: {}"
            said.set()
            assert await answer.body() == b": a comment\n\ndata: [DONE]\n\n"


async def test_a_client_that_leaves_cancels() -> None:
    async with standing() as stand:
        async with tcp(stand.port) as client:
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
            await client.write(head.encode())
            exchange = await stand.fake.next()
        await hung_up(exchange)
        async with tcp(stand.port) as client:
            await client.write(head.encode())
            exchange = await stand.fake.next()
            await exchange.send(b"data: {}\n\n")
            await client.read(1 << 16)
        await hung_up(exchange)


async def test_a_key_is_needed_and_pages_of_other_origins_are_refused() -> None:
    async with standing(api_keys=("k",)) as stand:
        async with chat(stand.url, {}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (
                401,
                "missing_api_key",
            )
        async with chat(
            stand.url, {}, {"authorization": "Bearer k", "origin": "https://evil.example"}
        ) as answer:
            assert answer.status == 403
        assert stand.fake.exchanges == []


@pytest.mark.parametrize(
    ("passthrough", "method", "path", "status"),
    [
        ((), "POST", "/embeddings", 200),
        ((), "POST", "/audio/speech", 200),
        ((), "GET", "/chat/completions", 405),
        ((), "POST", "/chat/completions/id", 404),
        ((), "POST", "/files", 404),
        ((), "GET", "/files", 404),
        (("none",), "POST", "/embeddings", 404),
        (("all",), "GET", "/files/f/content", 200),
        (("all",), "DELETE", "/files/f", 200),
        (("all",), "GET", "/chat/completions/id", 200),
        (("all",), "TRACE", "/files", 405),
        (("all",), "GET", "/responses/resp_1", 404),
        (("all",), "POST", "/responses/resp_1/other", 404),
        (("all",), "POST", "/RESPONSES", 404),
        (("all",), "POST", "/models", 405),
        (("files", "/v1/batches/"), "GET", "/files/f", 200),
        (("files", "/v1/batches/"), "GET", "/batches", 200),
        (("files",), "GET", "/filesystem", 404),
        (("files",), "POST", "/embeddings", 404),
    ],
)
async def test_the_allow_list(
    passthrough: tuple[str, ...], method: str, path: str, status: int
) -> None:
    settings = {"passthrough": passthrough} if passthrough else {}
    async with standing(echo, **settings) as stand:
        async with requested(stand.url, method, path, b"{}", JSON, judged=False) as answer:
            assert answer.status == status
            body = await answer.json()
            if status == 405:
                assert method not in answer.headers["allow"]
            if status != 200:
                assert body["error"].keys() == {"type", "code", "message", "param"}
        assert [one.path for one in stand.fake.exchanges] == ([f"/v1{path}"] * (status == 200))


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_body_of_any_size_is_streamed(chunked: bool) -> None:
    """It arrives at the backend while the client still sends, and is nowhere kept."""
    piece, count = b"x" * (256 << 10), 40
    async with standing(max_frame_bytes=1024) as stand, tcp(stand.port) as client:
        head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: audio/mpeg\r\n"
        framing = f"Content-Length: {len(piece) * count}"
        head += "Transfer-Encoding: chunked" if chunked else framing
        await client.write(f"{head}\r\n\r\n".encode())
        sent = b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
        await client.write(sent)
        with anyio.fail_after(HANG):
            while not stand.fake.arriving():  # noqa: ASYNC110
                await anyio.sleep(0.001)
        assert stand.fake.exchanges == []
        for _ in range(count - 1):
            await client.write(sent)
        await client.write(b"0\r\n\r\n" if chunked else b"")
        exchange = await stand.fake.next()
        assert exchange.raw == piece * count
        assert ("content-length" in exchange.headers) is not chunked
        await exchange.reply(200, {"text": "x"})
        answer = Answer(lambda: client.read(1 << 16), None)
        assert json.loads(await answer.body()) == {"text": "x"}


async def test_a_backend_that_takes_nothing_stops_the_client() -> None:
    async with (
        raw_server() as backend,
        standing(upstream=backend.url) as stand,
        tcp(stand.port) as client,
    ):
        head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n"
        await client.write(f"{head}\r\n".encode())
        piece, written = bytes(1 << 20), 0
        with anyio.move_on_after(1):
            while True:
                await client.write(piece)
                written += len(piece)
        # What the kernel's buffers and those of the test's server hold, on both ways.
        assert written < 100 << 20
        peer = await backend.accept()
        client.abort()
        with anyio.fail_after(HANG), suppress(ConnectionError):
            while await peer.reader.read(1 << 20):
                pass


async def test_a_client_that_reads_nothing_pauses_the_backend_and_is_dropped() -> None:
    many = b"y" * (64 << 10)

    async def script(exchange: Exchange) -> None:
        for _ in range(400):
            await exchange.send(many)
        await exchange.end()

    async with standing(script, send_buffer_bytes=BOUND, stall_timeout=0.5) as stand:
        async with tcp(stand.port, receive_buffer=1 << 15) as client:
            head = "POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
            await client.write(head.encode())
            await disconnected(stand)
        assert not stand.fake.exchanges[0].ended
        await hung_up(*stand.fake.exchanges)


async def test_an_answer_that_breaks_off_does_not_look_whole() -> None:
    async with standing(lambda _: events("x")) as stand, tcp(stand.port) as client:
        head = "POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
        stand.fake.script = None
        await client.write(head.encode())
        exchange = await stand.fake.next()
        await exchange.send(b"data: half")
        exchange.cut()
        seen = b""
        while data := await client.read(1 << 16):
            seen += data
        assert b"data: half" in seen
        assert not seen.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("status", "code"), [(302, "server_error"), (304, None), (204, None), (500, None)]
)
async def test_odd_statuses(status: int, code: str | None) -> None:
    async def script(exchange: Exchange) -> None:
        lines = [b"HTTP/1.1 %d X" % status, b"location: http://other.example/"]
        await exchange.write(b"\r\n".join([*lines, b"content-length: 0", b"", b""]))

    async with standing(script) as stand, chat(stand.url, {}) as answer:
        assert answer.status == (502 if code else status)
        assert "location" not in answer.headers
        body = await answer.body()
        assert (json.loads(body)["error"]["code"] if body else None) == code


async def test_an_upstream_that_is_away() -> None:
    nowhere = "http://127.0.0.1:9/v1"
    async with standing(upstream=nowhere, retries=0) as stand, chat(stand.url, {}) as answer:
        assert answer.status == 502
        assert (await answer.json())["error"]["code"] == "server_error"


TABLES: dict[str, dict[str, Any]] = {
    "first": {"models": ["one"], "aliases": {"fast": "one"}, "concurrency": 1},
    "second": {"models": ["two"], "default": "two"},
}


@pytest.mark.parametrize(
    ("body", "name", "sent"),
    [
        (b'{"messages":[],"model":"two"}', "second", b'{"messages":[],"model":"two"}'),
        (b'{"messages":[], "model":"one"}', "first", b'{"messages":[], "model":"one"}'),
        (b'{"x":[1.50], "model" : "fast"}', "first", b'{"x":[1.50], "model" : "one"}'),
        (b'{"model":"one","x":{"model":"one"},"model":"two"', "second", None),
        (b'{"x":"\\"model\\":\\"one\\"","y":["model"]}', "second", None),
        (b'{"model":null}', "second", None),
        (b"", "second", None),
        (b'{"messages":[]}', "second", b'{"messages":[]}'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
async def test_the_model_decides(body: bytes, name: str, sent: bytes | None, packed: bool) -> None:
    async with several(TABLES, {"first": echo, "second": echo}) as stand:
        headers = {"content-encoding": "gzip"} if packed else {}
        async with chat(stand.url, gzip.compress(body) if packed else body, headers) as answer:
            assert (await answer.json())["got"].encode() == (body if sent is None else sent)
        assert stand.asked() == {"first": name == "first", "second": name == "second"}
        assert "content-encoding" not in stand.fakes[name].exchanges[0].headers


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"model":"three"}', 404, "model_not_found"),
        (b'{"model":3}', 400, "invalid_type"),
        (b'{"model":["one"]}', 400, "invalid_type"),
        (b'{"model":"\\x"}', 400, "invalid_json"),
        (b'{"model":"\xff"}', 400, "invalid_json"),
        (b'{"x":[' + b'"",' * 1_000_000, 400, "too_many_values"),
    ],
)
async def test_a_body_that_leads_nowhere(body: bytes, status: int, code: str) -> None:
    async with several(TABLES, {"first": echo, "second": echo}) as stand:
        async with chat(stand.url, body) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)
        assert stand.asked() == {"first": 0, "second": 0}


@pytest.mark.parametrize("asked", ["two", "fast"])
async def test_the_model_of_a_form(asked: str) -> None:
    whole = form(('name="file"; filename="name=model"', "z" * 100_000), ('name="model"', asked))
    meant = {"fast": "one"}.get(asked, asked)
    async with several(TABLES, {"first": echo, "second": echo}) as stand:
        kind = {"content-type": "multipart/form-data; boundary=b"}
        async with requested(
            stand.url, "POST", "/audio/transcriptions", whole, kind, judged=False
        ) as answer:
            assert answer.status == 200
        [exchange] = [one for fake in stand.fakes.values() for one in fake.exchanges]
        assert exchange.raw == whole.replace(asked.encode(), meant.encode())
        assert exchange.headers["content-length"] == str(len(exchange.raw))
        assert stand.asked()["first"] == (asked == "fast")


async def test_a_form_whose_model_comes_too_late() -> None:
    whole = form(('name="file"', "z" * 200_000), ('name="model"', "two"))
    scripts = {"first": echo, "second": echo}
    async with several(TABLES, scripts, max_frame_bytes=64 << 10) as stand:  # type: ignore[arg-type]
        kind = {"content-type": 'multipart/form-data; boundary="b"'}
        async with requested(
            stand.url, "POST", "/images/edits", whole, kind, judged=False
        ) as answer:
            assert answer.status == 413
        assert stand.asked() == {"first": 0, "second": 0}


async def test_requests_take_turns() -> None:
    async with several(TABLES) as stand, anyio.create_task_group() as tasks:
        fake, done = stand.fakes["first"], []

        async def one() -> None:
            async with chat(stand.url, {"model": "one"}) as answer:
                await answer.body()
                done.append(answer.status)

        for _ in range(3):
            tasks.start_soon(one)
        for number in range(1, 4):
            exchange = await fake.next()
            assert len(fake.exchanges) == number
            await exchange.reply(200, {})
    assert done == [200, 200, 200]


async def test_a_turn_ends_with_its_client() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    request = head + b'Content-Length: 15\r\n\r\n{"model":"one"}'
    async with several(TABLES) as stand:
        port, fake = int(stand.url.split(":")[2].split("/")[0]), stand.fakes["first"]
        async with tcp(port) as first, tcp(port) as third:
            await first.write(request)
            exchange = await fake.next()
            async with tcp(port) as second:
                await second.write(request)  # waits, and leaves meanwhile
            await third.write(request)
            await exchange.send(b"half")
            first.abort()
            await hung_up(exchange)
            last = await fake.next()
            await last.reply(200, b"{}")
            answer = Answer(lambda: third.read(1 << 16), None)
            assert await answer.body() == b"{}"


async def test_a_gateway_that_stops_waits_for_it() -> None:
    async with standing() as stand, anyio.create_task_group() as tasks:

        async def one() -> None:
            async with chat(stand.url, {}) as answer:
                assert await answer.body() == b"{}"

        tasks.start_soon(one)
        exchange = await stand.fake.next()
        stand.server.should_exit = True
        with anyio.fail_after(HANG):
            while not stand.server.gateway.census.draining:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        await exchange.reply(200, b"{}")
