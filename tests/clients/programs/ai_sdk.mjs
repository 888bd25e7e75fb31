// The AI SDK over HTTP, the only way it has: text, a tool loop, a stream, an object, lanes at once.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert";
import { z } from "zod";

const model = createOpenAI({ baseURL: process.argv[2], apiKey: "none" })("rehearse");
const look = tool({
  description: "Look at a place.",
  inputSchema: z.object({ place: z.string() }),
  execute: async ({ place }) => `sunny at ${place}`,
});
const loop = { model, prompt: "use the tool", tools: { look }, stopWhen: stepCountIs(3) };

assert.equal((await generateText({ model, prompt: "hello in 10 words" })).text.split(" ").length, 10);
const whole = await generateText(loop);
assert.match(whole.text, /sunny at/);
assert.equal(whole.steps.length, 2);
let text = "";
for await (const delta of streamText(loop).textStream) text += delta;
assert.match(text, /sunny at/);
const schema = z.object({ name: z.string(), age: z.number() });
assert.equal((await generateObject({ model, prompt: "Ana", schema })).object.name, "Ana");
const lanes = [...Array(8).keys()];
const all = await Promise.all(lanes.map((lane) => generateText({ model, prompt: `lane${lane}x in 8 words` })));
all.forEach((one, lane) => assert(one.text.includes(`lane${lane}x`)));
const stopped = new AbortController();
const stream = streamText({ model, prompt: "hello in 400 words", abortSignal: stopped.signal });
for await (const delta of stream.textStream) if (delta) stopped.abort();
assert.match((await generateText({ model, prompt: "next in 6 words" })).text, /next/);
console.log("all is well");
