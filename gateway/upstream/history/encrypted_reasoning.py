"""Encrypted reasoning in a history that moves from one upstream to another. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.errors import UpstreamFault


def refuses_encrypted_reasoning(fault: UpstreamFault) -> bool:
    """Return whether the upstream says that it cannot decrypt what the input holds."""
    words = f"{fault.code} {fault.message}".lower()
    return fault.status in (400, 422) and "encrypted" in words


def without_encrypted_reasoning(items: Sequence[bytes]) -> list[bytes]:
    """Return the items without encrypted reasoning, which only its maker can read (D23)."""
    return [item for item in items if b'"encrypted_content"' not in item or not _is_sealed(item)]


def _is_sealed(data: bytes) -> bool:
    item = decode_lenient(data)
    return item.get("type") == "reasoning" and bool(item.get("encrypted_content"))
