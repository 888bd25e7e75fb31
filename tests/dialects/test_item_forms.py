"""The form in which each dialect gives an item back, and why each datum of it is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.dialect import find
from gateway.upstream.history.continuation import CONTINUE_MESSAGE
from gateway.upstream.history.replay import replay_items
from gateway.upstream.history.replay_form import OPEN_KINDS, ReasoningForm
from lanes.codec import decode, encode
from tests.dialects.strict import JUDGES, refuses
from tests.dialects.test_strict import IMAGE, OPEN, SEAL, USER, assistant, call, output, thought
from tests.dialects.test_tapes import reads
from tests.support.dialect_reading import profile, read

if TYPE_CHECKING:
    Item = dict[str, Any]

STATELESS = tuple(name for name in JUDGES if name not in ("openai", "azure"))
PARTS = [
    {"type": "output_text", "text": "a", "annotations": [], "logprobs": []},
    {"type": "refusal", "refusal": "b"},
]
WHOLE = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "status": "incomplete"},
    **{"content": PARTS, "x": 1},
}
CALL = call(id="fc_1", status="completed", x=1)
CUSTOM = {"type": "custom_tool_call", "call_id": "c1", "name": "sh", "input": "ls"}
PLAIN = thought(status="completed", encrypted_content=None)
TEXTS = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]


def given(dialect: str, *items: Item) -> list[Item]:
    """What the dialect makes of these items, with a user's message after them."""
    listed = [encode(item) for item in (*items, USER)]
    request = json.loads(find(dialect).request({"model": "m"}, listed))
    *made, last = request["input"]
    assert last == USER
    out: list[Item] = made
    return out


def text(value: str, **fields: Any) -> Item:
    return {"type": "output_text", "text": value, **fields}


BARE = {"type": "message", "role": "assistant"}
KEPT = {"id": "msg_1", **BARE, "content": [text("a", annotations=[]), text("b")], "x": 1}
MESSAGES: dict[str, Item] = {
    **dict.fromkeys(("openai", "azure"), WHOLE),
    **dict.fromkeys(
        ("friendli", "maritaca", "sglang", "llamacpp", "huggingface"),
        BARE | {"content": [text("a"), text("b")]},
    ),
    "vllm": BARE | {"content": [text("ab")], "status": "completed"},
    "ollama": BARE | {"content": [text("ab")]},
    **dict.fromkeys(("lmstudio", "xai", "groq", "openrouter"), KEPT),
    "generic": {key: KEPT[key] for key in KEPT if key != "x"} | {"status": "completed"},
}


@pytest.mark.parametrize("dialect", JUDGES)
def test_two_phases_stay_two_messages_where_that_is_taken(dialect: str) -> None:
    """A harmony model comments, and then answers; Ollama refuses two messages at the end."""
    said = [assistant(phase="commentary"), assistant(phase="final_answer", id="msg_2")]
    request = find(dialect).request({"model": "m"}, [encode(item) for item in said])
    kept = [item for item in decode(request)["input"] if item.get("role") == "assistant"]
    assert len(kept) == (1 if dialect == "ollama" else 2)


@pytest.mark.parametrize("dialect", JUDGES)
def test_a_message_that_was_cut(dialect: str) -> None:
    assert given(dialect, WHOLE) == [MESSAGES[dialect]]


OWN_TEXT = {"type": "reasoning", "id": "rs_1", "summary": [], "content": PLAIN["content"]}
NAMELESS = {key: value for key, value in OWN_TEXT.items() if key != "id"}
TOLD = [{"type": "summary_text", "text": "t"}]
#: What each gets of reasoning in the clear, and of one whose text is a summary, encrypted or not.
THOUGHTS: dict[str, tuple[Item | None, Item | None, Item | None]] = {
    **dict.fromkeys(("openai", "azure", "xai", "generic"), (None, None, SEAL)),
    "maritaca": (PLAIN, None, SEAL),
    **dict.fromkeys(("friendli", "vllm", "sglang"), (OWN_TEXT, OWN_TEXT, None)),
    "llamacpp": (NAMELESS, NAMELESS, None),
    "ollama": (OPEN | {"content": ...}, OPEN | {"content": ...}, None),
    **dict.fromkeys(
        ("lmstudio", "groq", "openrouter"),
        (OWN_TEXT, OWN_TEXT | {"summary": TOLD, "content": ...}, None),
    ),
    "huggingface": (None, None, None),
}


