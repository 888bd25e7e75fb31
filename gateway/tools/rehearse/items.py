"""The checks of an input's items, one by one and against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.tools.rehearse.refusals import RequestRefused, check_type, missing, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping


class ItemKeys(NamedTuple):
    """The keys of one type of item, and the prefix of its id."""

    required: Mapping[str, tuple[type, ...]]
    optional: frozenset[str]
    prefix: str


_TEXT = (str,)
_CONTENT = (str, list)
#: The last is what Codex adds.
_EXTRA = frozenset({"type", "id", "status", "internal_chat_message_metadata_passthrough"})
_CALL_EXTRA = _EXTRA | {"caller", "namespace", "async"}

SHAPES: Mapping[str, ItemKeys] = {
    "message": ItemKeys({"role": _TEXT, "content": _CONTENT}, _EXTRA | {"phase"}, "msg"),
    "reasoning": ItemKeys({"summary": (list,)}, _EXTRA | {"content", "encrypted_content"}, "rs"),
    "function_call": ItemKeys(
        dict.fromkeys(("call_id", "name", "arguments"), _TEXT), _CALL_EXTRA, "fc"
    ),
    "custom_tool_call": ItemKeys(
        dict.fromkeys(("call_id", "name", "input"), _TEXT), _CALL_EXTRA, "ctc"
    ),
    "function_call_output": ItemKeys(
        {"call_id": _TEXT, "output": _CONTENT}, _EXTRA | {"caller", "name"}, ""
    ),
    "custom_tool_call_output": ItemKeys(
        {"call_id": _TEXT, "output": _CONTENT}, _EXTRA | {"caller"}, ""
    ),
}
#: Items of hosted tools and the like: accepted, and ignored by the script.
_OTHERS = frozenset(
    {
        *("additional_tools", "apply_patch_call", "apply_patch_call_output"),
        *("code_interpreter_call", "compaction", "compaction_trigger", "computer_call"),
        *("computer_call_output", "configuration_update", "file_search_call"),
        *("image_generation_call", "local_shell_call", "local_shell_call_output"),
        *("mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools"),
        *("program", "program_output", "shell_call", "shell_call_output"),
        *("tool_search_call", "tool_search_output", "web_search_call"),
    }
)
_INPUT_PARTS = ("input_text", "input_image", "input_file")
_OUTPUT_PARTS = ("output_text", "refusal")
_CALLS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
#: What the encrypted content of a finished reasoning item starts with; a partial one does not.
SEAL = "rehearsal-final-"


def check_items(items: list[Any]) -> None:
    """Check the items as the hosted API does.

    Raises:
        RequestRefused: At the first item that the hosted API refuses.
    """
    for index, item in enumerate(items):
        check_type(f"input[{index}]", item, (dict,))
        _check_item(f"input[{index}]", item)
    _check_ids(items)
    _check_calls(items)
    _check_reasoning(items)


def _check_item(at: str, item: dict[str, Any]) -> None:
    kind = item.get("type", "message" if "role" in item else None)
    if kind is None:
        raise missing(f"{at}.type")
    check_type(f"{at}.type", kind, (str,))
    if kind == "item_reference":
        message = f"Item with id '{item.get('id')}' not found."
        raise RequestRefused(message, param="input", status=404)
    if kind in _OTHERS:
        return
    if kind not in SHAPES:
        wrong(f"{at}.type", kind, (*SHAPES, *sorted(_OTHERS)))
    _check_shape(at, item, SHAPES[kind])
    if kind == "message":
        _check_message(at, item)


def _check_shape(at: str, item: dict[str, Any], shape: ItemKeys) -> None:
    for key, types in shape.required.items():
        if key not in item:
            raise missing(f"{at}.{key}")
        check_type(f"{at}.{key}", item[key], types)
    for key in item:
        if key not in shape.required and key not in shape.optional:
            path = f"{at}.{key}"
            raise RequestRefused(
                f"Unknown parameter: '{path}'.", param=path, code="unknown_parameter"
            )
    if item.get("status") not in (None, "in_progress", "completed", "incomplete"):
        wrong(f"{at}.status", item["status"], ("in_progress", "completed", "incomplete"))
    item_id = item.get("id")
    if item_id is not None and not (isinstance(item_id, str) and item_id.startswith(shape.prefix)):
        message = (
            f"Invalid '{at}.id': '{item_id}'. Expected an ID that begins with '{shape.prefix}'."
        )
        raise RequestRefused(message, param=f"{at}.id", code="invalid_value")


def _check_message(at: str, item: dict[str, Any]) -> None:
    roles = ("user", "assistant", "system", "developer")
    if item["role"] not in roles:
        wrong(f"{at}.role", item["role"], roles)
    if isinstance(item["content"], str):
        return
    kinds = _OUTPUT_PARTS if item["role"] == "assistant" else _INPUT_PARTS
    for index, part in enumerate(item["content"]):
        where = f"{at}.content[{index}]"
        check_type(where, part, (dict,))
        if part.get("type") not in kinds:
            wrong(f"{where}.type", part.get("type"), kinds)
        key = {"refusal": "refusal", "input_text": "text", "output_text": "text"}.get(part["type"])
        if key is not None:
            if key not in part:
                raise missing(f"{where}.{key}")
            check_type(f"{where}.{key}", part[key], (str,))


def _check_ids(items: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    for item_id in [item["id"] for item in items if isinstance(item.get("id"), str)]:
        if item_id in seen:
            message = (
                f"Duplicate item found with id {item_id}. Remove duplicate items and try again."
            )
            raise RequestRefused(message, param="input")
        seen.add(item_id)


def _check_calls(items: list[dict[str, Any]]) -> None:
    """Check that every output answers an earlier call, and every call has its output."""
    for call, name in _CALLS.items():
        asked: dict[str, bool] = {}
        for item in items:
            if item.get("type") == call:
                asked[item["call_id"]] = False
            elif item.get("type") == f"{call}_output":
                if item["call_id"] not in asked:
                    message = (
                        f"No tool call found for {name} output with call_id {item['call_id']}."
                    )
                    raise RequestRefused(message, param="input")
                asked[item["call_id"]] = True
        for call_id, answered in asked.items():
            if not answered:
                raise RequestRefused(f"No tool output found for {name} {call_id}.", param="input")


def _check_reasoning(items: list[dict[str, Any]]) -> None:
    """Check that an item of the model follows reasoning, and that encrypted content is final."""
    nobody = {"role": "nobody"}
    for item, following in zip(items, [*items[1:], nobody], strict=True):
        if item.get("type") != "reasoning":
            continue
        name = f"Item '{item.get('id')}' of type 'reasoning'"
        by_client = following.get("role", "assistant") != "assistant"
        if by_client or following.get("type", "").endswith("_output"):
            message = f"{name} was provided without its required following item."
            raise RequestRefused(message, param="input")
        if not str(item.get("encrypted_content") or SEAL).startswith(SEAL):
            message = f"The encrypted content of {name} could not be verified."
            raise RequestRefused(message, param="input", code="invalid_encrypted_content")
