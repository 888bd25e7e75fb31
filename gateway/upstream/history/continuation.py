"""What the gateway adds to an input that ends with the assistant's words (D21, D22)."""

from __future__ import annotations

from typing import Final

#: Some backends refuse an assistant message at the end, others continue in the middle of it.
CONTINUE_TEXT: Final = "Continue."
#: The same as an input item of the Responses API.
CONTINUE_MESSAGE: Final = {"type": "message", "role": "user", "content": CONTINUE_TEXT}
#: What the user says where the assistant or nobody spoke first (D39).
BEGIN_TEXT: Final = "Begin."
