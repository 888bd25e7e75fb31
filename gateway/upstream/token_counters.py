"""The ways in which backends count the tokens of a request (protocol.md 7). Pure but for `Ask`.

A dialect names its way: the backend's own endpoint for it, or its tokenizer's, which some servers
have beside the base URL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

#: What the reference's endpoint takes.
_COUNTED: Final = frozenset(
    {
        "conversation",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "reasoning",
        "text",
        "tool_choice",
    }
    | {"tools", "truncation"}
)


class Ask(Protocol):
    """Sends a request to a backend, and returns the object that it answers."""

    async def __call__(
        self, path: str, fields: Mapping[str, Any], *, beside: bool = False
    ) -> dict[str, Any]:
        """Ask below the base URL, or beside its `/v1`. Raises UpstreamFault, ClientFault.

        Args:
            path: The path.
            fields: The request, in which marks may stand for long strings (D33).
            beside: Whether the path is beside the `/v1`.
        """


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """How a backend is asked to count.

    Attributes:
        ask: Asks, and returns what it answers.
        chat: Whether the request has to be in the form of Chat Completions.
    """

    ask: Callable[[Mapping[str, Any], Ask], Awaitable[object]]
    chat: bool


async def _own_count(request: Mapping[str, Any], ask: Ask) -> object:
    """Ask the reference's endpoint. `request` is what the backend would be sent."""
    counted = {key: value for key, value in request.items() if key in _COUNTED}
    return (await ask("/responses/input_tokens", counted)).get("input_tokens")


async def _vllm_count(chat: Mapping[str, Any], ask: Ask) -> object:
    """Ask vLLM's tokenizer. `chat` is the request in the form of Chat Completions."""
    asked = {key: chat[key] for key in ("model", "messages", "tools") if key in chat}
    return (await ask("/tokenize", asked, beside=True)).get("count")


async def _llamacpp_count(chat: Mapping[str, Any], ask: Ask) -> object:
    """Ask llama.cpp for the prompt, and then its tokenizer."""
    asked = {key: chat[key] for key in ("messages", "tools", "tool_choice") if key in chat}
    prompt = (await ask("/apply-template", asked, beside=True)).get("prompt")
    text = {"content": prompt, "add_special": True, "parse_special": True}
    tokens = (await ask("/tokenize", text, beside=True)).get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


OWN: Final = TokenCounter(_own_count, chat=False)
VLLM: Final = TokenCounter(_vllm_count, chat=True)
LLAMACPP: Final = TokenCounter(_llamacpp_count, chat=True)
