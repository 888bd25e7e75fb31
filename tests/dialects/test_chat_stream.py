"""Streams of Chat Completions, each as a strict stream of the Responses API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
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
    said,
    text,
    whole,
)
from tests.dialects.reading import check, chunks

if TYPE_CHECKING:
    from tests.machines.drive import Played

TAPES = {
    "chat_text_tool.sse": [
        "completed",
        "reasoning Check then call.",
        "message Checking now.",
        'function_call  lookup {"q":"lane"}',
    ],
    "chat_llamacpp.sse": ["incomplete", "message I'm so glad"],
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


@pytest.mark.parametrize("told", [[], [chunk(role="assistant")], [call(0, "f", '{"a', "c1")]])
def test_done_is_no_end_of_nothing_or_of_half_a_call(told: list[Chunk]) -> None:
    heard = played(*told)
    assert heard.run.state == ("failed" if told else "refused")
    assert bool(heard.events) == bool(told)


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
    {**HEAD, "choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]},
    {**HEAD, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": ""}]},
    {**HEAD, "choices": [], "error": None, "usage": {}},
]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_changes_nothing(noise: bytes | Chunk) -> None:
    heard = played(chunk(role="assistant"), noise, *text("a"), noise, *text("b"), chunk("stop"))
    assert outcome(heard) == ["completed", "message ab"]
    assert heard.texts("output_text") == "ab"


@pytest.mark.parametrize("junk", [b"data: {x\n\n", b"data: 7\n\n", b"data: [1]\n\n"])
def test_what_is_no_object_fails(junk: bytes) -> None:
    assert check(played(*text("a"), junk, *text("b"), chunk("stop")))["status"] == "failed"


def test_absurd_nesting_fails() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    for told in (
        b'{"choices":[{"delta":{"content":%b}}]}' % deep,
        b'{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":%b}}' % deep,
        b'{"error":{"message":"x","param":%b}}' % deep,
        b'{"choices":[],"usage":%b}' % deep,
    ):
        heard = played(*text("a"), b"data: %b\n\n" % told)
        assert check(heard)["status"] == "failed"


def test_json_is_repaired() -> None:
    odd = b'data: {"choices":[{"delta":{"content":"\\ud800"},"logprobs":{"content":NaN}}]}\n\n'
    assert outcome(whole(*text("a"), chunk(content="b"))) == ["completed", "message ab"]
    assert outcome(played(*text("a"), odd, chunk("stop"))) == ["completed", "message a\ufffd"]


# Texts


REASONING: list[dict[str, Any]] = [
    {"reasoning_content": "hm"},
    {"reasoning": "hm"},
    {"reasoning_content": "hm", "reasoning": "hm"},
    {"reasoning": {"content": "hm"}},
    {"reasoning": {"text": "hm"}},
    {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
    {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": None}]},
    {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    {"content": None, "reasoning_content": "hm", "tool_calls": []},
]


@pytest.mark.parametrize("delta", REASONING)
def test_reasoning(delta: dict[str, Any]) -> None:
    heard = whole(chunk(**delta), chunk(**delta), *text("a", "b"))
    check(heard)
    assert outcome(heard) == ["completed", "reasoning hmhm", "message ab"]


def test_reasoning_comes_before_the_text_of_its_chunk_and_again_after_it() -> None:
    heard = whole(
        chunk(reasoning_content="x", content="a"), chunk(reasoning_content="y"), *text("b", "c")
    )
    assert outcome(heard)[1:] == ["reasoning x", "message a", "reasoning y", "message bc"]


def test_encrypted_reasoning_details_are_no_text() -> None:
    told = chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA"}])
    assert outcome(whole(told, *text("a"))) == ["completed", "message a"]


def test_a_content_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}, None]
    assert outcome(whole(chunk(content=parts), *text("b"))) == ["completed", "message ab"]


def test_a_refusal_is_a_part_of_its_own() -> None:
    heard = whole(*text("a"), chunk(refusal="no"), chunk(refusal=", never"), *text("b"))
    check(heard)
    (item,) = heard.output
    assert [part.get("text", part.get("refusal")) for part in item["content"]] == [
        "a",
        "no, never",
        "b",
    ]
    assert heard.texts("refusal") == "no, never"


def test_logprobs_go_with_their_delta() -> None:
    told = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    first, second = text("a", "b")
    first["choices"][0]["logprobs"] = {"content": [told], "refusal": None}
    heard = whole(first, second)
    check(heard)
    assert [event["logprobs"] for event in heard.of("output_text.delta")] == [[told], []]
    assert heard.output[0]["content"][0]["logprobs"] == [told]


def test_citations() -> None:
    cited = {"url": "https://x", "title": "X", "start_index": 0, "end_index": 1, "content": "…"}
    told = [
        {"type": "url_citation", "url_citation": cited},
        {"type": "url_citation", "url_citation": {"url": "https://y"}},
        {"type": "file_citation"},
    ]
    heard = whole(*text("a"), chunk(annotations=told))
    check(heard)
    first, second = heard.output[0]["content"][0]["annotations"]
    wanted = {key: value for key, value in cited.items() if key != "content"}
    assert first == {"type": "url_citation", **wanted}
    assert second["url"] == "https://y"


def test_the_service_tier_is_the_last_word() -> None:
    first, *others = text("a", "b")
    last = {**chunk("stop"), "service_tier": "flex"}
    heard = played({**first, "service_tier": "auto"}, *others, last, counted(), service_tier="auto")
    assert heard.terminal["service_tier"] == "flex"


def _message(finish: Any, **message: Any) -> Chunk:
    return {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


CALLED = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
MESSAGES: list[tuple[list[Chunk], list[str]]] = [
    ([_message("stop", content="ab")], ["message ab"]),
    ([*text("a"), _message("stop", content="ab")], ["message ab"]),
    ([*text("ab"), _message("stop", content="ab")], ["message ab"]),
    ([*text(" ab"), _message("stop", content="ab")], ["message  ab"]),
    ([_message(None, content="a"), _message(None, content="b"), chunk("stop")], ["message ab"]),
    ([_message("stop", reasoning_content="r", refusal="no")], ["reasoning r", "message no"]),
    (
        [_message("tool_calls", content=None, tool_calls=CALLED)],
        ["function_call  f {}"],
    ),
    (
        [*text("a"), call(0, "f", "{}", "c1"), _message("stop", content="a", tool_calls=CALLED)],
        ["message a", "function_call  f {}"],
    ),
    (
        [_message("stop", tool_calls=[{"function": {"name": name}} for name in "fg"])],
        ["function_call  f {}", "function_call  g {}"],
    ),
]


@pytest.mark.parametrize(("told", "wanted"), MESSAGES)
def test_a_message_in_the_place_of_a_delta(told: list[Chunk], wanted: list[str]) -> None:
    heard = played(*told, counted())
    check(heard)
    assert outcome(heard) == ["completed", *wanted]


def test_a_message_beside_the_deltas_is_not_heard_twice() -> None:
    both = [
        {**HEAD, "choices": [{"delta": {"content": piece}, "message": {"content": sofar}}]}
        for piece, sofar in (("a", "a"), ("b", "ab"))
    ]
    last = _message("stop", content="ab")
    last["choices"][0]["delta"] = {}
    assert outcome(played(*both, last)) == ["completed", "message ab"]
    assert outcome(played(last)) == ["completed", "message ab"]


# Calls


F, G = 'function_call  f {"a":1}', 'function_call  g {"b":2}'
CALLS: list[tuple[str, list[Chunk], list[str]]] = [
    ("pieces", [call(0, "f", "", "c1"), call(0, None, '{"a"'), call(0, None, ":1}")], [F]),
    ("no index", [call(None, "f", "", "c1"), call(None, None, '{"a":1}')], [F]),
    ("id and name repeated", [call(0, "f", '{"a"', "c1"), call(0, "f", ":1}", "c1")], [F]),
    ("id empty after", [call(0, "f", '{"a"', "c1"), call(0, "", ":1}", "")], [F]),
    ("arguments null", [call(0, "f", None, "c1"), call(0, None, '{"a":1}')], [F]),
    ("arguments an object", [call(0, "f", {"a": 1}, "c1")], [F]),
    ("whole", [call(0, "f", '{"a":1}', "c1")], [F]),
    ("name late", [call(0, None, '{"a"', "c1"), call(0, "f", ":1}")], [F]),
    ("id late", [call(0, "f", '{"a"'), call(0, None, ":1}", "c1")], [F]),
    ("no arguments", [call(0, "f", "", "c1")], ["function_call  f {}"]),
    ("no name", [call(0, None, '{"a":1}', "c1"), *text("x")], ["message x"]),
    ("two", [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b":2}', "c2")], [F, G]),
    ("new id", [call(0, "f", '{"a":1}', "c1"), call(0, "g", '{"b":2}', "c2")], [F, G]),
    ("no index, ids", [call(None, "f", '{"a":1}', "c"), call(None, "g", '{"b":2}', "d")], [F, G]),
    ("nothing but names", [call(None, "f", '{"a":1}'), call(None, "g", '{"b":2}')], [F, G]),
    ("ids empty", [call(0, "f", '{"a":1}', ""), call(0, "g", '{"b":2}', "")], [F, G]),
    ("one id for two", [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b":2}', "c1")], [F, G]),
    (
        "mixed",
        [
            call(0, "f", '{"a"', "c1"),
            call(1, "g", '{"b"', "c2"),
            call(0, None, ":1}"),
            call(1, None, ":2}"),
        ],
        [F, G],
    ),
    (
        "mixed by id",
        [
            call(None, "f", '{"a"', "c1"),
            call(None, "g", '{"b"', "c2"),
            call(None, None, ":1}", "c1"),
            call(None, None, ":2}", "c2"),
        ],
        [F, G],
    ),
    ("text after", [call(0, "f", '{"a":1}', "c1"), *text("x")], [F, "message x"]),
    (
        "text within",
        [call(0, "f", '{"a"', "c1"), *text("x", "y"), call(0, None, ":1}")],
        [F, "message xy"],
    ),
    (
        "the old form",
        [
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": '{"a":1}'}),
        ],
        [F],
    ),
    (
        "two in a chunk",
        [chunk(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}] * 2)],
        [F, F],
    ),
]


@pytest.mark.parametrize(
    ("told", "wanted"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS]
)
def test_calls(told: list[Chunk], wanted: list[str]) -> None:
    heard = whole(*told, finish="tool_calls")
    check(heard)
    assert outcome(heard) == ["completed", *wanted]
    ids = [item["call_id"] for item in heard.output if item["type"] == "function_call"]
    assert len(set(ids)) == len(ids)
    assert all(ids)


def test_the_call_keeps_the_id_of_the_backend() -> None:
    (item,) = whole(call(0, "f", "{}", "call_c1")).output
    assert item["call_id"] == "call_c1"
    (item,) = whole(call(0, "f", "{}")).output
    assert item["call_id"].startswith("call_")


def test_a_finished_call_is_shown_before_the_next_one_ends() -> None:
    told = [call(0, "f", "{}", "c1"), call(1, "g", '{"b', "c2")]
    heard = hear([body(told, done=False)])
    kinds = heard.types()
    assert kinds.index("output_item.done") < len(kinds) - 1
    assert [event["delta"] for event in heard.of("function_call_arguments.delta")] == ["{}", '{"b']


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_call_that_was_cut_is_incomplete(finish: str) -> None:
    told = [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b', "c2")]
    heard = whole(*told, finish=finish)
    check(heard)
    assert [item["status"] for item in heard.output] == ["completed", "incomplete"]
    assert [json.loads(entry.data)["name"] for entry in heard.run.entries()] == ["f"]


def _custom(told: list[Chunk], finish: str = "tool_calls") -> Played:
    tools = [{"type": "custom", "name": "sh"}, {"type": "function", "name": "f"}]
    heard = whole(*told, finish=finish, tools=tools)
    check(heard)
    return heard


INPUTS = [
    ('{"input": "ls -l\\n"}', "ls -l\n"),
    ('{"command": "ls"}', "ls"),
    ('"ls"', "ls"),
    ("ls", "ls"),
    ("{}", "{}"),
    ("", ""),
]


@pytest.mark.parametrize(("arguments", "text"), INPUTS)
def test_a_custom_tool_gets_its_input_back(arguments: str, text: str) -> None:
    half = len(arguments) // 2
    told = [call(0, "sh", arguments[:half], "c1"), call(0, None, arguments[half:])]
    heard = _custom([*told, call(1, "f", "{}", "c2")])
    custom, function = heard.output
    assert (custom["type"], custom["input"], custom["call_id"]) == ("custom_tool_call", text, "c1")
    assert function["type"] == "function_call"
    assert heard.texts("custom_tool_call_input") == text
    owed = [stub["type"] for stub in heard.run.required_input()]
    assert owed == ["custom_tool_call_output", "function_call_output"]


def test_a_custom_call_that_was_cut_is_incomplete() -> None:
    (item,) = _custom([call(0, "sh", '{"input": "l', "c1")], "length").output
    assert (item["status"], item["input"]) == ("incomplete", "")


def test_a_name_that_is_a_function_too_is_a_function() -> None:
    tools = [{"type": "custom", "name": "f"}, {"type": "function", "name": "f"}]
    (item,) = whole(call(0, "f", "{}", "c1"), tools=tools).output
    assert item["type"] == "function_call"


# Steering


def test_a_steer_stops_a_text_at_once_and_a_call_at_its_end() -> None:
    heard = hear([body([*text("a", "b", "c"), chunk("stop")])], steer_after=5)
    terminal = heard.events[-1]["response"]
    assert terminal["incomplete_details"] == {"reason": "steered"}
    assert said(terminal["output"][0]) == "message a"
    told = [call(0, "f", '{"a"', "c1"), call(0, None, ":1}"), chunk("tool_calls"), counted()]
    heard = hear([body(told)], steer_after=4)
    assert outcome(heard) == ["completed", F]


def test_reasoning_in_the_clear_is_not_replayed() -> None:
    heard = whole(chunk(reasoning_content="hm"), *text("a"))
    assert [json.loads(entry.data)["type"] for entry in heard.run.entries()] == ["message"]


def test_a_chunk_of_eight_mebibytes() -> None:
    long = "x" * (8 * 2**20 - 400)
    assert len(encode(chunk(content=long))) < 8 * 2**20
    assert said(whole(*text(long)).output[0]) == f"message {long}"
