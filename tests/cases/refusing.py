"""A backend that refuses requests by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.dialects.chatting import body, chunk, counted, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dialects.strict import templates
    from tests.support.exchange import Exchange

    #: Says why a request is refused, as (status, body); None if it is not.
    Rule = Callable[[dict[str, Any]], tuple[int, Any] | None]

ANSWER = [body([*text("Hel", "lo"), chunk("stop"), counted()])]


class Strict:
    """A backend that refuses by its rules, and answers what is left.

    `tell` writes a refusal, the status and the error, otherwise than by its status.
    """

    def __init__(
        self,
        *rules: Rule,
        answer: list[bytes] | None = None,
        tell: Callable[[Any], bytes] | None = None,
    ) -> None:
        self.rules = rules
        self.answer = ANSWER if answer is None else answer
        self.tell = tell
        self.refused = 0
        self.taken: list[dict[str, Any]] = []

    async def __call__(self, exchange: Exchange) -> None:
        for rule in self.rules:
            refusal = rule(exchange.body)
            if refusal is not None:
                self.refused += 1
                if self.tell is None:
                    await exchange.reply(*refusal)
                else:
                    await exchange.send(self.tell(refusal[1]))
                    await exchange.end()
                return
        self.taken.append(exchange.body)
        await exchange.send(*self.answer)
        await exchange.end()


def unsupported(key: str, instead: str | None = None) -> Rule:
    """As OpenAI does."""

    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        told = f"Unsupported parameter: '{key}' is not supported with this model."
        told += f" Use '{instead}' instead." if instead else ""
        error = {"message": told, "param": key, "code": "unsupported_parameter"}
        return (400, {"error": error}) if key in request else None

    return rule


def template(judge: templates.Template, status: int = 400) -> Rule:
    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        why = judge(request["messages"])
        return None if why is None else (status, {"error": {"message": why}})

    return rule
