"""Where submissions are written down, so that their outcome outlives a socket and a process."""
