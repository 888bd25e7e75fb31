"""One client's WebSocket: the socket, its frames, its writer and who may connect."""
