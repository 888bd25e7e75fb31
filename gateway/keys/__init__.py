"""Keys with names: the file that lists them, and which of them are in force."""
