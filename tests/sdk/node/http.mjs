// Drives the official Node SDK over HTTP: whole, streamed, in the background, cancelled, listed.
// Writes what each step got as one line of JSON; the test judges it.
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'none', maxRetries: 0 });
const model = 'rehearse';

function tell(step, got) {
  process.stdout.write(JSON.stringify({ step, got }) + '\n');
}

async function all(events) {
  const seen = [];
  for await (const event of events) seen.push(event);
  return seen;
}

async function refused(step, promise) {
  try {
    tell(step, await promise);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    tell(step, { status: error.status, code: error.code, param: error.param, type: error.type });
  }
}

// Whole, and continued as a stream.
const first = await client.responses.create({ model, input: 'My name is Ana' });
tell('whole', first);
tell('text', first.output_text);
tell('retrieved', await client.responses.retrieve(first.id));
tell('stream', await all(await client.responses.create({ model, input: 'Who am I?', previous_response_id: first.id, stream: true })));
const helper = client.responses.stream({ model, input: 'hi' });
tell('helper', { events: await all(helper), text: (await helper.finalResponse()).output_text });

// A tool, called and answered.
const tools = [{ type: 'function', name: 'look', strict: false, parameters: { type: 'object', properties: { place: { type: 'string' } } } }];
const asked = await client.responses.create({ model, input: 'use the tool', tools });
const call = asked.output.find((item) => item.type === 'function_call');
const output = [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }];
tell('tool', await client.responses.create({ model, tools, input: output, previous_response_id: asked.id }));

// In the background: followed, followed from an event on, looked at, and another cancelled.
const queued = await client.responses.create({ model, input: 'hi', background: true });
tell('queued', queued);
const followed = await all(await client.responses.retrieve(queued.id, { stream: true }));
tell('followed', followed);
tell('rest', await all(await client.responses.retrieve(queued.id, { stream: true, starting_after: followed.length - 3 })));
tell('again', await all(client.responses.stream({ response_id: queued.id })));
tell('items', await all(client.responses.inputItems.list(queued.id, { order: 'asc', limit: 1 })));
await refused('over', client.responses.cancel(queued.id));
const long = await client.responses.create({ model, input: 'word '.repeat(500), background: true });
tell('cancelled', await client.responses.cancel(long.id));
tell('cancelled items', await all(client.responses.inputItems.list(long.id)));
await client.responses.delete(queued.id);
await refused('deleted', client.responses.retrieve(queued.id));

// Two that the client leaves in the middle do not disturb the next.
const left = await client.responses.create({ model, input: 'word '.repeat(500), stream: true });
for await (const event of left) if (event.type === 'response.output_text.delta') break;
left.controller.abort();

// A conversation, page by page.
const conversation = await client.conversations.create({ metadata: { a: 'b' }, items: [{ type: 'message', role: 'user', content: 'one' }] });
tell('conversation', conversation);
tell('updated', await client.conversations.update(conversation.id, { metadata: { c: 'd' } }));
await client.conversations.items.create(conversation.id, { items: [{ type: 'message', role: 'user', content: 'two' }] });
tell('bound', await client.responses.create({ model, input: 'three', conversation: conversation.id }));
const items = await all(client.conversations.items.list(conversation.id, { order: 'asc', limit: 2 }));
tell('turns', items);
tell('item', await client.conversations.items.retrieve(items[0].id, { conversation_id: conversation.id }));
await client.conversations.items.delete(items[0].id, { conversation_id: conversation.id });
tell('fewer', await all(client.conversations.items.list(conversation.id)));
await client.conversations.delete(conversation.id);
await refused('gone', client.conversations.retrieve(conversation.id));

// Errors, before the first event.
await refused('no parent', client.responses.create({ model, input: 'hi', previous_response_id: 'resp_gone', stream: true }));
await refused('no input', client.responses.create({ model, input: 7 }));
await refused('no tokens', client.responses.inputTokens.count({ model, input: 'hi' }));
tell('models', await all(client.models.list()));
