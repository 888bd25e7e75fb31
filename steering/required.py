"""Stubs of the outputs that a response needs and only the client can give (protocol.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

#: A tool by its namespace, if it has one, and its name.
ToolName = tuple[object, object]

#: The type of a client-owned call -> the type of its output.
_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
}


def is_owned(item: Mapping[str, Any]) -> bool:
    """Return whether a finished item is a call that the client must answer."""
    return stub(item) is not None


def stub(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the stub that one output item needs; None for an item that needs none or was cut."""
    kind = item.get("type")
    if item.get("status") == "incomplete":
        return None
    if kind == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": item.get("id")}
    output = _OUTPUTS.get(kind) if isinstance(kind, str) else None
    if output is None or (kind == "tool_search_call" and item.get("execution") != "client"):
        return None
    needed = {"type": output, "call_id": item.get("call_id")}
    if kind == "function_call":
        needed["name"] = item.get("name")
    elif kind == "tool_search_call":
        needed["execution"] = "client"
    return needed


def asynchronous_tools(tools: object, namespace: object = None) -> frozenset[ToolName]:
    """Return the tools of a request whose outputs need not come with the next create.

    `namespace` is the name of the one that they are in.
    """
    found: set[ToolName] = set()
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
            continue
        if tool.get("type") == "namespace" and namespace is None:
            found |= asynchronous_tools(tool.get("tools"), name)
        elif tool.get("async") is True:
            found.add((namespace, name))
    return frozenset(found)


def required_input(
    output: Iterable[Mapping[str, Any]], asynchronous: Collection[ToolName] = ()
) -> list[dict[str, Any]]:
    """Return the stubs for an output, in order.

    It lacks calls that the output answers itself, and calls of `asynchronous` tools, whose outputs
    may come at any later time.
    """
    items = [item for item in output if not _runs_on(item, asynchronous)]
    outputs = [item for item in items if str(item.get("type")).endswith("_output")]
    answered = [item["call_id"] for item in outputs if item.get("call_id")]
    stubs = [needed for item in items if (needed := stub(item)) is not None]
    return [needed for needed in stubs if needed.get("call_id") not in answered]


def _runs_on(item: Mapping[str, Any], asynchronous: Collection[ToolName]) -> bool:
    """Return whether the item is a call whose output need not come with the next create."""
    if not str(item.get("type")).endswith("_call"):
        return False
    asynchronously = item.get("async")
    name = item.get("namespace"), item.get("name")
    return asynchronously is True or (asynchronously is None and name in asynchronous)
