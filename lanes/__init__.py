"""Order, lineage and runs: what lies between a client's frame and its stream. Opens no socket."""
