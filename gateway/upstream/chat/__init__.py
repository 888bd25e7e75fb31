"""The Responses API over a backend of Chat Completions (D22). Pure.

The way there: `request` translates the whole body, with `messages`, `content` and `tools`. The way
back: `stream` converts the chunks, with `chunks`, `tool_calls` and `stream_ends`. `omissions` logs
what Chat Completions cannot express.
"""
