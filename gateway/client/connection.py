"""SHELL: one WebSocket. Reads frames, starts creates and ends in order (protocol.md 1)."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio

from gateway.client.contained import contained
from gateway.client.frame_queue import FrameQueue
from gateway.client.frames import FrameRefusal, read
from gateway.client.large_frames import SMALL, FrameLimits, is_large
from gateway.client.options import DEFAULTS
from gateway.client.outbox import SocketOutbox
from gateway.client.paced_writer import WaterMarks
from gateway.client.turns import SHARE, TURNS
from gateway.config.configured_upstreams import default_model
from lanes.board import Board, LaneState
from lanes.errors import ClientFault, UpstreamFault, cancelled
from lanes.frames import Cancel, Create
from lanes.history.archive import KeyArchive
from lanes.history.lineage import Lineage
from lanes.stream.room import OutputBounds
from lanes.worker import Worker
from steering.desk import Desk
from steering.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from anyio.abc import TaskGroup

    from gateway.client.frame_queue import Frame
    from gateway.client.options import ConnectionOptions
    from gateway.client.socket import ClientSocket
    from gateway.config.settings import Settings
    from gateway.keys.ring import LiveKey
    from gateway.persistence.stores import Stores
    from gateway.telemetry.traffic import Traffic
    from lanes.errors import Fault
    from lanes.observer import ResponseObserver
    from lanes.ports import Upstream
    from lanes.quota import Quota

#: The message in the socket's queue that ends a connection at its age limit.
EXPIRED = "multilane.expired"
#: The message in the socket's queue that ends a connection with its key.
REVOKED = "multilane.revoked"
#: Seconds for the tasks of stopped responses to send their last events.
STOP_TIMEOUT = 1.0
#: Close codes with an error event before them, which says why: the age limit, and the key.
_TOLD = (1000, 1008)


class ClientConnection:
    """Everything that lives as long as one socket: its lanes, its history, its writer.

    Args:
        socket: The client's WebSocket.
        upstream: Answers its requests.
        stores: What outlives the socket.
        settings: The gateway's.
        key_id: Names the client's key.
        headers: The client's, as far as upstreams may see them.
        key: The client's key, if it has a name.
        quota: How much its tenant may do.
        observer: Hears how its responses end.
        sent: Where what is sent is counted.
        options: What the client asks of the connection.
        make: Makes its worker.
    """

    def __init__(
        self,
        socket: ClientSocket,
        upstream: Upstream,
        stores: Stores,
        settings: Settings,
        key_id: str,
        headers: Mapping[str, str],
        key: LiveKey | None,
        quota: Quota,
        observer: ResponseObserver | None = None,
        sent: Traffic | None = None,
        options: ConnectionOptions = DEFAULTS,
        make: Callable[..., Worker] = Worker,
    ) -> None:
        self._socket = socket
        self._settings = settings
        self._default_model = default_model(settings)
        limits = FrameLimits(settings.max_chain, settings.max_steer_bytes)
        self._queue = FrameQueue(socket, limits, self._default_model)
        self._outbox = SocketOutbox(socket, sent)
        self._board = Board(
            settings.max_active, settings.max_named, settings.max_queued, settings.max_queued_bytes
        )
        follow = settings.steer_follow and options.follow
        self._desk = Desk(
            Ledger(settings.max_steers, settings.max_steer_bytes, follow=follow),
            stores.clerk,
            key_id,
            self._outbox.put_reply,
            extended=options.steering,
        )
        self._worker = make(
            upstream,
            Lineage(settings.cache_bytes),
            KeyArchive(stores.archive, key_id),
            self._outbox,
            self._desk,
            self._board.continues,
            headers,
            OutputBounds(settings.max_output_bytes, settings.max_running_output_bytes),
            quota=quota,
            observer=observer,
        )
        self._key = key
        self._ending: Fault | None = None
        self._over: UpstreamFault | None = None
        self._idle: anyio.Event | None = None
        self._tasks: TaskGroup | None = None

    @property
    def board(self) -> Board:
        """Its lanes, and what runs and waits on them."""
        return self._board

    async def serve(self, receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Serve until the client leaves or its time is up; its upstream calls end with it."""
        settings = self._settings
        pace = self._outbox.pause, self._outbox.resume
        self._socket.bound(
            WaterMarks(settings.send_buffer_bytes, settings.stall_timeout, *pace),
        )
        # A timer costs an idle connection less than a task. It goes through the socket's queue,
        # because only a task may start other tasks.
        age = asyncio.get_running_loop().call_later(settings.max_age, self._socket.notify, EXPIRED)
        try:
            async with anyio.create_task_group() as self._tasks:
                # This task does nothing but receive: reading never waits for lanes or upstreams.
                while (message := await receive())["type"] != "websocket.disconnect":
                    if message["type"] == EXPIRED:
                        self._expire()
                    elif message["type"] == REVOKED:
                        self._turn_out()
                    else:
                        await self._receive(message["bytes"], is_text=message["is_text"])
                    if self._socket.rest:
                        self._socket.caught_up()
                self._tasks.cancel_scope.cancel()
        finally:
            age.cancel()
            self._tasks = None  # it leads to this task, and so back to here
            self._desk.close()
            self._outbox.resume()  # nobody is held up any more

    def drain(self, timeout: float) -> None:
        """Start nothing more, and let what runs finish for `timeout` seconds: the gateway stops."""
        fault = ClientFault(
            "The gateway is shutting down; connect again and send this request there.",
            code="server_shutting_down",
            status=503,
            type="server_error",
        )
        self._spawn(self._wind_down, fault, timeout, 1012, "service restart")

    def revoke(self, fault: UpstreamFault) -> None:
        """End everything now: the key that opened the connection is no longer valid."""
        self._over = fault
        self._socket.notify(REVOKED)

    def _turn_out(self) -> None:
        assert self._over is not None, "the key is still valid"
        self._spawn(self._wind_down, self._over, 0, 1008, "API key no longer valid")

    def _expire(self) -> None:
        fault = ClientFault(
            f"This connection has reached its limit of {self._settings.max_age:g} seconds; "
            "open a new one.",
            code="websocket_connection_limit_reached",
        )
        self._spawn(self._wind_down, fault, self._settings.age_grace, 1000, "age limit")

    async def _wind_down(self, fault: Fault, grace: float, code: int, reason: str) -> None:
        """Answer every waiting create with `fault`, let the running ones end, then close."""
        self._ending = fault
        self._desk.stop(fault.message)
        for create in self._board.close():
            self._outbox.error(fault, create.stream_id)
        await self._until_idle(grace)
        self._worker.stop(
            UpstreamFault(fault.message, code=fault.code, status=fault.status, type=fault.type)
        )
        # The tasks of those that had not begun refuse them.
        await self._until_idle(STOP_TIMEOUT)
        if code in _TOLD:
            self._outbox.error(fault, None)
        self._outbox.flush()
        self._socket.end(code, reason)

    async def _until_idle(self, timeout: float) -> None:
        self._idle = self._idle or anyio.Event()
        if self._board.active:
            with anyio.move_on_after(timeout):
                await self._idle.wait()

    async def _receive(self, data: bytes, *, is_text: bool) -> None:
        """Act on a frame, in turn with those of other connections."""
        start = perf_counter()
        if self._queue.busy or (len(data) > SMALL and is_large(data)):
            self._on_large(data, is_text=is_text)
            return
        if TURNS.waiting or start < TURNS.busy_until - SHARE:
            await TURNS.wait(len(data))
            start = perf_counter()
        self._on_frame(data, is_text)
        TURNS.busy_until = max(TURNS.busy_until, start) + 2 * (perf_counter() - start)

    def _on_large(self, data: bytes, *, is_text: bool) -> None:
        """Have a large frame read aside, and whatever comes before that is done after it."""
        if self._queue.put(data, is_text=is_text):
            self._spawn(self._queue.run, self._on_frame)

    def _on_frame(
        self,
        data: bytes,
        is_text: bool,  # noqa: FBT001  (the queue's call)
        frame: Frame | None = None,
    ) -> None:
        """Act on a frame; a large one was read already."""
        if self._outbox.paused and self._socket.unsent > 2 * self._settings.send_buffer_bytes:
            # Answers alone have piled up: the client sends on and on, and reads nothing (D10).
            self._socket.end(1013, "slow_consumer")
            return
        if frame is None:
            frame = read(data, self._default_model)
        if isinstance(frame, Create):
            self._submit(frame)
        elif isinstance(frame, Cancel):
            self._cancel(frame)
        elif isinstance(frame, FrameRefusal) and is_text and frame.not_utf8:
            self._socket.fail_text()
        elif isinstance(frame, FrameRefusal):
            self._outbox.error(frame.fault, frame.stream_id)
        elif (rest := self._desk.receive(frame)) is not None:
            self._spawn(rest)

    def _submit(self, create: Create) -> None:
        if self._ending is not None:
            self._outbox.error(self._ending, create.stream_id)
            return
        try:
            if self._key is not None:
                self._key.check_model(create.body.get("model"))
            started = self._board.submit(create)
        except ClientFault as fault:
            self._outbox.error(fault, create.stream_id)
        else:
            self._start(started)

    def _cancel(self, cancel: Cancel) -> None:
        """End what a `response.cancel` names; say nothing if that is nothing (protocol.md 5)."""
        if cancel.response_id is not None:
            self._worker.cancel(cancel.response_id)
            return
        lanes = self._board.lanes
        running = [lane for lane, state in lanes.items() if state is LaneState.RUNNING]
        named = cancel.stream_id is not None
        lane = cancel.stream_id if named or len(running) != 1 else running[0]
        if lane in running and (named or len(running) == 1):
            self._worker.cancel_lane(lane)
        for create in self._board.clear(lane) if named else ():
            self._outbox.error(cancelled(), lane)
            self._desk.disclaim(create.parent_id, lane)

    def _start(self, creates: Iterable[Create]) -> None:
        for create in creates:
            if self._desk.awaiting_outputs:
                # Now: in a moment the create is out of the queue, and has not begun yet.
                self._desk.claim(create.parent_id, create.stream_id)
            self._spawn(self._carry, create)

    async def _carry(self, create: Create) -> None:
        successor = await self._worker.carry(create)
        while successor is not None:
            if self._board.closed:
                self._worker.forgo(successor, "this connection starts nothing more.")
                break
            self._board.succeed(create.stream_id, successor.create)
            successor = await self._worker.carry(successor.create, successor)
        self._start(self._board.finish(create.stream_id))
        if self._idle is not None and not self._board.active:
            self._idle.set()

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        if self._tasks is not None and not self._tasks.cancel_scope.cancel_called:
            self._tasks.start_soon(contained, function, *args)
