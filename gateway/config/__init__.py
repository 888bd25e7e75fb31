"""Settings: their types and defaults, where values come from, and messages for bad ones."""
