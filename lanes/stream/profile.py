"""How far a backend's stream can be trusted: data that its dialect declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Profile:
    """How far a backend's stream can be trusted, and what may be done with it.

    Attributes:
        ordered_indices: Its `output_index` gives the order of items, so a gap is waited for (D6).
        counts_limit: It says `completed` at the token limit; only `usage` shows the truth.
        replays_reasoning: It takes its reasoning back without an encrypted form of it (D8).
        cuts_text: A steer may stop it within a message; else the open item is finished first.
        steerable: It may be steered at all.
        seals_reasoning: Its `encrypted_content` is encrypted; else it is the plain text once more,
            which goes back to the backend and to no client.
        made_by: Marks the items that only this backend can read, if there are such (D40).
        upstream: The name of the upstream that answers; empty for none.
        reasoning_tags: Whether its text may begin with reasoning between tags: `auto` where it
            begins with an opening tag, `opened` where only the closing one comes, `held` where
            nothing may be sent before it is known which it is, `off` never.
        heard: Hears the response object of an answer that ended by itself, as JSON.
        grace: Seconds that its usage may take after the last of its text.
    """

    ordered_indices: bool = False
    counts_limit: bool = False
    replays_reasoning: bool = True
    cuts_text: bool = True
    steerable: bool = True
    seals_reasoning: bool = True
    made_by: Mapping[str, Any] | None = None
    upstream: str = ""
    reasoning_tags: str = "auto"
    heard: Callable[[bytes], None] | None = None
    grace: float = 2.0