@pytest.mark.parametrize("dialect", JUDGES)
def test_reasoning(dialect: str) -> None:
    """In the clear; as Ollama tells it; encrypted. Never without what came of it."""
    after = given(dialect, assistant())
    bare = OPEN | {"content": None}
    for item, form in zip((PLAIN, bare, SEAL), THOUGHTS[dialect], strict=True):
        wanted = {k: v for k, v in (form or {}).items() if v is not ...}
        made = given(dialect, item, assistant())
        assert made[:-1] == ([wanted] if form else [])
        assert len(after) == len(made[-1:]) == 1
        assert given(dialect, item) == []


@pytest.mark.parametrize("dialect", STATELESS)
def test_a_call_and_its_output(dialect: str) -> None:
    made = given(dialect, CALL, output("ok", id="o1", status="completed"))
    if dialect == "huggingface":
        described = "[Output of look: ok]"
        assert made[0]["content"][0]["text"] == "[Called look with {}]"
        assert made[1] == {"type": "message", "role": "user", "content": described}
        return
    assert [item["type"] for item in made] == ["function_call", "function_call_output"]
    assert all("status" not in item for item in made)
    keeps = dialect in ("lmstudio", "xai", "groq", "openrouter")
    assert ("x" in made[0], "id" in made[0]) == (keeps, keeps)


@pytest.mark.parametrize("dialect", STATELESS)
def test_the_output_comes_before_what_was_said_after_the_call(dialect: str) -> None:
    second = call(call_id="c2")
    items = [
        assistant(),
        CALL,
        second,
        USER,
        output("two", call_id="c2"),
        output("one"),
        assistant("b"),
    ]
    made = given(dialect, *items)
    if dialect != "huggingface":
        kinds = [item.get("output", item["type"]) for item in made]
        assert kinds[1:5] == ["function_call", "function_call", "two", "one"]
        assert made[5] == USER
    in_order = [CALL, output("one"), assistant("b"), second, output("two", call_id="c2")]
    assert [item["type"] for item in given("vllm", *in_order)] == [i["type"] for i in in_order]


def test_odd_values_of_calls() -> None:
    """What the items of other backends and of clients may hold, made to be read."""
    odd = [call(call_id=5, arguments={"a": 1}), output({"b": 2}, call_id=5)]
    first, second = given("vllm", *odd)
    assert (first["call_id"], second["call_id"]) == ("5", "5")
    assert (first["arguments"], second["output"]) == ('{"a":1}', '{"b":2}')
    assert given("llamacpp", call(arguments="[1]"))[0]["arguments"] == "{}"
    assert given("sglang", call(arguments="[1]"))[0]["arguments"] == "[1]"
    assert given("sglang", call(arguments=None))[0]["arguments"] == "{}"


@pytest.mark.parametrize("dialect", ["llamacpp", "ollama"])
def test_an_output_of_parts_is_one_text(dialect: str) -> None:
    assert given(dialect, CALL, output([*TEXTS, IMAGE, None]))[1]["output"] == (
        "a\nb\n[input_image]\n[None]"
    )
    assert given("vllm", CALL, output(TEXTS))[1]["output"] == TEXTS


def test_messages_in_a_row_are_one_where_one_is_read() -> None:
    for dialect in ("vllm", "ollama"):
        (made,) = given(dialect, assistant("a"), assistant(content="b"))
        assert made["content"] == [text("a\n\nb")]
        assert len(given(dialect, assistant("a"), USER, assistant("b"))) == 3
    assert len(given("llamacpp", assistant("a"), assistant("b"))) == 2


@pytest.mark.parametrize("dialect", JUDGES)
def test_the_assistants_words_at_the_end(dialect: str) -> None:
    """Who would go on within them gets a user's word to answer; no others."""
    for last in (assistant(id="m", status="completed"), call()):
        request = json.loads(find(dialect).request({"model": "m"}, [encode(USER), encode(last)]))
        closed = request["input"][-1] == CONTINUE_MESSAGE
        assert closed == (dialect in ("vllm", "llamacpp", "ollama"))
        assert refuses(dialect, request) is None
    assert "Continue." not in str(given(dialect, WHOLE))


