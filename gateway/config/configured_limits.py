"""The limits that settings give every tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.config.settings import LIMITS
from gateway.limits.limits import Limits

if TYPE_CHECKING:
    from gateway.config.settings import Settings


def tenant_defaults(settings: Settings) -> Limits:
    """Return the limits of a tenant whose keys say none."""
    return Limits(**{name: getattr(settings, field) for name, field in LIMITS.items()})
