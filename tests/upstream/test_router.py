"""The directory by itself: who claims a model, and its end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gateway.config.upstream_settings import UpstreamSettings
from gateway.upstream.backend import Backend
from gateway.upstream.routing.model_names import ModelClaims, ModelTaken, takes
from gateway.upstream.routing.routed_backend import RoutedBackend
from gateway.upstream.routing.router import Router
from gateway.upstream.transport.faults import backend_fault
from lanes.errors import ClientFault, UpstreamFault


def one(name: str, **keys: Any) -> UpstreamSettings:
    return UpstreamSettings(name=name, url="http://127.0.0.1:9/v1", **keys)


def test_patterns() -> None:
    settings = one("a", models=("gpt-[45]*", "o?", "x[1"), aliases={"fast": "y"})
    for name in ("gpt-4", "gpt-5-mini", "o3", "fast"):
        assert takes(settings, name), name
    for name in ("gpt-3", "GPT-4", "o3-mini", "y", "", "Fast"):
        assert not takes(settings, name), name


def test_exact_before_patterns_before_defaults() -> None:
    claims = ModelClaims(
        [
            one("a", models=("m*",)),
            one("b", models=("m1", "x*"), default="m2"),
            one("c", aliases={"m3": "q"}, default="d"),
            one("d", default="d"),
        ]
    )
    places = {name: claims.find(name) for name in ("m1", "m2", "m3", "m4", "x", "d", "none")}
    assert places == {"m1": 1, "m2": 0, "m3": 2, "m4": 0, "x": 1, "d": 2, "none": None}


@pytest.mark.parametrize(
    ("fallbacks", "owner"),
    [
        ({"a": ("b",)}, 0),
        ({"b": ("a",)}, 1),
        ({"a": ("b",), "b": ("a",)}, 0),
        ({"c": ("b", "a")}, 2),
        ({}, None),
        ({"c": ("a",)}, None),
    ],
)
def test_a_name_may_be_shared_with_who_steps_in(
    fallbacks: dict[str, tuple[str, ...]], owner: int | None
) -> None:
    names = "abc" if "c" in fallbacks else "ab"
    upstreams = [one(n, models=("m",), fallbacks=fallbacks.get(n, ())) for n in names]
    if owner is None:
        with pytest.raises(ModelTaken):
            ModelClaims(upstreams)
    else:
        assert ModelClaims(upstreams).find("m") == owner


async def test_without_its_task_a_directory_is_shutting_down() -> None:
    directory = Router([one("a"), one("b")])
    for asking in (directory.models({}), directory.open({"model": "m"}, [], {})):
        with pytest.raises(UpstreamFault) as refused:
            await asking
        assert refused.value.status == 503
    await directory.aclose()


async def test_the_lists_of_clients_keys_are_bounded() -> None:
    async with anyio.create_task_group() as tasks:
        directory = Router([one("a", connect_timeout=1)])
        await tasks.start(directory.run)
        [member] = directory.members
        kept = member.listing({"authorization": "Bearer 0"})
        assert member.listing({"authorization": "Bearer 0"}) is kept
        assert member.listing({"authorization": "Bearer 1"}) is not kept
        for key in range(2, 300):
            member.listing({"authorization": f"Bearer {key}"})
        assert len(member._lists) == 256
        tasks.cancel_scope.cancel()


async def test_a_fallback_that_cannot_say_it_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = Router(
        [
            one("a", models=("m",), fallbacks=("b", "c")),
            one("b", models=("m*",)),
            one("c", models=("m*",)),
        ]
    )
    asked: list[str] = []

    async def refuse(member: RoutedBackend, *_: object) -> None:
        asked.append(member.name)
        if member.name == first:
            raise ClientFault("no words for it", code="unsupported")
        raise backend_fault(f"{member.name} is away")

    monkeypatch.setattr(RoutedBackend, "open", refuse)
    first = "b"
    with pytest.raises(UpstreamFault, match="c is away"):
        await directory.open({"model": "m"}, [], {})
    assert asked == ["a", "b", "c"]
    first = "a"
    with pytest.raises(ClientFault, match="no words for it"):
        await directory.open({"model": "m"}, [], {})
    assert asked == ["a", "b", "c", "a"]
    await directory.aclose()


async def test_what_breaks_unforeseen_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(Backend, "models", break_)
    monkeypatch.setattr(Backend, "prepare", break_)
    async with anyio.create_task_group() as tasks:
        directory = Router([one("a"), one("b", models=("m",))])
        await tasks.start(directory.run)
        await directory.readiness.prepare(None, forwards=False)
        assert [model["id"] for model in await directory.models({})] == ["m"]
        assert [model["id"] for model in await directory.models({})] == ["m"]
        await directory.aclose()
        tasks.cancel_scope.cancel()
    assert len(caplog.records) == 3
    assert all(one.exc_info is not None for one in caplog.records)
