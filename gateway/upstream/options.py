"""What a backend, its detection and its routing need to know of one upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import SecretStr


class UpstreamOptions(Protocol):
    """The options of one upstream, read-only; `gateway.config` brings them. Times are seconds."""

    @property
    def name(self) -> str:
        """What logs, fallbacks and lists of models call it."""

    @property
    def url(self) -> str:
        """Base URL, perhaps with a query."""

    @property
    def place(self) -> str:
        """Base URL without the query, which may hold a secret: the form for logs."""

    @property
    def prefix(self) -> str:
        """Beginning of each log line about it; empty for a lone upstream."""

    @property
    def dialect(self) -> str:
        """Name of its dialect, or AUTO."""

    @property
    def transport(self) -> str:
        """`http` or `websocket`."""

    @property
    def key(self) -> SecretStr | None:
        """Key the gateway shows; None passes on the client's."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of every request, in lower case, none of them a key."""

    @property
    def models(self) -> Sequence[str]:
        """Ids and patterns of the models it takes; without any it takes what it lists itself."""

    @property
    def aliases(self) -> Mapping[str, str]:
        """What clients may ask for -> the model that is meant."""

    @property
    def default(self) -> str | None:
        """Model it is asked for as a fallback when it lacks the one asked for."""

    @property
    def concurrency(self) -> int | None:
        """Requests at a time; None for no limit."""

    @property
    def fallbacks(self) -> Sequence[str]:
        """Names of the upstreams that step in for it, in order."""

    @property
    def connect_timeout(self) -> float:
        """Time to reach it."""

    @property
    def first_byte_timeout(self) -> float:
        """Time until it starts to answer."""

    @property
    def idle_timeout(self) -> float:
        """Time it may be silent within an answer."""

    @property
    def max_event_bytes(self) -> int:
        """Size of the largest event it may send."""

    @property
    def retries(self) -> int:
        """Further tries while nothing was relayed."""

    @property
    def steer_boundary(self) -> str:
        """`text` or `item`: where a steer may stop an answer."""

    @property
    def reasoning_tags(self) -> str:
        """`auto`, `opened` or `off`: whether a chat answer's text may begin with reasoning."""

    @property
    def steerable(self) -> bool:
        """Whether clients may steer its responses."""

    @property
    def steering(self) -> str:
        """`gateway` or `native`: who finds the boundary of a steer."""

    @property
    def compaction(self) -> str:
        """`auto`, `gateway` or `native`: who compacts histories."""

    def hint(self, status: int) -> str | None:
        """Return what the operator may have got wrong when it answers with `status`."""
