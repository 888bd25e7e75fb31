"""A thousand steers around the end of their responses: each has exactly one verdict.

What a race comes to is up to the machine, so the first lane of each connection provokes each fate.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.support.client import connect
from tests.support.events import (
    called,
    closed,
    completed,
    created,
    delta,
    failed,
    incomplete,
    opened,
    reply,
)
from tests.support.gateway_stand import said, stand
from tests.support.judge_response import TERMINALS
from tests.support.judge_steer import Fate

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from tests.support.client import Client, Event
    from tests.support.exchange import Exchange

CONNECTIONS, LANES, ROUNDS, STEERS = 5, 10, 10, 2
AROUND = 0.005
ENDS = ("completed", "completed", "completed", "limit", "call", "call", "failed", "cut")
REFUSED = {"response_not_active", "response_already_completed"}
#: What the rounds of the provoking lane come to, in turn: its steers come early enough to be
#: accepted, and the upstream takes or refuses the successor; or they come after the end.
PROVOKED = ("committed", "failed", "refused")


@dataclass
class Race:
    """What every lane was up to: how each response ends and when, and each steer's verdict."""

    draw: random.Random
    endings: dict[str, tuple[str, anyio.Event]] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    taken: Counter[str] = field(default_factory=Counter)
    given_back: Counter[str] = field(default_factory=Counter)
    #: The fates that are no matter of luck, by the response's input.
    provoked: dict[str, str] = field(default_factory=dict)

    async def upstream(self, exchange: Exchange) -> None:
        """Plays a response up to its end, which waits; answers or refuses what follows it."""
        texts = said(exchange)
        steers = [text for text in texts if text.startswith("s-")]
        if steers:
            fate = self.provoked.get(steers[0][2:-2])
            refuses = self.draw.random() < 0.1 if fate is None else fate == "failed"
            new = [text for text in steers if text not in self.taken]
            assert new, "it carries nothing"
            (self.given_back if refuses else self.taken).update(new)
            assert steers == sorted(set(steers))
            if refuses:
                await exchange.reply(400, {"error": {"message": "no"}})
            else:
                await exchange.send(*reply("ok"))
                await exchange.end()
            return
        if texts[0] not in self.endings or self.endings[texts[0]][1].is_set():
            await exchange.send(*reply("the client went on by itself"))
            await exchange.end()
            return
        how, gate = self.endings[texts[0]]
        await exchange.send(created(), *opened(), delta("abc"))
        await gate.wait()
        if how == "cut":
            exchange.cut()
            return
        await exchange.send(*_ending(how))
        await exchange.end()


def _ending(how: str) -> list[bytes]:
    ends = {"limit": [incomplete()], "failed": [failed()], "completed": [completed()]}
    if how == "call":
        return [*closed("abc"), *called("w", index=1), completed()]
    return [*closed("abc"), *ends[how]] if how == "completed" else ends[how]


