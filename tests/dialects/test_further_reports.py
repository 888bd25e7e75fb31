"""docs/field-cases.md 11: further answers of Chat Completions backends, from public reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.chat import DIALECT
from lanes.codec import encode
from lanes.history.makers import Maker
from tests.dialects.chat_asking import asked, in_short, output, user
from tests.dialects.chat_asking import call as given
from tests.dialects.chatting import DONE, HEAD, USAGE, call, chunk, counted, hear, outcome, text
from tests.dialects.test_field_reports import THOUGHT, choice, entry, last, said
from tests.machines.drive import REQUEST
from tests.support.dialect_reading import check

SAID = ["completed", "message ab"]
ONE, TWO = 'function_call  f {"a":1}', 'function_call  f {"a":2}'
PNG, JPEG = "data:image/png;base64,iVBORw0KGgo=", "data:image/jpeg;base64,/9j/4AA="
DRAWN = ["completed", "message ab", "image_generation_call"]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}, "index": 0}


def details(*texts: str, **delta: Any) -> list[dict[str, Any]]:
    return [
        chunk(reasoning_details=[{"type": "reasoning.text", "index": 0, "text": one}], **delta)
        for one in texts
    ]


WHOLE = {
    **HEAD,
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}],
    "usage": USAGE,
}
RESPONSE = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [
        {"type": "output_text", "text": "ab"}]}],
}  # fmt: skip

#: Case -> the body, and what becomes of it.
BODIES: dict[str, tuple[bytes, list[str]]] = {
    "C61 an image beside an empty text": (
        said(*text("a", "b"), chunk(content="", images=[image(PNG)]), *last()),
        DRAWN,
    ),
    "C61 an image in a delta with text": (
        said(*text("a"), chunk(content="b", images=[image(PNG)]), *last()),
        DRAWN,
    ),
    "C61 an image that comes again": (
        said(*text("a", "b"), chunk(images=[image(PNG)]), chunk(images=[image(PNG)]), *last()),
        DRAWN,
    ),
    "C61 an image as a part of the content": (
        said(chunk(content=[{"type": "text", "text": "ab"}, image(JPEG)]), *last()),
        DRAWN,
    ),
    "C61 an image alone": (
        said(chunk(images=[image(PNG)]), *last()),
        ["completed", "image_generation_call"],
    ),
    "C62 an image of a whole answer": (
        encode({**WHOLE, "choices": [{"message": {"content": "ab", "images": [image(PNG)]},
                                      "finish_reason": "stop"}]}),
        DRAWN,
    ),
    "C62 a link to an image": (
        said(*text("ab "), chunk(images=[image("https://x.example/1.png")]), *last()),
        ["completed", "message ab ![image](https://x.example/1.png)"],
    ),
    "C63 details that hold all so far": (
        said(*details("The user", "The user is", "The user is here", "The user is here"),
             *text("a", "b"), *last()),
        ["completed", "reasoning The user is here", "message ab"],
    ),
    "C63 short details that hold all so far": (
        said(*details("So", "So it", "So it is"), *text("a", "b"), *last()),
        ["completed", "reasoning So it is", "message ab"],
    ),
    "C63 such details beside the text of them": (
        said(*(chunk(reasoning_content=one, reasoning_details=[{"text": one}])
               for one in ("So", "So it", "So it is")), *text("a", "b"), *last()),
        ["completed", "reasoning So it is", "message ab"],
    ),
    "C63 pieces of which one begins with the other": (
        said(*details("a", "and", " b", " b"), *text("a", "b"), *last()),
        ["completed", "reasoning aand b b", "message ab"],
    ),
    "C63 pieces that say a word twice": (
        said(*details("ha", "haha", "ha"), *text("a", "b"), *last()),
        ["completed", "reasoning hahahaha", "message ab"],
    ),
    "C64 thoughts under their key and between tags in the text": (
        said(chunk(reasoning_content="H", content="<think>H"),
             chunk(reasoning_content="m", content="m"), *text("</think>\n\na", "b"), *last()),
        THOUGHT,
    ),
    "C64 such thoughts that are not closed": (
        said(chunk(reasoning_content="Hm", content="<think>Hm"), *last("length")),
        ["incomplete", "reasoning Hm"],
    ),
    "C65 no finish_reason but an end": (said(*text("a", "b"), DONE), SAID),
    "C65 reasoning and text, no finish_reason but an end": (
        said(chunk(reasoning_content="Hm"), *text("a", "b"), counted(), DONE),
        THOUGHT,
    ),
    "C66 a finish_reason beside each of two calls": (
        said(entry(index=0, id="c1", function={"name": "f", "arguments": '{"a":1}'})
             | choice(delta={"tool_calls": [{"index": 0, "id": "c1", "function": {
                 "name": "f", "arguments": '{"a":1}'}}]}, finish_reason="tool_calls"),
             choice(delta={"tool_calls": [{"index": 1, "id": "c2", "function": {
                 "name": "f", "arguments": '{"a":2}'}}]}, finish_reason="tool_calls"),
             counted(), DONE),
        ["completed", ONE, TWO],
    ),
    "C67 a whole call beside an empty text, and an end of its own": (
        said(chunk(content="", tool_calls=[{"index": 0, "id": "c1", "type": "function",
                                            "function": {"name": "f", "arguments": '{"a":1}'}}]),
             chunk("tool_calls", content=""), counted(), DONE),
        ["completed", ONE],
    ),
    "C69 a second thought after the text": (
        said(chunk(reasoning="Hm"), *text("a"), chunk(reasoning="Oh"), *text("b"), *last()),
        ["completed", "reasoning Hm", "message a", "reasoning Oh", "message b"],
    ),
    "C69 a thought between two calls": (
        said(call(0, "f", '{"a":1}', "c1"), chunk(reasoning="Oh"), call(1, "f", '{"a":2}', "c2"),
             *last("tool_calls")),
        ["completed", ONE, "reasoning Oh", TWO],
    ),
    "C77 thoughts, an empty text and a good end": (
        said(chunk(reasoning_content="Hm", content=""), chunk("stop", content=""), counted(), DONE),
        ["completed", "reasoning Hm"],
    ),
    "C80 an answer within `data`": (
        encode({"code": 0, "message": "ok", "data": WHOLE}), SAID
    ),
    "C80 an answer within `result`": (
        encode({"success": True, "errors": [], "messages": [], "result": WHOLE}), SAID
    ),
    "C80 a message beside the answer within": (encode({"message": "OK", "data": WHOLE}), SAID),
    "C80 chunks within `data`": (
        said(*({"data": one} for one in [*text("a", "b"), *last()[:-1]]), DONE), SAID
    ),
    "C80 a response within `data`": (encode({"data": RESPONSE}), SAID),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 4096])
@pytest.mark.parametrize("case", BODIES)
def test_what_becomes_of_it(case: str, size: int) -> None:
    body, expected = BODIES[case]
    played = hear([body[at : at + size] for at in range(0, len(body), size)])
    check(played)
    assert outcome(played) == expected


@pytest.mark.parametrize(("url", "kind"), [(PNG, "png"), (JPEG, "jpeg")])
def test_c61_the_image_is_whole(url: str, kind: str) -> None:
    (item,) = hear([said(chunk(images=[image(url)]), *last())]).output
    assert (item["result"], item["status"]) == (url.partition(",")[2], "completed")
    assert item["output_format"] == kind


def test_c63_what_goes_back_is_not_doubled() -> None:
    heard = hear([said(*details("The user", "The user is here"), *text("a"), *last())])
    (kept,) = heard.output[0]["reasoning_details"]
    assert kept["text"] == "The user is here"


def test_c68_the_usage_comes_in_the_second_of_two_empty_chunks() -> None:
    empty = {**HEAD, "choices": []}
    heard = hear([said(*text("a", "b"), chunk("stop"), empty, counted(), DONE)])
    assert outcome(heard) == SAID
    assert heard.terminal["usage"]["total_tokens"] == 5


def test_c70_an_error_with_its_status_within() -> None:
    told = {"message": "Failed to call a function.", "type": "invalid_request_error",
            "code": "tool_use_failed", "failed_generation": "<f>", "status_code": 400}  # fmt: skip
    fault = hear([said({"error": told})]).run.fault
    assert fault is not None
    assert (fault.status, fault.code, fault.message) == (
        400,
        "tool_use_failed",
        "Failed to call a function.",
    )


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('```json\n{"input": "*** Begin"}\n```', "*** Begin"),
        ('```\n{"input":"a\\n```b```"}\n```\n', "a\n```b```"),
        ('\n```JSON {"input": "x"} ```', "x"),
        ("```python\nprint(1)\n```", "```python\nprint(1)\n```"),
        ('```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```'),
        ("`x`", "`x`"),
        ("``", "``"),
        ("```", "```"),
        ('```json\n{"input": "x"', '```json\n{"input": "x"'),
    ],
)
def test_c79_the_wrapper_of_a_custom_tool_in_a_code_block(
    written: str, read: str, size: int
) -> None:
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    chunks = [call(0, "patch", "", "c1"), *(call(0, None, piece) for piece in pieces)]
    request = {**REQUEST, "tools": [{"type": "custom", "name": "patch"}]}
    heard = hear([said(*chunks, *last("tool_calls"))], request)
    check(heard)
    assert outcome(heard) == ["completed", f"custom_tool_call  patch {read}"]


@pytest.mark.parametrize("arguments", ["{", "", "[1]", "null", '"x"', '{"a":1', "{}{}"])
def test_c73_arguments_that_are_no_object_do_not_go_back(arguments: str) -> None:
    sent = asked(user(), given("c1", arguments), output("c1"))["messages"]
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_c74_a_signature_of_vertex_goes_back_on_its_call() -> None:
    signed = {"vertex": {"thought_signature": "AY89=="}}
    maker = Maker("u", "chat")
    piece = {"index": 0, "id": "c1", "extra_content": signed,
             "function": {"name": "f", "arguments": "{}"}}  # fmt: skip
    (item,) = hear([said(chunk(tool_calls=[piece]), *last("tool_calls"))], maker=maker).output
    history = [encode(one) for one in (user(), item, output("c1"))]
    made = json.loads(DIALECT.request({"model": "m"}, history, maker))
    assert made["messages"][1]["tool_calls"][0]["extra_content"] == signed


def test_c78_a_call_without_an_output_is_not_sent() -> None:
    assert in_short(user(), given("c1"), given("c2"), output("c2"), user("b")) == [
        "user: hi",
        "assistant: call:c2",
        "c2=ok",
        "user: b",
    ]


ODD: list[Any] = [[5], ["text"], [None], [[1]], {"text": "b"}, "b", 5, [{"text": None}]]


@pytest.mark.parametrize("odd", ODD)
def test_details_and_images_of_any_shape_harm_nothing(odd: Any) -> None:
    pieces = [chunk(reasoning_content="Hm ", reasoning_details=odd, images=odd)] * 2
    heard = hear([said(*pieces, *text("a", "b"), *last())])
    check(heard)
    assert outcome(heard)[0] == "completed"
    assert outcome(heard)[-1] == "message ab"
    deep = b'{"data":' + b"[" * 3000 + b"]" * 3000 + b"}"
    assert hear([b"data: " + deep + b"\n\n", said(*last())]).run.over
