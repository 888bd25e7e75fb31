"""WebSocket frames as a client writes and reads them. Pure.

The server's frames are unmasked and uncompressed (no extension is offered), so reading one is two
or three look-ups and a slice. A full protocol implementation costs more per frame than all of our
checks.
"""

from __future__ import annotations

from websockets.frames import Close, Frame, Opcode

#: Opcodes that `FrameReader` hands out.
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

_FIN = 0x80
_CONTINUATION = 0


def masked_frame(opcode: int, payload: bytes) -> bytes:
    """Return one whole frame from the client."""
    return Frame(Opcode(opcode), payload).serialize(mask=True)


def close_frame() -> bytes:
    """Return a close frame from the client."""
    return masked_frame(CLOSE, Close(1000, "").serialize())


def close_reason(payload: bytes) -> str:
    """Return a close frame's code and reason as text: "1012 (restart)"."""
    if len(payload) < 2:
        return "1005"
    code = int.from_bytes(payload[:2], "big")
    reason = payload[2:].decode(errors="replace")
    return f"{code} ({reason})" if reason else str(code)


class FrameReader:
    """Joins bytes at any chunking into whole messages."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._need = 0  # bytes that `_rest` must hold before it can hold a whole frame
        self._parts: list[bytes] = []
        self._opcode = TEXT

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return (opcode, payload) of every message that is complete now."""
        if self._rest:
            # A frame of megabytes comes in many reads: joined once, not once a read.
            self._rest += data
            if len(self._rest) < self._need:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        messages: list[tuple[int, bytes]] = []
        at, end = 0, len(data)
        while end - at >= 2:
            start, stop = _extent(data, at, end)
            if stop > end:
                self._need = stop - at
                break
            self._take(data[at], data[start:stop], messages)
            at = stop
        if at < end:
            self._rest += data[at:]
            self._need = max(self._need, 2)
        return messages

    def _take(self, first: int, payload: bytes, messages: list[tuple[int, bytes]]) -> None:
        self._need = 0
        opcode = first & 0x0F
        if opcode >= CLOSE or (opcode and first & _FIN):
            messages.append((opcode, payload))
            return
        if opcode != _CONTINUATION:
            self._opcode, self._parts = opcode, []
        self._parts.append(payload)
        if first & _FIN:
            messages.append((self._opcode, b"".join(self._parts)))
            self._parts = []


def _extent(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the payload of the frame at `at` starts and stops; incomplete if stop > end."""
    size = data[at + 1] & 0x7F
    if size < 126:
        return at + 2, at + 2 + size
    width = 2 if size == 126 else 8
    start = at + 2 + width
    if start > end:
        return start, start
    return start, start + int.from_bytes(data[at + 2 : start], "big")
