"""Chat Completions behind the Responses API: requests one way, streams the other (D22). Pure."""
