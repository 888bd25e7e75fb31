"""What a backend's errors become: the code from the closed list, the original in the message."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from openai.types.responses import ResponseError

from lanes.faults import ERROR_CODES, reported, response_error

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
        fault = reported(event)
        assert fault.status == status
        assert fault.param is None
        shown = response_error(fault)
        assert shown["code"] == code
        assert fault.message in shown["message"]
        if code != error.get("code") and isinstance(error.get("code"), str):
            assert error["code"] in shown["message"] or code == "invalid_prompt"
        ResponseError.model_validate(shown, strict=True)


def test_a_status_beside_the_error_counts() -> None:
    assert reported({"status": 429, "error": {"message": "slow"}}).code == "rate_limit_exceeded"
    assert reported({"status": 429, "error": "slow"}).message == "slow"


def test_param_and_type_are_kept() -> None:
    fault = reported({"error": {"message": "m", "type": "invalid_request_error", "param": "input"}})
    assert (fault.type, fault.param, fault.status) == ("invalid_request_error", "input", 400)
    assert reported({"type": "error", "message": "m"}).type == "server_error"


def test_the_code_is_told_once() -> None:
    assert response_error(reported({"message": "zebra!", "code": "zebra"}))["message"] == "zebra!"


def test_the_list_is_the_official_one() -> None:
    assert set(get_args(ResponseError.model_fields["code"].annotation)) == ERROR_CODES
