"""Settings of one upstream: a table `[[upstreams]]` of multilane.toml, or the flags."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gateway.config.setting_types import (
    ApiKey,
    BaseUrl,
    Compaction,
    Count,
    DialectName,
    ExtraHeaders,
    MessageSize,
    NonEmptyText,
    PositiveSeconds,
    ReasoningTags,
    Retries,
    SteerBoundary,
    Steering,
    Transport,
    VariableName,
)
from gateway.upstream.dialect import AUTO
from gateway.upstream.transport import defaults


class UpstreamSettings(BaseModel):
    """One backend: its address, its dialect and its models; frozen."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=False, hide_input_in_errors=True
    )

    name: NonEmptyText = Field(description="What logs, `fallbacks` and `GET /v1/models` call it.")
    url: BaseUrl = Field(
        repr=False, description="Base URL as its clients use it; may end in `?api-version=…`."
    )
    dialect: DialectName = Field(AUTO, description="How it speaks.")
    key: ApiKey | None = Field(None, description="The key itself, for code only.")
    key_env: VariableName | None = Field(
        None, description="Variable that holds the key shown to it; the key itself is never here."
    )
    key_file: NonEmptyText | None = Field(None, description="File that holds the key instead.")
    models: tuple[NonEmptyText, ...] = Field(
        (),
        description="What it takes: ids, and patterns with `*`, `?` and `[…]`, case-sensitive; "
        "without any, whatever it lists itself.",
    )
    aliases: dict[NonEmptyText, NonEmptyText] = Field(
        default_factory=dict,
        description="Other names clients may ask for, each with the model it stands for: "
        '`{ fast = "qwen3-4b" }`.',
    )
    default: NonEmptyText | None = Field(
        None,
        description="Model to ask it for when it steps in as a fallback and lacks the requested "
        "one; the first table that has one serves creates without a `model`.",
    )
    concurrency: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="Requests at a time from one gateway; further ones wait in order."
    )
    fallbacks: tuple[NonEmptyText, ...] = Field(
        (), description="Upstreams to try, in order, when this one is away, busy or failing."
    )
    headers: ExtraHeaders = Field(
        default_factory=dict, repr=False, description="Sent with every request; no keys."
    )
    connect_timeout: PositiveSeconds = Field(
        defaults.CONNECT_TIMEOUT, description="Seconds to reach it."
    )
    first_byte_timeout: PositiveSeconds = Field(
        defaults.FIRST_BYTE_TIMEOUT, description="Seconds until it starts to answer."
    )
    idle_timeout: PositiveSeconds = Field(
        defaults.IDLE_TIMEOUT, description="Seconds it may be silent within an answer."
    )
    max_event_bytes: MessageSize = Field(
        defaults.MAX_EVENT_BYTES, description="Largest event from it."
    )
    retries: Retries = Field(
        defaults.RETRIES, description="Further attempts while nothing was relayed."
    )
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
    steerable: bool = Field(default=True, description="Let clients steer its responses.")
    transport: Transport = Field(
        "http", description="How to reach it; `websocket` if it speaks this protocol."
    )
    steering: Steering = Field(
        "gateway", description="Who picks a steer's boundary; `native` is the backend itself."
    )

    @property
    def place(self) -> str:
        """Base URL without its query, which may hold secrets."""
        return self.url.partition("?")[0]

    @property
    def prefix(self) -> str:
        """Beginning of every log line about this upstream."""
        return f"{self.name}: "

    def hint(self, status: int) -> str | None:
        """Return what the operator may have misconfigured if the backend answers `status`."""
        if status == 404:
            return "is its url right?"
        if status not in (401, 403):
            return None
        if self.key_env is not None:
            return f"is {self.key_env} right?"
        if self.key_file is not None:
            return f"is the key in {self.key_file} right?"
        return "it is shown no key: set key_env or key_file"


class FlagsUpstream(UpstreamSettings):
    """The only upstream, set by `--upstream`; log lines need not name it."""

    @property
    def prefix(self) -> str:
        """Empty."""
        return ""

    def hint(self, status: int) -> str | None:
        """Return the same hint in terms of flags and variables."""
        hints = {404: "--upstream", 401: "MULTILANE_UPSTREAM_KEY", 403: "MULTILANE_UPSTREAM_KEY"}
        return f"is {hints[status]} right?" if status in hints else None
