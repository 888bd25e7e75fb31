"""The operating-system process: the server, its listening sockets and its children."""
