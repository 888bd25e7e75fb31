"""The whole gateway over loopback: what goes in, what comes out, and how it ends."""
