"""Streams of Chat Completions, each as a strict stream of the Responses API."""

from __future__ import annotations

from typing import Any

import pytest

from tests import tapes
from tests.dialects.chatting import (
    HEAD,
    USAGE,
    Chunk,
    body,
    call,
    chunk,
    counted,
    hear,
    outcome,
    played,
    text,
    whole,
)
from tests.machines.drive import NOW
from tests.support.dialect_reading import check, chunks

TAPES = {
    "chat_text_tool.sse": [
        "completed",
        "reasoning Check then call.",
        "message Checking now.",
        'function_call  lookup {"q":"lane"}',
    ],
    "chat_llamacpp.sse": ["incomplete", "message I'm so glad"],
    "chat_llamacpp_tool.sse": ["completed", 'function_call  get_weather {"city": "Paris"}'],
}


def test_every_tape_is_heard() -> None:
    assert sorted(TAPES) == tapes.names("chat_*.sse")


@pytest.mark.parametrize("name", TAPES)
def test_tape(name: str) -> None:
    heard = hear([tapes.tape(name)])
    check(heard)
    assert outcome(heard) == TAPES[name]


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("name", TAPES)
def test_any_chunking_reads_the_same(name: str, size: int) -> None:
    reads = chunks(tapes.tape(name), size)
    assert hear(reads).events == hear([tapes.tape(name)]).events


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", TAPES)
def test_a_tape_cut_at_any_byte_ends_once(name: str, clean: bool) -> None:
    tape = tapes.tape(name)
    finished = tape.index(b'"finish_reason":"')
    judged: set[tuple[int, bool]] = set()
    for size in range(len(tape)):
        heard = hear([tape[:size]], cut=not clean)
        assert heard.run.over
        if heard.run.fault is not None:
            assert heard.events == []
            continue
        key = len(heard.events), heard.run.state == "failed"
        if key not in judged:
            judged.add(key)
            check(heard)
        if size < finished:
            assert heard.run.state == "failed"
    assert len(judged) > 5


def test_the_tape_tells_its_model_time_and_usage() -> None:
    terminal = hear([tapes.tape("chat_llamacpp.sse")], {"input": "hi"}).terminal
    assert terminal["model"] == "smollm2-135m"
    assert terminal["created_at"] == 1796018767
    assert terminal["system_fingerprint"] == "b0-unknown"
    assert terminal["incomplete_details"] == {"reason": "max_output_tokens"}
    assert terminal["usage"] == {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 16,
    }


# How it begins and ends


def test_the_role_begins_the_response_and_opens_nothing() -> None:
    heard = played(chunk(role="assistant", content=""), chunk(role="assistant"), done=False)
    assert heard.types() == ["created", "in_progress", "failed"]


def test_a_time_that_is_none_is_left_to_the_gateway() -> None:
    first = {**chunk(role="assistant"), "created": "now", "model": None}
    terminal = hear([body([first, *text("a"), chunk("stop")])], {"input": "hi"}).terminal
    assert terminal["created_at"] == NOW
    assert terminal["model"] == ""


def test_azures_first_chunk_tells_nothing() -> None:
    first = {"choices": [], "created": 0, "id": "", "model": "", "prompt_filter_results": [{}]}
    heard = hear([body([first, *text("a"), chunk("stop")])], {"input": "hi"})
    assert heard.terminal["model"] == "q"
    assert heard.terminal["created_at"] == HEAD["created"]


ENDS: list[tuple[Any, str, str | None]] = [
    ("stop", "completed", None),
    ("tool_calls", "completed", None),
    ("function_call", "completed", None),
    ("length", "incomplete", "max_output_tokens"),
    ("model_length", "incomplete", "max_output_tokens"),
    ("MAX_TOKENS", "incomplete", "max_output_tokens"),
    ("content_filter", "incomplete", "content_filter"),
    ("zebra", "completed", None),
    (7, "completed", None),
]


@pytest.mark.parametrize(("finish", "status", "reason"), ENDS)
def test_finish_reason(finish: Any, status: str, reason: str | None) -> None:
    terminal = played(*text("a"), chunk(finish), counted()).terminal
    assert terminal["status"] == status
    assert terminal["incomplete_details"] == (reason and {"reason": reason})


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_a_finish_reason_that_is_a_fault(finish: str) -> None:
    terminal = check(played(*text("a"), chunk(finish), counted()))
    assert terminal["status"] == "failed"
    assert finish in terminal["error"]["message"]


def _last(*, usage: bool, finish: Any = "stop") -> Chunk:
    return {**chunk(finish), **({"usage": USAGE} if usage else {"usage": None})}


USAGES: list[list[Chunk | bytes]] = [
    [_last(usage=True)],
    [_last(usage=False), counted()],
    [_last(usage=False), counted(choices=None)],
    [_last(usage=False), b": OPENROUTER PROCESSING\n\n", counted()],
    [{**_last(usage=False), "choices": [{**_last(usage=False)["choices"][0], "usage": USAGE}]}],
    [{**_last(usage=False, finish=None), "usage": USAGE}, _last(usage=False)],
]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("last", USAGES)
def test_the_usage_is_waited_for(last: list[Chunk | bytes], done: bool) -> None:
    terminal = check(played(*text("a"), *last, done=done))
    assert (terminal["status"], terminal["usage"]["total_tokens"]) == ("completed", 5)


@pytest.mark.parametrize("done", [True, False])
def test_without_a_usage_there_is_none(done: bool) -> None:
    assert check(played(*text("a"), chunk("stop"), done=done))["usage"] is None


