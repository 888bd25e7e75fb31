"""The stores of responses: a `store: true` response outlives its connection (protocol.md 3)."""
