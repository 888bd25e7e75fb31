"""The official SDK in front of every backend's body: continued, forked, and steered in each phase.

Told which dialect it is, and left to find out. The judge hears every frame, the SDK's own
accumulator follows each response, and the backend's judge looks at what was asked.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI

from gateway.config.settings import Settings
from tests.dialects.strict import refuses
from tests.dialects.test_tapes import ENDS, reads
from tests.machines.drive import REQUEST, start
from tests.support.dialect_reading import dialect_of, received
from tests.support.gateway import running
from tests.support.judged_sdk import Follower, judged
from tests.support.upstream import upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai.resources.responses.responses import AsyncResponsesConnection

    from tests.support.exchange import Exchange
    from tests.support.upstream import ScriptedUpstream

PARENTS = [name for name in ENDS if ENDS[name][0] != "failed"]
STEER, FIRST = "the steer", "the first words"
REFERENCE = ("openai", "azure")
#: What a backend calls itself that can be known on any host.
OWNERS = {
    **{name: name for name in ("vllm", "sglang", "llamacpp")},
    **{"ollama": "library", "lmstudio": "organization_owner", "openai": "multilane-rehearse"},
}


class Talk:
    """One socket of the SDK's, one lane, and the scripted backend behind it."""

    def __init__(
        self, fake: ScriptedUpstream, connection: AsyncResponsesConnection, dialect: str
    ) -> None:
        self.fake = fake
        self.dialect = dialect
        self.seen = Follower()
        self._connection = connection
        self.create = connection.response.create

    async def hear(self, *types: str) -> Any:
        """Read on to the first event of these types."""
        while True:
            event = await self._connection.recv()
            if not event.type.startswith("response.steer."):
                self.seen.receive(event)
            if event.type in types or not types:
                return event

    async def steer(self, target: str) -> None:
        await self._connection.response.steer(previous_response_id=target, input=STEER)
        while not (told := await self.hear()).type.startswith("response.steer."):
            pass
        assert told.type == "response.steer.accepted", told

    async def ended(self) -> Any:
        """The terminal response object; it may have been heard already."""
        while self.seen.ended is None:
            await self.hear()
        return self.seen.ended

    async def asked(self) -> Exchange:
        """The next request, which the backend must take."""
        exchange = await self.fake.next()
        assert refuses(self.dialect, exchange.body) is None
        return exchange


@asynccontextmanager
async def talking(dialect: str, *, auto: bool = False) -> AsyncIterator[Talk]:
    async with (
        upstream() as fake,
        running(Settings(upstream=fake.url, dialect="auto" if auto else dialect)) as url,
        AsyncOpenAI(base_url=url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        if auto:
            await _tell(fake, OWNERS[dialect])
        judge = judged(connection)
        yield Talk(fake, connection, dialect)
        judge.finish()


async def _tell(fake: ScriptedUpstream, owner: str) -> None:
    """Say what is asked at the start: who owns the models, and that there is the place."""
    await (await fake.next()).reply(200, {"data": [{"id": "m", "owned_by": owner}]})
    await (await fake.next()).reply(400, {"error": {"message": "'input' is required"}})


def owed(response: Any) -> list[Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
        for call in calls
    ]


async def play(exchange: Exchange, blocks: list[bytes]) -> None:
    """The rest of a body, unless the gateway has hung up already."""
    try:
        await exchange.send(*blocks)
        await exchange.end()
    except ConnectionResetError:
        pass


@pytest.mark.parametrize(
    ("name", "auto"),
    [
        *((name, False) for name in PARENTS),
        *((name, True) for name in PARENTS if dialect_of(name).name in OWNERS),
    ],
)
async def test_a_turn_its_continuation_and_a_fork(name: str, auto: bool) -> None:
    dialect = dialect_of(name).name
    async with talking(dialect, auto=auto) as on:
        await on.create(model="m", input=FIRST, store=False)
        await play(await on.asked(), reads(name))
        first = await on.ended()
        for words in ("go on", "otherwise"):
            again = [*owed(first), {"role": "user", "content": words}]
            await on.create(model="m", input=again, previous_response_id=first.id, store=False)
            exchange = await on.asked()
            assert [FIRST in str(item) for item in exchange.input].index(True) == 0
            assert words in str(exchange.input[-1])
            on.seen.ended = None
            await play(exchange, reads(name))
            assert (await on.ended()).previous_response_id == first.id


def phases(name: str) -> list[tuple[int, int]]:
    """After how many events of the body each phase begins, and how many were sent by then."""
    run, sent = start(REQUEST, dialect_of(name).profile)
    found: dict[object, tuple[int, int]] = {}
    for number, (event, data) in enumerate(received(reads(name)), 1):
        run.receive(event, data)
        if not run.over:
            found.setdefault((sent[-1]["type"], sent[-1].get("output_index")), (number, len(sent)))
    return list(found.values())


@pytest.mark.parametrize("name", PARENTS)
async def test_a_steer_in_each_phase(name: str) -> None:
    blocks = [b"data: " + data + b"\n\n" for _, data in received(reads(name))]
    steered = 0
    async with talking(dialect_of(name).name) as on:
        for number, sent in phases(name):
            steered += await _steered(on, blocks, number, sent)
    assert steered > 0


async def _steered(on: Talk, blocks: list[bytes], number: int, sent: int) -> bool:
    on.seen.ended = None
    await on.create(model="m", input=FIRST, store=False)
    exchange = await on.asked()
    await exchange.send(*blocks[:number])
    target = (await on.hear("response.created")).response.id
    for _ in range(sent - 1):
        await on.hear()
    await on.steer(target)
    await play(exchange, blocks[number:])
    end = await on.ended()
    outputs = owed(end) if end.status == "completed" else []
    if outputs:
        await on.create(model="m", input=outputs, previous_response_id=target, store=False)
    successor = await on.asked()
    _in_order(on.dialect, [str(item) for item in successor.input], end, bool(outputs))
    on.seen.ended = None
    await play(successor, reads("friendli_text.sse"))
    followed = await on.ended()
    assert (followed.status, followed.previous_response_id) == ("completed", target)
    return bool(end.incomplete_details and end.incomplete_details.reason == "steered")


def _in_order(dialect: str, given: list[str], end: Any, called: bool) -> None:
    """What was asked, what was said of it, the outputs, the steer (protocol.md 3 and 5)."""
    assert FIRST in given[0]
    place = next(at for at, item in enumerate(given) if STEER in item)
    parts = [part for item in end.output if item.type == "message" for part in item.content]
    for text in (repr(part.text)[1:-1] for part in parts if part.text):
        assert any(text in one for one in given[1:place])
    if called and dialect in REFERENCE:
        return  # it gets the steer first, as protocol.md 5 has it, and takes outputs anywhere
    assert any("done" in one for one in given[1:place]) or not called
    assert place == len(given) - 1
