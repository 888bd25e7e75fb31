"""What outlives a socket: the client of the engine and the stores on it."""
