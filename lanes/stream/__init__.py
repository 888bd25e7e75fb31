"""The strict stream: one response from its first upstream event to its one terminal event.

A backend's events enter at `Run.receive` (run.py), one at a time, and leave through the run's
`emit`, opened, filled, closed and numbered as protocol.md 4 wants them. A flat text delta goes no
further than that method. The files, in reading order:

- run_states, run: a response's states and the machine on them; endings: how a response ended.
- item_states: the rules of ordering items, in words and as tables; output and held_events: the
  machines on them; item_index: which item an event is about.
- items, parts: one item and its text, with the events that each goes through.
- upstream_events: what an event means, however it is written; passthrough: events that pass as they
  came; backend_errors: errors in the stream.
- snapshots: the response object; schema, item_schema, response_schema: the official types.
- profile: how far a backend's stream can be trusted.
"""