def test_the_latest_usage_counts() -> None:
    early = {**text("a")[0], "usage": {**USAGE, "total_tokens": 4}}
    more = {**text("b")[0], "usage": {**USAGE, "total_tokens": 4}}
    assert whole(early, more).terminal["usage"]["total_tokens"] == 5


def test_done_is_an_end_without_a_finish_reason() -> None:
    assert outcome(played(*text("a"))) == ["completed", "message a"]
    whole_call = call(0, "f", '{"a":1}', "c1")
    assert outcome(played(whole_call)) == ["completed", 'function_call  f {"a":1}']
    assert outcome(played(call(0, "f", "", "c1"))) == ["completed", "function_call  f {}"]


@pytest.mark.parametrize(
    "sent_chunks", [[], [chunk(role="assistant")], [call(0, "f", '{"a', "c1")]]
)
def test_done_is_no_end_of_nothing_or_of_half_a_call(sent_chunks: list[Chunk]) -> None:
    heard = played(*sent_chunks)
    assert heard.run.state == ("failed" if sent_chunks else "refused")
    assert bool(heard.events) == bool(sent_chunks)


def test_nothing_counts_after_the_end() -> None:
    heard = played(*text("a"), chunk("stop"), counted(), *text("b"), b"data: {\n\n")
    assert outcome(heard) == ["completed", "message a"]
    heard = played(*text("a"), chunk("stop"), *text("b"), chunk("length"), counted())
    assert heard.terminal["status"] == "completed"


def test_a_call_after_the_finish_reason_is_finished_too() -> None:
    heard = played(*text("a"), chunk("stop"), call(0, "f", "", "c1"), counted())
    assert outcome(heard) == ["completed", "message a", "function_call  f {}"]


# Errors

ERROR = {"message": "overloaded", "type": "server_error", "code": 503, "param": None}
ERRORS: list[bytes | Chunk] = [
    {"error": ERROR},
    {"error": "overloaded"},
    {"error": True, "message": "overloaded"},
    {"error": "overloaded", "error_type": "overloaded"},
    {"object": "error", **ERROR},
    {"type": "error", "message": "overloaded"},
    {"error": {"message": "overloaded", "code": 429}, "choices": [chunk("error")["choices"][0]]},
    {"message": "overloaded", "code": 500},
    {"detail": "overloaded"},
    {"detail": [{"loc": ["body"], "msg": "overloaded", "type": "x"}]},
    {**HEAD, "choices": [{"index": 0, "delta": {}, "error": ERROR, "finish_reason": "error"}]},
    b'event: error\ndata: {"error":{"message":"overloaded"}}\n\n',
    b'event: error\ndata: {"message":"overloaded"}\n\n',
    b"event: error\ndata: overloaded\n\n",
    b'event: error\ndata: "overloaded"\n\n',
]


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_in_the_stream(error: bytes | Chunk) -> None:
    terminal = check(played(*text("a"), error, chunk("stop")))
    assert terminal["status"] == "failed"
    assert "overloaded" in terminal["error"]["message"]
    heard = played(error)
    assert heard.events == []
    assert heard.run.fault is not None
    assert "overloaded" in heard.run.fault.message


def test_an_error_keeps_its_code() -> None:
    terminal = check(played(*text("a"), {"error": {"message": "slow down", "code": 429}}))
    assert terminal["error"]["code"] == "rate_limit_exceeded"


NOISE: list[bytes | Chunk] = [
    b": ping\n\n",
    b"data: {}\n\n",
    b'event: ping\ndata: {"type":"ping"}\n\n',
    {**HEAD, "choices": None},
    {**HEAD, "choices": []},
    {**HEAD, "choices": [None]},
    {**HEAD, "choices": [{"index": 0}]},
    {**HEAD, "choices": [{"index": 0, "delta": None}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": None, "tool_calls": None}}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": 7, "tool_calls": [None, 3, {}]}}]},
    {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "null"}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": ""}]},
    {**HEAD, "choices": [], "error": None, "usage": {}},
]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_changes_nothing(noise: bytes | Chunk) -> None:
    heard = played(chunk(role="assistant"), noise, *text("a"), noise, *text("b"), chunk("stop"))
    assert outcome(heard) == ["completed", "message ab"]
    assert heard.texts("output_text") == "ab"


@pytest.mark.parametrize("junk", [b"data: {x\n\n", b'data: {"choices":[\n\n', b"data: x{}\n\n"])
def test_what_may_have_been_a_chunk_fails(junk: bytes) -> None:
    assert check(played(*text("a"), junk, *text("b"), chunk("stop")))["status"] == "failed"


@pytest.mark.parametrize("depth", [5000, 990, 950])  # 5000 cannot be read, the rest not written
def test_absurd_nesting_fails(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for sent_chunks in (
        b'{"choices":[{"delta":{"content":%b}}]}' % deep,
        b'{"error":{"message":"x","param":%b}}' % deep,
        b'{"choices":[],"usage":%b}' % deep,
    ):
        heard = played(*text("a"), b"data: %b\n\n" % sent_chunks)
        assert check(heard)["status"] == "failed"
    read_over = b'data: {"choices":[{"delta":{"content":"b"}}],"usage":{"x":%b}}\n\n' % deep
    check(played(*text("a"), read_over))


def test_json_is_repaired() -> None:
    odd = b'data: {"choices":[{"delta":{"content":"\\ud800"},"logprobs":{"content":NaN}}]}\n\n'
    assert outcome(whole(*text("a"), chunk(content="b"))) == ["completed", "message ab"]
    assert outcome(played(*text("a"), odd, chunk("stop"))) == ["completed", "message a\ufffd"]
