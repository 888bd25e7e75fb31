"""The bundled upstream: a scripted Responses backend for trying and testing. No model behind it.

- request.py: bytes -> a checked request, as strict as the hosted API
- items.py: the same for the items of its input (shapes.py); tools.py: for its tools
- checks.py, errors.py: what they refuse and how
- conversation.py: a checked request -> what was said so far
- script.py: what was said -> a plan of the answer (plan.py, words.py, values.py)
- telling.py: a plan -> the events of OpenAI's stream (parts.py, response.py)
- stage.py: the paced answer to one POST; server.py: the routes around it

Only the last two do I/O.
"""

from __future__ import annotations


def run(host: str, port: int, rate: float) -> None:
    """Serve until a signal; `rate` is words a second, 0 as fast as possible, port 0 any free one.

    Prints `ready http://HOST:PORT/v1`, and nothing else, to stdout once it listens.
    """
    # Here and not above, so that whoever only wants the command's help does not load a server.
    from gateway.rehearse.server import serve

    serve(host, port, rate)
