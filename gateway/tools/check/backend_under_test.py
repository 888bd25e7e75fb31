"""The backend under test, asked as the gateway asks it, and a record of each of its answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.backend import Backend
from gateway.upstream.dialect import find
from gateway.upstream.transport.faults import BackendAnswered, backend_fault
from gateway.upstream.transport.http.client import FetchedAnswer, HttpClient
from gateway.upstream.transport.websocket.client import WebSocketClient
from lanes.codec import decode, encode
from lanes.errors import ClientFault, Fault, UpstreamFault
from lanes.events import new_id
from lanes.history.entries import input_items
from lanes.stream.profile import Profile
from lanes.stream.run import Run
from lanes.stream.run_states import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.upstream.refused.request import Refusal
    from lanes.ports import Event, Stream

#: The default limit of an answer, in tokens.
TOKENS: Final = 512
#: An input: text, or items.
Input = str | list[dict[str, Any]]

_ENDED: Final = frozenset({RunState.COMPLETED, RunState.INCOMPLETE, RunState.STEERED})


@dataclass
class CheckedAnswer:
    """One answer: the backend's events, and the strict ones that the run makes of them.

    `words` are the times of the text deltas, in seconds after the request. `items` is the whole
    input of the request, as JSON; `asked` is the request that the backend took.
    """

    items: list[bytes]
    asked: bytes = b"{}"
    learnt: frozenset[Refusal] = frozenset()
    run: Run = field(init=False)
    raw: list[Event] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    fault: Fault | None = None
    words: list[float] = field(default_factory=list)
    seconds: float = 0.0
    over: bool = False
    since: float = field(default_factory=time.monotonic)
    stream: Stream | None = None

    def take(self, *pieces: bytes) -> None:
        """Take one strict event, in pieces and without its closing brace."""
        strict = decode(b"".join((*pieces, b"}")))
        self.events.append(strict)
        if strict["type"] == "response.output_text.delta":
            self.words.append(time.monotonic() - self.since)

    def hang_up(self) -> None:
        """Close the request, as a client does that leaves."""
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
        response: dict[str, Any] = decode(self.run.final) if self.run.final else {}
        return response

    def output(self, kind: str) -> list[dict[str, Any]]:
        """Return the finished items of one type."""
        return [item for item in self.final.get("output", ()) if item["type"] == kind]

    @property
    def accepted(self) -> bool:
        """Whether it ended in a way that can be continued."""
        return self.run.state in _ENDED

    @property
    def complete(self) -> bool:
        """Whether the backend sent all of it: this side neither left nor cut it."""
        return self.fault is None and self.run.state not in (RunState.ABANDONED, RunState.STEERED)

    @property
    def history(self) -> list[bytes]:
        """The input of a continuation: that of the request, and the replayed part of the answer."""
        return [*self.items, *(entry.data for entry in self.run.entries())]

    def refused(self, *keys: str) -> str:
        """Return which of these keys the backend refused, so that it was asked without them."""
        refused = {refusal.key.partition(".")[0] for refusal in self.learnt}
        return ", ".join(key for key in keys if key in refused)

    @property
    def complaint(self) -> str:
        """Why it is not accepted, in the backend's words."""
        if self.fault is not None:
            status = f"{self.fault.status}: " if self.fault.status else ""
            return f"{status}{self.fault.message}"
        error = self.final.get("error")
        return f"it ended as {self.run.state}" + (f": {error['message']}" if error else "")


