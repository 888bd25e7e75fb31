"""Every kind of refusal becomes one fault with a message, a code, a type and allowed headers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.upstream.transport.faults import (
    BackendAnswered,
    TransientFault,
    answer_fault,
    backend_fault,
    retry_after,
)

JSON = {"content-type": "application/json"}


def fault_fields(status: int, body: object, **headers: str) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    fault = answer_fault(status, {**JSON, **named}, raw)
    return vars(fault)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no", "type": "t", "code": "c", "param": "p"}}, "no"),
        ({"error": {"message": "no", "code": 400}}, "no"),
        ({"error": {"message": None}, "message": "outer"}, "outer"),
        ({"error": "no"}, "no"),
        ({"success": False, "error": "no"}, "no"),
        ({"message": " no "}, "no"),
        ({"detail": "no"}, "no"),
        (
            {
                "detail": [
                    {"loc": ["body", "input", 0], "msg": "wrong", "type": "value_error"},
                    {"msg": "worse"},
                    {"x": 1},
                ]
            },
            'body.input.0: wrong; worse; {"x":1}',
        ),
        ({"detail": {"reason": "no"}}, '{"reason":"no"}'),
        ([{"error": {"message": "no"}}], "no"),
        ({"error": {"reason": "x"}}, '{"reason":"x"}'),
        ({"oops": 1}, '{"oops":1}'),
        ("no", "no"),
        (5, "5"),
        ({}, "The backend answered 400 Bad Request."),
        ([], "The backend answered 400 Bad Request."),
        (b"", "The backend answered 400 Bad Request."),
        (b"null", "The backend answered 400 Bad Request."),
        (b"not json\n at all", "not json at all"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[" * 100_000, "[" * 500),
        (b'{"error": {"message": "cut off', '{"error": {"message": "cut off'),
    ],
)
def test_messages_of_all_shapes(body: object, message: str) -> None:
    assert fault_fields(400, body)["message"] == message


def test_the_fields_are_the_upstreams_own() -> None:
    error = {"message": "no", "type": "t", "code": "c", "param": "p"}
    fault = fault_fields(422, {"error": error})
    assert {name: fault[name] for name in error} == error
    assert fault["status"] == 422


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "invalid_api_key", "authentication_error"),
        (403, "permission_denied", "permission_error"),
        (404, "not_found", "not_found_error"),
        (408, "timeout", "invalid_request_error"),
        (413, "request_too_large", "invalid_request_error"),
        (418, "invalid_request_error", "invalid_request_error"),
        (422, "invalid_request_error", "invalid_request_error"),
        (429, "rate_limit_exceeded", "rate_limit_error"),
        (500, "server_error", "server_error"),
        (503, "server_error", "server_error"),
        (504, "timeout", "server_error"),
        (599, "server_error", "server_error"),
    ],
)
@pytest.mark.parametrize("given", [None, 400, "", {}, True])
def test_what_is_no_string_comes_from_the_status(
    status: int, code: str, kind: str, given: object
) -> None:
    fault = fault_fields(
        status, {"error": {"message": "m", "code": given, "type": given, "param": given}}
    )
    assert (fault["code"], fault["type"], fault["param"]) == (code, kind, None)
    assert fault["status"] == status


@pytest.mark.parametrize(
    "error",
    [
        {"message": "m", "code": "context_length_exceeded"},
        {"message": "m", "type": "exceed_context_size_error", "code": 400},
        {"message": "This model's maximum context length is 8 tokens", "code": "invalid_value"},
        {"message": "prompt is longer than max_model_len"},
        {"message": "request (9 tokens) exceeds the available context size (8 tokens)"},
        {"message": "n_ctx is 8"},
    ],
)
def test_overflows_have_one_code(error: dict[str, Any]) -> None:
    assert fault_fields(400, {"error": error})["code"] == "context_length_exceeded"
    assert fault_fields(413, {"error": error})["code"] == "context_length_exceeded"


def test_the_words_alone_are_no_overflow() -> None:
    error = {"error": {"message": "too many tokens; see context window", "code": "slow_down"}}
    assert fault_fields(429, error)["code"] == "slow_down"
    assert (
        fault_fields(400, {"error": {"message": "the context is wrong"}})["code"]
        != "context_length_exceeded"
    )


def test_only_allowed_headers_go_on() -> None:
    headers = {
        "retry_after": "7",
        "retry_after_ms": "7000",
        "x_request_id": "r",
        "x_ratelimit_remaining_requests": "0",
        "set_cookie": "s=1",
        "server": "s",
    }
    assert fault_fields(429, {}, **headers)["headers"] == {
        "retry-after": "7",
        "retry-after-ms": "7000",
        "x-request-id": "r",
        "x-ratelimit-remaining-requests": "0",
    }
    assert fault_fields(429, {})["headers"] is None


def test_a_rate_limit_keeps_its_body() -> None:
    body = {"error": {"type": "usage_limit_reached", "message": "later", "resets_in_seconds": 7}}
    fault = fault_fields(429, body, retry_after="7")
    assert (fault["type"], fault["code"]) == ("usage_limit_reached", "rate_limit_exceeded")
    assert fault["message"] == "later"


PAGE = b"""<!DOCTYPE html><html><head><style>b { color: red }</style><title>503</title>
<script>alert("<b>")</script></head><body><!-- <p>no</p> --><h1>Over&nbsp;loaded</h1> &lt;soon&gt;
</body></html>"""


def test_a_page_is_read_as_text() -> None:
    assert fault_fields(503, PAGE, content_type="text/html")["message"] == "503 Over loaded <soon>"
    assert fault_fields(503, PAGE, content_type="text/plain")["message"] == "503 Over loaded <soon>"
    assert fault_fields(503, b"<p>" + b"x" * 9999)["message"] == "x" * 500
    assert fault_fields(503, b"<html><body></body></html>")["message"].endswith(
        "503 Service Unavailable."
    )
    assert fault_fields(400, b"a < b")["message"] == "a < b"


@pytest.mark.parametrize("opening", ["<", "<!--", "<script>", "<style>" * 2, "<a "])
def test_markup_without_end_costs_linear_time(opening: str) -> None:
    assert fault_fields(503, opening.encode() * 16_000)["message"]


def test_a_good_status_with_the_wrong_body() -> None:
    fault = fault_fields(200, b"<html>log in</html>", content_type="text/html")
    assert fault["status"] == 502
    assert fault["code"] == "server_error"
    assert fault["message"] == (
        "The backend answered 200 with text/html instead of an event stream."
    )
    told = answer_fault(200, {"content-type": "text/html"}, b"<html>log in</html>")
    assert isinstance(told, BackendAnswered)
    assert told.logged == "The backend answered 200 and 19 bytes that are no event stream."
    assert fault_fields(200, {"error": {"message": "no", "code": "c"}})["code"] == "c"
    assert (
        "application/json (gzip)"
        in fault_fields(200, b"\x1f\x8b", content_encoding="gzip")["message"]
    )


@pytest.mark.parametrize("status", [600, 629, 799, 999])
def test_a_status_that_is_none_of_http(status: int) -> None:
    fault = fault_fields(status, {"error": {"message": "no"}})
    assert (fault["status"], fault["code"], fault["type"]) == (502, "server_error", "server_error")
    assert fault["message"] == "no"


def test_redirects_are_errors() -> None:
    fault = fault_fields(307, b"", location="https://elsewhere/")
    assert fault["status"] == 502
    assert "https://elsewhere/" in fault["message"]


def test_messages_are_bounded() -> None:
    assert len(fault_fields(400, {"error": {"message": "x" * 50_000}})["message"]) <= 8192
    assert (
        fault_fields(400, b"", content_encoding="gzip")["message"]
        == "The backend answered 400 Bad Request."
    )
    assert fault_fields(799, b"")["message"] == "The backend answered 799."


def test_headers_are_few_short_and_printable() -> None:
    """However many and long the backend's are; those that say when to retry come first."""
    limits = {f"x-ratelimit-{number}": f"{number}" for number in range(1000)}
    headers = fault_fields(429, {}, **limits, retry_after="7", x_request_id="r" * 5000)["headers"]
    assert headers["retry-after"] == "7"
    assert headers["x-request-id"] == "r" * 1024
    assert len(headers) == 32
    long = {f"x-ratelimit-{number}": "v" * 1000 for number in range(1000)}
    headers = fault_fields(429, {}, **long)["headers"]
    assert 7000 < sum(len(name) + len(value) for name, value in headers.items()) <= 8192


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("retry-after", "a\x00\x1b[31m\x7fb", "a [31m b"),
        ("retry-after", " \xe9t\xe9 ", "t"),
        ("x-request-id", "\x85\u2028\ud800", None),
        ("x-request-id", "", None),
        ("x-ratelimit-limit-requests", "60", "60"),
        ("x-ratelimit-" + "n" * 52, "1", "1"),
        ("x-ratelimit-" + "n" * 53, "1", None),
        ("x-ratelimit-\x00", "1", None),
        ("x-ratelimit-a b", "1", None),
        ("x-ratelimit-", "1", None),
        ("set-cookie", "a=b", None),
    ],
)
def test_a_header_of_the_backend(name: str, value: str, sent: str | None) -> None:
    headers = answer_fault(400, {name: value}, b"").headers
    assert headers == (None if sent is None else {name: sent})


