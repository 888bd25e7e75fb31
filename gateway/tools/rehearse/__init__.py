"""The bundled upstream: a scripted Responses backend for trying and testing. No model behind it.

- request.py: bytes -> a checked request, as strict as the hosted API (items.py, checks.py)
- conversation.py: a checked request -> what was said so far
- script.py: what was said -> a plan of the answer (values.py)
- telling.py: a plan -> the events of OpenAI's stream (response.py)
- server.py: the paced answer to one POST, and the routes around it; the only one that does I/O
"""
