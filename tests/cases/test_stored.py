"""protocol.md 3: what `store: true` keeps, for every connection of its key."""

from __future__ import annotations

import json

import pytest
from openai import AsyncOpenAI, AuthenticationError, NotFoundError

from tests.support.client import connect
from tests.support.events import reply
from tests.support.gateway_stand import not_found, said, stand, user

ONE, TWO = "key-one", "key-two"


async def test_another_connection_continues_and_forks_what_is_stored() -> None:
    async with stand() as on:
        _, first = await on.turn("a", reply("1"), input="one", store=True)
        _, kept = await on.turn(
            "a", reply("2"), input="two", store=True, previous_response_id=first["id"]
        )
        async with connect(on.url) as other:
            for lane, parent, heard in (
                ("b", kept["id"], ["one", "1", "two", "2", "x"]),
                ("c", first["id"], ["one", "1", "x"]),
            ):
                await other.create(lane, input=[user("x")], previous_response_id=parent)
                exchange = await on.fake.next()
                assert said(exchange) == heard
                await exchange.send(*reply("ok"))
                await exchange.end()
                await other.ended(lane)


async def test_what_is_not_stored_stays_on_its_connection() -> None:
    async with stand() as on:
        _, first = await on.turn("a", reply("1"), input="one", store=False)
        async with connect(on.url) as other:
            await other.create("a", previous_response_id=first["id"])
            not_found(await other.event(), first["id"])


async def test_it_is_read_and_deleted_by_the_official_client_with_its_key_only() -> None:
    async with (
        stand(api_keys=(ONE, TWO), key=ONE) as on,
        AsyncOpenAI(base_url=on.url, api_key=ONE, max_retries=0) as owner,
        AsyncOpenAI(base_url=on.url, api_key=TWO, max_retries=0) as other,
        AsyncOpenAI(base_url=on.url, api_key="none", max_retries=0) as stranger,
    ):
        _, kept = await on.turn("a", reply("1"), input="one", store=True)
        with pytest.raises(AuthenticationError):
            await stranger.responses.retrieve(kept["id"])
        for name in (kept["id"], f"resp_{'0' * 32}"):
            with pytest.raises(NotFoundError, match=f"There is no response with id '{name}'"):
                await other.responses.retrieve(name)
        with pytest.raises(NotFoundError):
            await other.responses.delete(kept["id"])
        found = await owner.responses.retrieve(kept["id"])
        assert found.to_dict() == kept
        await owner.responses.delete(kept["id"])
        with pytest.raises(NotFoundError):
            await owner.responses.retrieve(kept["id"])


@pytest.mark.parametrize("store", [True, False])
async def test_a_chain_has_its_limit(store: bool) -> None:
    async with stand(max_chain=4) as on:
        _, first = await on.turn("a", reply("1"), input="one", store=store)
        turn = {"input": "x", "store": store}
        _, second = await on.turn("a", reply("2"), previous_response_id=first["id"], **turn)
        error = await on.refused("a", previous_response_id=second["id"], **turn)
        assert (error["status"], error["error"]["code"]) == (400, "chain_too_long")
        assert "at most 4" in error["error"]["message"]
        assert json.dumps(error).count(second["id"]) == 1
        _, again = await on.turn("a", reply("2"), previous_response_id=first["id"], **turn)
        assert again["status"] == "completed"