@pytest.mark.parametrize("key", ["code", "type", "param"])
def test_a_name_of_any_length_is_none(key: str) -> None:
    fault = fault_fields(400, {"error": {"message": "no", key: "n" * 256}})
    assert fault[key] == "n" * 256
    fault = fault_fields(400, {"error": {"message": "no", key: "n" * 257}})
    assert fault[key] == (None if key == "param" else "invalid_request_error")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "9", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("status", "headers", "pause"),
    [
        (429, {"retry-after": "1"}, 1.0),
        (502, {}, None),
        (503, {"retry-after": "1"}, 1.0),
        (504, {}, None),
    ],
)
def test_what_may_be_tried_again(status: int, headers: dict[str, str], pause: float | None) -> None:
    fault = answer_fault(status, headers, b"")
    assert isinstance(fault, TransientFault)
    assert fault.pause == pause


@pytest.mark.parametrize("status", [200, 301, 400, 401, 408, 429, 500, 501])
def test_what_may_not(status: int) -> None:
    assert not isinstance(answer_fault(status, {}, b""), TransientFault)


def test_unreachable() -> None:
    assert vars(backend_fault("m")) | {"code": "server_error", "status": 502} == vars(
        backend_fault("m")
    )
    assert backend_fault("m", status=504).code == "timeout"
