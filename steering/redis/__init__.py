"""How any Redis or Valkey is asked: scripts, deadlines, one guard and the lease."""
