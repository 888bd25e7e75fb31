"""How long a test waits for what must happen, before it calls that a hang."""

from __future__ import annotations

#: Seconds. Nothing is measured by it: a busy machine may take its time, and only a hang fails.
HANG = 60.0
