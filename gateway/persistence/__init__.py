"""What outlives a socket: the Redis client and the stores on it."""
