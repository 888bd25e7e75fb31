"""`POST /v1/client_secrets`, and what a page can do with the answer (protocol.md 7)."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.client import connect
from tests.support.events import reply
from tests.support.http_client import posted, requested
from tests.support.wire_stand import shape, standing
from tests.wire.test_keys import bearer, keyed, named, turned_out
from tests.wire.test_secrets_in_logs import written as logged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.client import Client
    from tests.support.exchange import Exchange

APP = "https://app.example"
PAGE = {"Origin": APP}


async def answer(exchange: Exchange) -> None:
    await exchange.send(*reply("ok"))
    await exchange.end()


async def made(url: str, secret: str, body: object, **headers: str) -> tuple[int, Any]:
    """The answer to who asks for a client secret: its status and its JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {**bearer(secret), "content-type": "application/json", **headers}
    async with requested(url, "POST", "/client_secrets", data, lines) as got:
        body = await got.json()
        if got.status == 200:
            assert got.headers["cache-control"] == "no-store"
        return got.status, body


async def value(url: str, secret: str = "sk-a", **body: Any) -> str:
    status, given = await made(url, secret, body)
    assert status == 200, given
    return str(given["value"])


@asynccontextmanager
async def page(
    url: str, secret: str, origin: str | None = APP, *protocols: str
) -> AsyncIterator[Client]:
    """A page's socket, as a browser opens it: it sets no header but its subprotocols."""
    offered: Any = ["realtime", f"openai-insecure-api-key.{secret}", *protocols]
    headers = {} if origin is None else {"Origin": origin}
    async with connect(url, headers=headers, subprotocols=offered) as client:
        assert client.socket.subprotocol == "realtime"
        assert secret not in str(client.socket.response)
        yield client


async def refused(url: str, secret: str, origin: str | None = APP) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as raised:
        async with page(url, secret, origin):
            pass
    response = raised.value.response
    assert secret not in str(response.body)
    return response.status_code, json.loads(response.body)["error"]["code"]


async def test_a_page_talks_with_it_and_reads_what_belongs_to_its_tenant(tmp_path: Path) -> None:
    settings: Any = {"allow_origin": (APP,), "script": answer}
    async with keyed(tmp_path, named("acme", "sk-a"), **settings) as own:
        url = own.stand.url
        status, given = await made(
            url, "sk-a", {"expires_after": {"anchor": "created_at", "seconds": 7200}, "origin": APP}
        )
        assert (status, given["object"], given["models"]) == (200, "client_secret", None)
        assert given["origin"] == APP
        secret = given["value"]
        async with page(url, secret) as client:
            await client.create("a", store=True)
            stored = await client.ended("a")
        headers = {**bearer(secret), **PAGE}
        async with posted(url, {"previous_response_id": stored["id"]}, headers) as got:
            assert (await got.json())["status"] == "completed"
            assert got.headers["access-control-allow-origin"] == APP
        for shown in (headers, bearer("sk-a")):
            async with requested(url, "GET", f"/responses/{stored['id']}", None, shown) as got:
                assert got.status == 200
        async with requested(url.removesuffix("/v1"), "GET", "/health", None, headers) as got:
            assert await got.json() == {"status": "ok"}
        # It makes no others, and nobody without a key makes any.
        status, error = await made(url, secret, {}, Origin=APP)
        assert (status, error["error"]["code"]) == (403, "api_key_required")
        assert (await made(url, "", {}))[0] == 401


@pytest.mark.parametrize("key", ["sk-a", "sk-old"])
async def test_it_is_bound_to_its_origin(tmp_path: Path, key: str) -> None:
    settings: Any = {"allow_origin": (APP, "https://other.example"), "api_keys": ["sk-old"]}
    async with keyed(tmp_path, named("acme", "sk-a"), **settings) as own:
        url = own.stand.url
        bound, free = await value(url, key, origin=f"{APP.upper()}:443/"), await value(url, key)
        async with page(url, bound, APP), page(url, free, None):
            pass
        for origin in ("https://other.example", None, "null"):
            status = await refused(url, bound, origin)
            assert status == (403, "origin_not_allowed")
        # It opens no gateway to pages whose origin the operator does not admit.
        for origin in ("https://evil.example", APP):
            secret = await value(url, key, origin="https://evil.example")
            assert await refused(url, secret, origin) == (403, "origin_not_allowed")
        headers = {**bearer(bound), "Origin": "https://other.example"}
        async with requested(url, "GET", "/models", None, headers) as got:
            assert got.status == 403


