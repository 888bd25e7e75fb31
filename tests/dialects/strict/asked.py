"""What a request itself may say, and in which order its items may come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]
    #: Says why a request is refused, None if it is not.
    Rule = Callable[[Json], str | None]


def items(request: Json) -> list[Json]:
    given = request.get("input")
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def has_input(request: Json) -> str | None:
    given = request.get("input")
    if given is None:
        return "'input' is required"
    listed = isinstance(given, list) and all(isinstance(item, dict) for item in given)
    return None if listed or isinstance(given, str) else "'input' must be a string or objects"


def only_keys(keys: frozenset[str]) -> Rule:
    return lambda request: next((f"unknown {key}" for key in request if key not in keys), None)


def without(key: str, *values: Any) -> Rule:
    """The key is refused; with `values` only where it has one of them."""

    def rule(request: Json) -> str | None:
        value = request.get(key)
        bad = value in values if values else value is not None
        return f"{key} {value!r} is not supported" if key in request and bad else None

    return rule


def tools_of(*kinds: str) -> Rule:
    def rule(request: Json) -> str | None:
        types = (tool.get("type") for tool in request.get("tools") or ())
        return next((f"no tools of type {kind}" for kind in types if kind not in kinds), None)

    return rule


def tool_parameters(request: Json) -> str | None:
    functions = [tool for tool in request.get("tools") or () if tool.get("type") == "function"]
    bare = [tool for tool in functions if not isinstance(tool.get("parameters"), dict)]
    return "a function needs parameters" if bare else None


def grammar(request: Json) -> str | None:
    formats = [tool.get("format") or {} for tool in request.get("tools") or ()]
    return "no grammar" if any(one.get("type") == "grammar" for one in formats) else None


def choice_of_tools(request: Json) -> str | None:
    kinds = {tool.get("type") for tool in request.get("tools") or ()}
    required = request.get("tool_choice") == "required"
    return "required without a tool" if required and not kinds & {"function", "custom"} else None


def include_only(*names: str) -> Rule:
    """Nothing else may be included."""

    def rule(request: Json) -> str | None:
        return next((f"include {n}" for n in request.get("include") or () if n not in names), None)

    return rule


def include_without(name: str) -> Rule:
    return lambda r: f"include {name}" if name in (r.get("include") or ()) else None


def text_format(request: Json) -> str | None:
    text = request.get("text")
    return "text.format is missing" if isinstance(text, dict) and "format" not in text else None


def summary_auto(request: Json) -> str | None:
    summary = (request.get("reasoning") or {}).get("summary")
    return None if summary in (None, "auto") else "reasoning.summary must be auto"


# The order of the input


def of_assistant(item: Json) -> bool:
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") == "assistant"
    return not kind.endswith("_output") and kind != "mcp_approval_response"


def followed(request: Json) -> str | None:
    """Reasoning stands before what came of it."""
    given = items(request)
    for item, after in zip(given, [*given[1:], {}][: len(given)], strict=True):
        if item.get("type") == "reasoning" and not of_assistant(after):
            return "reasoning without its required following item"
    return None


def no_prefill(request: Json) -> str | None:
    last = items(request)[-1:]
    prefill = any(of_assistant(item) for item in last)
    return "prefill is incompatible with thinking" if prefill else None


def one_assistant_at_end(request: Json) -> str | None:
    last = items(request)[-2:]
    return (
        "2 or more assistant messages" if len(last) == 2 and all(map(of_assistant, last)) else None
    )


def not_continued(request: Json) -> str | None:
    last = (items(request) or [{}])[-1]
    going_on = of_assistant(last) and last.get("status") in ("in_progress", "incomplete")
    return "it goes on within the last item" if going_on else None
