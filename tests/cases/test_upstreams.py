"""Several upstreams: the model says which one is asked, and what it is asked for (D23)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import reply
from tests.support.gateway_stand import answer
from tests.support.several_upstreams import several
from tests.support.steered import talking, turns

if TYPE_CHECKING:
    from tests.support.several_upstreams import Several

TWO: dict[str, dict[str, Any]] = {
    "cloud": {"models": ["gpt-*", "o3"]},
    "local": {"models": ["qwen3-4b"], "aliases": {"fast": "qwen3-4b", "gpt-oss": "oss:20b"}},
}


async def taken(of: Several, model: str, by: str, lane: str | None = "a") -> Any:
    """A whole turn of that model, at that upstream; what it was asked for."""
    before = of.asked()
    exchange, response = await of[by].turn(lane, model=model)
    assert response["status"] == "completed"
    assert response["model"] == model
    assert of.asked() == {**before, by: before[by] + 1}
    return exchange.body["model"]


@pytest.mark.parametrize(
    ("model", "by", "asked_as"),
    [
        ("gpt-5", "cloud", "gpt-5"),
        ("o3", "cloud", "o3"),
        ("qwen3-4b", "local", "qwen3-4b"),
        ("fast", "local", "qwen3-4b"),
        ("gpt-oss", "local", "oss:20b"),  # an alias counts before another's pattern
    ],
)
async def test_the_model_says_who_is_asked(model: str, by: str, asked_as: str) -> None:
    async with several(TWO) as of:
        assert await taken(of, model, by) == asked_as


async def test_every_snapshot_says_what_the_client_asked_for() -> None:
    async with several(TWO) as of:
        await taken(of, "fast", "local")
        models = {e["response"]["model"] for e in of.client.transcript if "response" in e}
        assert models == {"fast"}


async def test_patterns_go_in_the_order_of_the_file() -> None:
    tables: dict[str, dict[str, Any]] = {
        "a": {"models": ["m-1*"]},
        "b": {"models": ["m-*"]},
        "c": {"models": ["m-2"]},
    }
    async with several(tables) as of:
        await taken(of, "m-10", "a")
        await taken(of, "m-20", "b")
        await taken(of, "m-2", "c")


async def test_names_are_matched_case_and_all() -> None:
    async with several(TWO) as of:
        for model in ("GPT-5", "O3", "Fast"):
            await of.client.create("a", model=model)
            assert (await of.client.error("a"))["status"] == 404
        assert of.asked() == {"cloud": 0, "local": 0}


@pytest.mark.parametrize("lane", ["a", None])
async def test_an_unknown_model_is_a_404_and_the_lane_goes_on(lane: str | None) -> None:
    async with several(TWO) as of:
        await of.client.create(lane, model="claude")
        error = await of.client.error(lane)
        assert (error["status"], error.get("stream_id")) == (404, lane)
        assert error["error"] == {
            "type": "invalid_request_error",
            "code": "model_not_found",
            "message": "The model 'claude' is not known here. "
            "Known: gpt-*, o3, qwen3-4b, fast, gpt-oss.",
            "param": "model",
        }
        assert of.asked() == {"cloud": 0, "local": 0}
        await taken(of, "o3", "cloud", lane)


async def test_the_names_in_it_are_bounded() -> None:
    tables: dict[str, dict[str, Any]] = {"a": {"models": [f"m{n}" for n in range(25)]}}
    async with several(tables) as of:
        await of.client.create("a", model="x" * 1000)
        message = (await of.client.error("a"))["error"]["message"]
        assert message.startswith(f"The model '{'x' * 80}' is not known here. Known: m0, ")
        assert message.endswith(" m19, and 5 more.")


async def test_a_continuation_with_an_unknown_model_forgets_its_parent_like_any_4xx() -> None:
    async with several(TWO) as of:
        _, parent = await of["local"].turn("a", model="fast")
        for lane, known in (("b", True), ("a", False)):
            await of.client.create(lane, model="none", previous_response_id=parent["id"])
            assert (await of.client.error(lane))["error"]["code"] == "model_not_found"
            assert await of["local"].known(parent["id"], lane=f"probe-{lane}") is known


async def test_a_warm_up_asks_nobody_whatever_its_model() -> None:
    async with several(TWO) as of:
        await of.client.create("a", model="none", generate=False)
        warm = await of.client.ended("a")
        exchange, response = await of["cloud"].turn(
            "a", model="o3", previous_response_id=warm["id"]
        )
        assert response["status"] == "completed"
        assert exchange.body["model"] == "o3"


@pytest.mark.parametrize(
    ("settings", "by", "asked_as", "shown"),
    [({}, "local", "qwen3-4b", "fast"), ({"model": "gpt-5"}, "cloud", "gpt-5", "gpt-5")],
)
async def test_a_create_without_a_model(
    settings: dict[str, Any], by: str, asked_as: str, shown: str
) -> None:
    tables: dict[str, dict[str, Any]] = {
        "cloud": TWO["cloud"],
        "local": {**TWO["local"], "default": "fast"},
    }
    async with several(tables, **settings) as of:
        exchange, response = await of[by].turn("a", model=None)
        assert exchange.body["model"] == asked_as
        assert response["model"] == shown


async def test_a_default_is_asked_for_although_no_list_of_models_has_it() -> None:
    async with several({"a": {"models": ["x"]}, "b": {"models": ["y"], "default": "z"}}) as of:
        exchange, _ = await of["b"].turn("a", model=None)
        assert exchange.body["model"] == "z"


async def test_lanes_of_one_socket_are_at_different_upstreams_at_the_same_time() -> None:
    async with several(TWO) as of:
        cloud = await of["cloud"].asked("a", model="o3")
        local = await of["local"].asked("b", model="fast")
        await answer(local, reply("from local"))
        assert (await of.client.ended("b"))["output"][0]["content"][0]["text"] == "from local"
        await answer(cloud, reply("from cloud"))
        assert (await of.client.ended("a"))["output"][0]["content"][0]["text"] == "from cloud"


async def test_a_steers_successor_goes_to_the_same_upstream() -> None:
    async with several(TWO) as of:
        parent = await talking(of["local"], "a", model="fast")
        await parent.steer("shorter")
        successor = await parent.follows()
        assert successor.exchange.body["model"] == "qwen3-4b"
        assert turns(successor.exchange)[-2:] == [("assistant", "abc"), ("user", "shorter")]
        assert (await successor.finish())["model"] == "fast"
        assert of.asked() == {"cloud": 0, "local": 2}


async def test_each_upstream_has_its_own_boundary_and_its_own_say_in_steering() -> None:
    tables: dict[str, dict[str, Any]] = {
        "text": {"models": ["t"]},
        "item": {"models": ["i"], "steer_boundary": "item"},
        "none": {"models": ["n"], "steerable": False},
    }
    async with several(tables) as of:
        refusing = await talking(of["none"], "n", model="n")
        assert (await refusing.refused())["code"] == "steering_not_supported"
        refusing.exchange.cut()
        waiting = await talking(of["item"], "i", model="i")
        await waiting.steer()
        await waiting.says("more")
        waiting.exchange.cut()
        cut = await talking(of["text"], "t", model="t")
        await cut.steer()
        await (await cut.follows()).finish()


async def test_each_has_its_own_dialect_headers_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_KEY", "sk-cloud")
    monkeypatch.setenv("AZURE_KEY", "sk-azure")
    tables: dict[str, dict[str, Any]] = {
        "cloud": {"models": ["c"], "key_env": "CLOUD_KEY", "headers": {"X-Team": "t"}},
        "azure": {"models": ["z"], "key_env": "AZURE_KEY", "dialect": "azure"},
        "local": {"models": ["l"], "dialect": "llamacpp", "headers": {"User-Agent": "ours"}},
    }
    client = {"authorization": "Bearer sk-client", "user-agent": "theirs", "openai-beta": "b"}
    async with several(tables, headers=client, forward_authorization=True) as of:
        seen = {}
        for model, name in (("c", "cloud"), ("z", "azure"), ("l", "local")):
            exchange, _ = await of[name].turn("a", model=model, temperature=None)
            seen[name] = exchange
        assert seen["cloud"].headers["authorization"] == "Bearer sk-cloud"
        assert seen["cloud"].headers["x-team"] == "t"
        assert seen["azure"].headers["api-key"] == "sk-azure"
        assert "authorization" not in seen["azure"].headers
        assert "x-team" not in seen["azure"].headers
        assert seen["local"].headers["authorization"] == "Bearer sk-client"
        assert seen["local"].headers["user-agent"] == "ours"
        assert all(one.headers["openai-beta"] == "b" for one in seen.values())
        assert "temperature" in seen["cloud"].body
        assert "temperature" not in seen["local"].body


async def test_a_base_url_may_have_a_query(caplog: pytest.LogCaptureFixture) -> None:
    async with several({"a": {"models": ["m"]}}) as of:
        url = f"{of.fakes['a'].url}/?api-version=hush"
        async with several({"b": {"url": url, "models": ["m"]}}) as through:
            await through.client.create("a", model="m")
            exchange = await of.fakes["a"].next()
            assert exchange.path == "/v1/responses?api-version=hush"
            await exchange.reply(404, {"detail": "Not Found"})
            error = await through.client.error("a")
            assert error["error"]["message"].endswith(f"(POST {of.fakes['a'].url}/responses)")
    assert "hush" not in caplog.text


async def test_secrets_are_in_no_line_and_in_no_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, logger="multilane")
    monkeypatch.setenv("CLOUD_KEY", "sk-hush")
    tables: dict[str, dict[str, Any]] = {
        "cloud": {"models": ["m", "n*"], "key_env": "CLOUD_KEY", "headers": {"x-own": "hush"}},
        "away": {"models": ["x"], "url": "http://127.0.0.1:9/v1?k=hush"},
    }
    async with several(tables) as of:
        for status in (401, 403, 404, 500):
            exchange = await of["cloud"].asked("a", model="m")
            await exchange.reply(status, {"error": {"message": "no", "code": "c"}})
            await of.client.error("a")
        await of.client.create("a", model="x")
        await of.client.error("a")
        assert "hush" not in str(of.client.transcript)
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    place = f"to POST {of.fakes['cloud'].url}/responses"
    assert lines[:4] == [
        f"cloud: The backend answers 401 {place}; is CLOUD_KEY right?",
        f"cloud: The backend answers 403 {place}; is CLOUD_KEY right?",
        f"cloud: The backend answers 404 {place}; is its url right?",
        f"cloud: The backend answers 500 {place}",
    ]
    assert lines[4].startswith("away: The backend could not be reached: ")
    assert lines[4].endswith("(POST http://127.0.0.1:9/v1/responses)")
    assert "hush" not in caplog.text
