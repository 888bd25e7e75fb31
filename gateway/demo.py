"""`multilane demo`: the gateway in front of a real small model, with no outside service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from gateway.settings import Settings

#: Seconds to load the model; it takes two where the disk is warm.
_LOADING: Final = 120
_TRY: Final = """\
SmolLM2-135M is served at {url} (a small model: it talks, it does not know much).
Two lanes on one socket, with `pip install "openai[realtime]"`:

    from openai import OpenAI

    client = OpenAI(base_url="{url}", api_key="{key}")
    with client.responses.connect() as connection:
        for lane in ("a", "b"):
            text = f"Tell me a story about the letter {{lane}}."
            connection.response.create(stream_id=lane, input=text, max_output_tokens=60)
        running = {{"a", "b"}}
        while running:
            event = connection.recv()
            if event.type == "response.output_text.delta":
                print(event.stream_id, event.delta)
            elif event.type in ("response.completed", "response.incomplete"):
                running.discard(event.stream_id)
            elif event.type in ("response.failed", "error"):
                raise SystemExit(event.to_json())
"""


def how_to_try(settings: Settings) -> str:
    """Write the few lines of Python that talk to this gateway."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/v1"
    return _TRY.format(url=url, key="your key" if settings.api_keys else "none needed")


def run(settings: Settings) -> None:
    """Start llama.cpp in a child process and serve the gateway in front of it."""
    from gateway.children import ChildFailed, spawn
    from gateway.llama import MODEL, Missing, weights
    from gateway.server import serve

    try:
        weights()
    except Missing as missing:
        raise click.ClickException(str(missing)) from None
    child = spawn([sys.executable, "-m", "gateway.llama"], name="llama.cpp")
    try:
        url = child.ready("ready ", _LOADING)
        click.echo(how_to_try(settings))
        backend = {"upstream": url, "dialect": "llamacpp", "model": MODEL}
        serve(settings.model_copy(update=backend))
    except ChildFailed as failed:
        raise click.ClickException(str(failed)) from None
    finally:
        child.stop()
