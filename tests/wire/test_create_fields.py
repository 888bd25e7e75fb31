"""The fields of a create are checked by the types that the official client gives them."""

from __future__ import annotations

import collections.abc
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from openai.types.responses.response_compact_params import ResponseCompactParams
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from gateway.client.frames import create_of
from lanes.errors import ClientFault

#: The official types of all fields, but of those that go nowhere.
OFFICIAL: dict[str, Any] = {
    **get_type_hints(ResponseCompactParams),
    **get_type_hints(ResponseCreateParamsNonStreaming),
}
#: Here the gateway does not use the value, and the reference has it for one service of its own.
PASSED = {"stream", "background_options"}
EXAMPLES: dict[type, tuple[Any, ...]] = {
    bool: (True, False),
    int: (1, -1, 10**30),
    float: (0.5, -1.5),
    str: ("x", ""),
    list: ([],),
    dict: ({},),
}
#: Where not just any value will do.
MORE: dict[str, dict[type, tuple[Any, ...]]] = {
    "conversation": {dict: ({"id": "conv_1"},)},
    "truncation": {str: ("auto", "disabled")},
}


def json_types(hint: Any) -> set[type]:
    """Return the types that JSON has for what a type hint says."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {type(arg) for arg in args}
    if origin in (list, collections.abc.Iterable):
        return {list}
    if origin is dict or hasattr(hint, "__required_keys__"):
        return {dict}
    if origin is Union or args:
        return set().union(*map(json_types, args))
    return {int, float} if hint is float else {hint}


def check(key: str, value: object) -> None:
    create_of({"model": "m", key: value}, 0, None, background=True)


@pytest.mark.parametrize("key", sorted(OFFICIAL.keys() - PASSED))
def test_another_type_than_the_official_one_is_refused(key: str) -> None:
    allowed = json_types(OFFICIAL[key])
    assert allowed <= {*EXAMPLES, NoneType}, OFFICIAL[key]
    for kind, examples in EXAMPLES.items():
        for value in examples:
            if kind in allowed:
                continue
            with pytest.raises(ClientFault) as refused:
                check(key, value)
            fault = refused.value
            assert (fault.code, fault.status, fault.param) == ("invalid_type", 400, key), value


@pytest.mark.parametrize("key", sorted(OFFICIAL))
def test_an_official_type_is_not_refused(key: str) -> None:
    examples = {**EXAMPLES, **MORE.get(key, {})}
    for kind in json_types(OFFICIAL[key]) - {NoneType}:
        for value in examples[kind]:
            check(key, value)
    if key not in ("model", "input"):
        check(key, None)
