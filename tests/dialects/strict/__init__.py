"""What each real backend refuses, or silently makes nothing of: one judge a dialect, pure.

The rules are those of their sources, their documents and their own recorded refusals; where nobody
knows, nothing is refused. tests/dialects/test_strict.py shows that each rule refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openai.types.responses import response_create_params

from tests.dialects.strict import asked, given

if TYPE_CHECKING:
    from tests.dialects.strict.asked import Json, Rule
    from tests.dialects.strict.given import ItemRule

REFERENCE_KEYS = frozenset(
    response_create_params.ResponseCreateParamsBase.__annotations__
) | frozenset({"stream"})
FRIENDLI_KEYS = frozenset(
    {"input", "instructions", "max_output_tokens", "temperature", "top_p", "parallel_tool_calls"}
    | {"tools", "tool_choice", "text", "reasoning", "stream", "model"}
)
MARITACA_KEYS = FRIENDLI_KEYS | {"metadata", "store", "previous_response_id"}


ALL = given.BASIC | given.CUSTOM


@dataclass(frozen=True)
class Judge:
    """The rules of one backend: about a request, and about each item of its input."""

    request: tuple[Rule, ...]
    item: tuple[ItemRule, ...]


def refuses(dialect: str, request: Json) -> str | None:
    """Why that backend would not do what the request says; None if it would."""
    judge = JUDGES[dialect]
    whole = (why for rule in judge.request if (why := rule(request)) is not None)
    items = asked.items(request)
    each = (why for item in items for rule in judge.item if (why := rule(item)) is not None)
    return next(whole, None) or next(each, None)


def _stateless(*rules: Rule, items: tuple[ItemRule, ...] = ()) -> Judge:
    """Who keeps no state: what is told of one is lost."""
    state = (asked.without("previous_response_id"), asked.without("conversation"))
    each = (given.stored, given.typed, given.call_strings, given.said_something)
    return Judge((asked.has_input, *state, *rules), (*each, *items))


_REFERENCE = Judge(
    (asked.has_input, asked.only_keys(REFERENCE_KEYS), asked.followed),
    (given.SEALED, given.call_strings),
)
JUDGES: dict[str, Judge] = {
    "openai": _REFERENCE,
    "azure": _REFERENCE,
    "friendli": _stateless(
        asked.only_keys(FRIENDLI_KEYS),
        asked.tools_of("function", "custom"),
        asked.tool_parameters,
        items=(given.kinds_of(ALL), given.HAS_ID, given.HAS_SUMMARY, given.HAS_TEXT),
    ),
    "maritaca": _stateless(
        asked.only_keys(MARITACA_KEYS),
        items=(given.kinds_of(given.BASIC), given.HAS_SUMMARY, given.SEALED_OR_TEXT),
    ),
    "vllm": _stateless(
        asked.without("prompt"),
        asked.without("background", True, None),
        asked.without("service_tier", None),
        asked.grammar,
        asked.not_continued,
        items=(
            *(given.kinds_of(ALL), given.UNSEALED, given.HAS_ID, given.HAS_SUMMARY),
            *(given.HAS_TEXT, given.ONE_TEXT, given.one_text),
        ),
    ),
    "sglang": _stateless(
        asked.include_without("message.output_text.logprobs"),
        asked.choice_of_tools,
        items=(given.kinds_of(ALL), given.UNSEALED, given.ANY_TEXT),
    ),
    "llamacpp": _stateless(
        asked.tools_of("function"),
        asked.no_prefill,
        items=(
            *(given.known, given.user_parts, given.assistant_parts, given.HAS_SUMMARY),
            *(given.HAS_TEXT, given.ONE_TEXT, given.object_arguments),
            given.output_of("input_text"),
        ),
    ),
    "ollama": _stateless(
        # It does nothing about these, whatever their value.
        *map(asked.without, ("background", "include", "metadata", "tool_choice", "truncation")),
        asked.one_assistant_at_end,
        items=(
            *(given.kinds_of(given.BASIC), given.PLAIN, given.object_arguments),
            given.output_of(),
        ),
    ),
    "lmstudio": _stateless(asked.text_format, items=(given.UNSEALED,)),
    "xai": _stateless(
        asked.without("background"),
        asked.include_only("reasoning.encrypted_content"),
        items=(given.SEALED,),
    ),
    "groq": _stateless(items=(given.UNSEALED,)),
    # Nobody knows: the strictest that a look-alike with the official types may be.
    "generic": _stateless(items=(given.named_message, given.SEALED)),
    "openrouter": _stateless(
        asked.without("store", True), items=(given.message_by_id, given.UNSEALED)
    ),
    "huggingface": _stateless(
        asked.summary_auto, items=(given.kinds_of(given.BASIC), given.no_call, given.NO_REASONING)
    ),
}
