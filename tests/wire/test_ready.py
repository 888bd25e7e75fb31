"""/health says that the process lives, /ready whether to send it work; details need a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.asked_gateway import LOADING, UNKNOWN_ID, auto, models
from tests.support.client import connect
from tests.support.hang_guard import HANG
from tests.support.http_client import requested
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "sk-ready"


async def asked(
    url: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    async with requested(url.removesuffix("/v1"), "GET", path, headers=headers) as answer:
        return answer.status, await answer.json()


async def until(url: str, path: str, status: int) -> dict[str, Any]:
    with anyio.fail_after(HANG):
        while (got := await asked(url, path))[0] != status:  # noqa: ASYNC110
            await anyio.sleep(0.02)
    return got[1]


async def test_a_gateway_that_is_ready() -> None:
    async with standing() as on:
        wanted = {"draining": "no", "store": "ok", "upstreams": "ok"}
        assert await asked(on.url, "/ready") == (200, {"status": "ready", "checks": wanted})


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_details_are_for_those_with_a_key(path: str) -> None:
    async with standing(api_keys=(KEY,)) as on:
        for headers in (None, {"Authorization": "Bearer sk-other"}):
            status, body = await asked(on.url, path, headers)
            assert (status, list(body)) == (200, ["status"])
        _, body = await asked(on.url, path, {"Authorization": f"Bearer {KEY}"})
        assert len(body) > 1


async def test_a_gateway_that_drains_lives_and_is_not_ready() -> None:
    async with standing() as on, connect(on.url) as client:
        lane = await on.lane(client)
        on.server.should_exit = True
        body = await until(on.url, "/ready", 503)
        assert body["checks"]["draining"] == "yes"
        status, body = await asked(on.url, "/health")
        assert (status, body["status"]) == (200, "draining")
        assert (await asked(on.url, "/ready?exclude=draining"))[0] == 200
        await lane.ends()


async def test_a_store_that_is_away() -> None:
    async with standing(redis_url="redis://127.0.0.1:1/0") as on:
        body = await until(on.url, "/ready", 503)
        assert body["checks"]["store"].startswith("away: ")
        assert (await asked(on.url, "/ready?exclude=store"))[0] == 200
        assert (await asked(on.url, "/health"))[0] == 200


async def test_an_upstream_is_asked_again_until_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No client comes before the gateway is ready, so nobody else would ask."""
    answers = {"/models": models("vllm"), "/responses": UNKNOWN_ID}
    away = {"/models": [LOADING], "/responses": [LOADING]}
    async with auto(caplog, answers, first=away) as on:
        assert (await asked(on.url, "/health"))[0] == 200
        body = await until(on.url, "/ready", 200)
        assert body["checks"]["upstreams"] == "ok"
        assert on.asked().count("/models") > 1


async def test_upstreams_of_which_nothing_is_known(caplog: pytest.LogCaptureFixture) -> None:
    async with auto(caplog, {}, silent=("/models", "/responses")) as on:
        body = await until(on.url, "/ready", 503)
        assert body["checks"]["upstreams"] == "it is not known how they speak: default"
        assert (await asked(on.url, "/ready?exclude=upstreams"))[0] == 200


async def test_a_check_that_there_is_not() -> None:
    async with standing() as on:
        status, body = await asked(on.url, "/ready?exclude=stor")
        assert (status, body["error"]["param"]) == (400, "exclude")
        assert "draining, store, upstreams" in body["error"]["message"]
