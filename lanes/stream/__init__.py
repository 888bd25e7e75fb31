"""The strict stream: one response from its first upstream event to its one terminal event."""
