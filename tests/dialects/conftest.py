"""What tests of dialects share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from gateway.upstream import flat_tools, omissions
from gateway.upstream.chat import omissions as chat_omissions

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def warnings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[str]]:
    for module in (omissions, chat_omissions, flat_tools):
        monkeypatch.setattr(module.NOTICES._throttle, "_last", {})
    caplog.set_level(logging.WARNING, "multilane.dialect")
    return lambda: [record.getMessage() for record in caplog.records]
