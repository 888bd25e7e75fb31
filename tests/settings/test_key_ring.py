"""Which keys are in force, and what is told of their end: once, and to all that is open."""

from __future__ import annotations

from gateway.keys.keys_file import NamedKey, digest_of, key_id
from gateway.keys.ring import KeyRing, LiveKey

NAMELESS = {digest_of(b"old"): key_id("old")}


def live(ring: KeyRing, secret: bytes) -> LiveKey:
    found = ring.find(secret)
    assert isinstance(found, LiveKey)
    return found


def test_an_end_is_told_once_and_to_who_comes_late() -> None:
    now = [0.0]
    ring = KeyRing({}, lambda: now[0])
    ring.replace([NamedKey("a", digest_of(b"k"), "a", expires=10.0)])
    key, told = live(ring, b"k"), list[str]()
    with key.holding(lambda fault: told.append(str(fault.code))):
        assert list(ring.expire()) == []
        now[0] = 10.0
        assert list(ring.expire()) == [("a", 1)]
        assert list(ring.expire()) == []
        now[0] = 5.0  # the clock jumps back, and the key is valid again
        assert not ring.expired(key)
        assert told == ["api_key_expired"]
    change = ring.replace([])
    assert (change.total, change.gone, change.ended) == (0, ["a"], 0)
    with key.holding(lambda fault: told.append(str(fault.code))):
        assert told == ["api_key_expired", "api_key_revoked"]
    assert not ring.open


def test_homes_are_those_that_the_lines_of_a_tenant_name() -> None:
    ring = KeyRing(NAMELESS)
    assert ring.homes("tenant-a") == ("tenant-a",)
    lines = [
        NamedKey("a", b"1", "t", formerly=("1" * 16,)),
        NamedKey("b", b"2", "t", formerly=("2" * 16, "1" * 16)),
        NamedKey("c", b"3", "c"),
    ]
    ring.replace(lines)
    assert ring.homes("tenant-t") == ("tenant-t", "1" * 16, "2" * 16)
    assert ring.homes("tenant-c") == ("tenant-c",)
    ring.replace(lines[2:])
    assert ring.homes("tenant-t") == ("tenant-t",)
