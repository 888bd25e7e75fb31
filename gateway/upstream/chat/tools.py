"""The tools of a request and the choice among them in the form of Chat Completions. Pure.

A custom tool becomes a function with one argument, `input`: few servers know Chat's custom tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.content import present
from gateway.upstream.chat.omissions import left_out
from gateway.upstream.chat.tool_names import ToolNames

if TYPE_CHECKING:
    from collections.abc import Mapping

Tool = dict[str, Any]


def tool_names(body: Mapping[str, Any]) -> ToolNames:
    """Return the names of a request's tools; one that a function has, too, is not custom."""
    tools = _objects(body.get("tools"))
    names = {kind: {_name(tool) for tool in tools if tool.get("type") == kind} for kind in _FORMS}
    functions, custom = (frozenset(filter(None, names[kind])) for kind in ("function", "custom"))
    return ToolNames(functions | custom, custom - functions)


def tool_keys(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return `tools`, and the keys that are allowed only beside them."""
    choice, allowed = _choice(body.get("tool_choice"))
    tools, unknown = [], set()
    for tool in _objects(body.get("tools")):
        form = _FORMS.get(str(tool.get("type")))
        if form is None:
            unknown.add(str(tool.get("type")))
        elif allowed is None or _name(tool) in allowed:
            tools.append(form(tool))
    if unknown:
        left_out("tool", ", ".join(sorted(unknown)))
    if not tools:
        if choice not in (None, "auto", "none"):
            left_out("choice without tools,", choice)
        return {}
    rest = {"tool_choice": choice, "parallel_tool_calls": body.get("parallel_tool_calls")}
    return {"tools": tools, **present(rest)}


def _choice(choice: object) -> tuple[object, set[Any] | None]:
    """Return the choice in Chat's form, and the names of the tools that it allows (None: all).

    Few servers know Chat's own `allowed_tools`; a shorter list of tools means the same to all.
    """
    if not isinstance(choice, dict):
        return choice, None
    kind = choice.get("type")
    if kind == "allowed_tools":
        names = {_name(tool) for tool in _objects(choice.get("tools"))}
        return choice.get("mode") or "auto", names
    name = _name(choice)
    if kind in _FORMS and name is not None:
        return {"type": "function", "function": {"name": name}}, None
    left_out("tool choice", kind)
    return None, None


def _function(tool: Tool) -> Tool:
    function = present(_inner(tool), "name", "description", "parameters", "strict")
    function.setdefault("parameters", {"type": "object", "properties": {}})
    return {"type": "function", "function": function}


def _custom(tool: Tool) -> Tool:
    inner = _inner(tool)
    grammar = inner.get("format")
    text: Tool = {"type": "string"}
    if isinstance(grammar, dict) and grammar.get("definition"):
        # No server enforces it, so the description at least shows it to the model.
        syntax = grammar.get("syntax") or "following"
        text["description"] = f"Must match this {syntax} grammar:\n{grammar['definition']}"
    parameters = {
        "type": "object",
        "properties": {"input": text},
        "required": ["input"],
        "additionalProperties": False,
    }
    function = {**present(inner, "name", "description"), "parameters": parameters}
    return {"type": "function", "function": function}


_FORMS = {"function": _function, "custom": _custom}


def _inner(tool: Tool) -> Tool:
    """Return the object that names the tool: the tool, or, in Chat's own form, what is in it."""
    inner = tool.get(str(tool.get("type")))
    return inner if isinstance(inner, dict) else tool


def _name(tool: Tool) -> str | None:
    name = _inner(tool).get("name")
    return name if isinstance(name, str) else None


def _objects(value: object) -> list[Tool]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
