"""Spans of responses: their names, whom they belong to, and that nothing in them is content."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.client import connect
from tests.support.events import closed, completed, created, delta, in_progress, message, opened
from tests.support.gateway_stand import answer
from tests.support.hang_guard import HANG
from tests.support.http_client import requested
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.exchange import Exchange

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}
SECRET = "nobody may read this"


class Spans:
    """All spans that have ended, as they would be exported."""

    def __init__(self) -> None:
        sdk = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        self.exporter = sdk.InMemorySpanExporter()

    async def ended(self, number: int) -> list[Any]:
        """So many, in the order of their ends."""
        with anyio.fail_after(HANG):
            while len(self.exporter.get_finished_spans()) < number:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        found = list(self.exporter.get_finished_spans())
        assert len(found) == number
        assert SECRET not in "".join(span.to_json() for span in found)
        names = {name for span in found for name in span.attributes if name.startswith("gen_ai.")}
        known = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
        assert names <= {one for one in vars(known).values() if isinstance(one, str)}
        return found


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    made = Spans()
    provider = import_module("opentelemetry.sdk.trace").TracerProvider(shutdown_on_exit=False)
    processor = import_module("opentelemetry.sdk.trace.export").SimpleSpanProcessor
    provider.add_span_processor(processor(made.exporter))
    monkeypatch.setattr("gateway.telemetry.tracing._exporting", lambda: provider)
    return made


@asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[WireStand]:
    async with standing(tracing=True, retries=0, **settings) as stand:
        yield stand


def of(exchange: Exchange) -> tuple[str, str]:
    """The trace and the span that a backend's request belongs to."""
    header = exchange.headers["traceparent"]
    found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0[13]", header)
    assert found is not None, header
    return found[1], found[2]


def place(span: Any) -> tuple[str, str]:
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


async def test_a_response_is_a_span_of_the_callers_trace(spans: Spans) -> None:
    async with traced() as stand, connect(stand.url, headers=TRACEPARENT) as client:
        await client.create("a", input=SECRET, instructions=SECRET, temperature=0.5)
        exchange = await stand.fake.next()
        await answer(exchange)
        response = await client.ended("a")
        (span,) = await spans.ended(1)
    assert of(exchange) == place(span)
    assert exchange.headers["tracestate"] == "vendor=1"
    assert place(span)[0] == TRACE
    assert f"{span.parent.span_id:016x}" == CALLER
    assert (span.name, span.kind.name, span.status.status_code.name) == (
        f"chat {response['model']}",
        "CLIENT",
        "UNSET",
    )
    said = dict(span.attributes)
    assert 0 <= said.pop("gen_ai.response.time_to_first_chunk") < HANG
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "openai.api.type": "responses",
        "gen_ai.request.model": response["model"],
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.id": response["id"],
        "gen_ai.response.finish_reasons": ("completed",),
        "gen_ai.usage.input_tokens": response["usage"]["input_tokens"],
        "gen_ai.usage.output_tokens": response["usage"]["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "multilane.lane": "a",
        "multilane.status": "completed",
        "multilane.upstream": "default",
    }


async def test_each_lane_has_its_own_span_and_without_a_caller_its_own_trace(spans: Spans) -> None:
    async with traced() as stand, connect(stand.url) as client:
        for lane in ("a", "b"):
            await client.create(lane)
        first, second = await stand.fake.next(), await stand.fake.next()
        await client.create("a")  # waits, and its task is begun by the one before
        for exchange in (second, first, None):
            await answer(exchange or await stand.fake.next())
            await client.ended()
        ended = await spans.ended(3)
        sent = [of(exchange) for exchange in stand.fake.exchanges]
    assert sorted(map(place, ended)) == sorted(sent)
    assert len({trace for trace, _ in sent}) == 3
    assert all(span.parent is None and not span.links for span in ended)


