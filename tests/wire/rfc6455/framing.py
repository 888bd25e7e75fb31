"""Section 5 up to 5.5: frames, masks, fragments, control frames."""

from __future__ import annotations

from tests.support.raw_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, Frame, frame
from tests.wire.rfc6455.case import ASK, ERROR, LIMIT, Case, asked, headed

FRAMING = [
    # 5.1: a client's frames are masked.
    *(
        Case("5.1", f"opcode {opcode} unmasked", bytes([0x80 | opcode, 0]), (), 1002)
        for opcode in (TEXT, BINARY, CLOSE, PING, PONG)
    ),
    Case("5.1", "unmasked with a payload", b"\x81\x0c" + ASK, (), 1002),
    Case("5.3", "a mask of zeros", b"\x81\x8c" + bytes(4) + ASK, (ERROR,)),
    # 5.2: no reserved bit, no reserved opcode.
    *(
        Case("5.2", f"reserved bits {bits}", headed(0x81 | bits << 4), (), 1002)
        for bits in range(1, 8)
    ),
    *(
        Case("5.2", f"reserved opcode {opcode}", headed(0x80 | opcode), (), 1002)
        for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)
    ),
    *(
        Case("5.2", f"{size} bytes of {kind}", frame(asked(size), kind), (ERROR,))
        for size in (12, 125, 126, 127, 65535, 65536, 65537, LIMIT)
        for kind in (TEXT, BINARY)
    ),
    *(
        Case("5.2", f"{size} bytes, over the limit", frame(asked(size)), (), 1009)
        for size in (LIMIT + 1, LIMIT + 65536)
    ),
    Case("5.2", "a size of 2^63", b"\x81\xff" + (1 << 63).to_bytes(8, "big"), (), 1009),
    Case("5.2", "no byte", frame(b""), (ERROR,)),
    # 5.4: fragments, and control frames between them.
    *(
        Case(
            "5.4",
            f"fragments of {size} bytes, opcode {kind}",
            b"".join(
                frame(ASK[at : at + size], CONT if at else kind, fin=at + size >= len(ASK))
                for at in range(0, len(ASK), size)
            ),
            (ERROR,),
        )
        for size in (1, 2, 5, 11)
        for kind in (TEXT, BINARY)
    ),
    *(
        Case(
            "5.4",
            f"{name} between fragments",
            frame(ASK[:5], fin=False) + between + frame(ASK[5:], CONT),
            (*pongs, ERROR),
        )
        for name, between, pongs in (
            ("a ping", frame(b"p", PING), (Frame(PONG, b"p"),)),
            (
                "two pings",
                frame(b"p", PING) + frame(b"q", PING),
                (Frame(PONG, b"p"), Frame(PONG, b"q")),
            ),
            ("a pong", frame(b"p", PONG), ()),
            ("an empty fragment", frame(b"", CONT, fin=False), ()),
        )
    ),
    Case(
        "5.4",
        "empty first and last fragments",
        frame(b"", fin=False) + frame(ASK, CONT, fin=False) + frame(b"", CONT),
        (ERROR,),
    ),
    Case("5.4", "a continuation of nothing", frame(ASK, CONT), (), 1002),
    Case("5.4", "an unfinished continuation of nothing", frame(ASK, CONT, fin=False), (), 1002),
    Case("5.4", "a continuation after the end", frame(ASK) + frame(ASK, CONT), (), 1002),
    *(
        Case(
            "5.4",
            f"{second} begins within {first}",
            frame(b"{", first, fin=False) + frame(ASK, second),
            (),
            1002,
        )
        for first in (TEXT, BINARY)
        for second in (TEXT, BINARY)
    ),
    *(
        Case(
            "5.4",
            f"a fragmented message over the limit, opcode {kind}",
            frame(b" " * LIMIT, kind, fin=False) + frame(b" ", CONT),
            (),
            1009,
        )
        for kind in (TEXT, BINARY)
    ),
    # 5.5: control frames are short and whole.
    *(
        Case("5.5", f"opcode {opcode} of 126 bytes", frame(b"x" * 126, opcode), (), 1002)
        for opcode in (CLOSE, PING, PONG)
    ),
    *(
        Case("5.5", f"opcode {opcode} in fragments", frame(b"", opcode, fin=False), (), 1002)
        for opcode in (CLOSE, PING, PONG)
    ),
    # 5.2 again: TCP may cut anywhere.
    *(
        Case(
            "5.2",
            f"cut each {step} bytes",
            frame(ASK) + frame(b"p", PING) + frame(ASK[:3], fin=False) + frame(ASK[3:], CONT),
            (ERROR, Frame(PONG, b"p"), ERROR),
            None,
            step,
        )
        for step in range(1, 12)
    ),
]
