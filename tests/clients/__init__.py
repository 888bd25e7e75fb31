"""Clients that others wrote, unmodified, against a gateway: over its socket and over HTTP."""
