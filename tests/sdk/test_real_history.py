"""A real llama.cpp judges the judge of its dialect, and takes the history of every backend."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.upstream.dialect import find
from tests.dialects.test_continued import PARENTS, history
from tests.dialects.test_strict import PLAIN, ROWS
from tests.dialects.test_tapes import ENDS, reads
from tests.support.dialect_reading import profile, read
from tests.support.hang_guard import HANG

pytestmark = pytest.mark.real

#: Where our judge of it is stricter than this build with this model, and why.
STRICTER = {
    "conversation": "ignored, and the history is lost",
    "without a type": "guessed for a user's message",
    "without content": "taken for an empty turn",
    "web_search": "ignored by this build, refused by older ones",
    "custom": "ignored by this build, refused by older ones",
    "content[0]": "the rest is lost",
    "prefill": "refused where the model thinks",
    "output_text": "a string is taken by this build, refused by older ones",
    "JSON object": "refused where the template reads the arguments",
}


def ask(url: str, body: bytes) -> int:
    """The status of the answer."""
    asked = http.client.HTTPConnection(urlsplit(url).netloc, timeout=HANG)
    try:
        asked.request("POST", "/v1/responses", body, {"content-type": "application/json"})
        answer = asked.getresponse()
        answer.read()
        return answer.status
    finally:
        asked.close()


def test_it_refuses_what_its_judge_refuses(llama_url: str) -> None:
    for dialects, fragment, word in ROWS:
        if "llamacpp" in dialects and word not in STRICTER:
            body: dict[str, Any] = {**PLAIN, **fragment, "max_output_tokens": 1}
            assert ask(llama_url, json.dumps(body).encode()) >= 400, fragment


def test_it_takes_the_history_of_every_backend(llama_url: str) -> None:
    asked = {"model": "m", "input": [], "max_output_tokens": 1}
    for name in ENDS:
        run = read(reads(name), profile(name)).run
        if run.state in PARENTS:
            request = find("llamacpp").request(asked, history(run))
            assert ask(llama_url, request) == 200, name
