"""The client side: events from bytes, faults from answers, and HTTP over real sockets."""