async def test_a_successor_is_linked_to_the_response_that_it_follows(spans: Spans) -> None:
    async with traced() as stand, connect(stand.url, headers=TRACEPARENT) as client:
        lane = await stand.lane(client, "a")
        await lane.says("one")
        response = client.lane("a")[0]["response"]["id"]
        await client.steer(response, SECRET)
        await client.until("response.incomplete", lane="a")
        exchange = await stand.fake.next()
        await exchange.send(created("r2"), in_progress("r2"), *opened(), delta("two"))
        await exchange.send(*closed("two"), completed(output=[message("two")]))
        await exchange.end()
        await client.ended("a")
        first, second = await spans.ended(2)
    assert first.attributes["gen_ai.response.id"] == response
    assert first.attributes["gen_ai.response.finish_reasons"] == ("steered",)
    assert first.attributes["multilane.status"] == "steered"
    assert not first.links
    (link,) = second.links
    assert link.context.span_id == first.context.span_id
    assert second.attributes["multilane.previous_response_id"] == response
    assert second.attributes["multilane.steers"] == 1
    assert place(second)[0] == place(first)[0] == TRACE
    assert of(exchange) == place(second)


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True, "store": True}])
async def test_over_http(spans: Spans, fields: dict[str, Any]) -> None:
    async with traced() as stand:
        stand.fake.script = answer
        body = json.dumps({"model": "m", "input": SECRET, **fields}).encode()
        sent = {**TRACEPARENT, "content-type": "application/json"}
        async with requested(stand.url, "POST", "/responses", body, sent, judged=False) as got:
            assert got.status == 200
            await got.body()
        (span,) = await spans.ended(1)
        assert of(stand.fake.exchanges[0]) == place(span)
    assert f"{span.parent.span_id:016x}" == CALLER
    assert span.attributes["multilane.status"] == "completed"


async def test_what_went_wrong_is_its_code_and_no_word_of_it(spans: Spans) -> None:
    async with traced() as stand, connect(stand.url) as client:
        await client.create("a", previous_response_id="resp_" + "0" * 32)
        await client.error("a")
        await client.create("a")
        exchange = await stand.fake.next()
        error = {"message": SECRET, "code": "rate_limit_exceeded", "type": "x", "param": None}
        await exchange.reply(429, json.dumps({"error": error}).encode())
        await client.error("a")
        await client.create("a", generate=False)
        await client.ended("a")
        refused, failed, warmed = await spans.ended(3)
    assert refused.attributes["error.type"] == "previous_response_not_found"
    assert failed.attributes["error.type"] == "rate_limit_exceeded"
    for span in (refused, failed):
        assert span.status.status_code.name == "ERROR"
        assert span.attributes["multilane.status"] == "refused"
    assert warmed.attributes["multilane.status"] == "completed"
    assert warmed.status.status_code.name == "UNSET"


async def test_a_client_that_leaves_leaves_no_span_open(spans: Spans) -> None:
    async with traced() as stand:
        async with connect(stand.url) as client:
            await stand.lane(client, "a")
            client.abort()
        (span,) = await spans.ended(1)
    assert span.attributes["multilane.status"] == "abandoned"


async def test_a_bad_traceparent_is_none(spans: Spans) -> None:
    wrong = {"traceparent": "00-zz-b7ad6b7169203331-01"}
    async with traced() as stand, connect(stand.url, headers=wrong) as client:
        await client.create("a")
        exchange = await stand.fake.next()
        await answer(exchange)
        await client.ended("a")
        (span,) = await spans.ended(1)
    assert span.parent is None
    assert of(exchange) == place(span)


async def test_without_tracing_the_callers_header_goes_on_as_it_came() -> None:
    async with standing() as stand, connect(stand.url, headers=TRACEPARENT) as client:
        await client.create("a")
        exchange = await stand.fake.next()
        await answer(exchange)
        await client.ended("a")
    assert exchange.headers["traceparent"] == TRACEPARENT["traceparent"]


async def test_spans_are_exported_as_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a collector over OTLP, the last ones as the gateway ends."""
    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
        try:
            async with traced() as stand, connect(stand.url) as client:
                await client.create("a")
                await answer(await stand.fake.next())
                response = await client.ended("a")
        finally:
            collector.shutdown()
            thread.join(HANG)
    ((path, body),) = got
    assert path == "/v1/traces"
    assert response["id"].encode() in body
    assert b"service.name" in body
    assert b"multilane" in body


@pytest.mark.parametrize(
    ("environment", "without", "why"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, False, "there is no exporter 'zipkin', but otlp"),
        ({}, True, "OpenTelemetry is not installed: pip install 'multilane[otel]'"),
    ],
)
def test_a_refused_start(
    environment: dict[str, str], without: bool, why: str, tmp_path: Path
) -> None:
    code = "from gateway.cli import main; main()"
    if without:
        code = f"import sys; sys.modules['opentelemetry'] = None; {code}"
    command = [sys.executable, "-c", code, "serve", "--tracing", "--redis-url", "memory"]
    ran = subprocess.run(
        [*command, "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert ran.returncode == 2
    assert why in ran.stderr
    assert "Traceback" not in ran.stderr


def test_nothing_of_it_is_imported_unless_it_is_on(tmp_path: Path) -> None:
    code = "import gateway.app, sys; print('gateway.telemetry.tracing' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "False"
