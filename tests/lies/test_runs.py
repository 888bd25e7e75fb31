"""Every lie in a body, with every backend's profile: one strict stream, and the same end."""

from __future__ import annotations

import pytest

from gateway.upstream.dialect import find
from tests.lies.ends import told
from tests.lies.events import INDICES, ORDER, TYPES
from tests.lies.values import ENDS, USAGES, VALUES
from tests.machines.drive import PLAIN
from tests.support.dialect_reading import check, read

NAMES = ("openai", "friendli", "maritaca", "vllm", "llamacpp", "ollama")
PROFILES = {name: find(name).profile for name in NAMES} | {"plain": PLAIN}
BODIES = {**ORDER, **INDICES, **TYPES, **VALUES, **USAGES, **ENDS}


@pytest.mark.parametrize("name", BODIES)
def test_a_lie_ends_as_it_should(name: str) -> None:
    body, end = BODIES[name]
    for profile in PROFILES.values():
        played = read(body, profile)
        zebras = any("zebra" in kind for kind in played.types())
        assert told(played.terminal if zebras else check(played)) == end
