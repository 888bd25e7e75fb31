"""What the items of an input look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Shape(NamedTuple):
    """The keys of one kind of item, and what its id starts with."""

    required: Mapping[str, tuple[type, ...]]
    optional: frozenset[str]
    prefix: str


_TEXT = (str,)
_CONTENT = (str, list)
_EXTRA = frozenset({"type", "id", "status"})
_CALL_EXTRA = _EXTRA | {"caller", "namespace", "async"}

SHAPES: Mapping[str, Shape] = {
    "message": Shape({"role": _TEXT, "content": _CONTENT}, _EXTRA | {"phase"}, "msg"),
    "reasoning": Shape({"summary": (list,)}, _EXTRA | {"content", "encrypted_content"}, "rs"),
    "function_call": Shape(
        dict.fromkeys(("call_id", "name", "arguments"), _TEXT), _CALL_EXTRA, "fc"
    ),
    "custom_tool_call": Shape(
        dict.fromkeys(("call_id", "name", "input"), _TEXT), _CALL_EXTRA, "ctc"
    ),
    "function_call_output": Shape(
        {"call_id": _TEXT, "output": _CONTENT}, _EXTRA | {"caller", "name"}, ""
    ),
    "custom_tool_call_output": Shape(
        {"call_id": _TEXT, "output": _CONTENT}, _EXTRA | {"caller"}, ""
    ),
}
#: Items of hosted tools and the like: let through, the script has nothing to say about them.
OTHERS = frozenset(
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
SAID = ("input_text", "input_image", "input_file")
ANSWERED = ("output_text", "refusal")
CALLS = {"function_call": "function call", "custom_tool_call": "custom tool call"}
#: What the encrypted content of a finished reasoning item starts with; a partial one does not.
SEAL = "rehearsal-final-"
