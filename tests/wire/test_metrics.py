"""`/metrics`: who may read it and where, and that its numbers are those of what happened."""

from __future__ import annotations

import re
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.client import connect
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    event,
    message,
    opened,
)
from tests.support.hang_guard import HANG
from tests.support.http_client import posted
from tests.support.raw_client import raw
from tests.support.scraped import Scrape, scraped, scraped_until
from tests.support.steered import begin, steered
from tests.support.wire_stand import standing, started, unread
from tests.wire.test_slow_reader import BOUND, judged, long

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
KEY = {"authorization": "Bearer sk-1"}


async def answer(exchange: Exchange) -> None:
    done = completed(output=[message("hi")], usage=USAGE)
    await exchange.send(created(), *opened(), delta("hi"), *closed("hi"), done)
    await exchange.end()


async def status(url: str, headers: dict[str, str] | None = None) -> int:
    async with httpx2.AsyncClient(trust_env=False, timeout=HANG) as http:
        found: int = (await http.get(url, headers=headers)).status_code
    return found


async def test_who_may_read_them() -> None:
    rows: list[tuple[dict[str, Any], int, int]] = [
        # settings, status without a key, status with one
        ({}, 200, 200),
        ({"api_keys": ("sk-1",)}, 401, 200),
        ({"api_keys": ("sk-1",), "metrics_access": "open"}, 200, 200),
        ({"api_keys": ("sk-1",), "metrics_access": "off"}, 404, 404),
        ({"metrics_access": "off"}, 404, 404),
        ({"metrics_port": 0}, 404, 404),
    ]
    for settings, without, keyed in rows:
        async with standing(**settings) as stand:
            url = stand.url.removesuffix("/v1") + "/metrics"
            assert (await status(url), await status(url, KEY)) == (without, keyed), settings


async def test_a_port_of_their_own_asks_for_no_key_and_serves_nothing_else() -> None:
    async with standing(api_keys=("sk-1",), metrics_port=0) as stand:
        assert stand.server.metrics is not None
        place = f"http://{stand.server.metrics.place}"
        assert (await scraped(place))("multilane_connections") == 0
        for path in ("/", "/health", "/v1/models"):
            assert await status(place + path) == 404, path
        async with connect(stand.url, headers=KEY):
            # A scrape that never ends its head holds up nobody, and not the end.
            stuck = socket.create_connection(("127.0.0.1", stand.server.metrics.port))
            stuck.sendall(b"GET /metrics HTTP/1.1\r\n")
            assert (await scraped(place))("multilane_connections") == 1
    stuck.close()


async def test_a_scrape_gets_the_format_that_it_asks_for() -> None:
    async with standing() as stand:
        url = stand.url.removesuffix("/v1") + "/metrics"
        async with httpx2.AsyncClient(trust_env=False, timeout=HANG) as http:
            accept = {"accept": "application/openmetrics-text; version=1.0.0"}
            found = await http.get(url, headers=accept)
            assert found.headers["content-type"].startswith("application/openmetrics-text")
            assert found.text.endswith("# EOF\n")
            named = await http.get(url, params={"name[]": "multilane_connections"})
            assert Scrape(named.text).families.keys() == {"multilane_connections"}
            assert (await http.post(url)).status_code == 405


