"""Who is let in (B53, B65), and what of their headers goes on (B66)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.client.auth import (
    AdmittedClient,
    Authenticator,
    Headers,
    upstream_headers,
)
from gateway.client.refusal import UpgradeRefused
from gateway.keys.keys_file import key_id

HOST = (b"host", b"gw.example")
KEY = (b"authorization", b"Bearer sk-one")
GATE = Authenticator([SecretStr("sk-one"), "sk-two"], ["https://app.example"])
ONE, TWO = key_id("sk-one"), key_id("sk-two")


def protocols(*values: bytes) -> Headers:
    return [HOST, *((b"sec-websocket-protocol", value) for value in values)]


def refusal(gate: Authenticator, headers: Headers) -> UpgradeRefused:
    with pytest.raises(UpgradeRefused) as refused:
        gate.admit(headers)
    assert "sk-" not in f"{refused.value!r} {refused.value.message} {refused.value.headers}"
    return refused.value


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"Bearer sk-one", ONE),
        (b"bearer sk-two", TWO),
        (b" BEARER   sk-two ", TWO),
    ],
)
def test_bearer(value: bytes, key: str) -> None:
    assert GATE.admit([HOST, (b"authorization", value)]) == AdmittedClient(key, None)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer sk-three")],
        [(b"authorization", b"Bearer sk-on")],
        [(b"authorization", b"Bearer sk-one2")],
        [(b"authorization", b"Bearer sk-ONE")],
        [(b"authorization", b"Bearer sk-one, sk-two")],
        [(b"authorization", b"Bearer \xff\x00\xc3")],
        [(b"authorization", b"Bearer x"), (b"sec-websocket-protocol", b"realtime")],
        protocols(b"realtime, openai-insecure-api-key.wrong"),
        protocols(b"openai-insecure-api-key.wrong, openai-insecure-api-key.sk-one"),
    ],
)
def test_a_wrong_key(headers: Headers) -> None:
    refused = refusal(GATE, headers)
    assert (refused.status, refused.code) == (401, "invalid_api_key")
    assert refused.headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [HOST],
        [(b"authorization", b"")],
        [(b"authorization", b"sk-one")],
        [(b"authorization", b"Basic sk-one")],
        [KEY, KEY],  # which one was meant?
        [(b"x-api-key", b"sk-one")],
        protocols(b"realtime"),
        protocols(b""),
        protocols(b"sk-one"),
        protocols(b"OpenAI-Insecure-API-Key.sk-one"),
        [(b"authorization", b"Basic eDp5"), *protocols(b"openai-insecure-api-key.sk-one")],
    ],
)
def test_no_key(headers: Headers) -> None:
    refused = refusal(GATE, headers)
    assert (refused.status, refused.code) == (401, "missing_api_key")
    assert refused.headers == {"WWW-Authenticate": "Bearer"}


@pytest.mark.parametrize(
    ("values", "echoed"),
    [
        ([b"realtime, openai-insecure-api-key.sk-one"], "realtime"),
        ([b"openai-insecure-api-key.sk-one, responses"], "responses"),
        ([b"openai-insecure-api-key.sk-one"], None),
        ([b"responses,realtime ,\topenai-insecure-api-key.sk-one"], "responses"),
        ([b"openai-insecure-api-key.sk-one", b"openai-beta.x, realtime"], "openai-beta.x"),
        ([b"openai-insecure-api-key.sk-one, sk-two, sk-one"], None),
        ([b"OPENAI-insecure-api-key.x, b\xfcr, a b, a/b, openai-insecure-api-key.sk-one, z"], "z"),
    ],
)
def test_browser_keys_are_never_echoed(values: list[bytes], echoed: str | None) -> None:
    assert GATE.admit(protocols(*values)) == AdmittedClient(ONE, echoed)


def test_a_bearer_counts_before_a_subprotocol() -> None:
    headers = [KEY, *protocols(b"realtime, openai-insecure-api-key.sk-two")]
    assert GATE.admit(headers) == AdmittedClient(ONE, "realtime")


def test_an_open_gate_asks_for_nothing() -> None:
    gate = Authenticator([], [])
    assert gate.admit([]) == AdmittedClient("open", None)
    offered = protocols(b"openai-insecure-api-key.any, responses")
    assert gate.admit(offered) == AdmittedClient("open", "responses")


def test_an_empty_key_opens_nothing() -> None:
    for headers in ([], [(b"authorization", b"Bearer ")], protocols(b"openai-insecure-api-key.")):
        assert refusal(Authenticator([""], []), headers).status == 401


def test_key_ids_are_short_and_stable_and_apart() -> None:
    assert key_id("sk-one") == ONE
    assert len({ONE, TWO, "open"}) == 3
    assert len(ONE) == 16
    assert ONE.isalnum()


ALLOWED = [
    (b"https://gw.example", b"gw.example"),
    (b"https://gw.example", b"gw.example:443"),
    (b"http://gw.example", b"GW.example:80"),
    (b"http://gw.example:8080", b"gw.example:8080"),
    (b"http://[::1]:8080", b"[::1]:8080"),
    (b"https://app.example", b"gw.example"),
    (b"HTTPS://App.example:443", b"gw.example"),
]
FORBIDDEN = [
    (b"https://evil.example", b"gw.example"),
    (b"https://app.example.evil", b"gw.example"),
    (b"http://app.example", b"gw.example"),
    (b"https://app.example:8443", b"gw.example"),
    (b"http://gw.example:80", b"gw.example:443"),
    (b"http://gw.example:8081", b"gw.example:8080"),
    (b"null", b"gw.example"),
    (b"", b""),
    (b"https://", b""),
    (b"gw.example", b"gw.example"),
    (b"\xff\xfe", b"\xff\xfe"),
]


@pytest.mark.parametrize(("origin", "host"), ALLOWED)
def test_origins_let_in(origin: bytes, host: bytes) -> None:
    assert GATE.admit([(b"host", host), (b"origin", origin), KEY]).key_id == ONE


@pytest.mark.parametrize(("origin", "host"), FORBIDDEN)
def test_origins_kept_out(origin: bytes, host: bytes) -> None:
    headers = [(b"host", host), (b"origin", origin), KEY]
    refused = refusal(GATE, headers)
    assert (refused.status, refused.code, refused.headers) == (403, "origin_not_allowed", {})
    assert Authenticator(["sk-one"], ["*"]).admit(headers).key_id == ONE


@pytest.mark.parametrize("name", [b"host", b"origin"])
def test_two_of_what_there_is_one_of(name: bytes) -> None:
    twice = (name, b"https://gw.example" if name == b"origin" else b"gw.example")
    assert refusal(GATE, [HOST, (b"origin", b"https://gw.example"), KEY, twice]).status == 403


@pytest.mark.parametrize(
    ("place", "status"),
    [
        (b"127.0.0.1:8080", 0),
        (b"[::1]:8080", 0),
        (b"localhost:8080", 0),
        (b"192.0.2.1", 0),
        (b"rebound.example:8080", 403),
    ],
)
def test_a_rebound_name_is_not_our_own_where_no_key_is_asked(place: bytes, status: int) -> None:
    headers = [(b"host", place), (b"origin", b"http://" + place)]
    if status:
        assert refusal(Authenticator([], []), headers).status == status
        assert Authenticator([], ["http://rebound.example:8080"]).admit(headers).key_id == "open"
    else:
        assert Authenticator([], []).admit(headers).key_id == "open"


NAMES = st.sampled_from(
    [b"host", b"origin", b"authorization", b"sec-websocket-protocol", b"connection", b"user-agent"]
)
VALUES = st.binary(max_size=40) | st.sampled_from([b"Bearer ", b"openai-insecure-api-key.", b"://"])


@given(st.lists(st.tuples(NAMES, VALUES | st.builds(bytes.__add__, VALUES, VALUES)), max_size=6))
@example([(b"sec-websocket-protocol", b"-insecure-api-key.")])
def test_odd_headers_raise_nothing_else(headers: list[tuple[bytes, bytes]]) -> None:
    for gate in (GATE, Authenticator([], []), Authenticator(["k"], ["*"])):
        with contextlib.suppress(UpgradeRefused):
            spoken = (gate.admit(headers).subprotocol or "").lower()
            assert not spoken.startswith("openai-insecure-api-key.")
    for value in upstream_headers(headers, authorization=True).values():
        assert value.isascii()
        assert value.isprintable()


def test_only_listed_headers_go_upstream() -> None:
    relayed = [
        (b"openai-beta", b"responses_websockets=2026-02-06"),
        (b"openai-organization", b"org"),
        (b"openai-project", b"proj"),
        (b"traceparent", b"00-a-b-01"),
        (b"tracestate", b"v=1"),
        (b"user-agent", b"OpenAI/Python"),
    ]
    dropped = [
        *protocols(b"realtime, openai-insecure-api-key.sk-one"),
        KEY,
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
        (b"sec-websocket-key", b"x"),
        (b"cf-ray", b"x"),
        (b"via", b"x"),
        (b"x-forwarded-for", b"x"),
        (b"forwarded", b"x"),
        (b"cookie", b"x"),
        (b"proxy-authorization", b"x"),
        (b"origin", b"x"),
        (b"accept-encoding", b"x"),
        (b"content-length", b"9"),
    ]
    expected = {name.decode(): value.decode() for name, value in relayed}
    assert upstream_headers(relayed + dropped) == expected


def test_names_in_connection_repeats_and_odd_values() -> None:
    headers = [
        (b"connection", b"Upgrade, TraceParent"),
        (b"connection", b"openai-project"),
        (b"traceparent", b"x"),
        (b"openai-project", b"x"),
        (b"openai-beta", b"a=1"),
        (b"openai-beta", b"b=2"),
        (b"user-agent", b"x\r\nevil: 1"),
        (b"tracestate", b"\xff"),
        (b"openai-organization", b""),
    ]
    assert upstream_headers(headers) == {"openai-beta": "a=1, b=2"}


def test_the_clients_key_goes_upstream_only_on_request() -> None:
    expected = {"authorization": "Bearer sk-one"}
    browser = protocols(b"realtime, openai-insecure-api-key.sk-one")
    for headers in ([KEY], browser):
        assert upstream_headers(headers) == {}
        assert upstream_headers(headers, authorization=True) == expected
    named = [KEY, (b"connection", b"authorization")]
    assert upstream_headers(named, authorization=True) == {}
    assert upstream_headers([(b"authorization", b"Basic x")], authorization=True) == {}
