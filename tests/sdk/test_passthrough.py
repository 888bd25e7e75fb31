"""The official SDK uses other endpoints at the gateway's base URL: they are passed on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from gateway.process.llama import MODEL
from tests.support.several_upstreams import several
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.exchange import Exchange


def client(url: str, **options: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=url, **{"api_key": "none", "max_retries": 0, **options})


def completion(text: str, **extra: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    return {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice], **extra}


def chunk(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: %b\n\n" % json.dumps(whole | {"choices": [choice]}).encode()


async def backend(exchange: Exchange) -> None:
    """Answer as a backend with many endpoints does."""
    if exchange.path == "/v1/embeddings":
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, 1.0]}]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        await exchange.reply(200, {"object": "list", "data": data, "model": "e", "usage": usage})
    elif exchange.path == "/v1/audio/transcriptions":
        await exchange.reply(200, {"text": f"{len(exchange.raw)} bytes"})
    elif exchange.path == "/v1/audio/speech":
        await exchange.reply(200, bytes(range(256)) * 1000, {"content-type": "audio/mpeg"})
    elif exchange.body.get("stream"):
        await exchange.send(chunk("Hel"), chunk("lo"), b"data: [DONE]\n\n")
        await exchange.end()
    else:
        await exchange.reply(200, completion("Hello", model=exchange.body["model"]))


async def test_chat_completions() -> None:
    async with standing(backend) as stand, client(stand.url) as sdk:
        ask: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        whole = await sdk.chat.completions.create(**ask)
        assert whole.choices[0].message.content == "Hello"
        stream = await sdk.chat.completions.create(**ask, stream=True)
        assert [one.choices[0].delta.content async for one in stream] == ["Hel", "lo"]
        assert [one.body["messages"] for one in stand.fake.exchanges] == [ask["messages"]] * 2


async def test_embeddings() -> None:
    async with standing(backend) as stand, client(stand.url) as sdk:
        made = await sdk.embeddings.create(model="e", input="hi", encoding_format="float")
        assert made.data[0].embedding == [0.5, 1.0]


async def test_a_transcription_goes_to_the_upstream_of_its_model() -> None:
    tables: dict[str, dict[str, Any]] = {
        "text": {"models": ["gpt-*"], "default": "gpt-x"},
        "sound": {"models": ["whisper-large"], "aliases": {"whisper": "whisper-large"}},
    }
    scripts: dict[str, Callable[[Exchange], Any]] = {"text": backend, "sound": backend}
    async with several(tables, scripts) as stand, client(stand.url) as sdk:
        sound = b"RIFF" + bytes(1_000_000)
        said = await sdk.audio.transcriptions.create(model="whisper", file=("a.wav", sound))
        [exchange] = stand.fakes["sound"].exchanges
        assert said.text == f"{len(exchange.raw)} bytes"
        assert sound in exchange.raw
        assert b"\r\n\r\nwhisper-large\r\n" in exchange.raw
        assert stand.asked() == {"text": 0, "sound": 1}


async def test_speech_is_streamed() -> None:
    async with standing(backend) as stand, client(stand.url) as sdk:
        ask = sdk.audio.speech.with_streaming_response.create(model="t", voice="alloy", input="hi")
        async with ask as answer:
            assert answer.headers["content-type"] == "audio/mpeg"
            assert b"".join([one async for one in answer.iter_bytes()]) == bytes(range(256)) * 1000


async def test_what_is_not_allowed_and_what_the_backend_refuses() -> None:
    async def script(exchange: Exchange) -> None:
        error = {"message": "no", "type": "invalid_request_error", "code": "odd", "param": "x"}
        await exchange.reply(400, {"error": error})

    async with standing(script) as stand, client(stand.url) as sdk:
        with pytest.raises(NotFoundError) as missing:
            await sdk.files.list()
        assert missing.value.code == "not_found"
        with pytest.raises(BadRequestError) as refused:
            await sdk.embeddings.create(model="e", input="hi")
        assert (refused.value.code, refused.value.param) == ("odd", "x")


@pytest.mark.real
async def test_the_real_model_chats(real_url: str) -> None:
    ask: Any = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say hello."}],
        "temperature": 0,
        "max_tokens": 12,
    }
    async with client(real_url) as sdk:
        whole = await sdk.chat.completions.create(**ask)
        stream = await sdk.chat.completions.create(**ask, stream=True)
        pieces = [
            one.choices[0].delta.content async for one in stream if one.choices and one.choices[0]
        ]
        assert len(pieces) > 2
        assert "".join(filter(None, pieces)) == whole.choices[0].message.content
        assert whole.usage is not None
        assert whole.usage.completion_tokens <= 12
