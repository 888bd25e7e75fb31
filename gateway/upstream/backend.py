"""One backend, as `lanes` sees it: a dialect spoken over an HTTP client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.upstream.http import HttpClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.settings import Settings
    from gateway.upstream.dialect import Dialect
    from lanes.ports import Stream


class Backend:
    """Implements lanes.ports.Upstream for the one backend that the settings name."""

    def __init__(self, settings: Settings, dialect: Dialect) -> None:
        if settings.upstream is None:
            raise ValueError("a backend needs the upstream's base URL")
        self._dialect = dialect
        self.profile = replace(
            dialect.profile,
            cuts_text=settings.steer_boundary == "text",
            steerable=settings.steerable,
        )
        self._client = HttpClient(
            settings.upstream,
            connect_timeout=settings.connect_timeout,
            first_byte_timeout=settings.first_byte_timeout,
            idle_timeout=settings.idle_timeout,
            max_event_bytes=settings.max_event_bytes,
            retries=settings.retries,
        )
        key = settings.upstream_key
        self._auth = {} if key is None else dialect.auth(key.get_secret_value())

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request and wait for the head of its answer. Raises UpstreamFault."""
        request = self._dialect.request(body, items)
        return await self._client.post(self._dialect.path, request, {**headers, **self._auth})

    async def aclose(self) -> None:
        """Close all connections to the backend."""
        await self._client.aclose()
