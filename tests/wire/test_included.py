"""`include` on `GET /v1/responses/{id}`: encrypted reasoning that the create did not ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import completed, created, item_added, item_done, message
from tests.support.http_client import posted, requested
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

ENCRYPTED = "include[]=reasoning.encrypted_content"
FORMS = pytest.mark.parametrize("query", ["include[]", "include", "include[0]"])


def reasoning(sealed: Any, text: str = "") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": "rs1", "type": "reasoning", "summary": summary, "encrypted_content": sealed}


def thinking(
    sealed: Any, text: str = "", **settings: Any
) -> AbstractAsyncContextManager[WireStand]:
    """A gateway before a backend that thinks before it speaks."""
    thought, said = reasoning(sealed, text), message("m")
    events = [
        created(),
        item_added(reasoning("early")),
        item_done(thought),
        item_added(said, 1),
        item_done(said, 1),
        completed(output=[thought, said]),
    ]
    return standing(lambda _: events, **settings)


async def create(stand: WireStand, **fields: Any) -> dict[str, Any]:
    async with posted(stand.url, {"store": True, **fields}) as answer:
        response: dict[str, Any] = await answer.json()
        assert answer.status == 200, response
        return response


async def found(stand: WireStand, name: str, query: str) -> dict[str, Any]:
    """The response, which is the same as an object and as the end of its events."""
    async with requested(stand.url, "GET", f"/responses/{name}?{query}") as answer:
        assert answer.status == 200
        response: dict[str, Any] = await answer.json()
    path = f"/responses/{name}?stream=true&{query}"
    async with requested(stand.url, "GET", path) as answer:
        assert (await answer.events())[-1]["response"] == response
    return response


@FORMS
async def test_it_is_added(query: str) -> None:
    async with thinking("gAAA") as stand:
        made = await create(stand)
        assert "encrypted_content" not in made["output"][0]
        assert await found(stand, made["id"], "") == made
        asked = f"{query}=reasoning.encrypted_content"
        shown = await found(stand, made["id"], asked)
        assert shown["output"][0].pop("encrypted_content") == "gAAA"
        assert shown == made
        # What is beside it adds nothing: what else there is, was sent.
        other = await found(stand, made["id"], f"{query}=message.output_text.logprobs")
        assert other == made


async def test_what_the_create_asked_for_stays() -> None:
    async with thinking("gAAA") as stand:
        made = await create(stand, include=["reasoning.encrypted_content"])
        assert made["output"][0]["encrypted_content"] == "gAAA"
        for query in ("", ENCRYPTED):
            assert await found(stand, made["id"], query) == made


@pytest.mark.parametrize(
    ("sealed", "text"), [(None, ""), ("", ""), ("so I think", "so I think"), (7, "")]
)
async def test_what_is_not_encrypted_is_not_shown(sealed: Any, text: str) -> None:
    async with thinking(sealed, text, dialect="ollama") as stand:
        made = await create(stand)
        assert await found(stand, made["id"], ENCRYPTED) == made


async def test_of_a_response_in_the_background() -> None:
    async with thinking("gAAA") as stand:
        async with posted(stand.url, {"background": True, "store": True, "stream": True}) as answer:
            made = (await answer.events())[-1]["response"]
        path = f"/responses/{made['id']}?{ENCRYPTED}"
        async with requested(stand.url, "GET", path) as answer:
            assert (await answer.json())["output"][0]["encrypted_content"] == "gAAA"


@pytest.mark.parametrize("value", ["all", "", "reasoning"])
async def test_a_name_that_is_none(value: str) -> None:
    async with thinking("gAAA") as stand:
        made = await create(stand)
        path = f"/responses/{made['id']}?include[]={value}"
        async with requested(stand.url, "GET", path) as answer:
            assert (answer.status, (await answer.json())["error"]["param"]) == (400, "include")
