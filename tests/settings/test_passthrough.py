"""`--passthrough`: a list of paths, all or none."""

from __future__ import annotations

import pytest

from gateway.config.loading import BadStart, load
from gateway.config.passed_paths import STATELESS


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("all", ("all",)),
        ("None", ()),
        ("files", ("files",)),
        ("/v1/files/, chat/completions", ("files", "chat/completions")),
        (["/files", "v1/batches"], ("files", "batches")),
    ],
)
def test_what_is_taken(given: object, paths: tuple[str, ...]) -> None:
    assert load({"passthrough": given}).passthrough == paths
    assert load().passthrough == STATELESS


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("all,files", "all goes with nothing else"),
        ("none,files", "none goes with nothing else"),
        ("responses", "answers client_secrets, conversations, models, responses, steers itself"),
        ("/v1/models/x", "answers client_secrets, conversations, models, responses, steers itself"),
        ("../files", "must be paths below /v1/"),
        ("files//x", "must be paths below /v1/"),
        ("http://a/v1/files", "must be paths below /v1/"),
        ("", "must be paths below /v1/"),
        ("files;a", "must be paths below /v1/"),
    ],
)
def test_what_is_refused(given: str, why: str) -> None:
    with pytest.raises(BadStart, match=why):
        load({"passthrough": given})


def test_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_PASSTHROUGH", "files,batches")
    assert load().passthrough == ("files", "batches")
    monkeypatch.setenv("MULTILANE_PASSTHROUGH", "none")
    assert load().passthrough == ()
