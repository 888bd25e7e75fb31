"""Any history in the form that a strict chat template accepts, whatever it refuses."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.chat import DIALECT
from gateway.upstream.chat.request import shape
from gateway.upstream.chat.template import SystemPlace, TemplateForm
from gateway.upstream.chat.templating import in_template
from gateway.upstream.dialect import find
from gateway.upstream.history.in_turns import in_turns
from lanes.codec import encode
from tests.dialects.histories import histories
from tests.dialects.strict import templates

if TYPE_CHECKING:
    from tests.dialects.strict.templates import Message, Template

pytestmark = pytest.mark.timeout(300)

NINE = re.compile("[a-zA-Z0-9]{9}")
FORMS: dict[str, tuple[TemplateForm, Template]] = {
    "default": (TemplateForm(), templates.alternating),
    "qwen": (TemplateForm(), templates.qwen),
    "folded": (TemplateForm(SystemPlace.FOLDED), templates.alternating),
    "mistral": (TemplateForm(user_follows=False, call_id=NINE), templates.mistral),
    "gemma": (
        TemplateForm(SystemPlace.NOWHERE, calls=False, texts_only=True),
        templates.gemma,
    ),
    "lenient": (TemplateForm(SystemPlace.ANYWHERE, alternates=False), templates.lenient),
}
PIECE = re.compile(r"<(\d+)>")


def asked(form: TemplateForm, items: list[Any], **body: Any) -> list[Message]:
    made = shape({"model": "m", "input": items, **body}, form)["messages"]
    assert isinstance(made, list)
    return made


@pytest.mark.parametrize("name", FORMS)
@settings(deadline=None)
@given(histories(), st.sampled_from([None, "be brief"]))
def test_any_history_is_accepted(name: str, history: list[Any], instructions: str | None) -> None:
    form, refuses = FORMS[name]
    made = asked(form, history, instructions=instructions)
    if not made:
        return  # nothing in it has a form in Chat
    assert refuses(made) is None, (refuses(made), made)
    assert in_template(made, form) == made, "what is in form stays as it is"
    plain = asked(FORMS["lenient"][0], history, instructions=instructions)
    pieces = PIECE.findall(json.dumps(plain))
    found = PIECE.findall(json.dumps(made))
    if form.system is SystemPlace.FOLDED:
        pieces, found = sorted(pieces), sorted(found)
    if name == "gemma":  # an output names its call
        pieces, found = sorted({*pieces}), sorted({*found})
    assert found == pieces, "nothing is lost, doubled or in another order"


@pytest.mark.parametrize("name", FORMS)
def test_each_template_refuses(name: str) -> None:
    """A judge that accepts what the gateway makes for another template proves nothing."""
    user = {"role": "user", "content": "u"}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    bad: dict[str, list[list[Message]]] = {
        "default": [[user, user], [{"role": "assistant", "content": "a"}, user],
                    [user, {"role": "system", "content": "s"}, user]],
        "qwen": [[{"role": "system", "content": "s"}], [user, {"role": "system", "content": "s"}]],
        "mistral": [[user, called, {"role": "tool", "tool_call_id": "c", "content": ""}],
                    [user, user]],
        "gemma": [[{"role": "system", "content": "s"}, user], [user, called]],
        "lenient": [[user, called], [user, called, user]],
        "folded": [[user, user]],
    }  # fmt: skip
    for messages in bad[name]:
        assert FORMS[name][1](messages) is not None


_said = st.sampled_from(["user", "assistant", "call", "system"])


def items_of(kinds: list[str]) -> list[list[Any]]:
    """Items that come together: a call has its output with it."""
    made: list[list[Any]] = []
    for at, kind in enumerate(kinds):
        if kind == "call":
            call = {"type": "function_call", "call_id": f"c{at}", "name": "f", "arguments": "{}"}
            made.append(
                [call, {"type": "function_call_output", "call_id": f"c{at}", "output": "o"}]
            )
        else:
            made.append([{"role": kind, "content": f"<{at}>"}])
    return made


@pytest.mark.parametrize("name", ["lenient", "default"])
@settings(deadline=None)
@given(st.lists(_said, min_size=1, max_size=7))
def test_a_list_extends_the_one_before(name: str, drawn: list[str]) -> None:
    """Value for value, so that the prompt cache holds; but what is joined changes the last one."""
    kinds = ["user", *drawn]
    parts = items_of(kinds)
    before: list[Message] = []
    for count, kind in enumerate(kinds, 1):
        made = asked(FORMS[name][0], [item for part in parts[:count] for item in part])
        said = ("user", "system")
        joined = name == "default" and kind in said and kinds[count - 2] in said
        if kind in ("user", "call"):  # after others there is a word of ours
            if not joined:
                assert made[: len(before)] == before
            before = made
        elif joined:
            before = made


def steered(parts: list[list[Any]], at: int) -> list[Any]:
    """The history with a steer after so many parts."""
    head = [item for part in parts[:at] for item in part]
    return [
        *head,
        {"role": "user", "content": "<steer>"},
        *(i for part in parts[at:] for i in part),
    ]


@pytest.mark.parametrize("name", FORMS)
@settings(deadline=None)
@given(st.lists(_said, min_size=1, max_size=6), st.data())
def test_any_steer_is_accepted(name: str, kinds: list[str], data: Any) -> None:
    form, refuses = FORMS[name]
    items = steered(items_of(kinds), data.draw(st.integers(0, len(kinds))))
    made = asked(form, items)
    assert refuses(made) is None, (refuses(made), made)
    assert str(made).count("<steer>") == 1


@settings(deadline=None)
@given(histories(), st.booleans())
def test_an_input_in_turns(history: list[Any], system: bool) -> None:
    """For servers that have such a template behind `/responses`."""
    made = in_turns(history, system=system)
    roles = [item.get("role") for item in made]
    assert ("user", "user") not in pairwise(roles)
    rest = roles[next((n for n, role in enumerate(roles) if role == "user"), len(roles)) :]
    assert not {*rest} & {"system", "developer"}
    assert system or not {*roles} & {"system", "developer"}
    assert PIECE.findall(json.dumps(made)) == PIECE.findall(json.dumps(history))
    assert in_turns(made, system=system) == made


@settings(deadline=None)
@given(histories(), st.sampled_from([None, "be brief"]))
def test_a_dialect_accepts_any_history(history: list[Any], instructions: str | None) -> None:
    body: dict[str, Any] = {"model": "m", "input": [], "instructions": instructions}
    made = json.loads(find("mistral").request(body, [encode(item) for item in history]))
    assert not made["messages"] or templates.mistral(made["messages"]) is None


def test_ids_of_calls() -> None:
    form = TemplateForm(call_id=NINE)
    items = items_of(["user", "call"])
    for call_id, kept in (("abcdefgh1", True), ("call_1", False), ("call_2", False)):
        for item in items[1]:
            item["call_id"] = call_id
        (_, call, output) = asked(form, [one for part in items for one in part])
        made = call["tool_calls"][0]["id"]
        assert made == output["tool_call_id"]
        assert NINE.fullmatch(made)
        assert (made == call_id) == kept


def test_a_profile_says_which() -> None:
    form = TemplateForm(SystemPlace.NOWHERE)
    items = [{"role": "user", "content": "hi"}]
    made = partial(shape, template=form)({"model": "m", "instructions": "s", "input": items})
    assert made["messages"] == [{"role": "user", "content": "s\n\nhi"}]
    sent = json.loads(DIALECT.request({"model": "m", "instructions": "s"}, [encode(items[0])]))
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
