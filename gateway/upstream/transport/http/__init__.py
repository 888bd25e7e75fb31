"""HTTP/1.1 to one backend: connections, answers, and the events in them (D2).

Bytes pass `connection`, `reply`, `stream` and `sse` in that order, all within one network read;
`client` and `pool` decide which connection carries a request.
"""
