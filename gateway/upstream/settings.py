"""What can be set of one upstream: a table `[[upstreams]]` of multilane.toml, or the flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.values import ANY_CASE, BaseUrl, Count, Dialect, Integer, Key, Seconds, Size, Text

if TYPE_CHECKING:
    from gateway.settings import Settings


class UpstreamSettings(BaseModel):
    """One backend: where it is, how it speaks, what it is asked for; frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Text
    url: BaseUrl
    dialect: Dialect = "openai"
    key: Key | None = None
    models: tuple[Text, ...] = ()
    aliases: dict[Text, Text] = Field(default_factory=dict)
    default: Text | None = None
    concurrency: Annotated[Count, Field(ge=1)] | None = None
    headers: dict[Text, str] = Field(default_factory=dict)
    steer_boundary: Annotated[Literal["text", "item"], ANY_CASE] = "text"
    steerable: bool = True
    transport: Annotated[Literal["http", "websocket"], ANY_CASE] = "http"
    steering: Annotated[Literal["gateway", "native"], ANY_CASE] = "gateway"
    fallbacks: tuple[Text, ...] = ()
    connect_timeout: Annotated[Seconds, Field(gt=0)] = 10.0
    first_byte_timeout: Annotated[Seconds, Field(gt=0)] = 300.0
    idle_timeout: Annotated[Seconds, Field(gt=0)] = 300.0
    max_event_bytes: Annotated[Size, Field(ge=1024)] = 8 << 20
    retries: Annotated[Integer, Field(ge=0, le=10)] = 2


def from_flags(settings: Settings) -> UpstreamSettings:
    """The one upstream that the flags name. Raises ValueError without one."""
    if settings.upstream is None:
        raise ValueError("a backend needs the upstream's base URL")
    return UpstreamSettings(
        name="default",
        url=settings.upstream,
        dialect=settings.dialect,
        key=settings.upstream_key,
        steer_boundary=settings.steer_boundary,
        steerable=settings.steerable,
        connect_timeout=settings.connect_timeout,
        first_byte_timeout=settings.first_byte_timeout,
        idle_timeout=settings.idle_timeout,
        max_event_bytes=settings.max_event_bytes,
        retries=settings.retries,
    )
