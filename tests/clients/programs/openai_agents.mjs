// OpenAI's agents for Node: a tool loop, a streamed run and a continued conversation.
import {
  Agent,
  MemorySession,
  OpenAIConversationsSession,
  OpenAIResponsesCompactionSession,
  OpenAIResponsesModel,
  OpenAIResponsesWSModel,
  run,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import assert from "node:assert";
import OpenAI from "openai";
import { z } from "zod";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none" });
const look = tool({
  name: "look",
  description: "Look at a place.",
  parameters: z.object({ place: z.string() }),
  execute: async ({ place }) => `sunny at ${place}`,
});
for (const Model of [OpenAIResponsesModel, OpenAIResponsesWSModel]) {
  const model = new Model(client, "rehearse");
  const agent = new Agent({ name: "guide", instructions: "Be a guide.", tools: [look], model });
  const whole = await run(agent, "use the tool");
  assert.match(whole.finalOutput, /sunny at/);
  const streamed = await run(agent, "use the tool", { stream: true });
  let deltas = 0;
  for await (const event of streamed) deltas += event.data?.type === "output_text_delta";
  assert.match(streamed.finalOutput, /sunny at/);
  assert(deltas > 5, `${deltas} deltas`);
  const first = await run(agent, "My name is Ana");
  const second = await run(agent, "Who am I?", { previousResponseId: first.lastResponseId });
  assert.match(second.finalOutput, /My name is Ana/);
  await model.close?.();
}
// Sessions: one that the gateway keeps, and one whose history the gateway makes short.
const model = new OpenAIResponsesModel(client, "gpt-rehearse");
const guide = new Agent({ name: "guide", instructions: "Be a guide.", tools: [look], model });
const kept = new OpenAIConversationsSession({ client });
await run(guide, "My name is Ana", { session: kept });
assert.match((await run(guide, "Who am I?", { session: kept })).finalOutput, /My name is Ana/);
for (const compactionMode of ["input", "previous_response_id", "auto"]) {
  const underlyingSession = new MemorySession();
  const session = new OpenAIResponsesCompactionSession({
    client,
    underlyingSession,
    compactionMode,
    model: "gpt-rehearse",
    shouldTriggerCompaction: ({ sessionItems }) => sessionItems.length > 3,
  });
  for (const asked of ["My name is Ana", "use the tool", "go on"]) await run(guide, asked, { session });
  const kinds = (await underlyingSession.getItems()).map((item) => item.type);
  assert(kinds.includes("compaction"), `${compactionMode}: ${kinds}`);
  assert.match((await run(guide, "Who am I?", { session })).finalOutput, /My name is Ana/);
}
console.log("all is well");
