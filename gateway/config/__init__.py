"""Settings: what can be set, where values come from, and what is said of a bad one."""
