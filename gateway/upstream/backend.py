"""One backend, as `lanes` sees it: a dialect spoken over an HTTP client."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import Sparing
from gateway.upstream import dialect
from gateway.upstream.faults import Answered
from gateway.upstream.http import HttpClient
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.upstream.dialect import Converter
    from gateway.upstream.settings import UpstreamSettings
    from gateway.upstream.stream import EventStream
    from lanes.ports import Event, Stream
    from lanes.profile import Profile

#: What the operator may have got wrong when the backend refuses everything.
HINTS: Final = {
    401: "is MULTILANE_UPSTREAM_KEY right?",
    403: "is MULTILANE_UPSTREAM_KEY right?",
    404: "is --upstream right?",
}


class Backend:
    """Implements lanes.ports.Upstream for one backend."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self.name = settings.name
        self._settings = settings
        self._dialect = dialect.find(settings.dialect)
        self._client = HttpClient(
            settings.url,
            connect_timeout=settings.connect_timeout,
            first_byte_timeout=settings.first_byte_timeout,
            idle_timeout=settings.idle_timeout,
            max_event_bytes=settings.max_event_bytes,
            retries=settings.retries,
        )
        self._notices = Sparing(logging.getLogger("multilane.upstream"))

    @property
    def _url(self) -> str:
        return f"{self._settings.url}{self._dialect.path}"

    @property
    def _profile(self) -> Profile:
        settings, profile = self._settings, self._dialect.profile
        cuts_text = profile.cuts_text and settings.steer_boundary == "text"
        steerable = profile.steerable and settings.steerable
        return replace(profile, cuts_text=cuts_text, steerable=steerable)

    def _auth(self) -> dict[str, str]:
        key = self._settings.key
        return {} if key is None else self._dialect.auth(key.get_secret_value())

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request and wait for the head of its answer. Raises UpstreamFault."""
        request = self._dialect.request(body, items)
        try:
            stream = await self._client.post(
                self._dialect.path, request, {**headers, **self._auth()}
            )
        except UpstreamFault as fault:
            self._notice(fault)
            if fault.status == 404 and fault.code == "not_found" and fault.param is None:
                # The backend names nothing that it did not find: it may be the place itself.
                fault.message += f" (POST {self._url})"
            raise
        made = self._dialect.converter
        converter = None if made is None else made(body)
        return _Watched(stream, self._profile, self._notice_cut, converter)

    async def aclose(self) -> None:
        """Close all connections to the backend."""
        await self._client.aclose()

    def _notice(self, fault: UpstreamFault) -> None:
        """Tell the operator what is theirs to mend. Never the backend's words: they quote input."""
        if not isinstance(fault, Answered):
            if fault.status != 503:  # that is us, shutting down
                self._notices.warning("unreached", f"{fault.message} (POST {self._url})")
        elif fault.status in HINTS or fault.status >= 500:
            hint = f"; {HINTS[fault.status]}" if fault.status in HINTS else ""
            line = f"The backend answers {fault.status} to POST {self._url}{hint}"
            self._notices.warning(f"answered {fault.status}", line)

    def _notice_cut(self, fault: UpstreamFault) -> None:
        if fault.status != 503:
            self._notices.warning("cut", f"An answer was cut: {fault.message} (POST {self._url})")


class _Watched:
    """A stream whose breaking off is noticed, and which speaks as the Responses API does."""

    def __init__(
        self,
        stream: EventStream,
        profile: Profile,
        notice: Callable[[UpstreamFault], None],
        converter: Converter | None,
    ) -> None:
        self.profile = profile
        self._stream = stream
        self._notice = notice
        self._converter = converter
        self.pause, self.resume = stream.pause, stream.resume
        self.release, self.close = stream.release, stream.close

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see EventStream)."""
        try:
            if self._converter is None:
                await self._stream.relay(sink)
            else:
                feed = self._converter.feed
                await self._stream.relay(lambda events: sink(feed(events)))
                sink(self._converter.finish())
        except UpstreamFault as fault:
            self._notice(fault)
            if self._converter is not None:
                sink(self._converter.finish())  # what broke may have lacked nothing but its end
            raise
