"""Named keys while the gateway runs: new, revoked and expired ones, and a file that is wrong."""

from __future__ import annotations

import os
import signal
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.keys.keys_file import NamedKey, digest_of
from tests.support.client import connect
from tests.support.events import created, delta, in_progress, opened
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.serve_process import process
from tests.support.wire_stand import WireStand, shape, standing, started
from tests.wire.test_http import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.client import Client


@dataclass
class KeyedStand:
    """A gateway with a keys file, which tests write by hand."""

    stand: WireStand
    path: Path

    def write(self, *keys: NamedKey) -> None:
        """All that is in the file, put there at once."""
        written(self.path, *keys)

    def reload(self) -> None:
        self.stand.server.gateway.reload()

    def client(self, secret: str) -> Any:
        return connect(self.stand.url, headers=bearer(secret))

    async def refusal(self, secret: str) -> tuple[int, str]:
        """How somebody is refused who shows this key: status and code."""
        status, error, _ = await refusal(self.stand, bearer(secret))
        return status, error["code"]


def named(name: str, secret: str, **options: Any) -> NamedKey:
    return NamedKey(name, digest_of(secret.encode()), **{"tenant": name, **options})


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def written(path: Path, *keys: NamedKey) -> None:
    new = path.with_suffix(".new")
    new.write_text("# keys\n" + "".join(key.line() + "\n" for key in keys), "utf-8")
    os.replace(new, path)


@asynccontextmanager
async def keyed(path: Path, *keys: NamedKey, **settings: Any) -> AsyncIterator[KeyedStand]:
    written(path / "keys", *keys)
    async with standing(keys_file=str(path / "keys"), **settings) as stand:
        yield KeyedStand(stand, path / "keys")


async def turned_out(client: Client, code: str) -> None:
    """What runs has failed already; the connection says why it ends, and ends."""
    assert shape(await client.error(None)) == (code, 401, None, None)
    assert await client.closed() == (1008, "API key no longer valid")


async def test_a_revoked_key_ends_its_sockets_and_nobody_elses(tmp_path: Path) -> None:
    acme, other = named("acme", "sk-a"), named("other", "sk-b")
    async with (
        keyed(tmp_path, acme, other, max_active=1) as own,
        own.client("sk-a") as client,
        own.client("sk-b") as bystander,
    ):
        lane = await own.stand.lane(client, "a")
        await client.create("b")
        kept = await own.stand.lane(bystander, "a")
        own.write(other)
        own.reload()
        assert shape(await client.error("b")) == ("api_key_revoked", 401, None, "b")
        ended = await client.ended("a")
        assert ended["status"] == "failed"
        await turned_out(client, "api_key_revoked")
        assert await own.refusal("sk-a") == (401, "invalid_api_key")
        await kept.ends()
        assert lane.exchange is not kept.exchange


