"""What of the histories one upstream turned out unable to read, left out from then on (D23). Pure.

A history keeps what came, and a key that was changed opens nothing that was sealed before. So the
same part would be refused with every create of its conversation.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.history.refused_items import RefusedPart, may_hold, without_part
from lanes.codec import decode, encode
from lanes.history.makers import MADE_BY, own_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Item = dict[str, Any]

#: Parts that are remembered of one upstream, 16 bytes each; the oldest are forgotten first.
_MAX_KNOWN: Final = 4096


class UnreadableParts:
    """Remembers parts of items by a hash, for each model: another may be able to read them.

    What the upstream makes later is not among them, so its new seals go back to it.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def learn(self, model: str, items: Sequence[bytes], part: RefusedPart) -> None:
        """Remember all parts of a kind in a history that the upstream accepted without them.

        Args:
            model: What the model is called there.
            items: The history, each item as JSON.
            part: The kind.
        """
        for _, item in _holding(items, part):
            self._known[_hash(model, item, part)] = None
        while len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def left_out(self, model: str, items: Sequence[bytes]) -> list[bytes]:
        """Return a history without the parts that are known."""
        kept: dict[int, bytes | None] = dict(enumerate(items))
        for part in RefusedPart:
            left = [data or b"" for data in kept.values()]
            for at, item in _holding(left, part):
                if _hash(model, item, part) in self._known:
                    rest = without_part(item, part)
                    kept[at] = None if rest is None else encode(rest)
        return [data for data in kept.values() if data is not None]


def _holding(items: Sequence[bytes], part: RefusedPart) -> Iterator[tuple[int, Item]]:
    """Yield the items that have such a part, and where they are."""
    for at, data in enumerate(items):
        if may_hold(data, part):
            item = decode(data)
            if without_part(item, part) != item:
                yield at, item


def _hash(model: str, item: Item, part: RefusedPart) -> bytes:
    """Return what a part is known by: its own bytes, whatever a client made of the rest."""
    if part is RefusedPart.IDS:
        what = [item.get("id")]
    else:
        own = own_keys(item.get(MADE_BY))
        what = [item.get(key) for key in ("encrypted_content", *own)]
    return blake2b(encode([model, part, what]), digest_size=16).digest()