async def test_responses_by_each_way() -> None:
    async with standing(answer, dialect="openai") as stand:
        async with connect(stand.url) as client:
            await client.create("a", model="m")
            await client.ended("a")
            await client.create("b", model="m", previous_response_id="resp_none")
            await client.error("b")
            await client.create("c", model="m", generate=False)
            await client.ended("c")
            events = len(client.transcript)
            scrape = await scraped_until(
                stand.url, lambda now: now("multilane_responses_total") == 3
            )
            assert scrape("multilane_connections") == scrape("multilane_sockets") - 1 == 1
            assert scrape("multilane_lanes") == 3
            assert scrape("multilane_events_sent_total", transport="socket") == events
            assert scrape("multilane_bytes_sent_total", transport="socket") > 100 * events
        for body in ({}, {"stream": True}, {"background": True, "store": True, "stream": True}):
            async with posted(stand.url, {"model": "m", "input": "hi", **body}) as reader:
                await reader.events() if body else await reader.body()
        scrape = await scraped_until(stand.url, lambda now: now("multilane_responses_total") == 6)
        await disconnected_but_one(stand)
    ended = {
        (one.labels["upstream"], one.labels["transport"], one.labels["status"]): one.value
        for one in scrape.families["multilane_responses_total"].samples
    }
    assert ended == {
        ("default", "socket", "completed"): 1,
        ("none", "socket", "refused"): 1,
        ("none", "socket", "completed"): 1,
        ("default", "http", "completed"): 2,
        ("default", "background", "completed"): 1,
    }
    assert scrape.values("multilane_creates_refused_total", "code") == {
        "previous_response_not_found": 1
    }
    assert scrape.values("multilane_tokens_total", "kind") == {"input": 28.0, "output": 12.0}
    assert scrape("multilane_response_seconds_count", upstream="default") == 4
    assert scrape("multilane_first_event_seconds_count", upstream="default") == 3
    assert scrape("multilane_events_sent_total", transport="http") >= 16
    assert scrape("multilane_bytes_sent_total", transport="http") > 0
    assert scrape("multilane_connections_accepted_total") == 1
    assert scrape("multilane_upstream_errors_total") == 0
    assert scrape("multilane_upstream_info", upstream="default", dialect="openai") == 1
    assert sum(scrape.values("multilane_store_state", "state").values()) == 1


async def disconnected_but_one(stand: Any) -> None:
    """The WebSocket is gone; the sockets of scrapes may linger."""
    with anyio.fail_after(HANG):
        while stand.server.gateway.census.connections:  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_what_runs_and_what_waits() -> None:
    async with standing(max_active=1) as stand, connect(stand.url) as client:
        running = await started(stand.fake, client, "a")
        await client.create("a")
        await client.create("b")
        async with posted(stand.url, {"input": "hi", "background": True, "store": True}):
            exchange = await stand.fake.next()
            scrape = await scraped_until(
                stand.url, lambda now: now("multilane_creates_waiting") == 2
            )
            assert scrape("multilane_responses_running") == 2
            assert scrape("multilane_lanes") == 2
            assert scrape("multilane_draining") == 0
            await answer(exchange)
        await running.ends()
        for lane in ("b", "a"):
            await answer(await stand.fake.next())
            await client.ended(lane)


def errors_are(number: int, now: Scrape) -> bool:
    return now("multilane_upstream_errors_total") == number


async def test_what_goes_wrong_with_an_upstream() -> None:
    async def script(exchange: Exchange) -> None:
        asked = exchange.body["model"]
        if asked.isdecimal():
            await exchange.reply(int(asked), {"error": {"message": "no"}})
            return
        await exchange.send(created(), *opened(), delta("hi"))
        if asked == "reports":
            await exchange.send(event("error", code="rate_limit_exceeded", message="slow down"))
        await exchange.end()

    rows = {
        "400": "rejected",
        "404": "rejected",
        "429": "rate_limited",
        "500": "server_error",
        "503": "server_error",
        "504": "timeout",
        "cut": "broken_off",
        "reports": "rate_limited",
    }
    async with standing(script, retries=0) as stand, connect(stand.url) as client:
        told: dict[str, float] = {}
        for number, (model, kind) in enumerate(rows.items(), 1):
            await client.create("a", model=model)
            await client.until("error", "response.failed", lane="a")
            done = partial(errors_are, number)
            scrape = await scraped_until(stand.url, done)
            told[kind] = told.get(kind, 0) + 1
            found = scrape.values("multilane_upstream_errors_total", "class")
            assert found == told, model
            assert scrape("multilane_upstream_errors_total", upstream="default") == number
        # A code that a backend chose is no label.
        assert set(scrape.values("multilane_creates_refused_total", "code")) <= {
            "server_error",
            "rate_limit_exceeded",
        }


async def test_an_upstream_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with standing(upstream=gone, retries=0) as stand, connect(stand.url) as client:
        await client.create("a")
        await client.error("a")
        scrape = await scraped_until(
            stand.url, lambda now: now("multilane_upstream_errors_total") == 1
        )
    assert scrape.values("multilane_upstream_errors_total", "class") == {"unreachable": 1}


