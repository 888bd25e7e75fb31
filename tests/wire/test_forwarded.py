"""Whose address counts behind a proxy: the one that a trusted proxy names, and no other."""

from __future__ import annotations

from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import pytest

from gateway.client.peers import Peers, TrustedProxies, peer
from tests.support.raw_answer import head, last_answer, one_answer
from tests.support.raw_client import tcp
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from tests.support.wire_stand import WireStand

PROXIES = [ip_network("10.0.0.0/8"), ip_network("127.0.0.1"), ip_network("fd00::/8")]
POST = "POST /nowhere HTTP/1.1"


@pytest.mark.parametrize(
    ("values", "host"),
    [
        (["1.2.3.4"], "1.2.3.4"),
        (["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        (["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
        (["6.6.6.6, 1.2.3.4, 10.1.1.1"], "1.2.3.4"),
        (["1.2.3.4:5678"], "1.2.3.4"),
        (["[2001:db8::1]:5678"], "2001:db8::1"),
        (["2001:db8::1, fd00::2"], "2001:db8::1"),
        (["::ffff:1.2.3.4"], "1.2.3.4"),
        (["::ffff:10.0.0.1"], None),
        (["10.1.1.1"], None),
        (["1.2.3.4, unknown"], None),
        (["_hidden"], None),
        ([""], None),
        ([], None),
    ],
)
def test_the_rightmost_address_that_is_not_trusted(values: list[str], host: str | None) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in values]
    assert TrustedProxies(PROXIES).client(headers) == host


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.2.3.4", "1.2.3.4", True),
        ("1.2.3.4", "1.2.3.5", False),
        ("1.2.3.4", "::ffff:1.2.3.4", True),
        ("2001:db8::1", "2001:db8::2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_what_one_peer_is(one: str, other: str, same: bool) -> None:
    assert (peer(one) == peer(other)) is same


def test_a_proxy_is_counted_for_each_of_its_clients() -> None:
    counted = Peers(100, 1, PROXIES)
    visit = counted.enter("10.0.0.1")
    assert counted.pending("10.0.0.1") == 0
    for host in ("1.2.3.4", "1.2.3.5"):
        visit.forwarded([(b"x-forwarded-for", host.encode())])
        assert counted.pending(host) == 1
    assert counted.pending("1.2.3.4") == 0
    other = counted.enter("10.0.0.2")
    other.forwarded([(b"x-forwarded-for", b"1.2.3.5")])
    assert (visit.crowded, other.crowded) == (False, True)
    for one in (visit, other):
        one.leave()
    assert (counted.open, counted.pending("1.2.3.5")) == (0, 0)


def test_without_trust_no_header_counts() -> None:
    counted = Peers(100, 1, [])
    visit = counted.enter("10.0.0.1")
    assert not visit.proxied
    assert visit.forwarded([(b"x-forwarded-for", b"1.2.3.4")]) is None
    assert counted.pending("10.0.0.1") == 1


async def waiting(stand: WireStand, stack: AsyncExitStack, *lines: str) -> Any:
    """A request whose body does not come; its answer was read."""
    client = await stack.enter_async_context(tcp(stand.port))
    await client.write(head(["Host: a", "Content-Length: 9", *lines], POST))
    return client


async def test_a_trusted_proxy_is_not_one_peer() -> None:
    settings: dict[str, Any] = {"max_pending_per_address": 1, "trusted_proxy": ("127.0.0.0/8",)}
    async with standing(**settings) as stand, AsyncExitStack() as stack:
        for host in ("1.2.3.4", "1.2.3.5", "2001:db8::1"):
            client = await waiting(stand, stack, f"X-Forwarded-For: {host}")
            assert (await one_answer(client)).status == 404
        client = await waiting(stand, stack, "X-Forwarded-For: 6.6.6.6, 1.2.3.4")
        assert (await last_answer(client)).status == 429


async def test_an_untrusted_proxy_is_one_peer() -> None:
    async with standing(max_pending_per_address=1) as stand, AsyncExitStack() as stack:
        client = await waiting(stand, stack, "X-Forwarded-For: 1.2.3.4")
        assert (await one_answer(client)).status == 404
        client = await waiting(stand, stack, "X-Forwarded-For: 1.2.3.5")
        assert (await last_answer(client)).status == 429
