"""No spelling of a path leads out of the upstream's base path, or to what is not allowed."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.passed_paths import OWN, is_below, relative
from tests.support.hang_guard import HANG
from tests.support.http_client import Answer
from tests.support.raw_client import tcp
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

#: What a path may be made of, to get somewhere else.
PIECES = (
    *("/", "//", ".", "..", "...", "\\", ";", ";a=b", "?", "#", "%", " ", "\t", "\x00", "\x7f"),
    *("%2e", "%2E", "%2f", "%2F", "%5c", "%5C", "%3b", "%3f", "%23", "%25", "%252e", "%252f"),
    *("%00", "%0a", "%0d%0a", "%20", "%c0%ae", "%c0%af", "%e0%80%af", "%ef%bc%8f", "%uff0e"),
    *("\xc0\xae", "\xef\xbc\x8f", "files", "FILES", "f%69les", "responses", "%72esponses"),
    *("models", "conversations", "chat/completions", "v1", "a", "~", ":", "@", "%3a", "*"),
)
RAW = st.lists(st.sampled_from(PIECES), max_size=8).map("".join).map(lambda s: s.encode("latin-1"))


def readings(path: bytes) -> set[bytes]:
    """All paths that some backend may take this one for."""
    seen: set[bytes] = set()
    for _ in range(4):
        bare = b"/".join(segment.partition(b";")[0] for segment in path.split(b"/"))
        for one in (path, bare, path.replace(b"\\", b"/"), path.partition(b"?")[0]):
            seen |= {one, posixpath.normpath(one), posixpath.normpath(one).lower()}
        path = unquote_to_bytes(path)
    return seen


@given(raw=RAW)
def test_what_is_passed_on_is_below_its_base_in_every_reading(raw: bytes) -> None:
    path = relative(b"/v1/" + raw)
    if path is None:
        return
    assert path.encode() == raw
    for one in readings(b"/base/" + raw):
        assert one.startswith(b"/base/")
        first = one.removeprefix(b"/base/").partition(b"/")[0]
        assert first.decode("latin-1") not in OWN


@given(raw=RAW)
def test_what_a_prefix_allows_is_below_it_in_every_reading(raw: bytes) -> None:
    path = relative(b"/v1/files" + raw)
    if path is None or not is_below(path, "files"):
        return
    for one in readings(b"/" + path.encode()):
        assert one == b"/files" or one.startswith(b"/files/")


@pytest.mark.parametrize(
    "path",
    [
        "files",
        "files/file-abc_1.x~",
        "files/a,b",
        "x/ft:gpt:org",
        "x/ft%3Agpt%20a",
        "a/...",
        ".a/b",
    ],
)
def test_plain_paths_are_taken(path: str) -> None:
    assert relative(b"/v1/" + path.encode()) == path


SPELLINGS = (
    *("/v1/files/../../secret", "/v1/files/%2e%2e/%2e%2e/secret", "/v1/files/..%2f..%2fsecret"),
    *("/v1/files/.%2e/secret", "/v1/files%2f..%2fsecret", "/v1/files/..\\secret", "/v1/./files"),
    *("/v1/files/%5c..%5csecret", "/v1//files", "//v1/files", "/v1/files//x", "/v1/files/"),
    *("/v1/files;a=b", "/v1/files;/../x", "/v1/files/..;/secret", "/v1/%66iles", "/v1/fi%6Ces"),
    *("/v1/files/%c0%ae%c0%ae/x", "/v1/files/%e0%80%ae/x", "/v1/files/%252e%252e/x", "/v1"),
    *("/v1/files/%00", "/v1/files/a%0d%0aX:y", "/v1/files%3f", "/v1/files/\xff", "/v1/", "/"),
    *("http://a/v1/files/../x", "http://other.example//v1/files", "*", "/V1/files", "/v1/chat"),
    *("/v2/files", "files", "/v1/responses/../files", "/v1%2ffiles", "/v1/files/a:80@b/%2e"),
)


async def ask(port: int, target: str) -> int:
    async with tcp(port) as client:
        head = f"POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        head += "Content-Length: 2\r\n\r\n{}"
        await client.write(head.encode("latin-1"))
        answer = Answer(lambda: client.read(1 << 16), None)
        with anyio.fail_after(HANG):
            await answer.head()
        return answer.status


@pytest.mark.parametrize("passthrough", [("files",), ("all",)])
async def test_no_spelling_reaches_the_backend(passthrough: tuple[str, ...]) -> None:
    async with standing(passthrough=passthrough) as stand:
        for target in SPELLINGS:
            if target == "/v1/chat" and "all" in passthrough:
                continue
            assert await ask(stand.port, target) in (400, 404, 405), target
        assert stand.fake.exchanges == []


async def test_the_absolute_form_is_the_same_path_of_the_upstream() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(200, {})

    async with standing(script) as stand:
        for target in (
            "http://other.example/v1/embeddings",
            "http://127.0.0.1:1/v1/embeddings?a=http://x",
        ):
            assert await ask(stand.port, target) == 200
        paths = [one.path for one in stand.fake.exchanges]
        assert paths == ["/v1/embeddings", "/v1/embeddings?a=http://x"]
        assert {one.headers["host"] for one in stand.fake.exchanges} == {stand.fake.url[7:-3]}
