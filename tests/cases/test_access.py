"""field-cases.md 9: who gets in, which headers go on, and what of others they see."""

from __future__ import annotations

import pytest
from websockets.exceptions import InvalidStatus

from gateway.config.settings import Settings
from tests.support.client import connect
from tests.support.gateway import running
from tests.support.gateway_stand import answer, not_found, stand
from tests.support.upstream import upstream


async def test_b65_the_socket_has_a_door_of_its_own() -> None:
    async with (
        upstream() as fake,
        running(
            Settings(upstream=fake.url, dialect="openai", api_keys="one,two", upstream_key="theirs")
        ) as url,
    ):
        for headers in ({}, {"Authorization": "Bearer three"}, {"Authorization": "one"}):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(url, headers=headers):
                    pass
            assert refused.value.response.status_code == 401
            assert b'"error"' in refused.value.response.body
        async with (
            connect(url, headers={"Authorization": "Bearer one"}) as one,
            connect(url, headers={"Authorization": "Bearer two"}) as two,
        ):
            await one.create("a")
            exchange = await fake.next()
            assert exchange.headers["authorization"] == "Bearer theirs"
            await answer(exchange)
            parent = (await one.ended("a"))["id"]
            await two.create("a", previous_response_id=parent)
            not_found(await two.error("a"), parent)
        assert len(fake.exchanges) == 1


async def test_b66_only_listed_headers_go_on() -> None:
    sent = {
        "OpenAI-Beta": "responses_websockets=2026-02-06",
        "OpenAI-Organization": "o",
        "OpenAI-Project": "p",
        "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "Cookie": "s=1",
        "Authorization": "Bearer client",
        "Proxy-Authorization": "Basic x",
        "cf-ray": "1",
        "via": "1.1 x",
        "x-forwarded-for": "9.9.9.9",
        "x-real-ip": "9.9.9.9",
    }
    async with stand(upstream_key="theirs") as on, connect(on.url, headers=sent) as client:
        await client.create()
        exchange = await on.fake.next()
        await answer(exchange)
        headers = exchange.headers
        assert headers["openai-beta"] == sent["OpenAI-Beta"]
        assert (headers["openai-organization"], headers["openai-project"]) == ("o", "p")
        assert headers["traceparent"] == sent["traceparent"]
        assert headers["authorization"] == "Bearer theirs"
        assert headers["host"] in on.fake.url
        unwanted = {"cookie", "proxy-authorization", "cf-ray", "via", "x-real-ip", "origin"}
        assert not unwanted & headers.keys()
        assert not [n for n in headers if n.startswith(("x-forwarded", "sec-websocket"))]
