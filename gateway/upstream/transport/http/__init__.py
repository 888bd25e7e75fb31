"""HTTP/1.1 to one backend: connections, answers, and the events in them."""
