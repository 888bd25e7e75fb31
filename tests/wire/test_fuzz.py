"""Random frames while another lane streams: each is answered, and the stream is unharmed."""

from __future__ import annotations

import json
from contextlib import suppress
from socket import SHUT_WR
from typing import TYPE_CHECKING, Any

import anyio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.client import connect
from tests.support.events import created, in_progress, opened, reply
from tests.support.hang_guard import HANG
from tests.support.judge import judge, validate
from tests.support.raw_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, frame, raw
from tests.support.wire_stand import RunningLane, WireStand, standing, talking

if TYPE_CHECKING:
    from tests.support.client import Client
    from tests.support.exchange import Exchange

KEYS = [
    "type", "stream_id", "model", "input", "previous_response_id", "conversation", "tools",
    "generate", "store", "background", "metadata", "stream", "event_id", "instructions", "k",
]  # fmt: skip
WORDS = ["response.create", "response.steer", "m", "a", "busy", "resp_1", "", "x" * 300, "é🙂\x00"]
leaf: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text()
)
value = st.recursive(
    leaf, lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=3), of, max_size=3)
)
#: Near a proper create, so that what lies behind the first checks is met, too.
near: st.SearchStrategy[Any] = st.builds(
    lambda base, odd: {**base, **odd},
    st.sampled_from([{}, {"type": "response.create", "model": "m", "input": "hi"}]),
    st.dictionaries(st.sampled_from(KEYS), value, max_size=4),
)
spoilt: st.SearchStrategy[bytes] = st.builds(
    lambda data, at, what: data[: at % (len(data) + 1)] + what + data[at % (len(data) + 1) :],
    near.map(lambda body: json.dumps(body).encode("utf-8", "replace")),
    st.integers(0, 400),
    st.binary(max_size=3),
)
frames = st.lists(
    st.one_of(near.map(lambda body: json.dumps(body).encode()), spoilt, st.binary(max_size=40)),
    min_size=1,
    max_size=12,
)


async def others(exchange: Exchange) -> None:
    """Whatever else the fuzz gets through is answered at once; the busy lane is the test's."""
    if exchange.body.get("user") != "busy":
        await exchange.send(*reply("ok"))
        await exchange.end()


async def busy(stand: WireStand, client: Client) -> RunningLane:
    """A lane in the middle of a response."""
    await client.create("busy", user="busy")
    with anyio.fail_after(HANG):
        while not stand.fake.exchanges:  # noqa: ASYNC110 - the script takes them
            await anyio.sleep(0.001)
    exchange = stand.fake.exchanges[0]
    await exchange.send(created(), in_progress(), *opened())
    await client.until("response.content_part.added", lane="busy")
    return RunningLane(client, "busy", exchange)


#: Shrinking would take longer than a test may; what was drawn is printed.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(max_examples=25, phases=PHASES)
@given(frames)
async def test_odd_frames_are_answered_and_disturb_nobody(sent: list[bytes]) -> None:
    async with standing(others) as stand, connect(stand.url, judged=False) as client:
        lane = await busy(stand, client)
        for at, data in enumerate(sent):
            await client.send(data if at % 2 else data.decode("utf-8", "replace"))
            await lane.says(f"{at} ")
        # Frames are read in order: once this is answered, all were.
        await client.send({"type": "response.create", "stream_id": "fence", "model": 0})
        await client.error("fence")
        await lane.ends()
        # The others' requests are echoed to them, odd as they are.
        seen = client.lane("busy")
        ends = [at for at, event in enumerate(seen) if event["type"] == "response.completed"]
        judge(seen[: ends[0] + 1])
        for event in client.transcript:
            if event["type"] == "error":
                validate(event)


pieces = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=20),
        st.builds(
            frame, st.binary(max_size=20), st.sampled_from([CONT, TEXT, BINARY, PING, PONG, CLOSE])
        ),
        st.builds(lambda body: frame(body, fin=False), st.binary(max_size=20)),
    ),
    max_size=8,
).map(b"".join)


@settings(max_examples=15, phases=PHASES)
@given(st.lists(pieces, min_size=1, max_size=5))
async def test_odd_bytes_end_their_own_connection_at_most(streams: list[bytes]) -> None:
    async with talking(others) as (stand, client):
        lane = await busy(stand, client)
        for at, data in enumerate(streams):
            async with raw(stand.port) as other:
                with suppress(ConnectionError):
                    await other.write(data)
                    await lane.says(f"{at} ")
                    if at % 2:
                        other.abort()
                        continue
                    other.sock.shutdown(SHUT_WR)
                    await other.end()
        await lane.ends()
