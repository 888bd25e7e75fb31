"""`--dialect auto`: the gateway asks its backend what it is, and says what it found."""

from __future__ import annotations

import logging
import socket
from typing import Any

import anyio
import pytest

from gateway.config.settings import Settings
from gateway.upstream.detection.rules import UNKNOWN_RESPONSE_ID
from tests.support.asked_gateway import LOADING, RESPONSE, UNKNOWN_ID, auto, models
from tests.support.client import connect
from tests.support.gateway import running
from tests.support.hang_guard import HANG


async def test_auto_is_the_default_and_asks_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Settings().dialect == "auto"
    async with auto(caplog, {"/models": models("vllm"), "/responses": UNKNOWN_ID}) as on:
        line = await on.log_line()
        assert line == "upstream default: dialect vllm (its models are owned by vllm)"
        assert on.asked() == ["/models", "/responses"]
        listing, bare = on.fake.exchanges
        assert (bytes(listing.raw), bare.body) == (b"", {}), (
            "it costs nothing to ask a known server"
        )
        await on.answered()
        assert on.asked() == ["/models", "/responses", "/responses"], "it is asked once"
        assert on.lines(logging.WARNING) == []


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (RESPONSE, "ignores"),
        (UNKNOWN_ID, "knows"),
        ((400, {"error": {"message": "previous_response_id: no"}}), "refuses"),
        ((422, {"detail": "max_output_tokens"}), "tells nothing of"),
    ],
)
async def test_a_server_that_nobody_knows_gets_a_tiny_request(
    answer: tuple[int, Any], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with auto(caplog, {"/models": models("me"), "/responses": answer}) as on:
        line = await on.log_line()
        reason = f"it has /responses, which {how} previous_response_id"
        assert line == f"upstream default: dialect generic ({reason})"
        assert on.fake.exchanges[1].body == {
            "model": "m1",
            "input": "hi",
            "max_output_tokens": 16,
            "store": False,
            "stream": False,
            "previous_response_id": UNKNOWN_RESPONSE_ID,
        }
        await on.answered()


async def test_a_friendli_container_is_known_by_its_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = "7c1e0d5a94b84f0f9a3d6b2e1f408c11"
    answer = (200, {"id": f"resp_{one}", "output": [{"type": "message", "id": f"msg_{one}"}]})
    async with auto(caplog, {"/models": models("me"), "/responses": answer}) as on:
        reason = f"it makes ids such as resp_{one}"
        assert await on.log_line() == f"upstream default: dialect friendli ({reason})"


async def test_the_model_asked_for_is_the_default_one(caplog: pytest.LogCaptureFixture) -> None:
    answers = {"/models": models("me"), "/responses": RESPONSE}
    async with auto(caplog, answers, model="mine") as on:
        await on.log_line()
        assert on.fake.exchanges[1].body["model"] == "mine"


async def test_without_a_list_the_creates_model_has_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = {"/responses": RESPONSE}
    async with auto(caplog, answers, forward_authorization=True) as on:
        await on.client.create(input="hi", model="wanted")
        await on.client.ended()
        assert on.fake.exchanges[1].body["model"] == "wanted"


async def test_a_server_header_is_a_name(caplog: pytest.LogCaptureFixture) -> None:
    answers = {"/responses": (400, {"error": {"message": "'input' is required"}})}
    async with auto(caplog, answers, headers={"Server": "llama.cpp"}) as on:
        reason = "its server header is llama.cpp"
        assert await on.log_line() == f"upstream default: dialect llamacpp ({reason})"


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ("me", "it has no /responses, only /chat/completions"),
        (
            "vllm",
            "its models are owned by vllm, but it has no /responses, only /chat/completions",
        ),
    ],
)
async def test_a_server_without_responses_is_spoken_to_in_chat(
    owner: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    refused = (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]})
    async with auto(caplog, {"/models": models(owner), "/chat/completions": refused}) as on:
        assert await on.log_line() == f"upstream default: dialect chat ({reason})"
        assert on.fake.exchanges[2].body == {}, "nothing is generated for it"
        await on.answered()
        assert on.asked()[-1] == "/chat/completions"


async def test_a_place_with_neither_is_an_error_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with auto(caplog, {}) as on:
        await on.client.create("a")
        error = await on.client.error("a")
        message = (
            f"There is neither /responses nor /chat/completions at {on.fake.url}."
            " Is that its base URL? Most end in /v1."
        )
        assert (error["status"], error["error"]["message"]) == (404, message)
        warned = f"The backend answers 404 to POST {on.fake.url}/responses; is --upstream right?"
        assert on.lines(logging.WARNING)[0] == warned
        on.backend.answers["/responses"] = RESPONSE
        await on.answered()
        await on.log_line()


async def test_a_model_that_loads_is_not_judged(caplog: pytest.LogCaptureFixture) -> None:
    answers = {"/models": LOADING, "/responses": LOADING}
    async with auto(caplog, answers, headers={"server": "llama.cpp"}) as on:
        await on.client.create("a")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["message"]) == (503, "Loading model")
        assert not [line for line in on.lines() if ": dialect " in line]
        later = "upstream default: its dialect is asked for again later"
        assert later in on.lines()
        on.backend.answers = {"/models": models("llamacpp"), "/responses": (400, {})}
        await on.answered()
        assert "dialect llamacpp" in await on.log_line()


