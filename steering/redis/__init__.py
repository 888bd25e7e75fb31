"""The one way to call a Redis or Valkey: scripts, deadline, guard and lease."""
