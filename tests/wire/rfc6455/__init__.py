"""RFC 6455 by section, over raw bytes."""
