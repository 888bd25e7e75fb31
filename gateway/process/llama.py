"""A small real model: llama.cpp's own server with SmolLM2-135M, both from wheels.

Run it as `python -m gateway.process.llama --port N` (0 takes a free port) in its own process: the
model takes about half a GiB, and its threads end with the process. It prints
`ready http://127.0.0.1:PORT/v1` once it answers. It is meant for demos and tests: one thread, 16
slots of 1024 tokens each.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import threading
import time
from typing import Any, Final

from gateway.process.demo_model import weights

MODEL: Final = "smollm2-135m"
SLOTS: Final = 16
CONTEXT: Final = SLOTS * 1024
_ERRORS: Final = 1  # llama.cpp's verbosity; a higher one logs the timings of each request


def start(port: int) -> Any:
    """Load the model and listen; the server lives as long as the returned object."""
    path = weights()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.ui = False
    params.verbosity = _ERRORS
    return xllamacpp.Server(params)


def _healthy(port: int, patience: float = 60) -> None:
    """Wait until /health answers 200: the model is loaded."""
    end = time.monotonic() + patience
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            if time.monotonic() > end:
                raise
        finally:
            connection.close()
        time.sleep(0.05)


def stay(server: Any) -> None:
    """Print the address once the server answers, and keep it until the process ends."""
    address: str = server.listening_address
    _healthy(int(address.rsplit(":", 1)[1]))
    sys.stdout.write(f"ready {address}/v1\n")
    sys.stdout.flush()
    threading.Event().wait()


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(prog="python -m gateway.process.llama", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    port: int = parser.parse_args().port
    try:
        server = start(port)
    except RuntimeError as refused:
        sys.exit(f"llama.cpp: {refused}")
    stay(server)


if __name__ == "__main__":
    main()
