"""What the model is asked for a summary with, and how that summary is introduced later."""

from __future__ import annotations

from typing import Final

#: The last user message of a request for a summary.
SUMMARY_PROMPT: Final = """\
Write a handover summary of this conversation. It will replace the conversation: whoever continues \
it sees your summary, the latest messages of the user and nothing else.

Write down, as far as the conversation has it:
- what the user wants, with every requirement, limit and preference that still holds;
- what was decided, and why;
- what was done and what came of it, with the results of tools that still matter;
- names, numbers, paths, identifiers, addresses, code and error messages, exactly as they are;
- what is not done yet, and what the next step is.

Leave out greetings and what was overtaken by later events. Do not continue the conversation, do \
not call tools and do not answer open questions. Reply with the summary alone."""

#: What is added to that where a threshold is set.
SUMMARY_LENGTH: Final = "Use at most {words} words."

#: What stands in front of a summary where it takes the place of a conversation.
SUMMARY_INTRODUCTION: Final = (
    "The earlier part of this conversation was replaced by the following summary of it. Build on "
    "what was done already, and do not repeat it.\n\n"
)

#: What stands for an image or a file that is not kept.
LEFT_OUT: Final = "[An attachment was left out here.]"

#: What stands for the middle of a text that is not kept.
SHORTENED: Final = "\n[...]\n"
