"""What the gateway says over HTTP, to those it does not let in above all (B53, B65)."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.client import connect
from tests.support.events import reply
from tests.support.hang_guard import HANG
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "sk-right"
BEARER = {"Authorization": f"Bearer {KEY}"}


async def asked(
    stand: WireStand, method: str, path: str, body: bytes | None = None
) -> tuple[http.client.HTTPResponse, Any]:
    """One plain HTTP request; the answer and its JSON, None where there is no body."""

    def ask() -> tuple[http.client.HTTPResponse, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", stand.port, timeout=HANG)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            data = answer.read()
            return answer, json.loads(data) if data else None
        finally:
            connection.close()

    return await anyio.to_thread.run_sync(ask)


async def refusal(
    stand: WireStand,
    headers: Mapping[str, str] | None = None,
    path: str = "/responses",
    **options: Any,
) -> tuple[int, dict[str, Any], Mapping[str, str]]:
    """An upgrade that is refused: status, the error of the JSON body, headers."""
    with pytest.raises(InvalidStatus) as refused:
        async with connect(stand.url, path=path, headers=headers, **options):
            pass
    answer = refused.value.response
    assert answer.headers["Content-Type"] == "application/json"
    body = json.loads(answer.body or b"")
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"type", "code", "message", "param"}
    return answer.status_code, body["error"], answer.headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_without_an_upgrade_it_is_426(method: str) -> None:
    async with standing(api_keys=(KEY,)) as stand:
        answer, said = await asked(stand, method, "/v1/responses?a=b")
        assert answer.status == 426
        assert answer.headers["Upgrade"] == "websocket"
        assert answer.headers["Connection"].lower() == "upgrade"
        if method != "HEAD":
            assert said["error"]["code"] == "upgrade_required"
            assert said["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/responses", "GET, HEAD, POST"),
        ("DELETE", "/v1/responses", "GET, HEAD, POST"),
        ("POST", "/v1/responses/resp_1", "DELETE, GET, HEAD"),
        ("PATCH", "/v1/models", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
    ],
)
async def test_another_method_is_405(method: str, path: str, allowed: str) -> None:
    async with standing(api_keys=(KEY,)) as stand:
        answer, said = await asked(stand, method, path, b"x" * 300_000)
        assert (answer.status, said["error"]["code"]) == (405, "method_not_allowed")
        assert answer.headers["Allow"] == allowed
        assert said["error"]["type"] == "invalid_request_error"


async def test_everything_else_is_404_in_json() -> None:
    async with standing() as stand:
        for method, path in (
            ("GET", "/"),
            ("GET", "/v1"),
            ("POST", "/v1/files"),
            ("GET", "/v1/responses/resp_1/outputs"),
            ("GET", "/%00%ff"),
        ):
            answer, said = await asked(stand, method, path)
            assert (answer.status, said["error"]["code"]) == (404, "not_found"), path
            assert "/v1/responses" in said["error"]["message"]
        status, error, _ = await refusal(stand, path="/other")
        assert (status, error["code"]) == (404, "not_found")


async def test_health_counts_connections() -> None:
    async with standing() as stand:
        answer, said = await asked(stand, "GET", "/health")
        assert (answer.status, said["status"], said["connections"]) == (200, "ok", 0)
        assert (said["sockets"], said["refused"]) == (1, 0)
        assert said["store"] == {"state": "ok", "reasons": []}
        assert set(said["counters"].values()) == {0}
        assert "responses_not_stored" in said["counters"]
        async with connect(stand.url):
            _, said = await asked(stand, "GET", "/health")
            assert said["connections"] == 1
        answer, _ = await asked(stand, "HEAD", "/health")
        assert answer.status == 200


async def test_no_key_and_a_wrong_one() -> None:
    async with standing(lambda _: reply("ok"), api_keys=(KEY, "sk-other")) as stand:
        status, error, headers = await refusal(stand)
        assert (status, error["code"]) == (401, "missing_api_key")
        assert headers["WWW-Authenticate"] == "Bearer"
        for wrong in ("Bearer sk-wrong", f"Basic {KEY}", KEY, "Bearer ", f"Bearer {KEY}x"):
            status, error, _ = await refusal(stand, {"Authorization": wrong})
            assert status == 401, wrong
            assert KEY not in error["message"]
        status, _, _ = await refusal(stand, subprotocols=["openai-insecure-api-key.sk-wrong"])
        assert status == 401
        async with connect(stand.url, headers=BEARER) as client:
            await client.create("a")
            await client.ended("a")
        assert len(stand.fake.exchanges) == 1


async def test_a_browsers_key_is_never_echoed() -> None:
    async with standing(lambda _: reply("ok"), api_keys=(KEY,)) as stand:
        offer: Any = ["realtime", f"openai-insecure-api-key.{KEY}"]
        async with connect(stand.url, subprotocols=offer) as client:
            assert client.socket.subprotocol == "realtime"
            await client.create("a")
            await client.ended("a")
            assert KEY not in str(client.socket.response)
        async with connect(stand.url, subprotocols=offer[1:]) as client:
            assert client.socket.subprotocol is None


async def test_a_foreign_origin() -> None:
    async with standing(api_keys=(KEY,), allow_origin=("https://app.example",)) as stand:
        foreign = {"Origin": "https://evil.example", **BEARER}
        status, error, _ = await refusal(stand, foreign)
        assert (status, error["code"]) == (403, "origin_not_allowed")
        for origin in ("https://app.example", f"http://127.0.0.1:{stand.port}"):
            async with connect(stand.url, headers={"Origin": origin, **BEARER}):
                pass


async def test_one_connection_too_many() -> None:
    async with standing(max_connections=2) as stand, connect(stand.url):
        async with connect(stand.url):
            status, error, headers = await refusal(stand)
            assert (status, error["code"]) == (429, "too_many_connections")
            assert int(headers["Retry-After"]) > 0
        with anyio.fail_after(HANG):
            while (await asked(stand, "GET", "/health"))[1]["connections"] > 1:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        async with connect(stand.url):
            pass


async def test_the_upstream_sees_allowed_headers_only() -> None:
    sent = {
        "OpenAI-Beta": "responses_websockets=2026-02-06",
        "OpenAI-Organization": "org",
        "OpenAI-Project": "proj",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "Cookie": "s=1",
        "Via": "1.1 edge",
        "CF-Ray": "1",
        "X-Forwarded-For": "10.0.0.1",
        "X-Custom": "1",
        "Proxy-Authorization": "Basic eDp5",
        "Forwarded": "for=10.0.0.1",
        "Accept-Language": "de",
        "TE": "trailers",
        **BEARER,
    }
    allowed = {"openai-beta", "openai-organization", "openai-project", "traceparent", "user-agent"}
    ours = {"host", "content-type", "content-length", "accept", "authorization"}
    async with standing(lambda _: reply("ok"), api_keys=(KEY,), upstream_key="up") as stand:
        async with connect(stand.url, headers=sent) as client:
            await client.create("a")
            await client.ended("a")
        seen = stand.fake.exchanges[0].headers
        extra = seen.keys() - allowed - ours
        assert extra <= {"accept-encoding", "connection"}, extra
        assert allowed <= seen.keys()
        assert seen["authorization"] == "Bearer up"
        assert seen["openai-beta"] == sent["OpenAI-Beta"]


async def test_without_a_key_of_its_own_the_gateway_shows_none() -> None:
    async with standing(lambda _: reply("ok"), api_keys=(KEY,)) as stand:
        async with connect(stand.url, headers=BEARER) as client:
            await client.create("a")
            await client.ended("a")
        assert "authorization" not in stand.fake.exchanges[0].headers
    async with standing(
        lambda _: reply("ok"), api_keys=(KEY,), forward_authorization=True
    ) as stand:
        async with connect(stand.url, headers=BEARER) as client:
            await client.create("a")
            await client.ended("a")
        assert stand.fake.exchanges[0].headers["authorization"] == BEARER["Authorization"]