async def test_it_is_bound_to_its_models(tmp_path: Path) -> None:
    acme = named("acme", "sk-a", models=("small", "large"))
    async with keyed(tmp_path, acme, script=answer) as own:
        secret = await value(own.stand.url, models=["small", "small"])
        async with page(own.stand.url, secret, None) as client:
            await client.create("a", model="large")
            assert shape(await client.error("a")) == ("model_not_allowed", 403, "model", "a")
            await client.create("a", model="small")
            assert (await client.ended("a"))["status"] == "completed"
        async with posted(own.stand.url, {"model": "large"}, bearer(secret)) as got:
            assert got.status == 403


async def test_what_it_opened_ends_with_its_time_or_its_makers_key(tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a"), named("b", "sk-b")) as own:
        url, ring = own.stand.url, own.stand.server.gateway._authenticator.ring
        one = await value(url, "sk-a")
        brief = await value(url, "sk-b", expires_after={"seconds": 10})
        async with page(url, one, None) as by_one, page(url, brief, None) as by_brief:
            lane = await own.stand.lane(by_one, "a")
            own.write(named("b", "sk-b"))
            own.reload()
            assert (await by_one.ended("a"))["status"] == "failed"
            await turned_out(by_one, "api_key_revoked")
            assert lane.exchange is not None
            now = ring._clock()
            ring._clock = lambda: now + 11
            own.stand.server.gateway._sockets._admission._secrets._clock = ring._clock
            await turned_out(by_brief, "client_secret_expired")
            assert await refused(url, one, None) == (401, "api_key_revoked")
            assert await refused(url, brief, None) == (401, "client_secret_expired")
            assert await refused(url, brief[:-1], None) == (401, "invalid_client_secret")


async def test_secrets_of_keys_without_names_end_in_their_time() -> None:
    async with standing(api_keys=["sk-old"]) as stand:
        ring = stand.server.gateway._authenticator.ring
        secret = await value(stand.url, "sk-old")
        async with page(stand.url, secret, None) as client:
            now = ring._clock()
            ring._clock = lambda: now + 601
            await turned_out(client, "client_secret_expired")


@pytest.mark.parametrize("key", ["sk-a", "sk-old"])
async def test_each_wrong_field_is_named(tmp_path: Path, key: str) -> None:
    acme = named("acme", "sk-a", models=("m*",))
    async with keyed(tmp_path, acme, api_keys=["sk-old"]) as own:
        rows: list[tuple[Any, str, str | None]] = [
            (b"", "invalid_json", None),
            (b"[]", "invalid_request_error", None),
            ({"orgin": APP}, "unknown_parameter", "orgin"),
            ({"session": {}}, "unknown_parameter", "session"),
            ({"expires_after": 60}, "invalid_type", "expires_after"),
            ({"expires_after": {"anchr": 1}}, "unknown_parameter", "expires_after.anchr"),
            ({"expires_after": {"anchor": "now"}}, "invalid_value", "expires_after.anchor"),
            *(
                ({"expires_after": {"seconds": wrong}}, code, "expires_after.seconds")
                for wrong, code in (
                    *((one, "invalid_type") for one in ("60", 60.0, True, None)),
                    *((one, "invalid_value") for one in (0, -1, 9, 7201, 10**20)),
                )
            ),
            ({"models": "m"}, "invalid_type", "models"),
            ({"models": []}, "invalid_value", "models"),
            ({"models": ["m"] * 33}, "invalid_value", "models"),
            ({"models": ["m", 1]}, "invalid_type", "models[1]"),
            ({"models": ["m", ""]}, "invalid_value", "models[1]"),
            ({"models": ["m*"]}, "invalid_value", "models[0]"),
            ({"models": ["m" * 257]}, "invalid_value", "models[0]"),
            ({"models": [f"m{at}" + "é" * 250 for at in range(32)]}, "invalid_value", "models"),
            ({"origin": 1}, "invalid_type", "origin"),
            *(
                ({"origin": wrong}, "invalid_value", "origin")
                for wrong in (
                    *("", "*", "null", "app.example", f"{APP}/path", f"{APP}?q", f"{APP}#f"),
                    *(
                        "https://bücher.example",
                        "https://*.app.example",
                        f"{APP}:0",
                        f"{APP}:70000",
                    ),
                    *("https://:443", "https://[::1", f"{APP}//"),
                    *("https://u@app.example", "https://", f"{APP}\n", "https://" + "a" * 300),
                )
            ),
        ]
        for body, code, param in rows:
            status, got = await made(own.stand.url, key, body)
            error = got["error"]
            assert (status, error["code"], error["param"]) == (400, code, param), body
        if key == "sk-a":
            status, got = await made(own.stand.url, key, {"models": ["m", "x"]})
            error = got["error"]
            assert (status, error["code"], error["param"]) == (
                403,
                "model_not_allowed",
                "models[1]",
            )


async def test_a_model_that_no_upstream_takes_is_unknown() -> None:
    upstreams: Any = [
        {"name": name, "url": "http://127.0.0.1:9/v1", "dialect": "openai", "models": [name]}
        for name in ("one", "two")
    ]
    async with standing(api_keys=["sk-old"], upstream=None, upstreams=upstreams) as stand:
        assert (await made(stand.url, "sk-old", {"models": ["one", "two"]}))[0] == 200
        status, got = await made(stand.url, "sk-old", {"models": ["one", "three"]})
        assert (status, got["error"]["code"]) == (400, "model_not_found")
        assert got["error"]["param"] == "models[1]"


async def test_gateways_that_have_no_use_for_them() -> None:
    for settings, key, code in (
        ({}, "sk-any", "keys_required"),
        (
            {"api_keys": ["sk-old"], "forward_authorization": True},
            "sk-old",
            "client_secrets_not_supported",
        ),
    ):
        async with standing(**settings) as stand:  # type: ignore[arg-type]
            status, got = await made(stand.url, key, {})
            assert (status, got["error"]["code"]) == (400, code)


async def test_what_is_passed_on_for_pages_keeps_nothing_at_the_backend() -> None:
    async def other(exchange: Exchange) -> None:
        await exchange.reply(200, {"data": []})

    async with standing(other, api_keys=["sk-old"], passthrough=("all",)) as stand:
        secret = await value(stand.url, "sk-old")
        for shown, path, status in (
            (secret, "/files", 403),
            (secret, "/chat/completions/x", 403),
            (secret, "/embeddings", 200),
            ("sk-old", "/files", 200),
        ):
            headers = {**bearer(shown), "content-type": "application/json"}
            async with requested(stand.url, "POST", path, b"{}", headers) as got:
                assert got.status == status
                if status == 403:
                    assert (await got.json())["error"]["code"] == "api_key_required"


async def test_other_methods_and_pages_without_admission() -> None:
    async with standing(api_keys=["sk-old"], passthrough=("all",)) as stand:
        for method in ("GET", "DELETE", "PUT"):
            headers = bearer("sk-old")
            async with requested(stand.url, method, "/client_secrets", None, headers) as got:
                assert (got.status, got.headers["allow"]) == (405, "POST")
        async with requested(stand.url, "GET", "/client_secrets/x", None, headers) as got:
            assert got.status == 404
        status, got_json = await made(stand.url, "sk-old", {}, Origin="https://evil.example")
        assert (status, got_json["error"]["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("format", ["json", "text"])
async def test_it_is_in_no_line_of_the_log(format: str) -> None:
    with logged(format) as log:
        async with standing(answer, api_keys=["sk-old"], access_log="info") as stand:
            secret = await value(stand.url, "sk-old")
            async with page(stand.url, secret, None) as client:
                await client.create("a")
                await client.ended("a")
            await refused(stand.url, secret + "A", None)
            headers = bearer(secret)
            async with requested(stand.url, "GET", "/models", None, headers) as got:
                assert got.status in (200, 502)
        lines = log.getvalue()
    assert "/client-secret" in lines
    assert "invalid_client_secret" in lines
    assert secret[:30] not in lines
    assert secret[30:] not in lines
