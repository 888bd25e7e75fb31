"""The probes that need two answers at a time: concurrency, and cancellation by closing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.tools.check.findings import Finding, SupportLevel
from gateway.tools.check.probe_context import FEW, FLOWING, LONG

if TYPE_CHECKING:
    from gateway.tools.check.backend_under_test import BackendUnderTest, CheckedAnswer
    from gateway.tools.check.probe_context import ProbeContext

#: A shorter wait, in seconds, may be chance.
_LEAST: Final = 0.2
_SHORT: Final = "Say hello in 5 words."


class _Long:
    """A long answer that is written while other requests are made."""

    def __init__(self, subject: BackendUnderTest) -> None:
        self.answer: CheckedAnswer | None = None
        self._flowing = asyncio.Event()
        self._task = asyncio.create_task(self._ask(subject))

    async def flows(self) -> bool:
        """Wait until the text is in full flow; return False if it is over by then."""
        await self._flowing.wait()
        return self.answer is not None and not self.answer.over

    def began_before(self, other: CheckedAnswer) -> bool:
        """Return whether `other` had its first words while this one was still written."""
        if self.answer is None or not other.words:
            return False
        ended = self.answer.since + self.answer.seconds if self.answer.over else float("inf")
        return other.since + other.words[0] < ended

    async def leave(self) -> None:
        """Hang up."""
        if self.answer is not None:
            self.answer.hang_up()
        await self._task

    async def _ask(self, subject: BackendUnderTest) -> None:
        try:
            await subject.ask(LONG, watch=self._watch)
        finally:
            self._flowing.set()

    def _watch(self, answer: CheckedAnswer) -> None:
        self.answer = answer
        if len(answer.words) >= FLOWING:
            self._flowing.set()


async def at_once(context: ProbeContext) -> Finding:
    """See whether a second answer begins while the first is still written, as lanes need it."""
    name = "at once"
    long = _Long(context.subject)
    try:
        if not await long.flows():
            return Finding(name, SupportLevel.UNKNOWN, "the first answer was over too soon")
        short = await context.subject.ask(_SHORT, max_output_tokens=FEW)
        together = long.began_before(short)
    finally:
        await long.leave()
    if not short.words:
        return Finding(name, SupportLevel.UNKNOWN, f"the second: {short.complaint}")
    context.at_once, context.waited = together, short.words[0]
    if together:
        detail = f"a second answer began after {context.waited:.2f} s, while the first was written"
        return Finding(name, SupportLevel.YES, detail)
    detail = f"a second answer waited {context.waited:.2f} s for the first: lanes take turns"
    return Finding(name, SupportLevel.NO, detail)


async def leaving(context: ProbeContext) -> Finding:
    """See whether the backend stops when the connection is closed."""
    name = "cancel on close"
    if context.at_once is not False or context.waited < _LEAST:
        detail = "it makes several answers at a time, so nothing shows if one goes on"
        return Finding(
            name, SupportLevel.UNKNOWN, detail if context.at_once else "nothing shows it"
        )
    long = _Long(context.subject)
    flowing = await long.flows()
    await long.leave()
    if not flowing:
        return Finding(name, SupportLevel.UNKNOWN, "the answer was over too soon")
    short = await context.subject.ask(_SHORT, max_output_tokens=FEW)
    if not short.words:
        return Finding(name, SupportLevel.UNKNOWN, f"the next answer: {short.complaint}")
    waited = short.words[0]
    detail = f"the next answer began after {waited:.2f} s"
    if waited < context.waited / 2:
        return Finding(name, SupportLevel.YES, detail)
    return Finding(name, SupportLevel.NO, f"{detail}, as if nobody had left")
