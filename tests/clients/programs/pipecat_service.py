"""Pipecat's services, interrupted at every point of an answer: the next is about its question."""

import asyncio
import sys

from loguru import logger
from pipecat.frames.frames import (
    ErrorFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.responses.llm import (
    OpenAIResponsesHttpLLMService,
    OpenAIResponsesLLMService,
)
from pipecat.workers.runner import WorkerRunner

WORDS = 20
#: Far less than the five seconds after which the service gives up a response that did not end.
SOON = 4
logger.remove()


class Listener(FrameProcessor):
    """Hears what the service says."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Queue()

    async def process_frame(self, frame, direction) -> None:
        await super().process_frame(frame, direction)
        self.heard.put_nowait(frame)
        await self.push_frame(frame, direction)

    async def until(self, *kinds):
        while True:
            frame = await asyncio.wait_for(self.heard.get(), 30)
            assert not isinstance(frame, ErrorFrame), frame
            if isinstance(frame, kinds):
                return frame


def asked(text):
    return LLMContextFrame(LLMContext([{"role": "user", "content": text}]))


async def interrupted(worker, listener, text, after) -> None:
    """Ask, and interrupt the answer after so many words: after 0 as soon as it is asked for."""
    await worker.queue_frames([asked(text)])
    await listener.until(LLMFullResponseStartFrame)
    for _ in range(after):
        await listener.until(LLMTextFrame)
    await worker.queue_frames([InterruptionFrame()])
    await listener.until(InterruptionFrame)


async def answered(worker, listener, text) -> str:
    await worker.queue_frames([asked(text)])
    await listener.until(LLMFullResponseStartFrame)
    said = ""
    while not isinstance(
        frame := await listener.until(LLMTextFrame, LLMFullResponseEndFrame),
        LLMFullResponseEndFrame,
    ):
        said += frame.text
    return said


async def use(service) -> None:
    listener = Listener()
    worker = PipelineWorker(
        Pipeline([service, listener]), params=PipelineParams(), idle_timeout_secs=None
    )
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    for after in range(WORDS + 1):
        await interrupted(worker, listener, f"first{after}topic in {WORDS} words", after)
        async with asyncio.timeout(SOON):
            said = await answered(worker, listener, f"next{after}topic in 6 words")
        assert f"next{after}topic" in said, (after, said)
    await worker.cancel()
    await asyncio.wait([running], timeout=10)


async def main() -> None:
    base_url = sys.argv[1]
    socket = base_url.replace("http", "ws", 1) + "/responses"
    for kind, where in (
        (OpenAIResponsesLLMService, {"ws_url": socket}),
        (OpenAIResponsesHttpLLMService, {}),
    ):
        settings = kind.Settings(model="rehearse")
        await use(kind(api_key="none", base_url=base_url, settings=settings, **where))


asyncio.run(main())
print("all is well")
