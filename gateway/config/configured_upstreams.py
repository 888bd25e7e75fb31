"""The upstreams that the settings name, and the model of a create that names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.config.upstream_settings import FlagsUpstream, UpstreamSettings

if TYPE_CHECKING:
    from gateway.config.settings import Settings


def upstreams(settings: Settings) -> tuple[UpstreamSettings, ...]:
    """Return the upstreams of the tables, or the one that the flags name.

    Raises:
        ValueError: There is neither.
    """
    return settings.upstreams or (from_flags(settings),)


def default_model(settings: Settings) -> str | None:
    """Return the model of a create that names none (protocol.md 2)."""
    if settings.model is not None:
        return settings.model
    return next((one.default for one in settings.upstreams if one.default is not None), None)


def from_flags(settings: Settings) -> UpstreamSettings:
    """Return the one upstream that the flags name.

    Raises:
        ValueError: The flags name none.
    """
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
    """Return what an upstream without values of its own takes from settings of the same name."""
    shared = UpstreamSettings.model_fields.keys() & type(settings).model_fields.keys()
    return {name: getattr(settings, name) for name in shared - {"steering"}}
