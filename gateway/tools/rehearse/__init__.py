"""The bundled upstream: a scripted Responses backend for trials and tests, without a model.

- request.py: bytes -> a checked request, as strict as the hosted API (items.py, refusals.py)
- conversation.py: a checked request -> the conversation so far
- script.py: a conversation -> a plan of the answer (calls.py, schema_values.py)
- events.py: a plan -> the events of OpenAI's stream (response.py)
- server.py: the paced answer to one POST, and the routes around it; the only file that does I/O
"""
