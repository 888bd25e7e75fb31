"""How a backend is reached: routes, connections, HTTP and WebSocket."""
