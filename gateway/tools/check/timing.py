"""Two probes about time: are answers made at once, and does one end when nobody wants it?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.tools.check.findings import Finding, Verdict
from gateway.tools.check.probes import FEW, FLOWING, LONG

if TYPE_CHECKING:
    from gateway.tools.check.backend_under_test import BackendUnderTest, CheckedAnswer
    from gateway.tools.check.probes import ProbeContext

#: Seconds of waiting that are too few to tell waiting from chance.
_LEAST: Final = 0.2
_SHORT: Final = "Say hello in 5 words."


class _Long:
    """A long answer, written while other things are tried."""

    def __init__(self, subject: BackendUnderTest) -> None:
        self.heard: CheckedAnswer | None = None
        self._flowing = asyncio.Event()
        self._task = asyncio.create_task(self._ask(subject))

    async def flows(self) -> bool:
        """Wait until it is in full flow; False if it is over by then."""
        await self._flowing.wait()
        return self.heard is not None and not self.heard.over

    def began_before(self, other: CheckedAnswer) -> bool:
        """Whether `other` had its first words while this one was still written."""
        if self.heard is None or not other.words:
            return False
        ended = self.heard.since + self.heard.seconds if self.heard.over else float("inf")
        return other.since + other.words[0] < ended

    async def leave(self) -> None:
        """Hang up."""
        if self.heard is not None:
            self.heard.hang_up()
        await self._task

    async def _ask(self, subject: BackendUnderTest) -> None:
        try:
            await subject.ask(LONG, watch=self._watch)
        finally:
            self._flowing.set()

    def _watch(self, heard: CheckedAnswer) -> None:
        self.heard = heard
        if len(heard.words) >= FLOWING:
            self._flowing.set()


async def at_once(known: ProbeContext) -> Finding:
    """Whether a second answer begins while the first is still written, as lanes want it."""
    name = "at once"
    long = _Long(known.subject)
    try:
        if not await long.flows():
            return Finding(name, Verdict.UNKNOWN, "the first answer was over too soon")
        short = await known.subject.ask(_SHORT, max_output_tokens=FEW)
        together = long.began_before(short)
    finally:
        await long.leave()
    if not short.words:
        return Finding(name, Verdict.UNKNOWN, f"the second: {short.complaint}")
    known.at_once, known.waited = together, short.words[0]
    if together:
        told = f"a second answer began after {known.waited:.2f} s, while the first was written"
        return Finding(name, Verdict.YES, told)
    told = f"a second answer waited {known.waited:.2f} s for the first: lanes take turns"
    return Finding(name, Verdict.NO, told)


async def leaving(known: ProbeContext) -> Finding:
    """Whether the backend stops when the connection is closed."""
    name = "cancel on close"
    if known.at_once is not False or known.waited < _LEAST:
        told = "it makes several answers at a time, so nothing shows if one goes on"
        return Finding(name, Verdict.UNKNOWN, told if known.at_once else "nothing shows it")
    long = _Long(known.subject)
    flowing = await long.flows()
    await long.leave()
    if not flowing:
        return Finding(name, Verdict.UNKNOWN, "the answer was over too soon")
    short = await known.subject.ask(_SHORT, max_output_tokens=FEW)
    if not short.words:
        return Finding(name, Verdict.UNKNOWN, f"the next answer: {short.complaint}")
    waited = short.words[0]
    told = f"the next answer began after {waited:.2f} s"
    if waited < known.waited / 2:
        return Finding(name, Verdict.YES, told)
    return Finding(name, Verdict.NO, f"{told}, as if nobody had left")
