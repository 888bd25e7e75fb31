"""Conversations that the gateway keeps: their items, and the responses bound to them."""
