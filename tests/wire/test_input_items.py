"""`GET /v1/responses/{id}/input_items`: what a response was made from, by pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import ResponseItemList

from tests.support.events import reply
from tests.support.http_client import posted, requested
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
OWN: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "two"}, IMAGE]},
    {"type": "message", "id": "msg_mine", "role": "developer", "content": "three"},
]


def greeting() -> AbstractAsyncContextManager[WireStand]:
    return standing(lambda _: reply("hello"))


async def create(stand: WireStand, **fields: Any) -> dict[str, Any]:
    async with posted(stand.url, {"store": True, **fields}) as answer:
        response: dict[str, Any] = await answer.json()
        assert answer.status == 200, response
        return response


async def pages(stand: WireStand, name: str, query: str = "") -> tuple[int, dict[str, Any]]:
    path = f"/responses/{name}/input_items?{query}"
    async with requested(stand.url, "GET", path) as answer:
        page = await answer.json()
        if answer.status == 200:
            ResponseItemList.model_validate(page)
        return answer.status, page


def said(item: dict[str, Any]) -> tuple[str, str]:
    return item["role"], item["content"][0]["text"]


async def test_a_chain_from_its_beginning() -> None:
    async with greeting() as stand:
        first = await create(stand, input="one")
        second = await create(stand, input=OWN, previous_response_id=first["id"])
        _, page = await pages(stand, second["id"], "order=asc")
        one, answer, two, three = page["data"]
        assert [said(item) for item in page["data"]] == [
            ("user", "one"),
            ("assistant", "hello"),
            ("user", "two"),
            ("developer", "three"),
        ]
        assert (answer["id"], three["id"]) == (first["output"][0]["id"], "msg_mine")
        assert two["content"][1]["image_url"] == IMAGE["image_url"]
        assert (page["first_id"], page["last_id"]) == (one["id"], three["id"])
        assert page["has_more"] is False
        # The latest come first unless asked otherwise, and ids stay.
        assert (await pages(stand, second["id"]))[1]["data"] == page["data"][::-1]
        assert (await pages(stand, first["id"]))[1]["data"] == [one]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_page_by_page(order: str) -> None:
    async with greeting() as stand:
        items = [{"role": "user", "content": str(number)} for number in range(7)]
        name = (await create(stand, input=items))["id"]
        seen, after, more = [], "", True
        while more:
            _, page = await pages(stand, name, f"limit=3&order={order}{after}")
            seen += [said(item)[1] for item in page["data"]]
            after, more = f"&after={page['last_id']}", page["has_more"]
        assert seen == sorted("0123456", reverse=order == "desc")


@pytest.mark.parametrize(
    ("query", "status", "param"),
    [
        ("limit=0", 400, "limit"),
        ("limit=101", 400, "limit"),
        ("order=up", 400, "order"),
        ("include[]=all", 400, "include"),
        ("after=msg_none", 404, "after"),
    ],
)
async def test_a_query_that_is_none(query: str, status: int, param: str) -> None:
    async with greeting() as stand:
        name = (await create(stand))["id"]
        got, error = await pages(stand, name, query)
        assert (got, error["error"]["param"]) == (status, param)


async def test_what_is_not_there() -> None:
    async with greeting() as stand:
        assert (await pages(stand, "resp_none"))[0] == 404
        name = (await create(stand, store=False))["id"]
        assert (await pages(stand, name))[0] == 404
