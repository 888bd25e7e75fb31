"""`multilane check` on backends that take one dialect only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.check.odd import Chatty, Good, checked, row, rows

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_chat_completions() -> None:
    backend = Chatty(owner="nobody", places=())
    report = await checked(backend)
    assert report.dialect == "chat"
    verdicts = rows(report)
    assert [name for name, how in verdicts.items() if how == "no"] == [
        "reasoning",
        "previous_response_id",
    ]
    assert row(report, "events").detail == "chunks of Chat Completions, converted"
    assert row(report, "previous_response_id").detail.startswith("there is none in Chat")
    assert row(report, "errors").detail == "422 and a detail for a wrong request"
    assert {verdicts[name] for name in ("tools", "tool outputs", "token limit")} == {"yes"}
    assert report.repairs.keys() == {"converted"}
    assert report.works
    [steered] = [body for body in backend.asked if "Stop." in str(body.get("messages"))]
    assert [message["role"] for message in steered["messages"]] == ["user", "assistant", "user"]


#: The keys of each item that a schema without extras allows.
_ALLOWED = {
    "message": {"type", "role", "content"},
    "function_call": {"type", "call_id", "name", "arguments"},
    "function_call_output": {"type", "call_id", "output"},
}


def closed_schema(item: dict[str, Any]) -> bool:
    """llama.cpp's own: nothing that it does not read."""
    return not item.keys() - _ALLOWED[item["type"]]


def typed_schema(item: dict[str, Any]) -> bool:
    """The official types: an assistant's message is whole."""
    parts = item["content"] if isinstance(item.get("content"), list) else []
    return item.get("role") != "assistant" or (
        item.keys() >= {"id", "status"} and all("annotations" in part for part in parts)
    )


@pytest.mark.parametrize(
    ("owner", "dialect", "fits"),
    [("nobody", "generic", typed_schema), ("llamacpp", "llamacpp", closed_schema)],
)
async def test_a_strict_backend_takes_what_is_replayed(
    owner: str, dialect: str, fits: Callable[[dict[str, Any]], bool]
) -> None:
    def strict(body: dict[str, Any]) -> tuple[int, Any] | None:
        if None in body.values():
            return 400, {"error": {"message": "a null"}}
        items = body["input"] if isinstance(body["input"], list) else []
        if all(item.get("type") in _ALLOWED and fits(item) for item in items):
            return None
        return 422, {"detail": [{"loc": ["body", "input"], "msg": f"no {items}"}]}

    report = await checked(Good(owner=owner, refuse=strict))
    assert report.dialect == dialect
    assert [name for name, how in rows(report).items() if how == "no"] == ["reasoning"]
    assert report.works
