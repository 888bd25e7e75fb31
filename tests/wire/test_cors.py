"""Pages of an allowed origin may use every HTTP route; those of others may use none."""

from __future__ import annotations

import pytest

from tests.support.client import connect
from tests.support.events import reply
from tests.support.http_client import posted, requested
from tests.support.wire_stand import standing

KEY = "sk-right"
ORIGIN = "https://app.example"
PATHS = [
    "/responses",
    "/responses/resp_1",
    "/responses/resp_1/steers",
    "/steers/steer_1",
    "/models",
    "/models/m",
    "/nowhere",
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_preflight(path: str) -> None:
    asks = {
        "origin": ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-stainless-os",
    }
    async with standing(api_keys=(KEY,), allow_origin=(ORIGIN,)) as stand:
        async with requested(stand.url, "OPTIONS", path, headers=asks) as answer:
            assert answer.status == 204
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert answer.headers["vary"] == "Origin"
            allowed = answer.headers["access-control-allow-methods"].split(", ")
            assert {"GET", "POST", "DELETE"} <= set(allowed)
            names = answer.headers["access-control-allow-headers"].split(",")
            assert {"authorization", "x-stainless-os"} <= set(names)
            assert "access-control-allow-credentials" not in answer.headers
        foreign = asks | {"origin": "https://evil.example"}
        async with requested(stand.url, "OPTIONS", path, headers=foreign) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "origin_not_allowed"
            assert "access-control-allow-origin" not in answer.headers


async def test_a_preflight_repeats_only_names_of_headers() -> None:
    asks = {
        "origin": ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "a;b",
    }
    async with (
        standing(allow_origin=("*",)) as stand,
        requested(stand.url, "OPTIONS", "/models", headers=asks) as answer,
    ):
        assert answer.status == 204
        assert "access-control-allow-headers" not in answer.headers


async def test_every_answer_is_readable_errors_too() -> None:
    page = {"origin": ORIGIN}
    keyed = page | {"authorization": f"Bearer {KEY}"}
    async with standing(lambda _: reply("ok"), api_keys=(KEY,), allow_origin=(ORIGIN,)) as stand:
        for body in ({"stream": True}, {"stream": False}, {"input": 7}):
            async with posted(stand.url, body, keyed) as answer:
                assert answer.status == (400 if "input" in body else 200)
                assert answer.headers["access-control-allow-origin"] == ORIGIN
                assert answer.headers["access-control-expose-headers"] == "*"
                await answer.body()
        for path in PATHS:
            async with requested(stand.url, "GET", path, headers=page) as answer:
                assert answer.status == {"/responses": 426, "/nowhere": 404}.get(path, 401)
                assert answer.headers["access-control-allow-origin"] == ORIGIN
            async with requested(stand.url, "TRACE", path, headers=keyed) as answer:
                assert answer.headers["access-control-allow-origin"] == ORIGIN


async def test_a_foreign_page_gets_nothing() -> None:
    foreign = {"origin": "https://evil.example", "authorization": f"Bearer {KEY}"}
    async with standing(api_keys=(KEY,), allow_origin=(ORIGIN,)) as stand:
        async with posted(stand.url, {}, foreign) as answer:
            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.headers
        assert stand.fake.exchanges == []


async def test_without_an_origin_nothing_is_added() -> None:
    async with standing(allow_origin=("*",)) as stand:
        async with requested(stand.url, "GET", "/models") as answer:
            assert "access-control-allow-origin" not in answer.headers
        async with connect(stand.url):
            pass
