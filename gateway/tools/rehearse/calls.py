"""A conversation -> the calls of tools that answer it, if there are any."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.tools.rehearse.refusals import RequestRefused
from gateway.tools.rehearse.schema_values import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.tools.rehearse.conversation import RehearsedConversation

#: A call that the message dictates: a tool and, up to the end of the line, what it is given.
_DICTATED = re.compile(r"^\s*call ([\w.-]+) with (.+)$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A call of a declared tool, `kind` function or custom; `namespace` if it is in one."""

    kind: str
    name: str
    pieces: tuple[str, ...]
    namespace: str | None = None


def planned_calls(
    request: dict[str, Any], conversation: RehearsedConversation, topic: str
) -> tuple[ScriptedCall, ...]:
    """Plan the calls that come next; none once all that was asked for are answered.

    Args:
        request: The checked request.
        conversation: The conversation so far.
        topic: The text for arguments that are strings.

    Raises:
        RequestRefused: The schema of a tool is invalid.
    """
    tools = [tool for tool in _listed(request) if tool.get("type") in ("function", "custom")]
    choice = request.get("tool_choice") or "auto"
    if choice == "none" or not tools:
        return ()
    dictated = _dictated(tools, conversation)
    if dictated or conversation.ends_with_output:
        return dictated
    named = choice.get("name") if isinstance(choice, dict) else None
    tool = _asked_for(tools, named, choice, conversation.last.lower())
    if tool is None:
        return ()
    parallel = request.get("parallel_tool_calls") is not False
    twice = parallel and "use the tool twice" in conversation.last.lower()
    return tuple(_call(tool, topic, nth) for nth in range(2 if twice else 1))


def _listed(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all tools, those in a namespace with its name."""
    for tool in request.get("tools") or []:
        if tool["type"] != "namespace":
            yield tool
            continue
        for inner in tool.get("tools") or ():
            if isinstance(inner, dict) and isinstance(inner.get("name"), str):
                yield {**inner, "namespace": tool["name"]}


def _dictated(
    tools: list[dict[str, Any]], conversation: RehearsedConversation
) -> tuple[ScriptedCall, ...]:
    """Return the first dictated call that has no output yet: they are made one after the other."""
    known = {tool["name"]: tool for tool in tools}
    lines = _DICTATED.findall(conversation.last)
    calls = [(known[name], given.strip()) for name, given in lines if name in known]
    due = calls[conversation.answered : conversation.answered + 1]
    return tuple(
        ScriptedCall(tool["type"], tool["name"], slices(given), tool.get("namespace"))
        for tool, given in due
    )


def _asked_for(
    tools: list[dict[str, Any]], named: str | None, choice: Any, asked: str
) -> dict[str, Any] | None:
    """Return the tool that the choice or the message asks for."""
    if named is not None or choice == "required" or "use the tool" in asked:
        return next((tool for tool in tools if named in (None, tool["name"])), None)
    said = set(re.findall(r"\w+", asked))
    return next((tool for tool in tools if _subject(tool["name"]) in said), None)


def _subject(name: str) -> str | None:
    """Return what a tool gets, as `weather` of `get_weather`, if it is a word that says enough."""
    found = re.fullmatch(r"get_([a-z]{5,})", name.lower())
    return found and found[1]


def _call(tool: dict[str, Any], topic: str, nth: int) -> ScriptedCall:
    if tool["type"] == "custom":
        written = f"rehearse {topic}" + " again" * nth
    else:
        schema = {"type": "object", **(tool.get("parameters") or {})}
        written = written_value(schema, topic, nth)
    return ScriptedCall(tool["type"], tool["name"], slices(written), tool.get("namespace"))


def written_value(schema: Any, topic: str, nth: int = 0) -> str:
    """Return a value of a schema as JSON.

    Args:
        schema: The JSON schema.
        topic: The text of its strings.
        nth: The number of the call, so that a second one differs from the first.

    Raises:
        RequestRefused: The schema is invalid.
    """
    try:
        return msgspec.json.encode(value(schema, topic, nth)).decode()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        code = "invalid_function_parameters"
        raise RequestRefused(f"Invalid schema: {error!r}.", param="tools", code=code) from error


def slices(text: str) -> tuple[str, ...]:
    """Cut a text into four pieces at most."""
    size = max(1, -(-len(text) // 4))
    return tuple(text[at : at + size] for at in range(0, len(text), size))
