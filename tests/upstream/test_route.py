"""Base URLs, and the proxies the environment names."""

from __future__ import annotations

import pytest

from gateway.upstream.transport.request_head import head
from gateway.upstream.transport.route import Address, Proxy, Route, parse_route


def target_of(route: Route) -> str:
    return head(route, "/r", {}, 0).split(b" ", 2)[1].decode()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("url", "secure", "host", "port", "header", "target"),
    [
        ("http://a", False, "a", 80, "a", "/r"),
        ("http://a:80/v1/", False, "a", 80, "a", "/v1/r"),
        ("https://A.example:8443/x/v1", True, "a.example", 8443, "a.example:8443", "/x/v1/r"),
        ("https://a:443", True, "a", 443, "a", "/r"),
        ("http://[::1]:8000/v1", False, "::1", 8000, "[::1]:8000", "/v1/r"),
        ("http://[::1]", False, "::1", 80, "[::1]", "/r"),
        ("https://a/v1?api-version=1", True, "a", 443, "a", "/v1/r?api-version=1"),
    ],
)
def test_base_urls(url: str, secure: bool, host: str, port: int, header: str, target: str) -> None:
    parsed = parse_route(url)
    assert parsed.address == Address(secure, host, port)
    assert parsed.host_header == header
    assert target_of(parsed) == target
    assert parsed.proxy is None


@pytest.mark.parametrize(
    "url",
    [
        "a",
        "a:80/v1",
        "ftp://a",
        "http://",
        "http://u:p@a",
        "http://u@a",
        "http://a/#f",
        "http://a b",
        "http://a\r\n",
        "http://é",
        "http://a:99999",
        "http://a:x",
        "http://[::1",
        "http://a..b",
        f"http://{'a' * 64}.example",
    ],
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_route(url)
    assert "u:p" not in str(caught.value)


def test_a_proxy_for_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://one:3128")
    monkeypatch.setenv("HTTPS_PROXY", "two:3129")
    monkeypatch.setenv("NO_PROXY", "near,10.0.0.1:81,::1")
    plain, secure = parse_route("http://a:81/v1"), parse_route("https://a")
    assert plain.proxy == Proxy(Address(False, "one", 3128))
    assert target_of(plain) == "http://a:81/v1/r"
    assert not plain.tunnelled
    assert not plain.secure
    assert secure.proxy == Proxy(Address(False, "two", 3129))
    assert target_of(secure) == "/r"
    assert secure.tunnelled
    assert secure.secure
    for url in ("http://near:99", "https://x.near", "http://10.0.0.1:81", "http://[::1]:8000"):
        assert parse_route(url).proxy is None
    assert parse_route("http://10.0.0.1:82").proxy is not None


def test_what_a_proxys_url_may_hold() -> None:
    parsed = parse_route("http://a", {"all": "https://us%40er:p%3Ass@one"}).proxy
    assert parsed == Proxy(Address(True, "one", 443), "Basic dXNAZXI6cDpzcw==")
    assert parse_route("http://a", {"all": "https://one"}).secure
    assert parse_route("http://a", {}).proxy is None
    with pytest.raises(ValueError, match="socks5 proxy is not supported"):
        parse_route("http://a", {"http": "socks5://one:1080"})
    with pytest.raises(ValueError, match="proxy"):
        parse_route("http://a", {"http": "http://"})
