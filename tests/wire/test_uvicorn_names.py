"""Every name of uvicorn's classes that the gateway uses without a promise that it stays (D3).

The tables below are complete: a test reads the gateway's source and compares. After an upgrade
of uvicorn a missing name fails here, with the reason why the gateway needs it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Final

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.client.closing import ClientClosing
from gateway.client.handshake import ClientHandshake
from gateway.client.http_protocol import ClientHttp
from gateway.client.http_reading import HttpReading
from gateway.client.keepalive import ClientKeepalive
from gateway.client.socket import ClientSocket
from gateway.process.listening import OrderlyServer
from gateway.process.server import GatewayServer

#: Methods of the HTTP class that `HttpReading` and `ClientHttp` override or call.
HTTP_METHODS: Final = {
    "_should_upgrade": "decides by all Connection and Upgrade headers, not by the last of each",
    "_unset_keepalive_if_required": "stops the timer of an idle connection",
    "connection_lost": "ends the count of the socket, and what refers back to it",
    "connection_made": "counts the socket and starts its deadline",
    "data_received": "gives the parser whole heads, and one request at a time",
    "on_body": "joins many chunks before the application gets them",
    "on_header": "takes no trailer for a header",
    "on_headers_complete": "judges the head before the application sees it",
    "on_message_begin": "refuses to begin a request while one is under way",
    "on_message_complete": "notes that the request is whole",
    "on_response_complete": "turns to the next request",
    "pause_writing": "pauses whoever writes past the application's send",
    "resume_writing": "resumes them",
    "shutdown": "closes a connection that waits for its client to close",
    "timeout_keep_alive_handler": "ends an idle connection",
}
#: Attributes of the HTTP class that `HttpReading` and `ClientHttp` read or set.
HTTP_ATTRIBUTES: Final = {
    "app_state": "handed to the WebSocket",
    "config": "handed to the WebSocket",
    "connections": "loses the connection that the WebSocket takes over",
    "cycle": "the request under way and its answer",
    "flow": "pauses reading while much waits behind a request",
    "headers": "judged, and handed to the WebSocket",
    "loop": "timers",
    "parser": "gets whole heads; forgotten at the end",
    "pipeline": "forgotten at the end",
    "scope": "takes the client's address and the extension that holds the protocol",
    "server_state": "handed to the WebSocket",
    "timeout_keep_alive": "seconds for an idle connection",
    "timeout_keep_alive_task": "its timer",
    "transport": "where answers go",
    "url": "judged, and handed to the WebSocket",
}
#: Attributes of uvicorn's request and its answer that are read or set.
CYCLE_ATTRIBUTES: Final = {
    "disconnected": "the application has nobody to answer",
    "keep_alive": "nothing can be read after this request",
    "message_event": "wakes the application",
    "response_complete": "the next request may begin",
    "response_started": "no refusal can be written any more",
    "transport": "replaced: closing waits until the client has read",
}
#: Names of uvicorn's flow control that are called or read.
FLOW_NAMES: Final = {
    "pause_reading": "too much waits behind a request",
    "read_paused": "the application does not take the body, so the client is not late",
    "resume_reading": "reads on to the client's end",
}
#: Methods of the WebSocket class that `Handshake` and `ClientSocket` override or call.
SOCKET_METHODS: Final = {
    "connection_made": "begins on the door's connection",
    "handle_connect": "leaves heads that the library refuses to our refusal",
    "send_500_response": "refuses in JSON",
    "connection_lost": "stops the stall timer; the base queues the disconnect",
    "data_received": "feeds the parser slice by slice",
    "handle_bytes": "takes what was unmasked on the way",
    "handle_close": "goes on reading, so that no reset overtakes our close frame",
    "handle_cont": "collects fragments in one buffer",
    "handle_text": "checks that text is UTF-8",
    "handle_parser_exception": "closes with the parser's code and lingers",
    "handle_ping": "keeps at most one pong for a peer that does not read",
    "keepalive_timeout": "spares a peer while bytes flow either way",
    "pause_writing": "pauses the upstreams at the high-water mark",
    "resume_writing": "resumes the upstreams below the low-water mark",
    "run_asgi": "puts the socket into the ASGI scope",
    "schedule_ping": "goes on pinging after a late pong",
    "send": "writes refusals itself, so that they arrive",
    "send_keepalive_ping": "notes what the peer had taken by then",
    "shutdown": "closes with 1012 and a reason",
    "stop_keepalive": "sends no ping after our close frame",
}
#: Attributes of the WebSocket class that `Handshake` and `ClientSocket` read or set.
SOCKET_ATTRIBUTES: Final = {
    "close_sent": "nothing follows our close frame",
    "close_timeout": "seconds to wait for the peer's close frame",
    "close_timer": "the base cancels it when the peer's close frame arrives",
    "curr_msg_data_type": "text must be UTF-8",
    "conn": "websockets' sans-IO connection, which makes pongs and close frames",
    "disconnected": "nothing is written once the transport is lost",
    "handshake_complete": "the base logs an error for a handshake that is not",
    "handshake_initiated": "what comes before it is complete waits",
    "loop": "timers and the clock",
    "pending_ping_payload": "cleared when a ping is given up",
    "ping_sent_at": "compared with the time of the last bytes",
    "pong_timer": "cleared when a ping is given up",
    "queue": "what the application receives",
    "scope": "takes the extension that holds the socket",
    "transport": "where finished frames go",
    "writable": "cleared while the transport is over the high-water mark",
}
#: Methods of the server class that the gateway's servers override or call.
SERVER_METHODS: Final = {
    "capture_signals": "forgets the signals instead of raising them again",
    "handle_exit": "ends at once on any second signal",
    "shutdown": "drains before uvicorn closes the sockets",
    "startup": "announces the address once clients are served",
}
#: Attributes of the server class that the gateway's servers read or set.
SERVER_ATTRIBUTES: Final = {
    "_captured_signals": "cleared, so that the process returns instead of dying of them",
    "force_exit": "a second signal came",
    "lifespan": "shut down even after a second signal, which uvicorn leaves out",
    "should_exit": "a first signal came, or the start failed",
}


def class_of(subject: type) -> ast.ClassDef:
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(subject))).body
    assert isinstance(definition, ast.ClassDef)
    return definition


def methods(subject: type) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in class_of(subject).body if isinstance(node, kinds)}


def attributes(subject: type, *, only_set: bool) -> set[str]:
    """The names after `self.` and `super().` in a class, or only those that it assigns."""
    names = set()
    for node in ast.walk(class_of(subject)):
        if isinstance(node, ast.Attribute) and (not only_set or isinstance(node.ctx, ast.Store)):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(owner, ast.Name) and owner.id in ("self", "super"):
                names.add(node.attr)
    return names


def set_by(subject: type) -> set[str]:
    return attributes(subject, only_set=True)


def used_of_base(base: type, *ours: type) -> tuple[set[str], set[str]]:
    """The methods and the attributes of `base` that our classes override, call, read or set."""
    used = set().union(*(methods(one) | attributes(one, only_set=False) for one in ours))
    return (used & methods(base)) - {"__init__"}, (used & set_by(base)) - methods(base)


BASES: Final = pytest.mark.parametrize(
    ("base", "ours", "called", "read"),
    [
        (HttpToolsProtocol, (HttpReading, ClientHttp), HTTP_METHODS, HTTP_ATTRIBUTES),
        (
            WebSocketsSansIOProtocol,
            (ClientHandshake, ClientClosing, ClientKeepalive, ClientSocket),
            SOCKET_METHODS,
            SOCKET_ATTRIBUTES,
        ),
        (uvicorn.Server, (OrderlyServer, GatewayServer), SERVER_METHODS, SERVER_ATTRIBUTES),
    ],
    ids=["HttpToolsProtocol", "WebSocketsSansIOProtocol", "Server"],
)


@BASES
def test_uvicorn_has_every_name(
    base: type, ours: tuple[type, ...], called: dict[str, str], read: dict[str, str]
) -> None:
    lost = {name: why for name, why in called.items() if name not in methods(base)}
    lost |= {name: why for name, why in read.items() if name not in set_by(base)}
    assert not lost, f"{base.__name__} of uvicorn {uvicorn.__version__} lacks {lost}"


@BASES
def test_the_tables_name_all_that_is_used(
    base: type, ours: tuple[type, ...], called: dict[str, str], read: dict[str, str]
) -> None:
    assert used_of_base(base, *ours) == (set(called), set(read))
    own = set().union(*(methods(one) | set_by(one) for one in ours))
    used = set().union(*(attributes(one, only_set=False) for one in ours))
    unknown = used - own - set(called) - set(read) - {"__init__"}
    assert not unknown, f"neither uvicorn nor the gateway defines {unknown}"


@pytest.mark.parametrize(
    ("base", "ours", "name"),
    [
        (base, ours, name)
        for base, ours in (
            (WebSocketsSansIOProtocol, ClientSocket),
            (WebSocketsSansIOProtocol, ClientClosing),
            (WebSocketsSansIOProtocol, ClientHandshake),
            (HttpToolsProtocol, HttpReading),
            (HttpToolsProtocol, ClientHttp),
        )
        for name in sorted(methods(ours) & methods(base) - {"__init__"})
    ],
)
def test_overridden_methods_take_the_same_arguments(base: type, ours: type, name: str) -> None:
    theirs = list(inspect.signature(getattr(base, name)).parameters)
    assert list(inspect.signature(getattr(ours, name)).parameters) == theirs


def test_the_request_and_its_flow_have_every_name() -> None:
    source = inspect.getsource(HttpReading) + inspect.getsource(ClientHttp)
    assert set(re.findall(r"\bcycle\.(\w+)", source)) == set(CYCLE_ATTRIBUTES)
    assert set(CYCLE_ATTRIBUTES) <= set_by(RequestResponseCycle)
    assert set(re.findall(r"\bflow\.(\w+)", source)) == set(FLOW_NAMES)
    assert set(FLOW_NAMES) <= methods(FlowControl) | set_by(FlowControl)


def test_the_door_hands_over_what_the_websocket_has() -> None:
    assert set(re.findall(r"\bsocket\.(\w+) =", inspect.getsource(ClientHttp.upgrade))) == {
        "client",
        "scheme",
    }
    assert {"client", "scheme"} <= set_by(WebSocketsSansIOProtocol)
