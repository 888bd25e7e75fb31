"""One history at several upstreams: continued and forked from one to another (D23)."""

from __future__ import annotations

from tests.cases.test_upstreams import TWO
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    item_added,
    item_done,
    message,
    opened,
    reply,
)
from tests.support.gateway_stand import Stand, answer, said, user
from tests.support.several_upstreams import several
from tests.support.upstream import upstream


async def test_a_continuation_goes_from_one_to_another_with_the_whole_history() -> None:
    async with several(TWO) as of:
        _, first = await of["cloud"].turn("a", reply("one"), model="o3", input="1")
        exchange, second = await of["local"].turn(
            "a", reply("two"), model="fast", input="2", previous_response_id=first["id"]
        )
        assert said(exchange) == ["1", "one", "2"]
        exchange, fork = await of["cloud"].turn(
            "b", reply("three"), model="gpt-5", input="3", previous_response_id=second["id"]
        )
        assert said(exchange) == ["1", "one", "2", "two", "3"]
        assert fork["previous_response_id"] == second["id"]


def sealed_reply() -> list[bytes]:
    """A reply with reasoning that only its backend can read."""
    item = {"id": "rs1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    done = [item_added(item), item_done(item)]
    said = [*opened(index=1), delta("one", index=1), *closed("one", index=1)]
    return [created(), *done, *said, completed(output=[item, message("one")])]


REFUSAL = {"error": {"message": "could not be verified", "code": "invalid_encrypted_content"}}


async def test_what_only_another_can_read_is_left_out() -> None:
    async with several(TWO) as of:
        _, first = await of["cloud"].turn("a", sealed_reply(), model="o3", input="1")
        again = await of["cloud"].asked(
            "b", model="o3", input="2", previous_response_id=first["id"]
        )
        assert "gAAA" in again.raw.decode()  # its maker gets it back
        await answer(again)
        await of.client.ended("b")
        create = {"model": "fast", "input": "2", "previous_response_id": first["id"]}
        exchange = await of["local"].asked("a", **create)
        assert "gAAA" not in exchange.raw.decode()
        assert said(exchange) == ["1", "one", "2"]
        await answer(exchange)
        assert (await of.client.ended("a"))["status"] == "completed"
        assert of.asked() == {"cloud": 2, "local": 1}


async def test_a_client_brings_it_back_with_the_name_of_its_maker() -> None:
    async with several(TWO) as of:
        _, first = await of["cloud"].turn("a", sealed_reply(), model="o3", input="1", store=False)
        sealed = first["output"][0]
        assert sealed["encrypted_content"] == "gAAA"
        assert sealed["made_by"] == {"upstream": "cloud", "dialect": "openai"}
        history = [user("1"), *first["output"], user("2")]
        exchange = await of["cloud"].asked("a", model="o3", input=history)
        assert exchange.input[1] == {key: sealed[key] for key in sealed if key != "made_by"}
        await answer(exchange)
        await of.client.ended("a")
        exchange, _ = await of["local"].turn("a", None, model="fast", input=history)
        assert [item["type"] for item in exchange.input[1:-1]] == ["message"]
        assert b"made_by" not in exchange.raw


async def test_upstreams_at_one_address_can_read_each_other() -> None:
    async with upstream() as fake:
        tables = {
            "small": {"url": fake.url, "models": ["m"]},
            "large": {"url": fake.url, "models": ["n"]},
        }
        async with several(tables) as of:
            on = Stand(fake, of.client, of.url, of.errors)
            _, first = await on.turn("a", sealed_reply(), model="m", input="1")
            exchange, _ = await on.turn(
                "a", None, model="n", input="2", previous_response_id=first["id"]
            )
            assert b"gAAA" in exchange.raw
            assert b"made_by" not in exchange.raw


async def test_a_refusal_of_what_is_not_there_is_the_clients() -> None:
    async with several(TWO) as of:
        await (await of["local"].asked("a", model="fast")).reply(400, REFUSAL)
        assert (await of.client.error("a"))["error"]["code"] == "invalid_encrypted_content"
        assert of.asked() == {"cloud": 0, "local": 1}
    async with several({"only": {}}) as of:
        item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
        exchange = await of["only"].asked("a", input=[item, {"role": "user", "content": "x"}])
        await exchange.reply(400, REFUSAL)
        await of.client.error("a")
        assert of.asked() == {"only": 1}
