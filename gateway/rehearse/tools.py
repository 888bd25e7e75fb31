"""The tools and the text format of a request, as far as the response repeats or uses them."""

from __future__ import annotations

from typing import Any

from gateway.rehearse.checks import check_choice, check_type, missing

_KINDS = (
    *("function", "custom", "apply_patch", "code_interpreter", "computer", "computer_use_preview"),
    *("file_search", "image_generation", "local_shell", "mcp", "namespace", "shell"),
    *("programmatic_tool_calling", "tool_search", "web_search", "web_search_2025_08_26"),
    *("web_search_preview", "web_search_preview_2025_03_11"),
)
_KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "function": {"parameters": (dict,), "strict": (bool,), "description": (str,)},
    "custom": {"format": (dict,), "description": (str,)},
}


def check_tools(request: dict[str, Any]) -> None:
    """Raises Refused at the first tool that the hosted API would not take."""
    for index, tool in enumerate(request.get("tools") or []):
        at = f"tools[{index}]"
        check_type(at, tool, (dict,))
        _need(at, tool, "type", (str,))
        check_choice("type", tool, _KINDS, within=f"{at}.")
        if tool["type"] in _KEYS:
            _need(at, tool, "name", (str,))
        for key, types in _KEYS.get(tool["type"], {}).items():
            if tool.get(key) is not None:
                check_type(f"{at}.{key}", tool[key], types)
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        _need("tool_choice", choice, "type", (str,))
    else:
        check_choice("tool_choice", request, ("none", "auto", "required"))


def check_format(request: dict[str, Any]) -> None:
    """The same for `text.format`."""
    shape = (request.get("text") or {}).get("format")
    if shape is None:
        return
    check_type("text.format", shape, (dict,))
    _need("text.format", shape, "type", (str,))
    check_choice("text.format.type", request, ("text", "json_object", "json_schema"))
    if shape["type"] == "json_schema":
        _need("text.format", shape, "name", (str,))
        _need("text.format", shape, "schema", (dict,))


def _need(at: str, where: dict[str, Any], key: str, types: tuple[type, ...]) -> None:
    if where.get(key) is None:
        raise missing(f"{at}.{key}")
    check_type(f"{at}.{key}", where[key], types)
