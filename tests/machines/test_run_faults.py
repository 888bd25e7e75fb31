"""What a backend's errors become: the code from the closed list, the original in the message."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.responses import ResponseError

from gateway.upstream.transport.faults import answer_fault
from lanes.codec import encode
from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import ERROR_CODES, reported_fault, response_error
from tests.machines.backend import completed, created, ended
from tests.machines.drive import feed, play

CODES = [
    ({"code": "server_error"}, "server_error", 500),
    ({"code": "zebra", "type": "x"}, "server_error", 500),
    ({"code": 429}, "rate_limit_exceeded", 429),
    ({"code": "rate_limit_exceeded"}, "rate_limit_exceeded", 429),
    ({"code": 503}, "server_error", 503),
    ({"code": 7}, "server_error", 500),
    ({"code": True}, "server_error", 500),
    ({"code": None, "type": None, "param": 5}, "server_error", 500),
    ({"code": "invalid_prompt", "type": "invalid_request_error"}, "invalid_prompt", 400),
    ({"code": "context_length_exceeded"}, "invalid_prompt", 400),
    ({"code": 400, "type": "exceed_context_size_error"}, "invalid_prompt", 400),
    ({"message": "This model's maximum context length is 9"}, "invalid_prompt", 400),
    ({"message": "", "code": []}, "server_error", 500),
    ({"message": ["x"]}, "server_error", 500),
]


@pytest.mark.parametrize(("error", "code", "status"), CODES)
def test_error(error: dict[str, Any], code: str, status: int) -> None:
    for event in ({"error": {"message": "boom", **error}}, {"message": "boom", **error}):
        fault = reported_fault(event)
        assert fault.status == status
        assert fault.param is None
        shown = response_error(fault)
        assert shown["code"] == code
        assert fault.message in shown["message"]
        if code != error.get("code") and isinstance(error.get("code"), str):
            assert error["code"] in shown["message"] or code == "invalid_prompt"
        ResponseError.model_validate(shown, strict=True)


def test_a_status_beside_the_error_counts() -> None:
    assert (
        reported_fault({"status": 429, "error": {"message": "slow"}}).code == "rate_limit_exceeded"
    )
    assert reported_fault({"status": 429, "error": "slow"}).message == "slow"


SHAPES: dict[str, tuple[str | None, Any, str]] = {
    "nested": (None, {"type": "error", "error": {"message": "boom"}}, "boom"),
    "flat": (None, {"type": "error", "message": "boom"}, "boom"),
    "bare": (None, {"error": {"message": "boom"}}, "boom"),
    "string": (None, {"error": "boom"}, "boom"),
    "list": (None, {"error": [{"message": "boom"}]}, "boom"),
    "list of strings": (None, {"error": ["boom"]}, "boom"),
    "detail": (None, {"detail": "boom"}, "boom"),
    "detail list": (None, {"detail": [{"loc": ["body", "n"], "msg": "boom"}]}, "body.n: boom"),
    "detail within": (None, {"error": {"detail": "boom"}}, "boom"),
    "errors": (None, {"errors": [{"message": "boom"}, {"message": "bang"}]}, "boom; bang"),
    "message": (None, {"message": "boom"}, "boom"),
    "msg": (None, {"code": 500, "msg": "boom"}, "boom"),
    "no success": (None, {"success": False, "message": "boom"}, "boom"),
    "no success, no words": (None, {"success": False}, "without a message"),
    "an error object": (None, {"object": "error", "message": "boom", "type": "BadRequest"}, "boom"),
    "a type and a code": (None, {"type": "BadRequest", "code": 400, "message": "boom"}, "boom"),
    "a type and a status": (None, {"type": "BadRequest", "status": 400, "detail": "boom"}, "boom"),
    "error_type": (None, {"error_type": "provider", "message": "boom"}, "boom"),
    "response.error": (None, {"type": "response.error", "message": "boom"}, "boom"),
    "event line": ("error", {"message": "boom"}, "boom"),
    "event line and a type": ("error", {"type": "BadRequest", "message": "boom"}, "boom"),
    "event line only": ("error", {}, "without a message"),
    "other words": (None, {"error": {"reason": "boom"}}, '{"reason":"boom"}'),
    "other words beside": (None, {"error": {"reason": 1}, "message": "boom"}, "boom"),
    "no words": (None, {"error": {"code": None, "message": None}}, "without a message"),
    "a number": (None, {"error": 5}, "without a message"),
    "spaces": (None, {"error": {"message": " "}}, "without a message"),
}


@pytest.mark.parametrize(("name", "event", "words"), SHAPES.values(), ids=list(SHAPES))
def test_an_error_of_any_shape_is_one(name: str | None, event: Any, words: str) -> None:
    fresh = feed([(name, encode(event))])
    assert fresh.events == []
    assert fresh.run.fault is not None
    assert words in fresh.run.fault.message
    begun = feed(
        [(None, encode(created())), (name, encode(event)), (None, encode(ended("failed")))]
    )
    assert words in begun.terminal["error"]["message"]


PASSING: list[tuple[str | None, Any]] = [
    ("error", {"type": "response.zebra", "message": "no error"}),
    (None, {"type": "response.zebra", "message": "no error", "code": 500}),
    (None, {"type": "notice", "message": "please hold the line"}),
    (None, {"object": "chat.completion.chunk", "choices": []}),
    (None, {"type": "response.zebra", "success": False, "error": None}),
    (None, {"success": True}),
]


@pytest.mark.parametrize(("name", "event"), PASSING)
def test_what_only_looks_like_an_error_is_none(name: str | None, event: Any) -> None:
    events = [(None, encode(created())), (name, encode(event)), (None, encode(completed()))]
    assert feed(events).terminal["status"] == "completed"


@pytest.mark.parametrize("where", ["nested", "flat", "terminal"])
def test_a_huge_message_is_cut(where: str) -> None:
    error = {"code": "server_error", "message": "x" * 2**20}
    events: dict[str, Any] = {
        "nested": {"type": "error", "error": error},
        "flat": {"type": "error", **error},
        "terminal": ended("failed", error=error),
    }
    assert play([created(), events[where]]).terminal["error"]["message"] == "x" * 8192


def test_a_code_in_digits_is_a_status() -> None:
    fault = reported_fault({"error": {"code": "429", "message": "slow"}})
    assert (fault.status, fault.code, fault.type) == (
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
    )
    assert answer_fault(429, {}, b'{"error":{"code":"429"}}').code == "rate_limit_exceeded"
    assert reported_fault({"error": {"code": "7"}}).code == "server_error"


KINDS = [
    ({}, 500, "server_error", "server_error"),
    ({"type": "error"}, 500, "server_error", "server_error"),
    ({"type": "response.zebra"}, 500, "server_error", "server_error"),
    ({"type": "error", "error_type": "provider"}, 500, "server_error", "provider"),
    ({"type": ""}, 500, "server_error", "server_error"),
    ({"type": 5, "code": ""}, 500, "server_error", "server_error"),
    ({"code": "rate_limit_exceeded"}, 429, "rate_limit_exceeded", "rate_limit_error"),
    ({"type": "rate_limit_error"}, 429, "rate_limit_exceeded", "rate_limit_error"),
    ({"code": "slow", "type": "tokens"}, 500, "slow", "tokens"),
    ({"code": "invalid_api_key"}, 401, "invalid_api_key", "authentication_error"),
    ({"code": "timeout"}, 504, "timeout", "server_error"),
    ({"code": 400}, 400, "invalid_request_error", "invalid_request_error"),
    ({"code": 404}, 404, "not_found", "not_found_error"),
    (
        {"code": 429, "message": "the context window"},
        429,
        "rate_limit_exceeded",
        "rate_limit_error",
    ),
    ({"code": 503}, 503, "server_error", "server_error"),
    ({"code": "context_length_exceeded"}, 400, "context_length_exceeded", "invalid_request_error"),
]


@pytest.mark.parametrize(("error", "status", "code", "kind"), KINDS)
def test_an_error_is_told_as_if_it_came_by_http(
    error: dict[str, Any], status: int, code: str, kind: str
) -> None:
    fields = {"message": "boom", **error}
    for event in (fields, {"type": "error", "error": fields}):
        fault = reported_fault(event)
        assert (fault.status, fault.code, fault.type) == (status, code, kind)
    answer = answer_fault(status, {}, encode({"error": fields}))
    if "error_type" not in error and error.get("type") != "response.zebra":
        assert (answer.code, answer.type) == (code, kind)
    assert (response_error(fault)["code"] == "rate_limit_exceeded") is (status == 429)


MISALIGNED = {
    "detailed_explanation": "x",
    "error_type": "other",
    "review_target": None,
    "steer": {"message": "m"},
}
DETAILS: list[tuple[Any, Any]] = [
    ({"param": "input", "type": "t"}, {"param": "input", "type": "t"}),
    ({"param": "", "misalignment": MISALIGNED}, {"param": "", "misalignment": MISALIGNED}),
    ({"misalignment": {}}, {"misalignment": {}}),
    ({"param": 5, "type": 5, "misalignment": 5}, {}),
    ({"param": None, "type": None, "misalignment": None}, {}),
    ({"misalignment": {"steer": {}}, "headers": {}, "x": 1}, {}),
    ({"misalignment": {"error_type": 5}}, {}),
    (
        {
            "param": "p" * 9000,
            "type": "t" * 9000,
            "misalignment": {"steer": {"message": "m" * 9000}},
        },
        {},
    ),
    ({"type": "error"}, {}),
    ({}, {}),
]


@pytest.mark.parametrize(("fields", "kept"), DETAILS)
def test_a_failed_response_keeps_what_its_error_says(fields: Any, kept: Any) -> None:
    error = {"code": "server_error", "message": "boom", **fields}
    shown = {"code": "server_error", "message": "boom", **kept}
    ends = [ended("failed", error=error), {"type": "error", "error": error}]
    for end in ends:
        assert play([created(), end]).terminal["error"] == shown
    assert "type" not in response_error(UpstreamFault("x", code=None, status=500, type="x"))


def test_param_and_type_are_kept() -> None:
    fault = reported_fault(
        {"error": {"message": "m", "type": "invalid_request_error", "param": "input"}}
    )
    assert (fault.type, fault.param, fault.status) == ("invalid_request_error", "input", 400)
    assert reported_fault({"type": "error", "message": "m"}).type == "server_error"


def test_the_code_is_told_once() -> None:
    assert (
        response_error(reported_fault({"message": "zebra!", "code": "zebra"}))["message"]
        == "zebra!"
    )


def test_the_list_is_the_official_one() -> None:
    assert set(get_args(ResponseError.model_fields["code"].annotation)) == ERROR_CODES
