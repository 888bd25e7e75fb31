"""One fuzzer under atheris, which looks for inputs that reach new branches."""

from __future__ import annotations

import tempfile
from pathlib import Path


def run(name: str, seconds: float) -> None:
    """Run a fuzzer for a time, then exit; what fails is written to its corpus.

    Call it in a process of its own that has not imported the code yet.
    """
    import atheris

    with atheris.instrument_imports(include=["gateway", "lanes", "steering"]):
        from tests.fuzz.fuzzers import FUZZERS
    (fuzzer,) = (one for one in FUZZERS if one.name == name)
    fuzzer.corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(fuzzer.seeds):
            Path(folder, str(number)).write_bytes(data)
        ways = [f"-max_total_time={int(seconds)}", f"-artifact_prefix={fuzzer.corpus}/"]
        atheris.Setup([name, *ways, "-max_len=8192", folder, str(fuzzer.corpus)], fuzzer.run)
        atheris.Fuzz()