@dataclass
class Lane:
    """One lane of one client: a response after the other, each steered around its end."""

    race: Race
    client: Client
    name: str
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    #: Accepted steers by id that may wait for another response than the one that began.
    late: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        for number in range(ROUNDS):
            key = f"{id(self.client)}-{self.name}-{number}"
            if self.name == "l0":
                self.race.provoked[key] = PROVOKED[number % len(PROVOKED)]
                await self._round(key, "completed")
            else:
                await self._round(key, self.race.draw.choice(ENDS))

    async def _round(self, key: str, how: str) -> None:
        gate = anyio.Event()
        self.race.endings[key] = how, gate
        await self.client.create(self.name, input=key)
        target = (await self._until("response.created"))["response"]["id"]
        await self._until("response.output_text.delta")
        texts = [f"s-{key}-{n}" for n in range(STEERS)]
        fate = self.race.provoked.get(key)
        if fate == "refused":
            gate.set()
            await self._until("response.completed")
        async with anyio.create_task_group() as tasks:
            if fate is None:
                tasks.start_soon(self._after, AROUND, gate)
            delays = sorted(self.race.draw.uniform(0, 2 * AROUND) for _ in texts)
            tasks.start_soon(self._steer, target, texts, delays)
            await self._verdicts(target, texts, tasks, key, running=fate != "refused")

    async def _after(self, delay: float, gate: anyio.Event) -> None:
        await anyio.sleep(delay)
        gate.set()

    async def _steer(self, target: str, texts: list[str], delays: list[float]) -> None:
        start = anyio.current_time()
        for text, delay in zip(texts, delays, strict=True):
            await anyio.sleep_until(start + delay)
            await self.client.steer(target, text)

    async def _verdicts(
        self, target: str, texts: list[str], tasks: TaskGroup, key: str, *, running: bool
    ) -> None:
        """Read until the response and what follows it are over and every steer has its verdict.

        Where a fate is provoked, the first answer to a steer lets the response end.
        """
        ids: dict[str, str] = {}  # in order of acceptance, which is that of submission
        unheard = list(texts)
        provoked, gate = key in self.race.provoked, self.race.endings[key][1]
        owing, chain = False, {target}
        while running or unheard or ids:
            event = await self.events.get()
            kind = event["type"]
            if kind.startswith("response.steer.") and provoked:
                gate.set()
            if kind == "response.steer.accepted":
                ids[event["steer"]["id"]] = unheard.pop(0)
            elif kind == "response.steer.failed":
                running = self._failed(event, ids, unheard) and running
            elif kind == "response.created":
                assert event["response"]["previous_response_id"] in chain
                chain.add(event["response"]["id"])
                self.race.verdicts.update(dict.fromkeys(ids.values(), "committed"))
                self.late |= ids
                ids.clear()
                running = True
            elif kind in TERMINALS or kind == "error":
                response = event["response"] if kind in TERMINALS else {"output": []}
                # What was steered is followed, or some steer fails.
                running = response.get("incomplete_details") == {"reason": "steered"}
                owing = any(item["type"] == "function_call" for item in response["output"])
            if owing:
                owing, running = False, True
                tasks.start_soon(self._answer, target)

    def _failed(self, event: Event, ids: dict[str, str], unheard: list[str]) -> bool:
        """Note a failure; return whether something may still run."""
        steer, code = event["steer"], event["error"]["code"]
        text = ids.pop(steer.get("id"), None)
        if text is None and code == "successor_creation_failed":
            # It waited for its successor to begin, and not in vain; but then for the next one.
            text = self.late.pop(steer["id"])
            assert self.race.verdicts.pop(text) == "committed"
        elif text is None:
            assert code in REFUSED, event
            text = unheard.pop(0)
        else:
            assert code == "successor_creation_failed", event
        assert steer["input"] == text
        assert text not in self.race.verdicts
        self.race.verdicts[text] = "refused" if code in REFUSED else "failed"
        return code in REFUSED

    async def _answer(self, target: str) -> None:
        await anyio.sleep(self.race.draw.uniform(0, AROUND))
        output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        await self.client.create(self.name, previous_response_id=target, input=[output])

    async def _until(self, kind: str) -> Event:
        while (event := await self.events.get())["type"] != kind:
            pass
        return event


async def _read(client: Client, lanes: dict[str, Lane]) -> None:
    while True:
        event = await client.receive()
        lanes[event["stream_id"]].events.put_nowait(event)


async def connection(race: Race, url: str) -> None:
    async with connect(url) as client, anyio.create_task_group() as reading:
        lanes = {name: Lane(race, client, name) for name in (f"l{n}" for n in range(LANES))}
        reading.start_soon(_read, client, lanes)
        async with anyio.create_task_group() as tasks:
            for lane in lanes.values():
                tasks.start_soon(lane.run)
        reading.cancel_scope.cancel()
    assert client.judge is not None
    client.judge.finish()
    fates = {one.fate for one in client.judge.steers.steers.values()}
    assert fates == {Fate.COMMITTED, Fate.FAILED}


@pytest.mark.parametrize("boundary", ["text", "item"])
async def test_a_thousand_steers_around_the_end(boundary: str) -> None:
    race = Race(random.Random(7))
    async with (
        stand(race.upstream, retries=0, steer_boundary=boundary) as on,
        anyio.create_task_group() as connections,
    ):
        for _ in range(CONNECTIONS):
            connections.start_soon(connection, race, on.url)
    assert len(race.verdicts) == CONNECTIONS * LANES * ROUNDS * STEERS
    by = {
        verdict: {text for text, told in race.verdicts.items() if told == verdict}
        for verdict in ("committed", "failed", "refused")
    }
    assert all(by.values()), {verdict: len(texts) for verdict, texts in by.items()}
    assert race.taken == Counter(by["committed"])  # each in exactly one successor
    assert set(race.given_back) <= by["failed"]
    assert max(race.given_back.values(), default=1) == 1
