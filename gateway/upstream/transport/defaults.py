"""Default timeouts, sizes and retries of every backend connection, for settings and clients."""

from __future__ import annotations

from typing import Final

#: Seconds to reach the backend.
CONNECT_TIMEOUT: Final = 10.0
#: Seconds until the backend starts to answer.
FIRST_BYTE_TIMEOUT: Final = 300.0
#: Seconds a backend may be silent within an answer.
IDLE_TIMEOUT: Final = 300.0
#: Bytes of the largest event.
MAX_EVENT_BYTES: Final = 8 << 20
#: Further attempts while nothing was relayed.
RETRIES: Final = 2
