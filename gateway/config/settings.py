"""All settings: one field = one flag = one MULTILANE_* variable = one row of docs/settings.md.

The fields of FILE_ONLY are tables of multilane.toml and exist nowhere else.

`Settings(...)` reads only its arguments; `gateway.config.loading.load` reads flags, environment
and file. `python -m gateway.config.setting_words` prints the table in docs/settings.md.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.config.passed_paths import STATELESS, Prefixes
from gateway.config.setting_types import (
    AccessLevel,
    ApiKey,
    ApiKeys,
    BaseUrl,
    Compaction,
    Count,
    DialectName,
    Host,
    Integer,
    Limit,
    LimitsWithoutStore,
    LogFormat,
    LogLevel,
    MessageSize,
    MetricsAccess,
    Networks,
    NonEmptyText,
    Origins,
    PositiveSeconds,
    ReasoningTags,
    RedisUrl,
    Retries,
    SealingSecrets,
    Seconds,
    Size,
    SteerBoundary,
    Steering,
    Transport,
    is_loopback,
)
from gateway.config.upstream_settings import UpstreamSettings  # noqa: TC001  (pydantic reads it)
from gateway.limits.limits import NAMES
from gateway.upstream.dialect import AUTO, dialect_names
from gateway.upstream.transport import defaults

PREFIX: Final = "MULTILANE_"
#: Fields without flag, variable and row; docs/backends.md has a table for each.
FILE_ONLY: Final = ("upstreams",)
#: A limit of tenants -> the field of its default.
LIMITS: Final = {name: f"tenant_{name}" for name in NAMES}


class Settings(BaseSettings):
    """Every setting of `multilane serve`; frozen, validated, and silent about secrets."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=False,
        env_prefix=PREFIX,
        hide_input_in_errors=True,
    )

    host: Host = Field(
        "127.0.0.1", description="Address to listen on; beyond loopback it needs keys."
    )
    port: Integer = Field(
        8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one."
    )
    upstream: BaseUrl | None = Field(
        None,
        description="Base URL of the backend, as its clients use it (`…/v1`); "
        "without it the bundled rehearsal backend runs.",
    )
    dialect: DialectName = Field(
        AUTO,
        description="How the backend speaks: `auto` detects it and logs the result; or one of "
        f"{', '.join(dialect_names())}.",
    )
    upstream_transport: Transport = Field(
        "http", description="How to reach the backend; `websocket` if it speaks this protocol."
    )
    steering: Steering = Field(
        "gateway", description="Who picks a steer's boundary; `native` is the backend itself."
    )
    model: NonEmptyText | None = Field(None, description="Model for a create that names none.")
    api_keys: Annotated[ApiKeys, NoDecode] = Field(
        (), description="Key that clients may use, repeatable; comma-separated in the variable."
    )
    keys_file: NonEmptyText | None = Field(None, description="File of named keys: `multilane key`.")
    upstream_key: ApiKey | None = Field(
        None, description="Key that the gateway shows to the backend."
    )
    forward_authorization: bool = Field(
        default=False,
        description="Show the backend each client's key; with `--api-key` that is the gateway's.",
    )
    tls_cert: NonEmptyText | None = Field(
        None, description="Certificate in PEM: the port speaks TLS, and no plain HTTP."
    )
    tls_key: NonEmptyText | None = Field(
        None, description="Private key of the certificate; without it that file has it as well."
    )
    allow_open: bool = Field(
        default=False, description="Listen beyond loopback without keys: open to everyone."
    )
    allow_origin: Annotated[Origins, NoDecode] = Field(
        (), description="Browser origin to admit besides the gateway's own, repeatable; * for all."
    )
    max_connections: Count = Field(10000, ge=1, description="Connections at a time.")
    tenant_connections: Limit | None = Field(
        None, description="Connections of each tenant, unless its keys say otherwise."
    )
    tenant_running: Limit | None = Field(None, description="Running responses of each tenant.")
    tenant_creates: Limit | None = Field(None, description="Creates a minute of each tenant.")
    tenant_tokens: Limit | None = Field(None, description="Tokens a minute of each tenant.")
    limits_without_store: LimitsWithoutStore = Field(
        "open", description="Whether tenants with limits are let in while the store is away."
    )
    max_pending_per_address: Count = Field(
        1024, ge=1, description="Connections per address that have not shown a key yet."
    )
    trusted_proxy: Annotated[Networks, NoDecode] = Field(
        (), description="Address or network whose X-Forwarded-For is believed, repeatable."
    )
    max_head_bytes: MessageSize = Field(
        64 << 10, description="Largest head of a request or an upgrade."
    )
    handshake_timeout: PositiveSeconds = Field(
        10.0, description="Seconds for the head of a request or an upgrade."
    )
    max_active: Count = Field(16, ge=1, description="Running responses per connection.")
    max_named: Count = Field(32, ge=0, description="Different `stream_id`s per connection.")
    max_queued: Count = Field(512, ge=1, description="Waiting creates per connection.")
    max_queued_bytes: MessageSize = Field(
        64 << 20, description="Bytes of waiting creates per connection."
    )
    max_age: PositiveSeconds = Field(3600.0, description="Seconds a connection lives.")
    age_grace: Seconds = Field(
        60.0, ge=0, description="Seconds that running responses get after `max_age`."
    )
    max_frame_bytes: MessageSize = Field(
        64 << 20, description="Largest frame or HTTP body from a client, unpacked."
    )
    ping_interval: PositiveSeconds = Field(20.0, description="Seconds between pings.")
    ping_timeout: PositiveSeconds = Field(20.0, description="Seconds to wait for a pong.")
    send_buffer_bytes: MessageSize = Field(
        8 << 20, description="Unsent bytes per connection at which its upstreams pause."
    )
    heartbeat_interval: PositiveSeconds = Field(
        15.0, description="Seconds of silence until an event stream over HTTP gets a comment."
    )
    max_output_bytes: MessageSize = Field(16 << 20, description="Largest output of a response.")
    max_running_output_bytes: MessageSize = Field(
        64 << 20, description="Output of all running responses of a connection together."
    )
    stall_timeout: PositiveSeconds = Field(
        60.0, description="Seconds a client may read nothing before its connection is closed."
    )
    cache_bytes: Size = Field(32 << 20, ge=0, description="Bytes of earlier turns per connection.")
    redis_url: RedisUrl = Field(
        "embedded",
        repr=False,
        description="Where steers and stored responses are kept: the bundled engine `embedded`, "
        "`memory`, or the URL of a Redis or Valkey.",
    )
    compaction_keys: Annotated[SealingSecrets, NoDecode] = Field(
        (),
        description="Seal compaction items, client secrets: the first; all open; else the store's.",
    )
    state_dir: NonEmptyText = Field(
        "~/.local/state/multilane", description="Directory of the bundled engine."
    )
    store_ttl: PositiveSeconds = Field(2_592_000.0, description="Seconds to keep responses.")
    max_chain: Count = Field(10_000, ge=1, description="Items that a create may build on.")
    compaction: Compaction = Field(
        "auto", description="Who compacts: the `gateway`, or `native` the backend; `auto` by host."
    )
    steer_boundary: SteerBoundary = Field(
        "text", description="Where a steer may stop an answer: within a text, or after an item."
    )
    reasoning_tags: ReasoningTags = Field(
        "auto",
        description="Whether a chat answer may begin with reasoning in tags like `<think>`; "
        "`opened` if only the closing one comes.",
    )
    steerable: bool = Field(default=True, description="Let clients steer this backend's responses.")
    steer_follow: bool = Field(default=True, description="Take late steers for the successor.")
    max_steers: Count = Field(32, ge=1, description="Waiting steers per response.")
    max_steer_bytes: MessageSize = Field(1 << 20, description="Bytes of waiting steers.")
    connect_timeout: PositiveSeconds = Field(
        defaults.CONNECT_TIMEOUT, description="Seconds to reach the backend."
    )
    first_byte_timeout: PositiveSeconds = Field(
        defaults.FIRST_BYTE_TIMEOUT, description="Seconds until the backend starts to answer."
    )
    idle_timeout: PositiveSeconds = Field(
        defaults.IDLE_TIMEOUT, description="Seconds the backend may be silent within an answer."
    )
    max_event_bytes: MessageSize = Field(
        defaults.MAX_EVENT_BYTES, description="Largest event from the backend."
    )
    retries: Retries = Field(
        defaults.RETRIES, description="Further attempts while nothing was relayed."
    )
    passthrough: Annotated[Prefixes, NoDecode] = Field(
        STATELESS, description="Path below `/v1/` to pass on as it is, repeatable; `all`; `none`."
    )
    drain_timeout: Seconds = Field(
        30.0, ge=0, description="Seconds that running responses get when the gateway stops."
    )
    log_level: LogLevel = Field("info", description="Least severe log lines to write.")
    log_format: LogFormat = Field("text", description="Lines for people, or one JSON object each.")
    access_log: AccessLevel = Field("info", description="Level of lines on responses, or `off`.")
    metrics_access: MetricsAccess = Field(
        "keyed",
        description="Who may read `/metrics`: whoever has a key, if there are keys; everyone "
        "(`open`); nobody (`off`).",
    )
    metrics_port: Integer | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of its own for `/metrics`, without keys; 0 takes a free one.",
    )
    metrics_host: Host = Field("127.0.0.1", description="Address of that port.")
    tracing: bool = Field(
        default=False, description="Make OpenTelemetry spans of responses: `multilane[otel]`."
    )
    upstreams: tuple[UpstreamSettings, ...] = Field(
        (), description="Several backends, instead of `--upstream`."
    )

    @field_validator("forward_authorization")
    @classmethod
    def _one_key(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001  (pydantic's call)
        if value and info.data.get("upstream_key") is not None:
            raise ValueError(
                f"cannot go with {PREFIX}UPSTREAM_KEY:"
                " the backend is shown the client's key or the gateway's"
            )
        return value

    @field_validator("tls_key")
    @classmethod
    def _of_a_certificate(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("tls_cert") is None:
            raise ValueError("needs --tls-cert, the certificate that the key belongs to")
        return value

    @model_validator(mode="after")
    def _closed(self) -> Settings:
        if not (self.api_keys or self.keys_file or self.allow_open or is_loopback(self.host)):
            raise ValueError(
                f"{self.host} is not loopback and there are no keys: set {PREFIX}KEYS_FILE"
                f" or {PREFIX}API_KEYS, or --allow-open to let everyone in"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (the names are the library's)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read only arguments (see `BaseSettings.settings_customise_sources`).

        `gateway.config.loading.load` reads environment and file.
        """
        return (init_settings,)


def flag(name: str) -> str | None:
    """Return a field's name on the command line, or None if it has no flag."""
    # Every user of the machine can read a command line, and it holds no tables.
    if name in ("upstream_key", "compaction_keys", *FILE_ONLY):
        return None
    return "--api-key" if name == "api_keys" else f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    """Return a field's name in the environment."""
    return PREFIX + name.upper()