class BackendUnderTest:
    """A backend that a check asks, and all of its answers so far.

    Args:
        settings: How to reach it.
        model: The model to ask for, None for the backend's default.
        timeout: The limit of each answer as a whole, in seconds.
    """

    def __init__(self, settings: UpstreamSettings, model: str | None, timeout: float) -> None:
        self.dialect = find(settings.dialect)
        self.model = model
        self.timeout = timeout
        self.answers: list[CheckedAnswer] = []
        self._backend = Backend(settings)
        self._client = plain_client(settings, timeout)
        self._socket: WebSocketClient | None = None
        if settings.transport == "websocket":
            self._socket = WebSocketClient(settings.url, retries=0)
        key = settings.key
        self._headers = {} if key is None else self.dialect.auth(key.get_secret_value())

    async def ask(
        self,
        value: Input,
        before: Sequence[bytes] = (),
        *,
        watch: Callable[[CheckedAnswer], None] | None = None,
        **options: Any,
    ) -> CheckedAnswer:
        """Ask for one answer and follow it to its end; an error lands in its `fault`.

        Args:
            value: The new input.
            before: The history, as JSON items.
            watch: Called with the answer after each read.
            options: Other fields of the request.
        """
        answer = CheckedAnswer([*before, *(encode(item) for item in input_items(value))])
        body = {"input": value, "store": False, "max_output_tokens": TOKENS, **options}
        if self.model is not None:
            body["model"] = self.model
        answer.run = Run(new_id("resp"), body, Profile(), answer.take, mint=new_id, clock=time.time)
        self.answers.append(answer)
        try:
            async with asyncio.timeout(self.timeout):
                await self._relay(answer, body, watch)
        except TimeoutError:
            message = f"There was no end within {self.timeout:g} seconds."
            self._fail(answer, backend_fault(message, status=504))
        except Fault as fault:
            self._fail(answer, fault)
        answer.fault = answer.fault or answer.run.fault
        answer.seconds = time.monotonic() - answer.since
        answer.over = True
        if not isinstance(answer.fault, ClientFault):
            answer.asked = self._backend.request(body, answer.items)
        answer.learnt = self._backend.refused(self.model)
        return answer

    async def post(self, body: dict[str, Any]) -> FetchedAnswer:
        """Send a request as it is and read the whole answer; over a WebSocket, how it begins.

        Raises:
            UpstreamFault: The backend cannot be reached, or is silent too long.
        """
        headers = {**self._headers, "accept": "application/json"}
        path, sent = self.dialect.path, encode(body)
        if self._socket is None:
            return await self._client.fetch("POST", path, headers, sent, timeout=self.timeout)
        try:
            async with asyncio.timeout(self.timeout):
                (await self._socket.post(path, sent, headers)).close()
        except TimeoutError:
            raise backend_fault("There was no answer.", status=504) from None
        except BackendAnswered as fault:
            error = {"code": fault.code, "message": fault.message, "param": fault.param}
            return FetchedAnswer(fault.status, {}, encode({"error": {**error, "type": fault.type}}))
        return FetchedAnswer(200, {}, b"{}")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._backend.aclose()
        await self._client.aclose()
        if self._socket is not None:
            await self._socket.aclose()

    async def _relay(
        self,
        answer: CheckedAnswer,
        body: dict[str, Any],
        watch: Callable[[CheckedAnswer], None] | None,
    ) -> None:
        stream = answer.stream = await self._backend.open(body, answer.items, {})
        run = answer.run
        run.trust(stream.profile)

        def sink(events: list[Event]) -> None:
            for name, data in events:
                answer.raw.append((name, data))
                run.receive(name, data)
            if watch is not None and not run.over:
                watch(answer)
            if run.state is RunState.STEERED:
                stream.close()
            elif run.over:
                stream.release()

        await stream.relay(sink)
        run.end()

    def _fail(self, answer: CheckedAnswer, fault: Fault) -> None:
        answer.fault = fault
        if answer.stream is not None:
            answer.stream.close()
        if isinstance(fault, UpstreamFault):
            answer.run.fail(fault)


def plain_client(settings: UpstreamSettings, timeout: float) -> HttpClient:
    """Return a client that asks without streaming and retries nothing; `timeout` in seconds."""
    return HttpClient(
        settings.url,
        connect_timeout=min(settings.connect_timeout, timeout),
        first_byte_timeout=timeout,
        idle_timeout=timeout,
        retries=0,
    )
