"""Backends that speak this very protocol, over pooled WebSockets."""
