"""The connections to a backend: where it is, how a request reaches it, how the answer comes back.

`route` takes the base URL apart, `dialing` opens one connection, directly or through a proxy.
`request_head` writes the head of a request. `http` and `websocket` each hold a client, its pool of
connections and the stream of one response. `faults` turns every failure into an UpstreamFault, and
`retries` tries again while nothing was relayed.
"""
