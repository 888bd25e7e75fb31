"""The backend under check, asked as the gateway asks it, and what is heard of each answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.backend import Backend
from gateway.upstream.dialect import find
from gateway.upstream.transport.faults import unreachable
from gateway.upstream.transport.http.client import HttpClient
from lanes.attempt import mint
from lanes.codec import decode, encode
from lanes.errors import Fault, UpstreamFault
from lanes.history.entries import input_items
from lanes.stream.profile import Profile
from lanes.stream.run import Run
from lanes.stream.run_states import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.upstream.transport.http.client import FetchedAnswer
    from lanes.ports import Event, Stream

#: What an answer may cost where nothing less is asked for.
TOKENS: Final = 512
#: What may be said as input: text, or items.
Said = str | list[dict[str, Any]]

_ENDED: Final = frozenset({RunState.COMPLETED, RunState.INCOMPLETE, RunState.STEERED})


@dataclass
class CheckedAnswer:
    """One answer on its way: the backend's events, and the strict ones that the run makes of them.

    Times are seconds after the request. `items` is the input it was asked with, as JSON.
    """

    items: list[bytes]
    run: Run = field(init=False)
    raw: list[Event] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    fault: Fault | None = None
    words: list[float] = field(default_factory=list)
    seconds: float = 0.0
    over: bool = False
    since: float = field(default_factory=time.monotonic)
    stream: Stream | None = None

    def take(self, event: bytes) -> None:
        """Take one strict event, without its closing brace."""
        made = decode(event + b"}")
        self.events.append(made)
        if made["type"] == "response.output_text.delta":
            self.words.append(time.monotonic() - self.since)

    def hang_up(self) -> None:
        """Leave as a client does: nothing more is wanted."""
        self.run.abandon()
        if self.stream is not None:
            self.stream.close()

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(
            event["delta"] for event in self.events if event["type"] == "response.output_text.delta"
        )

    @property
    def final(self) -> dict[str, Any]:
        """The response object of the terminal event; empty without one."""
        found: dict[str, Any] = decode(self.run.final) if self.run.final else {}
        return found

    def output(self, kind: str) -> list[dict[str, Any]]:
        """The finished items of one type."""
        return [item for item in self.final.get("output", ()) if item["type"] == kind]

    @property
    def accepted(self) -> bool:
        """Whether it came to an end that can be built upon."""
        return self.run.state in _ENDED

    @property
    def complete(self) -> bool:
        """Whether all of it was heard: it was neither left nor cut."""
        return self.fault is None and self.run.state not in (RunState.ABANDONED, RunState.STEERED)

    @property
    def history(self) -> list[bytes]:
        """The input of what continues it: what was asked, and what is replayed of the answer."""
        return [*self.items, *(entry.data for entry in self.run.entries())]

    @property
    def complaint(self) -> str:
        """Why it was not accepted, in the backend's words."""
        if self.fault is not None:
            status = f"{self.fault.status}: " if self.fault.status else ""
            return f"{status}{self.fault.message}"
        error = self.final.get("error")
        return f"it ended as {self.run.state}" + (f": {error['message']}" if error else "")


class BackendUnderTest:
    """The backend under check. `timeout` is the seconds that each answer may take as a whole."""

    def __init__(self, settings: UpstreamSettings, model: str | None, timeout: float) -> None:
        self.dialect = find(settings.dialect)
        self.model = model
        self.timeout = timeout
        self.heard: list[CheckedAnswer] = []
        self._backend = Backend(settings)
        self._client = client(settings, timeout)
        key = settings.key
        self._headers = {} if key is None else self.dialect.auth(key.get_secret_value())

    async def ask(
        self,
        said: Said,
        before: Sequence[bytes] = (),
        *,
        watch: Callable[[CheckedAnswer], None] | None = None,
        **options: Any,
    ) -> CheckedAnswer:
        """Ask for one answer and follow it to its end; what goes wrong is in its `fault`.

        `before` is the history, `watch` is called after each read.
        """
        heard = CheckedAnswer([*before, *(encode(item) for item in input_items(said))])
        body = {"input": said, "store": False, "max_output_tokens": TOKENS, **options}
        if self.model is not None:
            body["model"] = self.model
        heard.run = Run(mint("resp"), body, Profile(), heard.take, mint=mint, clock=time.time)
        self.heard.append(heard)
        try:
            async with asyncio.timeout(self.timeout):
                await self._relay(heard, body, watch)
        except TimeoutError:
            text = f"There was no end within {self.timeout:g} seconds."
            self._failed(heard, unreachable(text, status=504))
        except Fault as fault:
            self._failed(heard, fault)
        heard.fault = heard.fault or heard.run.fault
        heard.seconds = time.monotonic() - heard.since
        heard.over = True
        return heard

    async def post(self, body: dict[str, Any]) -> FetchedAnswer:
        """Send a request as it is, and read the whole answer. Raises UpstreamFault."""
        headers = {**self._headers, "accept": "application/json"}
        path, sent = self.dialect.path, encode(body)
        return await self._client.fetch("POST", path, headers, sent, timeout=self.timeout)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._backend.aclose()
        await self._client.aclose()

    async def _relay(
        self,
        heard: CheckedAnswer,
        body: dict[str, Any],
        watch: Callable[[CheckedAnswer], None] | None,
    ) -> None:
        stream = heard.stream = await self._backend.open(body, heard.items, {})
        run = heard.run
        run.trust(stream.profile)

        def sink(events: list[Event]) -> None:
            for name, data in events:
                heard.raw.append((name, data))
                run.receive(name, data)
            if watch is not None and not run.over:
                watch(heard)
            if run.state is RunState.STEERED:
                stream.close()
            elif run.over:
                stream.release()

        await stream.relay(sink)
        run.end()

    def _failed(self, heard: CheckedAnswer, fault: Fault) -> None:
        heard.fault = fault
        if heard.stream is not None:
            heard.stream.close()
        if isinstance(fault, UpstreamFault):
            heard.run.fail(fault)


def client(settings: UpstreamSettings, timeout: float) -> HttpClient:
    """What asks the backend without streaming; nothing is tried again."""
    return HttpClient(
        settings.url,
        connect_timeout=min(settings.connect_timeout, timeout),
        first_byte_timeout=timeout,
        idle_timeout=timeout,
        retries=0,
    )
