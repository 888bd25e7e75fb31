"""The response store: what keeps store=true responses beyond their connection (protocol.md 3)."""
