"""What the chat template behind a backend accepts of a conversation: data (D39)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


class SystemPlace(StrEnum):
    """Where a backend accepts the messages of the system.

    ANYWHERE  each in its place
    FIRST     one, at the top; what the system says later, the user says
    FOLDED    one, at the top; what the system says later is joined to it
    NOWHERE   none; the user's first message begins with what the system says
    """

    ANYWHERE = "anywhere"
    FIRST = "first"
    FOLDED = "folded"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class TemplateForm:
    """How one backend accepts a conversation.

    system         where it accepts what the system says
    alternates     after that the user speaks first, and two messages of the user in a row are one
    user_follows   a message of the user may follow a tool's; else the assistant says a word between
    calls          it accepts calls and their outputs; else both are described in messages
    texts_only     a content is one text, and what is none is named in it
    names_outputs  the output of a call names its tool
    call_id        what the id of a call must look like: others become 9 letters and digits
    repeats_ids    two calls of one message may have the same id
    """

    system: SystemPlace = SystemPlace.FIRST
    alternates: bool = True
    user_follows: bool = True
    calls: bool = True
    texts_only: bool = False
    names_outputs: bool = False
    call_id: re.Pattern[str] | None = None
    repeats_ids: bool = True
