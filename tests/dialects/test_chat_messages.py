"""Input items as the messages of Chat Completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lanes.errors import ClientFault
from tests.dialects.chat_asking import Item, asked, assistant, call, in_short, output, text, user

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "content": []}
A, B = call("a"), call("b")


MESSAGES: list[tuple[str, list[Item], list[Any]]] = [
    ("system", [{"role": "system", "content": "s"}, user()], ["system: s", "user: hi"]),
    (
        "developer",
        [{"role": "developer", "content": [text("s")]}, user()],
        ["system: s", "user: hi"],
    ),
    (
        "system at the head is one",
        [{"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, user()],
        ["system: s\n\nd", "user: hi"],
    ),
    (
        "system later",
        [user("a"), {"role": "system", "content": "s"}, user("b")],
        ["user: a\n\ns\n\nb"],
    ),
    (
        "system after an answer",
        [user("a"), assistant("x"), {"role": "developer", "content": "s"}],
        ["user: a", "assistant: x", "user: s"],
    ),
    ("system alone", [{"role": "system", "content": "s"}], ["system: s", "user: Begin."]),
    ("the assistant first", [assistant("x"), user()], ["user: Begin.", "assistant: x", "user: hi"]),
    ("two of the user", [user("a"), user("b")], ["user: a\n\nb"]),
    (
        "two of the user, one with an image",
        [user("a"), user([text("b"), {"type": "input_image", "image_url": "u"}])],
        [
            (
                "user",
                [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "image_url", "image_url": {"url": "u"}},
                ],
            )
        ],
    ),
    ("texts", [user([text("a"), text("b")])], ["user: a\nb"]),
    ("empty", [user("")], ["user: "]),
    ("assistant", [user(), assistant("x"), user("y")], ["user: hi", "assistant: x", "user: y"]),
    (
        "a steered turn",
        [user(), REASONING, assistant("par"), user("no")],
        ["user: hi", "assistant: par", "user: no"],
    ),
    (
        "refusal",
        [
            user(),
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "refusal", "refusal": "no"}],
            },
            user("y"),
        ],
        ["user: hi", "assistant: no", "user: y"],
    ),
    (
        "two in a row",
        [user(), assistant("x"), assistant("y"), user("z")],
        ["user: hi", "assistant: x\n\ny", "user: z"],
    ),
    ("an empty one", [user(), assistant(""), user("y")], ["user: hi\n\ny"]),
    ("reasoning alone", [user(), REASONING, user("y")], ["user: hi\n\ny"]),
    ("the last word", [user(), assistant("x")], ["user: hi", "assistant: x", "user: Continue."]),
    (
        "parallel calls",
        [user(), A, REASONING, B, output("a"), output("b")],
        ["user: hi", "assistant: call:a call:b", "a=ok", "b=ok"],
    ),
    (
        "calls after text",
        [user(), assistant("x"), A, output("a")],
        ["user: hi", "assistant: x call:a", "a=ok"],
    ),
    (
        "text after a call",
        [user(), A, assistant("x"), output("a")],
        ["user: hi", "assistant: x call:a", "a=ok"],
    ),
    (
        "one after the other",
        [user(), A, output("a"), B, output("b")],
        ["user: hi", "assistant: call:a", "a=ok", "assistant: call:b", "b=ok"],
    ),
    (
        "other order",
        [user(), A, B, output("b", "2"), output("a", "1")],
        ["user: hi", "assistant: call:a call:b", "a=1", "b=2"],
    ),
    (
        "what came between",
        [user(), A, user("steer"), output("a")],
        ["user: hi", "assistant: call:a", "a=ok", "user: steer"],
    ),
    (
        "outputs apart",
        [user(), A, B, output("b"), user("x"), output("a")],
        ["user: hi", "assistant: call:a call:b", "a=ok", "b=ok", "user: x"],
    ),
    ("output first", [user(), output("a"), A], ["user: hi", "assistant: call:a", "a=ok"]),
    (
        "one id twice",
        [user(), A, output("a", "1"), user("x"), A, output("a", "2")],
        ["user: hi", "assistant: call:a", "a=1", "user: x", "assistant: call:a", "a=2"],
    ),
    (
        "one id twice, once unanswered",
        [user(), A, user("x"), A, output("a", "2")],
        ["user: hi\n\nx", "assistant: call:a", "a=2"],
    ),
    (
        "unanswered",
        [user(), A, B, output("b"), user("x")],
        ["user: hi", "assistant: call:b", "b=ok", "user: x"],
    ),
    (
        "none answered",
        [user(), assistant("t"), A, user("x")],
        ["user: hi", "assistant: t", "user: x"],
    ),
    (
        "answered twice",
        [user(), A, output("a"), output("a", "again")],
        ["user: hi", "assistant: call:a", "a=ok"],
    ),
    (
        "nothing between",
        [user(), assistant("x"), user([{"type": "z"}]), assistant("y"), A, output("a")],
        ["user: hi", "assistant: x\n\ny call:a", "a=ok"],
    ),
    ("said twice", [user(), A, A, output("a")], ["user: hi", "assistant: call:a", "a=ok"]),
    ("output of nothing", [user(), output("z")], ["user: hi"]),
    (
        "an output of values",
        [user(), A, output("a", {"t": 1})],
        ["user: hi", "assistant: call:a", 'a={"t":1}'],
    ),
    (
        "an output of texts",
        [user(), A, output("a", [text("x"), text("y")])],
        ["user: hi", "assistant: call:a", "a=x\ny"],
    ),
    ("no output", [user(), A, output("a", None)], ["user: hi", "assistant: call:a", "a="]),
]


@pytest.mark.parametrize(
    ("items", "wanted"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES]
)
def test_messages(items: list[Item], wanted: list[Any]) -> None:
    assert in_short(*items) == wanted


def test_instructions_come_first() -> None:
    assert in_short(user(), instructions="i") == ["system: i", "user: hi"]
    system = {"role": "system", "content": "s"}
    assert in_short(system, user(), instructions="i") == ["system: i\n\ns", "user: hi"]
    assert in_short(user(), instructions="") == in_short(user(), instructions=None) == ["user: hi"]
    assert in_short(user(), instructions=[system]) == ["system: s", "user: hi"]


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
PARTS: list[tuple[Item, Item | None]] = [
    ({"type": "input_image", "image_url": "data:image/png;base64,AA=="}, IMAGE),
    ({"type": "input_image", "image_url": IMAGE["image_url"], "detail": None}, IMAGE),
    (
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    ),
    ({"type": "input_image", "file_id": "file_1"}, None),
    (
        {"type": "input_file", "file_data": "data:;base64,AA==", "filename": "x.pdf"},
        {"type": "file", "file": {"file_data": "data:;base64,AA==", "filename": "x.pdf"}},
    ),
    ({"type": "input_file", "file_id": "f"}, {"type": "file", "file": {"file_id": "f"}}),
    ({"type": "input_file", "file_url": "https://x/y.pdf", "filename": "y"}, None),
    (AUDIO, AUDIO),
    (IMAGE, IMAGE),
    ({"type": "video_url", "video_url": {"url": "u"}, "x": None}, None),
    ({"type": "zebra"}, None),
    ({"type": "input_text", "text": None}, None),
]


@pytest.mark.parametrize(("part", "form"), PARTS)
def test_parts(part: Item, form: Item | None, warnings: Any) -> None:
    if part["type"] == "video_url":
        form = {"type": "video_url", "video_url": {"url": "u"}}
    content = [{"type": "text", "text": "look"}, *([form] if form else [])]
    assert in_short(user([text("look"), part])) == [("user", content) if form else "user: look"]
    assert bool(warnings()) == (form is None)


def test_a_message_of_nothing_that_chat_knows_is_left_out() -> None:
    assert in_short(user(), user([{"type": "zebra"}])) == ["user: hi"]


def test_images_of_an_output_follow_all_outputs() -> None:
    image = {"type": "input_image", "image_url": IMAGE["image_url"]}
    items = [user(), A, B, output("a", [image]), output("b", [text("x"), image])]
    assert in_short(*items) == [
        "user: hi",
        "assistant: call:a call:b",
        "a=See the next message.",
        "b=x",
        ("user", [IMAGE, IMAGE]),
    ]


@pytest.mark.parametrize("arguments", ["", "{", "[]", "null", "7"])
def test_arguments_are_an_object(arguments: str) -> None:
    (_, message, _) = asked(user(), call("a", arguments), output("a"))["messages"]
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    (_, message, _) = asked(user(), call("a", '{"a": 1}'), output("a"))["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def test_custom_calls_are_calls_with_an_input() -> None:
    custom = {"type": "custom_tool_call", "call_id": "a", "name": "sh", "input": 'echo "x"\n'}
    result = {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}
    (_, message, after) = asked(user(), custom, result)["messages"]
    (made,) = message["tool_calls"]
    assert json.loads(made["function"]["arguments"]) == {"input": 'echo "x"\n'}
    assert after == {"role": "tool", "tool_call_id": "a", "content": "x"}


UNKNOWN: list[Item] = [
    {"type": "item_reference", "id": "msg_1"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "shell_call_output", "call_id": "a", "output": []},
    {"type": "function_call", "name": "f", "arguments": "{}"},
    {"role": "tool", "tool_call_id": "a", "content": "x"},
    {"content": "x"},
]


def test_a_compaction_item_of_another_backend_is_refused() -> None:
    """It stands for all that was before it, so nothing would make sense without it."""
    with pytest.raises(ClientFault) as caught:
        in_short(user("a"), {"type": "compaction", "encrypted_content": "E"}, user("b"))
    assert caught.value.code == "invalid_compaction_item"


@pytest.mark.parametrize("item", UNKNOWN)
def test_what_chat_has_no_form_for_is_left_out_with_a_word(item: Item, warnings: Any) -> None:
    assert in_short(user("a"), item, user("b")) == ["user: a\n\nb"]
    assert len(warnings()) == 1
