"""Which dialect a backend speaks, found out by asking as little as possible."""
