"""LangChain's OpenAI model over HTTP: turns, a chained turn, a tool, an object and a stream."""

import asyncio
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"sunny at {place}"


async def use(model) -> None:
    first = await model.ainvoke("My name is Ana")
    turns = [HumanMessage("My name is Ana"), first, HumanMessage("Who am I?")]
    assert "My name is Ana" in (await model.ainvoke(turns)).text
    turns = [HumanMessage("use the tool")]
    turns.append(await model.bind_tools([look]).ainvoke(turns))
    [call] = turns[-1].tool_calls
    turns.append(ToolMessage(look.invoke(call["args"]), tool_call_id=call["id"]))
    assert "sunny at" in (await model.ainvoke(turns)).text
    person = await model.with_structured_output(Person).ainvoke("Ana")
    assert person == Person(name="Ana", age=2)
    text = "".join([chunk.text async for chunk in model.astream("hello in 20 words")])
    assert len(text.split()) == 20
    lanes = await asyncio.gather(*(model.ainvoke(f"lane{n}x in 8 words") for n in range(8)))
    for n, lane in enumerate(lanes):
        assert f"lane{n}x" in lane.text


async def main() -> None:
    for chained in (False, True):
        await use(
            ChatOpenAI(
                model="rehearse",
                base_url=sys.argv[1],
                api_key="none",
                use_responses_api=True,
                output_version="responses/v1",
                use_previous_response_id=chained,
            )
        )


asyncio.run(main())
print("all is well")
