"""The official SDK lists what can be asked for, in front of the rehearsal backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from openai import AsyncOpenAI, AuthenticationError, NotFoundError

from gateway.config.settings import Settings
from gateway.config.upstream_settings import UpstreamSettings
from tests.support.gateway import running
from tests.support.judged_sdk import MODEL

if TYPE_CHECKING:
    from openai.types import Model


def shown(model: Model) -> tuple[str, str, str]:
    return model.id, model.object, model.owned_by


async def test_the_flags_upstream(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        assert [shown(model) async for model in client.models.list()] == [
            (MODEL, "model", "default")
        ]
        assert shown(await client.models.retrieve(MODEL)) == (MODEL, "model", "default")


async def test_several(rehearse_url: str) -> None:
    upstreams = (
        UpstreamSettings(name="one", url=rehearse_url, aliases={"a/b": MODEL}, models=("re*",)),
        UpstreamSettings(name="two", url=rehearse_url),
    )
    async with (
        running(Settings(upstreams=upstreams)) as url,
        AsyncOpenAI(base_url=url, api_key="none") as client,
    ):
        assert [shown(model) async for model in client.models.list()] == [
            ("a/b", "model", "one"),
            (MODEL, "model", "one"),
        ]
        assert shown(await client.models.retrieve("a/b")) == ("a/b", "model", "one")
        with pytest.raises(NotFoundError) as refused:
            await client.models.retrieve("none")
        assert refused.value.code == "model_not_found"
        async with client.responses.connect() as connection:
            await connection.response.create(model="a/b", input="hi", store=False)
            async for event in connection:
                if event.type == "response.completed":
                    assert event.response.model == "a/b"
                    break


async def test_a_model_that_nobody_takes(rehearse_url: str) -> None:
    upstreams = (UpstreamSettings(name="one", url=rehearse_url, models=("re*",)),)
    async with (
        running(Settings(upstreams=upstreams)) as url,
        AsyncOpenAI(base_url=url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="gone", input="hi", stream_id="a")
        refusal = await connection.recv()
        assert refusal.type == "error"
        assert (refusal.status, refusal.stream_id) == (404, "a")
        assert (refusal.error.code, refusal.error.param) == ("model_not_found", "model")
        assert "re*" in refusal.error.message
        await connection.response.create(model=MODEL, input="hi", stream_id="a", store=False)
        assert (await connection.recv()).type == "response.created"


async def test_a_key_that_is_none(rehearse_url: str) -> None:
    settings = Settings(upstream=rehearse_url, api_keys=("k" * 20,))
    async with running(settings) as url:
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            with pytest.raises(AuthenticationError) as refused:
                await client.models.list()
            assert refused.value.code == "invalid_api_key"
        async with AsyncOpenAI(base_url=url, api_key="k" * 20) as client:
            assert [shown(model) async for model in client.models.list()] == [
                (MODEL, "model", "default")
            ]
