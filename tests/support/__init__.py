"""The stands, fakes and judges that several folders of tests share (tests/README.md).

Other ends of the wire:

- upstream.py: a scripted backend on a loopback socket (`ScriptedUpstream`); cases, wire, sdk
- exchange.py: one request to it, and the means to write its answer (`Exchange`)
- events.py: server-sent events as a backend writes them, one function for each kind
- raw_http_server.py: an HTTP server of which the test writes every byte (`RawHttpServer`); upstream
- websocket_upstream.py: a WebSocket backend, frame by frame (`SocketUpstream`); upstream
- client.py: a WebSocket client that keeps and judges every frame (`Client`); cases, wire
- raw_client.py: a WebSocket client by hand, which reads only when asked to (`Raw`); wire
- redis_engine.py: a Valkey or Redis of the test's own (`Engine`); stores, deploy

Gateways between them:

- gateway.py: the gateway in this process on a free port (`running`, `serving`)
- gateway_stand.py: with a scripted upstream and one judged client (`Stand`); cases
- several_upstreams.py: the same with several upstreams (`Several`); cases
- asked_gateway.py: a gateway that detects a scripted backend's dialect (`Auto`); cases, upstream
- wire_stand.py: with the server itself at hand, and no task left at the end (`WireStand`); wire
- serve_process.py: `multilane serve` as a process (`Process`); wire, stores
- rehearsal.py: a running rehearsal backend (`Rehearsal`); rehearse
- error_log.py: a block in which nothing may be logged as an error
- calling.py, steered.py: responses that call a tool, and responses to steer; cases

Judges and material:

- judge.py, judge_response.py, judge_item.py, judge_steer.py: the SDK's types, the order of events
- judged_sdk.py: the same judge between the wire and an official SDK; sdk
- dialect_reading.py: a backend's body at any chunking into a run; dialects
- tape_mutations.py: tapes changed into those of a relative; dialects
- steer_stores.py, stored_chains.py, clerk_log.py: stores with owners, chains, verdicts; stores
"""
