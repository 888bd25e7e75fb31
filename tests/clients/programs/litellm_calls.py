"""LiteLLM over HTTP: a create, a continued one, a stream, a chat, and the stored response."""

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch its list of prices

import litellm

WHERE = {"api_base": sys.argv[1], "api_key": "none"}
OURS = {"model": "openai/rehearse", **WHERE}

first = litellm.responses(input="My name is Ana", **OURS)
second = litellm.responses(input="Who am I?", previous_response_id=first.id, **OURS)
assert "My name is Ana" in second.output[0].content[0].text
events = list(litellm.responses(input="hello in 10 words", stream=True, **OURS))
assert events[-1].type == "response.completed"
deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
assert len("".join(deltas).split()) == 10, deltas
chat = litellm.completion(
    model="openai/responses/rehearse",
    messages=[{"role": "user", "content": "5 in 5 words"}],
    **WHERE,
)
assert len(chat.choices[0].message.content.split()) == 5
stored = litellm.get_responses(response_id=second.id, custom_llm_provider="openai", **WHERE)
assert stored.status == "completed"
gone = litellm.delete_responses(response_id=second.id, custom_llm_provider="openai", **WHERE)
assert gone.deleted
print("all is well")
