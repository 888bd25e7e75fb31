"""The official SDK lists what can be asked for, in front of the rehearsal backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from openai import AsyncOpenAI, NotFoundError

from gateway.settings import Settings
from gateway.upstream.settings import UpstreamSettings
from tests.fakes.gateway import running
from tests.sdk.judging import MODEL

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
