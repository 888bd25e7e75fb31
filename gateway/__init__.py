"""The network edges and the wiring: one WebSocket in front, one HTTP backend behind."""
