"""Flag > environment > file > default, and where secrets may come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from gateway.config.loading import SECRETS, BadStart, load
from gateway.config.settings import FILE_ONLY, LIMITS, Settings, flag, variable


def keys(settings: Settings) -> list[str]:
    return [key.get_secret_value() for key in settings.api_keys]


def test_each_place_counts_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().max_active == 16
    Path("multilane.toml").write_text("max_active = 1\nmax_named = 1\nmax_queued = 1\n")
    assert load().max_active == 1
    monkeypatch.setenv("MULTILANE_MAX_ACTIVE", "2")
    monkeypatch.setenv("MULTILANE_MAX_NAMED", "2")
    settings = load({"max_active": "3"})
    assert (settings.max_active, settings.max_named, settings.max_queued) == (3, 2, 1)


def test_every_field_can_come_from_the_environment_and_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: dict[object, str] = {int: "2000", float: "7.5", bool: "true"}
    special = {
        "host": "localhost",
        "upstream": "http://b.example/v1",
        "dialect": "llamacpp",
        "log_level": "debug",
        "log_format": "json",
        "allow_origin": "https://a.example",
        "trusted_proxy": "10.0.0.0/8",
        "retries": "3",
        "redis_url": "memory",
        "steer_boundary": "item",
        "reasoning_tags": "off",
        "steerable": "false",
        "steer_follow": "false",
        "upstream_transport": "websocket",
        "steering": "native",
        "compaction": "native",
        "access_log": "debug",
        "tls_cert": "cert.pem",
        "tls_key": "key.pem",
        "metrics_access": "open",
        "metrics_port": "2000",
        "metrics_host": "localhost",
        "limits_without_store": "closed",
        **dict.fromkeys(LIMITS.values(), "0"),
        "compaction_keys": "words that nobody guesses".replace(" ", "-"),
    }
    defaults = Settings()
    chosen = {
        name: special.get(name) or texts.get(field.annotation, "word")
        for name, field in Settings.model_fields.items()
        if name not in FILE_ONLY
    }
    for name, text in chosen.items():
        if name == "steering":
            monkeypatch.setenv(variable("upstream_transport"), "websocket")  # it goes with this one
        if name == "tls_key":
            monkeypatch.setenv(variable("tls_cert"), "cert.pem")  # and so does this
        with monkeypatch.context() as patch:
            patch.setenv(variable(name), text)
            from_variable = getattr(load(), name)
            assert from_variable != getattr(defaults, name)
        if name not in SECRETS:
            Path("multilane.toml").write_text(f'{name} = "{text}"\n')
            assert getattr(load(), name) == from_variable
            Path("multilane.toml").unlink()
        if flag(name):
            assert getattr(load({name: text}), name) == from_variable


def test_another_file_can_be_named() -> None:
    Path("multilane.toml").write_text("port = 1\n")
    Path("other.toml").write_text('allow_origin = ["https://A.example/", "*"]\nallow_open = true\n')
    settings = load(config=Path("other.toml"))
    assert settings.port == 8080
    assert settings.allow_origin == ("https://a.example", "*")
    assert settings.allow_open


def test_choices_may_be_written_in_any_case() -> None:
    settings = load({"log_level": "INFO", "log_format": "Json", "dialect": "OpenAI"})
    assert (settings.log_level, settings.log_format, settings.dialect) == ("info", "json", "openai")


def test_the_load_generators_key_is_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_LOAD_KEY", "hush")
    assert load() == Settings()


@pytest.mark.parametrize(
    ("text", "size"),
    [("8MiB", 8 << 20), ("512KiB", 512 << 10), ("1 gib", 1 << 30), ("4096B", 4096), ("2048", 2048)],
)
def test_sizes(text: str, size: int) -> None:
    assert load({"cache_bytes": text}).cache_bytes == size


def test_keys_from_variable_file_and_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_API_KEYS", "one, two")
    assert keys(load()) == ["one", "two"]
    assert keys(load({"api_keys": ("three",)})) == ["three"]
    monkeypatch.delenv("MULTILANE_API_KEYS")
    Path("keys").write_text("one\n\n  two,2\r\n")
    monkeypatch.setenv("MULTILANE_API_KEYS_FILE", "keys")
    Path("upstream").write_text("sk-up\n")
    monkeypatch.setenv("MULTILANE_UPSTREAM_KEY_FILE", "upstream")
    settings = load()
    assert keys(settings) == ["one", "two,2"]
    assert settings.upstream_key == SecretStr("sk-up")


def test_construction_looks_at_its_arguments_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_MAX_ACTIVE", "2")
    Path("multilane.toml").write_text("max_named = 1\n")
    assert Settings() == Settings(max_active=16, max_named=32)


def test_settings_are_frozen_and_silent_about_secrets() -> None:
    settings = load({"api_keys": ("sk-hush",), "upstream_key": "sk-hush"})
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]  # that is the point
    assert (
        "hush"
        not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    )
    with pytest.raises(ValidationError) as refused:
        Settings(api_keys=(SecretStr("hush hush"),))
    assert "hush" not in str(refused.value)


def test_the_backend_url_loses_its_last_slash() -> None:
    assert load({"upstream": "HTTPS://b.example:1/v1/"}).upstream == "https://b.example:1/v1"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert load({"host": host}).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example", "127.1"])
def test_elsewhere_needs_keys_or_consent(host: str) -> None:
    with pytest.raises(BadStart, match="--allow-open"):
        load({"host": host})
    assert load({"host": host, "allow_open": True}).host == host
    assert load({"host": host, "api_keys": ("k",)}).host == host


def test_variables_of_a_kubernetes_service_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_PORT", "tcp://10.0.0.1:80")
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_WS", "PORT_80_TCP_ADDR"):
        monkeypatch.setenv(f"MULTILANE_{name}", "10.0.0.1")
    assert load().port == 8080
    monkeypatch.delenv("MULTILANE_SERVICE_HOST")
    with pytest.raises(BadStart):
        load()
