"""A plan -> the events of OpenAI's stream, with the words each of them takes to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.rehearse.parts import tell
from gateway.rehearse.plan import Ending
from gateway.rehearse.response import response, usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.rehearse.plan import Call, Plan, Reason, Say

#: An event, and how many words have to be waited for before it.
Step = tuple[int, dict[str, Any]]

_PIECES_BEFORE_TROUBLE = 5


class _Broken(Exception):
    """The plan says to stop in the middle of a part."""


class Telling:
    """One response on its way. `seed` is 32 hex digits that make its ids its own."""

    def __init__(
        self, request: dict[str, Any], plan: Plan, seed: str, now: Callable[[], float]
    ) -> None:
        self._plan = plan
        self.seed = seed
        self._now = now
        self.encrypted = "reasoning.encrypted_content" in (request.get("include") or [])
        self._limit: int | None = request.get("max_output_tokens")
        self._number = -1
        self.spent = self.reasoned = 0
        self.full = False
        self.response = response(request, f"resp_{seed}", int(now()))

    def steps(self) -> Iterator[Step]:
        """Every event in order. A cut one ends without a terminal."""
        yield 0, self._snapshot("response.created")
        yield 0, self._snapshot("response.in_progress")
        try:
            for index, part in enumerate(self._plan.parts):
                yield from self._part(index, part)
                if self.full:
                    break
            self._break_off()
        except _Broken:
            if self._plan.ending is Ending.CUT:
                return
            self._end("failed")
            message = "You asked me to fail midway."
            self.response["error"] = {"code": "server_error", "message": message}
        else:
            self._end("incomplete" if self.full else "completed")
        yield 0, self._snapshot(f"response.{self.response['status']}")

    def _part(self, index: int, part: Reason | Say | Call) -> Iterator[Step]:
        if self._limit is not None and self.spent >= self._limit:
            self.full = True
            return
        yield from tell(self, index, part)

    @property
    def status(self) -> str:
        """Of an item that ends now."""
        return "incomplete" if self.full else "completed"

    def spend(self, pieces: Iterable[str]) -> Iterator[str]:
        """As many pieces as the plan and `max_output_tokens` allow."""
        for piece in pieces:
            if self._limit is not None and self.spent >= self._limit:
                self.full = True
                return
            # Trouble is meant for the answer, not for the thinking before it.
            if self.spent - self.reasoned >= _PIECES_BEFORE_TROUBLE:
                self._break_off()
            self.spent += 1
            yield piece

    def think(self, pieces: Iterable[str]) -> Iterator[str]:
        """The same, counted as reasoning."""
        for piece in self.spend(pieces):
            self.reasoned += 1
            yield piece

    def _break_off(self) -> None:
        if self._plan.ending in (Ending.FAIL, Ending.CUT):
            raise _Broken

    def _end(self, status: str) -> None:
        self.response["status"] = status
        self.response["usage"] = usage(self._plan.words_in, self.spent, self.reasoned)
        if status == "completed":
            self.response["completed_at"] = int(self._now())
        elif status == "incomplete":
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}

    def own(self, prefix: str, index: int) -> str:
        """An id for the part at `index`."""
        return f"{prefix}_{self.seed[:-4]}{index:04x}"

    def item(self, state: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
        """An item `added` or `done`; done ones are in every later snapshot."""
        if state == "done":
            self.response["output"] = [*self.response["output"], item]
        return self.event(f"response.output_item.{state}", output_index=index, item=item)

    def _snapshot(self, kind: str) -> dict[str, Any]:
        return self.event(kind, response=dict(self.response))

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next event of the stream."""
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}
