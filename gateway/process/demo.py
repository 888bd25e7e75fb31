"""`multilane demo`: the gateway in front of a small real model, without any outside service."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from contextlib import ExitStack

    from gateway.config.settings import Settings
    from gateway.process.listening import Listener

#: Seconds to load the model; two suffice from a warm disk.
_LOADING: Final = 120
_TRY: Final = """\
SmolLM2-135M is served at {url} (a small model: it talks, it does not know much).
Two lanes on one socket, one of them steered, with `pip install "openai[realtime]"`:

    from openai import OpenAI

    client = OpenAI(base_url="{url}", api_key="{key}")
    with client.responses.connect() as connection:
        for lane in ("a", "b"):
            text = f"Tell me a story about the letter {{lane}}."
            connection.response.create(stream_id=lane, input=text, max_output_tokens=60)
        running, words = {{"a": "", "b": ""}}, 0
        while running:
            event = connection.recv()
            if event.type == "response.created":
                running[event.stream_id] = event.response.id
            elif event.type == "response.output_text.delta":
                print(event.stream_id, event.delta)
                words += event.stream_id == "a"
                if words == 15:  # in mid-sentence
                    words += 1
                    text = "Stop. Tell me about the sea instead."
                    connection.response.steer(previous_response_id=running["a"], input=text)
            elif event.type in ("response.completed", "response.incomplete"):
                details = event.response.incomplete_details
                if details and details.reason == "steered":
                    print(event.stream_id, "[steered]")  # its successor follows
                else:
                    running.pop(event.stream_id)
            elif event.type in ("response.failed", "response.steer.failed", "error"):
                raise SystemExit(event.to_json())
"""


def how_to_try(host: str, port: int, *, keyed: bool, secure: bool = False) -> str:
    """Return a short Python program that talks to this gateway.

    Args:
        host: Address that the gateway listens on.
        port: Port that it listens on.
        keyed: Whether it asks for a key.
        secure: Whether it speaks TLS.
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    url = f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/v1"
    return _TRY.format(url=url, key="your key" if keyed else "none needed")


def run(settings: Settings) -> None:
    """Serve the gateway in front of llama.cpp in a child process."""
    from gateway.process.server import serve

    _need_model()
    announce = partial(_announce, bool(settings.api_keys), settings.tls_cert is not None)
    bare = settings.model_copy(update={"upstream": None, "upstreams": ()})
    serve(bare, _llama, announce)


def _need_model() -> None:
    """Fetch the model unless it is there."""
    from gateway.process.demo_model import ModelNotInstalled, fetch, weights

    try:
        weights()
    except ModelNotInstalled:
        click.echo("Looking for a small model, 130 MB; it is kept.", err=True)
        try:
            fetch()
        except ModelNotInstalled as missing:
            raise click.ClickException(str(missing)) from None


def _llama(stack: ExitStack) -> dict[str, str]:
    from gateway.process.children import spawn
    from gateway.process.llama import MODEL

    child = spawn([sys.executable, "-m", "gateway.process.llama"], name="llama.cpp")
    stack.callback(child.stop)
    return {
        "upstream": child.ready("ready ", _LOADING),
        "dialect": "llamacpp",
        "model": MODEL,
    }


def _announce(keyed: bool, secure: bool, listener: Listener) -> None:  # noqa: FBT001  (partial's)
    click.echo(how_to_try(listener.host, listener.port, keyed=keyed, secure=secure))
