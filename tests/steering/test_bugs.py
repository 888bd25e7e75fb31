"""The rules are worth something: every planted bug makes them fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.steering import bugs, follow_bugs

if TYPE_CHECKING:
    from tests.machines.bugs import Bug


#: Bounded by the number of plays; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("bug", [*bugs.BUGS, *follow_bugs.BUGS], ids=lambda bug: bug.name)
def test_the_rules_catch(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    original = getattr(bug.owner, bug.attribute)
    monkeypatch.setattr(bug.owner, bug.attribute, bug.mutate(original))
    with pytest.raises((Exception, pytest.fail.Exception)) as caught:
        bug.rules()
    assert not isinstance(caught.value, TypeError), "the planted bug itself is broken"
    assert "Timeout" not in str(caught.value)[:20], "nothing was found in all that time"
