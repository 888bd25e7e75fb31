"""What can be set of one upstream: a table `[[upstreams]]` of multilane.toml, or the flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from gateway.config.setting_types import (
    ANY_CASE,
    AUTO,
    BaseUrl,
    Count,
    Dialect,
    Headers,
    Integer,
    Key,
    Seconds,
    Size,
    Text,
    Variable,
    check_steering,
    check_transport,
)

if TYPE_CHECKING:
    from gateway.config.settings import Settings


class UpstreamSettings(BaseModel):
    """One backend: where it is, how it speaks, what it is asked for; frozen."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=False, hide_input_in_errors=True
    )

    name: Text = Field(description="What logs, `fallbacks` and `GET /v1/models` call it.")
    url: BaseUrl = Field(
        repr=False, description="Base URL as its clients use it; may end in `?api-version=…`."
    )
    dialect: Dialect = Field(AUTO, description="How it speaks.")
    key: Key | None = Field(None, description="The key itself, for code only.")
    key_env: Variable | None = Field(
        None, description="Variable that holds the key shown to it; the key itself is never here."
    )
    key_file: Text | None = Field(None, description="File that holds the key instead.")
    models: tuple[Text, ...] = Field(
        (),
        description="What it takes: ids, and patterns with `*`, `?` and `[…]`, case-sensitive; "
        "without any, whatever it lists itself.",
    )
    aliases: dict[Text, Text] = Field(
        default_factory=dict,
        description="What clients may ask for instead, and the model that is meant: "
        '`{ fast = "qwen3-4b" }`.',
    )
    default: Text | None = Field(
        None,
        description="Model it is asked for as a fallback, when it has not the one asked for; the "
        "first table that has one serves creates without a `model`.",
    )
    concurrency: Annotated[Count, Field(ge=1)] | None = Field(
        None, description="Requests at a time of one gateway; further ones wait in order."
    )
    fallbacks: tuple[Text, ...] = Field(
        (), description="Upstreams to try, in order, when this one is away, busy or failing."
    )
    headers: Headers = Field(
        default_factory=dict, repr=False, description="Sent with every request; no keys."
    )
    connect_timeout: Annotated[Seconds, Field(gt=0)] = Field(
        10.0, description="Seconds to reach it."
    )
    first_byte_timeout: Annotated[Seconds, Field(gt=0)] = Field(
        300.0, description="Seconds until it starts to answer."
    )
    idle_timeout: Annotated[Seconds, Field(gt=0)] = Field(
        300.0, description="Seconds it may be silent within an answer."
    )
    max_event_bytes: Annotated[Size, Field(ge=1024)] = Field(
        8 << 20, description="Largest event from it."
    )
    retries: Annotated[Integer, Field(ge=0, le=10)] = Field(
        2, description="Further tries while nothing was relayed."
    )
    steer_boundary: Annotated[Literal["text", "item"], ANY_CASE] = Field(
        "text", description="Where a steer may stop an answer: within a text, or after an item."
    )
    steerable: bool = Field(default=True, description="Let clients steer its responses.")
    transport: Annotated[Literal["http", "websocket"], ANY_CASE] = Field(
        "http", description="How it is reached; `websocket` if it speaks this protocol."
    )
    steering: Annotated[Literal["gateway", "native"], ANY_CASE] = Field(
        "gateway", description="Who finds a steer's boundary; `native` is the backend itself."
    )

    @field_validator("transport")
    @classmethod
    def _spoken(cls, value: str, info: ValidationInfo) -> str:
        check_transport(value, info.data.get("dialect"))
        return value

    @field_validator("steering")
    @classmethod
    def _steered(cls, value: str, info: ValidationInfo) -> str:
        check_steering(value, info.data.get("transport"))
        return value

    @property
    def place(self) -> str:
        """Its base URL without a query, which may hold what is nobody's business."""
        return self.url.partition("?")[0]

    @property
    def prefix(self) -> str:
        """What a log line about it begins with."""
        return f"{self.name}: "

    def hint(self, status: int) -> str | None:
        """What the operator may have got wrong when the backend answers so."""
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
    """The only upstream, named by `--upstream`: there is no need to say which one."""

    @property
    def prefix(self) -> str:
        """Nothing."""
        return ""

    def hint(self, status: int) -> str | None:
        """The same, in the words of flags and variables."""
        hints = {404: "--upstream", 401: "MULTILANE_UPSTREAM_KEY", 403: "MULTILANE_UPSTREAM_KEY"}
        return f"is {hints[status]} right?" if status in hints else None


def upstreams(settings: Settings) -> tuple[UpstreamSettings, ...]:
    """All of them: the tables, or the one that the flags name. Raises ValueError without any."""
    return settings.upstreams or (from_flags(settings),)


def default_model(settings: Settings) -> str | None:
    """The model of a create that names none (protocol.md 2)."""
    if settings.model is not None:
        return settings.model
    return next((one.default for one in settings.upstreams if one.default is not None), None)


def from_flags(settings: Settings) -> UpstreamSettings:
    """The one upstream that the flags name. Raises ValueError without one."""
    if settings.upstream is None:
        raise ValueError("a backend needs the upstream's base URL")
    return FlagsUpstream(
        name="default",
        url=settings.upstream,
        key=settings.upstream_key,
        transport=settings.upstream_transport,
        steering=settings.steering,
        **inherited(settings),
    )


def inherited(settings: Settings) -> dict[str, object]:
    """What an upstream takes from the settings of the same name where it has none of its own."""
    shared = UpstreamSettings.model_fields.keys() & type(settings).model_fields.keys()
    return {name: getattr(settings, name) for name in shared - {"steering"}}
