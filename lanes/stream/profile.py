"""What the strict stream must know about a backend: data, no code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """How far a backend's stream can be trusted.

    ordered_indices    its `output_index` tells the order of items, so a gap is waited for
    counts_limit       it says `completed` at the token limit; `usage` tells the truth
    replays_reasoning  it takes its reasoning back without an encrypted form of it
    cuts_text          a steer may stop it within a message; else the open item is finished first
    steerable          it may be steered at all
    seals_reasoning    its `encrypted_content` is encrypted; else it is the plain text once more,
                       which goes back to it and to no client
    """

    ordered_indices: bool = False
    counts_limit: bool = False
    replays_reasoning: bool = True
    cuts_text: bool = True
    steerable: bool = True
    seals_reasoning: bool = True