async def test_a_list_of_models_that_never_comes_is_done_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent, answers = ("/models",), {"/responses": RESPONSE}
    async with auto(caplog, answers, silent=silent, model="mine", first_byte_timeout=0.8) as on:
        reason = "it has /responses, which ignores previous_response_id"
        assert await on.log_line() == f"upstream default: dialect generic ({reason})"
        assert on.fake.exchanges[1].body["model"] == "mine"
        await on.answered()
        assert on.lines(logging.WARNING) == []


async def test_a_backend_that_answers_nothing_is_not_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = ("/models", "/responses")
    async with auto(caplog, {}, silent=silent, first_byte_timeout=0.8) as on:
        await on.client.create("a")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (504, "timeout")
        assert on.asked()[:2] == ["/models", "/responses"]
        assert not [line for line in on.lines() if ": dialect " in line]


async def test_a_wrong_key_is_said_and_not_judged(caplog: pytest.LogCaptureFixture) -> None:
    wrong = (401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}})
    answers = {"/models": wrong, "/responses": wrong, "/chat/completions": wrong}
    async with auto(caplog, answers, upstream_key="theirs") as on:
        await on.client.create("a")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        [line] = on.lines(logging.WARNING)
        refused = f"The backend answers 401 to POST {on.fake.url}/responses"
        assert line == f"{refused}; is MULTILANE_UPSTREAM_KEY right?"
        keys = {one.headers["authorization"] for one in on.fake.exchanges}
        assert keys == {"Bearer theirs"}
        on.backend.answers = {"/models": models("sglang"), "/responses": (400, {})}
        await on.answered()
        assert "dialect sglang" in await on.log_line()


async def test_a_backend_that_is_away_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with running(Settings(upstream=url, retries=0)) as own, connect(own) as client:
        for name in ("a", "b"):
            await client.create(name)
            error = await client.error(name)
            assert error["status"] == 502
            assert error["error"]["message"].startswith("The backend could not be reached: ")
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(lines) == 1
    assert f"(POST {url}/responses)" in lines[0]


async def test_creates_wait_for_one_asking(caplog: pytest.LogCaptureFixture) -> None:
    gate = anyio.Event()
    answers = {"/models": models("vllm"), "/responses": UNKNOWN_ID}
    async with auto(caplog, answers, gate=gate) as on:
        for name in ("a", "b", "c"):
            await on.client.create(name, input="hi")
        # An answered create on a fourth lane proves that the three were taken up before.
        await on.client.create("d", input="hi", generate=False)
        await on.client.ended("d")
        assert on.asked() == ["/models"]
        gate.set()
        for name in ("a", "b", "c"):
            assert (await on.client.ended(name))["status"] == "completed"
        assert on.asked() == ["/models", "/responses", *["/responses"] * 3]


async def test_all_that_wait_with_the_same_key_hear_of_one_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = anyio.Event()
    async with auto(caplog, {"/models": LOADING}, gate=gate) as on:
        for name in ("a", "b"):
            await on.client.create(name)
        await on.client.create("d", generate=False)
        await on.client.ended("d")
        gate.set()
        for name in ("a", "b"):
            assert (await on.client.error(name))["status"] == 503
        assert on.asked() == ["/models"]


async def test_a_client_that_leaves_does_not_take_the_asking_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = anyio.Event()
    answers = {"/models": models("vllm"), "/responses": UNKNOWN_ID}
    async with auto(caplog, answers, gate=gate, forward_authorization=True) as on:
        async with connect(on.url) as leaving:
            await leaving.create("a")
            with anyio.fail_after(HANG):
                while not on.fake.exchanges:  # noqa: ASYNC110 - it is the fake that is asked
                    await anyio.sleep(0.005)
            await on.client.create("b", input="hi")
            await on.client.create("d", generate=False)
            await on.client.ended("d")
            leaving.abort()
        gate.set()
        assert (await on.client.ended("b"))["status"] == "completed"


async def test_with_forwarded_keys_the_first_create_asks_with_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = {"/models": models("vllm"), "/responses": UNKNOWN_ID}
    async with auto(caplog, answers, key="clients", forward_authorization=True) as on:
        await on.answered()
        assert on.asked() == ["/models", "/responses", "/responses"]
        keys = {one.headers["authorization"] for one in on.fake.exchanges}
        assert keys == {"Bearer clients"}


async def test_a_dialect_that_is_named_is_not_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with auto(caplog, {"/models": models("vllm")}, dialect="llamacpp") as on:
        await on.answered()
        assert on.asked() == ["/responses"]
        assert on.lines() == []


async def test_what_another_try_may_not_meet_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As often as a request is, so that a create is no worse off for being the first."""
    answers = {"/models": models("vllm"), "/responses": UNKNOWN_ID}
    async with auto(caplog, answers, retries=1, first={"/models": [LOADING]}) as on:
        await on.answered()
        assert on.asked() == ["/models", "/models", "/responses", "/responses"]
        assert on.lines(logging.WARNING) == []
