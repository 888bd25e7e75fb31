"""Tools that clients name within the input, for backends that know them in a request only. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.codec import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What the JSON of every item that names some holds.
ADDITIONAL: Final = b'"additional_tools"'


def gathered(
    body: Mapping[str, Any], items: Sequence[bytes]
) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    """Return the request with the tools of its input among its own, and the input without them.

    Of two tools by one name the later one counts.
    """
    named: dict[object, Any] = {}
    kept: list[bytes] = []
    given = body.get("tools")
    tools = [*given] if isinstance(given, list) else []
    for data in items:
        item = decode(data) if ADDITIONAL in data else {}
        if item.get("type") == "additional_tools":
            more = item.get("tools")
            tools += more if isinstance(more, list) else []
        else:
            kept.append(data)
    for at, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        key = (tool.get("type"), name) if isinstance(name, str) else at
        named.pop(key, None)
        named[key] = tool
    return ({**body, "tools": [*named.values()]} if named else body), kept
