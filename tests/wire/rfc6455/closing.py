"""Sections 5.5.1 to 8.1: closing, pings and pongs, text that is UTF-8."""

from __future__ import annotations

from tests.support.raw_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, Frame, frame
from tests.wire.rfc6455.case import ASK, ERROR, Case, closing

CLOSING = [
    # 5.5.1 and 7.4: the close frame is answered with its own code.
    *(
        Case("7.4", f"close code {code}", closing(code), (), code)
        for code in (
            1000,
            1001,
            1002,
            1003,
            1007,
            1008,
            1009,
            1010,
            1011,
            1012,
            1013,
            1014,
            3000,
            3999,
            4000,
            4999,
        )
    ),
    *(
        Case("7.4", f"close code {code}, which is none", closing(code), (), 1002)
        for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    ),
    Case("5.5.1", "a close without a code", frame(b"", CLOSE), (), 1005),
    Case("5.5.1", "a close of one byte", frame(b"\x03", CLOSE), (), 1002),
    Case("5.5.1", "a close with the longest reason", closing(1000, b"r" * 123), (), 1000),
    Case("5.5.1", "a reason beyond ASCII", closing(1000, "渐".encode()), (), 1000),
    Case(
        "5.5.1", "frames after the close", closing(1000) + frame(ASK) + frame(b"p", PING), (), 1000
    ),
    *(
        Case(
            "5.5.1",
            f"a close with {code} within a fragmented message, opcode {kind}",
            frame(b"{", kind, fin=False) + closing(code),
            (),
            code,
        )
        for code in (1000, 1001, 4000)
        for kind in (TEXT, BINARY)
    ),
    Case(
        "5.5.1",
        "a close without a code within a message",
        frame(b"{", fin=False) + frame(b"", CLOSE),
        (),
        1005,
    ),
    Case(
        "5.5.1",
        "a ping and a close within a message",
        frame(b"{", fin=False) + frame(b"p", PING) + closing(1000),
        (Frame(PONG, b"p"),),
        1000,
    ),
    Case("5.5.1", "a bad close within a message", frame(b"{", fin=False) + closing(1005), (), 1002),
    # 5.5.2 and 5.5.3: pings are answered with their payload, pongs not at all.
    *(
        Case(
            "5.5.2",
            f"a ping of {size} bytes",
            frame(b"p" * size, PING),
            (Frame(PONG, b"p" * size),),
        )
        for size in (0, 1, 124, 125)
    ),
    Case("5.5.2", "a ping that is no UTF-8", frame(b"\xff\xfe", PING), (Frame(PONG, b"\xff\xfe"),)),
    Case(
        "5.5.2",
        "ten pings",
        b"".join(frame(b"%d" % n, PING) for n in range(10)),
        tuple(Frame(PONG, b"%d" % n) for n in range(10)),
    ),
    *(Case("5.5.3", f"a pong of {size} bytes", frame(b"p" * size, PONG)) for size in (0, 125)),
    # 8.1: text is UTF-8.
    *(
        Case("8.1", f"text {data!r}", frame(b'"' + data + b'"'), (), 1007)
        for data in (
            b"\xff",
            b"\xfe",
            b"\x80",
            b"\xc0\xaf",
            b"\xe0\x80\xaf",
            b"\xed\xa0\x80",
            b"\xed\xbf\xbf",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\xe6\xb8",
            b"\xf0\x9f\x99",
            b"\xc3",
        )
    ),
    *(
        Case("8.1", f"text {data!r}, which is valid", frame(b'"' + data + b'"'), (ERROR,))
        for data in (
            b"\xc2\x80",
            b"\xe6\xb8\x90",
            b"\xf0\x9f\x99\x82",
            b"\xef\xbf\xbf",
            b"\xf4\x8f\xbf\xbf",
            b"\x00",
        )
    ),
    *(
        Case("8.1", f"a bad reason {data!r}", closing(1000, data), (), 1007)
        for data in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe6\xb8")
    ),
    Case("8.1", "text cut at its end", frame(b"\xe6\xb8"), (), 1007),
    Case(
        "8.1",
        "a character over two fragments",
        frame(b'"\xe6', fin=False) + frame(b'\xb8\x90"', CONT),
        (ERROR,),
    ),
    Case("8.1", "a bad first fragment, and no second", frame(b"\xff", fin=False), (), 1007),
    Case(
        "8.1",
        "a bad second fragment, and no third",
        frame(b'"\xe6', fin=False) + frame(b"x", CONT, fin=False),
        (),
        1007,
    ),
    Case(
        "8.1",
        "a character cut by the last fragment",
        frame(b'"', fin=False) + frame(b"\xe6\xb8", CONT),
        (),
        1007,
    ),
    *(
        Case("8.1", f"binary {data!r}", frame(data, BINARY), (ERROR,))
        for data in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe6\xb8")
    ),
    Case(
        "8.1",
        "binary in bad fragments",
        frame(b"\xff", BINARY, fin=False) + frame(b"\xfe", CONT),
        (ERROR,),
    ),
    *(
        Case("5.5.1", f"a close cut each {step} bytes", closing(1000, b"bye"), (), 1000, step)
        for step in range(1, 6)
    ),
]