async def test_what_the_gateway_or_a_client_ends_is_no_upstreams_fault() -> None:
    async with standing(drain_timeout=0) as stand:
        async with connect(stand.url) as client:
            await started(stand.fake, client, "a")
            await client.cancel(stream_id="a")
            await client.until("response.incomplete", lane="a")
            await started(stand.fake, client, "b")
        await scraped_until(stand.url, lambda now: now("multilane_responses_total") == 2)
        async with connect(stand.url) as client:
            await started(stand.fake, client, "a")
            stand.server.should_exit = True
            await client.until("response.failed", lane="a")
            await client.closed()
        responses = stand.server.gateway.metrics.registry
        ended = responses.get_sample_value
        labels = {"upstream": "default", "transport": "socket"}
        for state in ("cancelled", "abandoned", "failed"):
            found = ended("multilane_responses_total", {**labels, "status": state})
            assert found == 1, state
        for one in responses.collect():
            if one.name == "multilane_upstream_errors":
                assert not any(sample.value for sample in one.samples)


async def test_steers_and_cuts() -> None:
    async with steered() as on:
        running = await begin(on, "a", *opened())
        await running.says("one", "two")
        await running.steer("once")
        await running.ended("steered")
        running = await running.follows()
        await running.send(*opened())
        await running.says("three")
        await on.client.steer("resp_none", "to nobody")
        await on.client.until("response.steer.failed")
        await running.finish()
        late = await running.refused("late")
        assert late["code"] == "response_already_completed"
        scrape = await scraped_until(on.url, lambda now: now("multilane_responses_total") == 2)
        steers = {
            (one.labels["outcome"], one.labels["reason"]): one.value
            for one in scrape.families["multilane_steers_total"].samples
        }
        assert steers == {
            ("committed", ""): 1,
            ("failed", "response_not_found"): 1,
            ("failed", "response_already_completed"): 1,
        }
        assert scrape("multilane_steer_accepted_seconds_count") == 1
        assert scrape("multilane_steer_successor_seconds_count") == 1
        cut = on.client.lane("a")
        first = next(at for at, one in enumerate(cut) if one["type"] == "response.incomplete")
        assert scrape("multilane_cut_position_events_count") == 1
        assert scrape("multilane_cut_position_events_sum", status="steered") == first + 1


async def test_a_client_that_falls_behind() -> None:
    async with standing(long(200), send_buffer_bytes=BOUND) as stand:
        async with raw(stand.port, receive_buffer=1 << 17) as client:
            await client.create("a")
            await unread(stand, BOUND)
            scrape = await scraped_until(
                stand.url, lambda now: now("multilane_backpressure_seconds_total") > 0
            )
            assert scrape("multilane_clients_behind", transport="socket") == 1
            await judged(client, 1)
            await scraped_until(stand.url, lambda now: now("multilane_clients_behind") == 0)
            await client.create("a")
            await unread(stand, BOUND)
            await scraped_until(stand.url, lambda now: now("multilane_clients_behind") == 1)
        await scraped_until(stand.url, lambda now: now("multilane_clients_behind") == 0)


async def test_who_is_not_let_in() -> None:
    async with standing(api_keys=("sk-1",), metrics_access="open") as stand:
        for path, headers in (("", None), ("", None), ("/other", KEY)):
            with pytest.raises(InvalidStatus):
                async with connect(stand.url + path, headers=headers):
                    pass
        scrape = await scraped(stand.url)
    told = scrape.values("multilane_connections_refused_total", "code")
    assert told == {"missing_api_key": 2, "not_found": 1}


async def test_the_process_and_its_loop() -> None:
    async with standing() as stand:
        scrape = await scraped_until(
            stand.url, lambda now: now("multilane_event_loop_delay_seconds_count") >= 2
        )
    if sys.platform == "linux":
        assert scrape("process_resident_memory_bytes") > 1 << 20
    assert scrape("multilane_build_info") == 1


async def test_every_metric_is_documented() -> None:
    section = DOCUMENT.read_text("utf-8").partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", section, re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    async with standing(answer) as stand, connect(stand.url) as client:
        await client.create("a")
        await client.ended("a")
        scrape = await scraped_until(stand.url, lambda now: now("multilane_responses_total") == 1)
    shown = scrape.families
    assert {name for name in shown if name.startswith("multilane_")} == {
        name for name in documented if name.startswith("multilane_")
    }
    if sys.platform == "linux":
        assert shown.keys() == documented.keys()
    for name, family in shown.items():
        labels = {label for one in family.samples for label in one.labels} - {"le"}
        assert labels <= documented[name], name