async def test_a_change_is_found_without_being_told(tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a")) as own, own.client("sk-a") as client:
        own.write(named("acme-2", "sk-b", tenant="acme"))
        await turned_out(client, "api_key_revoked")
        async with own.client("sk-b"):
            pass


async def test_a_key_that_stays_keeps_its_sockets(tmp_path: Path) -> None:
    acme = named("acme", "sk-a")
    async with keyed(tmp_path, acme) as own, own.client("sk-a") as client:
        lane = await own.stand.lane(client)
        own.write(named("b", "sk-b"), named("renamed", "sk-a", tenant="acme"))
        own.reload()
        await lane.ends()
        async with own.client("sk-b"):
            pass


async def test_a_key_that_changes_hands_ends_its_sockets(tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a")) as own, own.client("sk-a") as client:
        own.write(named("acme", "sk-a", tenant="other"))
        own.reload()
        await turned_out(client, "api_key_revoked")
        async with own.client("sk-a"):
            pass


async def test_an_expired_key_ends_its_sockets(tmp_path: Path) -> None:
    soon = named("acme", "sk-a", expires=float(round(time.time()) + 3))
    async with keyed(tmp_path, soon) as own, own.client("sk-a") as client:
        await turned_out(client, "api_key_expired")
        assert [event["type"] for event in client.lane(None)] == ["error"]
        assert await own.refusal("sk-a") == (401, "api_key_expired")
        own.write(named("acme", "sk-a"))
        own.reload()
        async with own.client("sk-a"):
            pass


async def test_a_clock_that_jumps_ends_a_key_early_and_lets_it_in_again(tmp_path: Path) -> None:
    later = named("acme", "sk-a", expires=time.time() + 10_000)
    async with keyed(tmp_path, later) as own, own.client("sk-a") as client:
        ring = own.stand.server.gateway._authenticator.ring
        clock = ring._clock
        ring._clock = lambda: clock() + 20_000
        await turned_out(client, "api_key_expired")
        assert await own.refusal("sk-a") == (401, "api_key_expired")
        ring._clock = lambda: clock() - 20_000
        async with own.client("sk-a") as again:
            lane = await own.stand.lane(again)
            await lane.ends()


@pytest.mark.parametrize("wrong", ["", "acme", "acme: 00\n", "nonsense\n", None])
async def test_a_wrong_file_changes_nothing_and_is_told(wrong: str | None, tmp_path: Path) -> None:
    written(tmp_path / "keys", named("acme", "sk-a"))
    options = "--keys-file", "keys", "--redis-url", "memory"
    async with process(tmp_path, *options) as own:
        async with connect(own.url, headers=bearer("sk-a")) as client:
            if wrong is None:
                (tmp_path / "keys").unlink()
            else:
                (tmp_path / "keys").write_text(wrong)
            own.child.send_signal(signal.SIGHUP)
            lane = await started(own.fake, client, None)
            await lane.ends()
        async with connect(own.url, headers=bearer("sk-a")):
            pass
        said = await own.says("not reloaded")
        assert "keys not reloaded, those before stay in force: 'keys'" in said
        written(tmp_path / "keys", named("b", "sk-b"))
        own.child.send_signal(signal.SIGHUP)
        said = await own.says("keys reloaded")
        assert said.rstrip().endswith("1 in force; new: b; revoked: acme, which ends 0 open")
        assert own.child.poll() is None
        own.child.terminate()
        with anyio.fail_after(HANG):
            assert await anyio.to_thread.run_sync(own.child.wait) == 0


async def test_a_stream_over_http_ends_with_its_key(tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a")) as own:

        async def begin() -> None:
            exchange = await own.stand.fake.next()
            await exchange.send(created(), in_progress(), *opened(), delta("one"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            async with posted(own.stand.url, {"stream": True}, bearer("sk-a")) as answer:
                await answer.until("response.output_text.delta")
                own.write()
                own.reload()
                *_, last = await answer.events()
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["message"] == "This API key was revoked. (api_key_revoked)"


async def test_what_waits_over_http_is_refused_with_its_key(tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a")) as own, anyio.create_task_group() as tasks:

        async def revoke() -> None:
            await own.stand.fake.next()
            own.write()
            own.reload()

        tasks.start_soon(revoke)
        async with posted(own.stand.url, {}, bearer("sk-a")) as answer:
            assert (await answer.json())["error"]["code"] == "api_key_revoked"
            assert answer.status == 401


async def test_a_key_may_be_bound_to_models(tmp_path: Path) -> None:
    bound = named("acme", "sk-a", models=("small", "gpt-*"))
    async with keyed(tmp_path, bound) as own, own.client("sk-a") as client:
        await client.create("a", model="large")
        refused = ("model_not_allowed", 403, "model")
        assert shape(await client.error("a")) == (*refused, "a")
        for path in ("responses", "responses/compact", "responses/input_tokens", "embeddings"):
            body = b'{"model":"large","input":"hi"}'
            headers = {**bearer("sk-a"), "content-type": "application/json"}
            async with requested(own.stand.url, "POST", f"/{path}", body, headers) as answer:
                error = (await answer.json())["error"]
                assert (error["code"], answer.status, error["param"]) == refused
        for model in ("small", "gpt-5"):
            lane = await own.stand.lane(client, "a", model=model)
            await lane.ends()
        own.write(named("acme", "sk-a", models=("large",)))
        own.reload()
        await client.create("a", model="small")
        assert shape(await client.error("a")) == (*refused, "a")


async def test_a_file_without_keys_lets_nobody_in(tmp_path: Path) -> None:
    async with keyed(tmp_path) as own:
        assert await own.refusal("") == (401, "invalid_api_key")
        status, error, _ = await refusal(own.stand)
        assert (status, error["code"]) == (401, "missing_api_key")


async def test_keys_with_and_without_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with keyed(tmp_path, named("acme", "sk-a"), api_keys=["sk-old"]) as own:
        for secret in ("sk-a", "sk-old"):
            async with own.client(secret):
                pass
        # What is a key without a name as well would not end when it is revoked here.
        own.write(named("old", "sk-old"))
        own.reload()
        assert "old is among the keys without a name, too" in caplog.text
        async with own.client("sk-a"):
            pass
