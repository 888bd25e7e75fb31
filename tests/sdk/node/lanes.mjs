// Drives the official Node SDK: plan, two forks at once, a join, a tool, an error.
// Writes each event it was given as one line of JSON; the test judges them.
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';

const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'none' });
const socket = new ResponsesWS(client);
const waiting = new Map();
let refused;

function tell(event) {
  process.stdout.write(JSON.stringify(event) + '\n');
}

socket.on('event', (event) => {
  tell(event);
  if (['response.completed', 'response.incomplete', 'response.failed'].includes(event.type)) {
    waiting.get(event.stream_id)?.(event.response);
  }
});

// An `error` event reaches the SDK's users only here.
socket.on('error', (error) => {
  if (!error.error || !refused) throw error;
  refused(error.error);
});

function create(stream_id, input, extra = {}) {
  const ended = new Promise((resolve) => waiting.set(stream_id, resolve));
  socket.send({ type: 'response.create', model: 'rehearse', store: false, stream_id, input, ...extra });
  return ended;
}

const plan = await create('planner', 'Plan the launch');
const [research, critic] = await Promise.all([
  create('research', 'Research the market', { previous_response_id: plan.id }),
  create('critic', 'Criticize the plan', { previous_response_id: plan.id }),
]);
await create(undefined, 'Join the findings', { previous_response_id: research.id });

const tools = [
  {
    type: 'function',
    name: 'look',
    strict: false,
    parameters: { type: 'object', properties: { place: { type: 'string' } } },
  },
];
const asked = await create('tool', 'use the tool', { tools });
const call = asked.output.find((item) => item.type === 'function_call');
await create('tool', [{ type: 'function_call_output', call_id: call.call_id, output: 'sunny' }], {
  tools,
  previous_response_id: asked.id,
});

const refusal = new Promise((resolve) => (refused = resolve));
create('critic', 'go on', { previous_response_id: 'resp_gone' });
tell(await refusal);

socket.close();
