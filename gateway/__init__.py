"""The gateway: clients' WebSockets in front, backends behind, and everything that connects them."""