@pytest.mark.parametrize(
    "item", [assistant(content=[]), assistant(content=None), assistant(content=[text("")])]
)
def test_a_message_that_says_nothing_is_left_out(item: Item) -> None:
    assert given("friendli", item) == given("vllm", item) == given("xai", item) == []
    assert given("xai", thought(), item) == []


#: Take one datum away from a dialect, and a history like this is refused.
NEEDED: list[tuple[str, dict[str, Any], list[Item]]] = [
    ("openai", {"reasoning": ReasoningForm.OPEN, "kinds": OPEN_KINDS}, [PLAIN, assistant()]),
    ("friendli", {"needs_id": frozenset()}, [thought(id=...), assistant()]),
    ("friendli", {"reasoning": ReasoningForm.OPEN}, [OPEN | {"content": None}, assistant()]),
    ("maritaca", {"reasoning": ReasoningForm.OPEN}, [OPEN | {"content": None}, assistant()]),
    ("vllm", {"needs_id": frozenset()}, [thought(id=...), assistant()]),
    ("vllm", {"joins_text": False}, [WHOLE]),
    ("vllm", {"reasoning": ReasoningForm.WHOLE}, [SEAL, assistant()]),
    ("vllm", {"status": "incomplete", "closes_input": False}, [assistant()]),
    ("sglang", {"reasoning": ReasoningForm.WHOLE}, [SEAL, assistant()]),
    ("llamacpp", {"parts": None, "kinds": None}, [assistant(content="a")]),
    ("llamacpp", {"object_arguments": False}, [call(arguments="[1]"), output()]),
    ("llamacpp", {"text_outputs": False}, [call(), output([IMAGE])]),
    ("llamacpp", {"closes_input": False}, [assistant()]),
    ("llamacpp", {"reasoning": ReasoningForm.OPEN}, [OPEN | {"content": None}, assistant()]),
    ("ollama", {"object_arguments": False}, [call(arguments="{"), output()]),
    ("ollama", {"text_outputs": False}, [call(), output(TEXTS)]),
    ("ollama", {"joins_text": False, "closes_input": False}, [assistant(), assistant()]),
    ("ollama", {"reasoning": ReasoningForm.TEXT}, [PLAIN, assistant()]),
    ("xai", {"reasoning": ReasoningForm.OPEN}, [PLAIN, assistant()]),
    ("openrouter", {"needs_id": frozenset()}, [assistant()]),
    ("openrouter", {"status": "completed"}, [WHOLE]),
    ("huggingface", {"reasoning": ReasoningForm.TEXT}, [PLAIN, assistant()]),
]


@pytest.mark.parametrize(("dialect", "without", "items"), NEEDED)
def test_each_datum_is_needed(dialect: str, without: dict[str, Any], items: list[Item]) -> None:
    form = find(dialect).replay
    assert form is not None
    data = [encode(item) for item in items]
    for tried, refused in ((form, False), (replace(form, **without), True)):
        request = {"model": "m", "input": json.loads(encode(replay_items(data, tried)[0]))}
        assert (refuses(dialect, request) is not None) == refused


def test_ollamas_plain_text_goes_back_to_it_and_to_no_client() -> None:
    """The client asked for encrypted reasoning (`store: false`), and this is none."""
    name = "ollama_text_tool.sse"
    played = read(reads(name), profile(name))
    assert "encrypted_content" not in json.dumps(played.events)
    history = [json.loads(entry.data) for entry in played.run.entries()]
    (reasoning,) = (item for item in given("ollama", *history) if item["type"] == "reasoning")
    assert reasoning["encrypted_content"] == "Need the tool."
    assert "Need the tool." not in str(given("openai", *history))


def test_encrypted_reasoning_is_sent_where_it_is_encrypted() -> None:
    name = "maritaca_reasoning_tool.sse"
    assert "gAAAAABq-demo-cipher" in json.dumps(read(reads(name), profile(name)).events)
