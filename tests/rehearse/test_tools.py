"""Calls of declared tools."""

from __future__ import annotations

import json

from tests.support.rehearsal import WEATHER, Rehearsal, deltas, last, user

CUSTOM = {"type": "custom", "name": "run_code"}


def test_a_function_is_called_once_or_twice_and_its_output_talked_about(stand: Rehearsal) -> None:
    events = stand.ask("Please use the tool twice, for Lisbon", tools=[WEATHER])
    calls = last(events)["output"]
    assert [json.loads(call["arguments"]) for call in calls] == [
        {"city": "Lisbon", "days": 2, "unit": "celsius"},
        {"city": "Lisbon again", "days": 3, "unit": "fahrenheit"},
    ]
    assert len(deltas(events, "function_call_arguments")) == 8
    assert len({call["call_id"] for call in calls}) == 2
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": f"sun {index}"}
        for index, call in enumerate(calls)
    ]
    text = stand.say([user("use the tool"), *calls, *outputs], tools=[WEATHER])
    assert text.startswith('The tool answered "sun 0". The tool answered "sun 1". You said')


def test_a_custom_tool_is_called(stand: Rehearsal) -> None:
    events = stand.ask("use the tool for Lisbon", tools=[{"type": "web_search"}, CUSTOM, WEATHER])
    [call] = last(events)["output"]
    assert call["type"] == "custom_tool_call"
    assert call["input"] == "".join(deltas(events, "custom_tool_call_input")) == "rehearse Lisbon"
    output = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "42"}
    assert stand.say([user("x"), call, output]).startswith('The tool answered "42".')


def test_the_choice_of_tools_is_respected(stand: Rehearsal) -> None:
    tools = [CUSTOM, WEATHER]
    named = {"type": "function", "name": "get_weather"}
    for choice, name in ((named, "get_weather"), ("required", "run_code")):
        [call] = last(stand.ask("hi", tools=tools, tool_choice=choice))["output"]
        assert call["name"] == name
    none = last(stand.ask("use the tool", tools=tools, tool_choice="none"))
    assert none["output"][0]["type"] == "message"
    one = stand.ask("use the tool twice", tools=tools, parallel_tool_calls=False)
    assert len(last(one)["output"]) == 1
    assert "declared none" in stand.say("use the tool")


def test_the_limit_cuts_a_call(stand: Rehearsal) -> None:
    events = stand.ask("use the tool", tools=[WEATHER], max_output_tokens=2)
    [call] = last(events)["output"]
    assert call["status"] == "incomplete"
    assert call["arguments"] == "".join(deltas(events, "function_call_arguments"))


def test_a_tool_is_called_if_the_message_is_about_it(stand: Rehearsal) -> None:
    asked = "What's the weather like in San Francisco?"
    [call] = last(stand.ask(asked, tools=[CUSTOM, WEATHER]))["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    for name, told in (("tell_weather", asked), ("get_weather", "get_weather answered")):
        [message] = last(stand.ask(told, tools=[{**WEATHER, "name": name}]))["output"]
        assert message["type"] == "message"
    none = last(stand.ask(asked, tools=[WEATHER], tool_choice="none"))
    assert none["output"][0]["type"] == "message"


def test_dictated_calls_are_made_one_after_the_other(stand: Rehearsal) -> None:
    lines = [
        'call get_weather with {"city": "Oslo"}',
        "call nobody with x",
        "call run_code with 1+1",
    ]
    items = [user("\n".join(["Do this.", *lines]))]
    made = []
    for kind in ("function_call", "custom_tool_call"):
        [call] = last(stand.ask(items, tools=[CUSTOM, WEATHER]))["output"]
        assert call["type"] == kind
        made.append(call.get("arguments") or call["input"])
        items += [call, {"type": f"{kind}_output", "call_id": call["call_id"], "output": "fine"}]
    assert made == ['{"city": "Oslo"}', "1+1"]
    assert stand.say(items, tools=[CUSTOM, WEATHER]).startswith('The tool answered "fine".')


def test_keys_that_clients_of_the_hosted_api_send_are_taken(stand: Rehearsal) -> None:
    keys = {"client_metadata": {"turn": "1"}, "access_programs": {}, "image": {}}
    added = {"internal_chat_message_metadata_passthrough": {"turn_id": "1"}}
    assert stand.say([{**user("hi"), **added}], **keys)
