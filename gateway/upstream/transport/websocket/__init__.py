"""Backends that speak the gateway's own protocol, over pooled WebSockets that lanes share (D25).

A create passes `client`, `pool`, `connection` and `lane`. Bytes come back through `connection`,
`frame_splitter`, `lane_switch` (which reads `event_heads`) and `stream`; `lane` sees only events
that change something. `native_steering` holds the steers that the backend itself carries out.
"""
