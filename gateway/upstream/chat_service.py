"""A hosted service that speaks Chat Completions, as a dialect (D22)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.keys import EXTRAS
from gateway.upstream.chat.request import RETURNED, TEMPLATE, shape
from gateway.upstream.chat.stream import converter
from gateway.upstream.dialect import Dialect
from gateway.upstream.refused.request import Refusal
from lanes.stream.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.chat.return_form import ReturnForm
    from gateway.upstream.chat.template import TemplateForm

_NOTHING: Final[Mapping[str, Any]] = {}


def chat_service(
    name: str,
    *,
    hosts: tuple[str, ...] = (),
    traces: tuple[str, ...] = (),
    template: TemplateForm = TEMPLATE,
    returned: ReturnForm = RETURNED,
    extras: frozenset[str] = EXTRAS,
    refuses: frozenset[str] = frozenset(),
    asks: Mapping[str, Any] = _NOTHING,
) -> Dialect:
    """Return the dialect of a service.

    Args:
        name: The name of its file in `gateway/dialects`.
        hosts: Its host names (see `Dialect.hosts`).
        traces: Headers of its answers (see `Dialect.traces`).
        template: What it accepts of a conversation.
        returned: What it takes back of what it sent beside text.
        extras: The keys that it knows besides those of the official client.
        refuses: Those of the official client's keys that it refuses.
        asks: What it is asked for unless the client asks otherwise.
    """
    form = partial(shape, template=template, returned=returned, extras=extras | asks.keys())
    return Dialect(
        name,
        Profile(),
        path="/chat/completions",
        keeps_nulls=False,
        refuses=frozenset(Refusal(key) for key in refuses),
        shape=partial(_asked, asks, form) if asks else form,
        converter=converter,
        hosts=hosts,
        traces=traces,
    )


def _asked(
    asks: Mapping[str, Any], form: partial[dict[str, Any]], whole: dict[str, Any]
) -> dict[str, Any]:
    return {**asks, **form(whole)}
