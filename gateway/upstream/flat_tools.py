"""Tools in namespaces under names without one, for backends that know none (D38). Pure.

A call of `search` in the namespace `crm` is `crm__search` to the backend. The same two names always
make the same flat one, so a history that another process wrote, or a turn with other tools, says it
alike. Only where two of a request's tools would share a flat name, or where one is too long or has
other characters than backends allow, is it told apart by a digest.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import ThrottledWarnings
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Tool = dict[str, Any]
    #: A namespace and the name of a tool in it.
    Qualified = tuple[str, str]

NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"), every=600.0)
#: The longest name that every backend takes, and what must not be in one.
_MAX_NAME: Final = 64
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_-]")
_JOINT: Final = "__"
_DIGEST: Final = 8
#: Keys of a tool that is found by a search: backends without namespaces know neither.
_DEFERRED: Final = frozenset({"defer_loading"})


class FlatTools:
    """The tools of one request by their flat names.

    `names` has the namespace and the name for each flat name of a tool in a namespace. A name that
    is not in there, such as one that a model makes up, means itself.

    Args:
        tools: The `tools` of a request.
    """

    def __init__(self, tools: object) -> None:
        self._tools = list(_objects(tools))
        self._plain = {name for tool in self._tools if (name := _plain_name(tool)) is not None}
        self._flat: dict[Qualified, str] = {}
        self.names: dict[str, Qualified] = {}
        #: The types of the tools in namespaces; the first tool of two names counts.
        self._types: dict[Qualified, str] = {}
        for tool in self._tools:
            space = tool.get("name")
            if tool.get("type") == "namespace" and isinstance(space, str):
                for inner in filter(_is_flat, _objects(tool.get("tools"))):
                    self._types.setdefault((space, inner["name"]), inner["type"])
        if self._types:
            self._name_all()

    def body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a request with its tools and the choice among them flat."""
        if not any(tool.get("type") == "namespace" for tool in self._tools):
            return body
        flat = {**body, "tools": list(self._listed())}
        choice = body.get("tool_choice")
        return {**flat, "tool_choice": self._choice(choice)} if isinstance(choice, dict) else flat

    def items(self, items: Sequence[bytes]) -> Sequence[bytes]:
        """Return a history, each item as JSON, with its calls under their flat names."""
        if not any(b'"namespace"' in item for item in items):
            return items
        return [self._item(item) if b'"namespace"' in item else item for item in items]

    def flat_name(self, namespace: str, name: str) -> str:
        """Return the flat name of a tool, which this request may not have."""
        known = self._flat.get((namespace, name))
        if known is not None:
            return known
        plain = _joined(namespace, name)
        return self._told_apart(namespace, name) if self._is_taken(plain) else plain

    def _name_all(self) -> None:
        """Give each tool its flat name, the same in whatever order the tools come."""
        joined = {one: _joined(*one) for one in sorted(self._types)}
        count = Counter(joined.values())
        unique = {
            one: flat
            for one, flat in joined.items()
            if flat not in self._plain and count[flat] == 1
        }
        self._know(unique)
        for one in joined:
            if one not in unique:
                self._know({one: self._told_apart(*one)})

    def _know(self, flat: Mapping[Qualified, str]) -> None:
        self._flat |= flat
        self.names |= {name: one for one, name in flat.items()}

    def _is_taken(self, flat: str) -> bool:
        return flat in self._plain or flat in self.names

    def _told_apart(self, namespace: str, name: str) -> str:
        for size in range(_DIGEST, _MAX_NAME, _DIGEST):
            flat = _with_digest(namespace, name, size)
            if not self._is_taken(flat):
                return flat
        raise AssertionError("a digest is never shared at its full length")

    # The request

    def _listed(self) -> Iterator[Tool]:
        """Yield all tools, each that was in a namespace at the place of that namespace."""
        seen: set[str] = set()
        for tool in self._tools:
            if tool.get("type") != "namespace":
                yield tool
                continue
            space = tool.get("name")
            for inner in _objects(tool.get("tools")):
                if not isinstance(space, str) or not _is_flat(inner):
                    line = (
                        f"no backend takes a tool of type {inner.get('type')!r:.64} in a namespace"
                    )
                    NOTICES.warning("tool in a namespace", f"{line}; left out")
                    continue
                flat = self._flat[space, inner["name"]]
                if flat not in seen:
                    seen.add(flat)
                    yield _flat_tool(inner, flat, tool.get("description"))

    def _choice(self, choice: Tool) -> Tool:
        """Return the choice by flat names; one of several tools becomes a list of them."""
        listed = choice.get("type") == "allowed_tools"
        named: dict[object, list[Tool]] = {}
        for (space, name), kind in self._types.items():
            tool = {"type": kind, "name": self._flat[space, name]}
            named.setdefault(name, []).append(tool)
            named.setdefault(("namespace", space), []).append(tool)
        chosen = [
            one
            for tool in (_objects(choice.get("tools")) if listed else [choice])
            for one in self._chosen(tool, named)
        ]
        if listed:
            return {**choice, "tools": chosen}
        if len(chosen) == 1:
            return chosen[0]
        return {"type": "allowed_tools", "mode": "required", "tools": chosen}

    def _chosen(self, choice: Tool, named: Mapping[object, list[Tool]]) -> list[Tool]:
        """Return the tools that a choice names, which may leave the namespace unsaid.

        `named` has the tools in namespaces, by their names and by their namespaces.
        """
        name, space = choice.get("name"), choice.get("namespace")
        if not isinstance(name, str):
            return [choice]
        if choice.get("type") == "namespace":
            return named.get(("namespace", name)) or [choice]
        if isinstance(space, str):
            rest = {key: value for key, value in choice.items() if key != "namespace"}
            return [{**rest, "name": self.flat_name(space, name)}]
        if name in self._plain:
            return [choice]
        return [{**choice, "name": one["name"]} for one in named.get(name, ())] or [choice]

    def _item(self, data: bytes) -> bytes:
        item = decode(data)
        name, space = item.get("name"), item.get("namespace")
        if not isinstance(name, str) or not isinstance(space, str):
            return data
        rest = {key: value for key, value in item.items() if key != "namespace"}
        return encode({**rest, "name": self.flat_name(space, name)})


def _joined(namespace: str, name: str) -> str:
    """Return both as one name, by a digest where they are no name that every backend takes."""
    joint = "" if namespace.endswith(_JOINT) else _JOINT
    plain = f"{namespace}{joint}{name}"
    fits = plain and len(plain) <= _MAX_NAME and not _FORBIDDEN.search(plain)
    return plain if fits else _with_digest(namespace, name, _DIGEST)


def _with_digest(namespace: str, name: str, size: int) -> str:
    """Return a readable beginning of both, and so many characters of their digest."""
    digest = sha256(encode([namespace, name])).hexdigest()[:size]
    joint = "" if namespace.endswith(_JOINT) else _JOINT
    plain = _FORBIDDEN.sub("_", f"{namespace}{joint}{name}")
    return f"{plain[: _MAX_NAME - size - 1]}_{digest}"


def _flat_tool(inner: Tool, flat: str, of_space: object) -> Tool:
    """Return a tool under its flat name, with the namespace's description if it has none."""
    tool = {key: value for key, value in inner.items() if key not in _DEFERRED} | {"name": flat}
    if not tool.get("description") and isinstance(of_space, str) and of_space:
        tool["description"] = of_space
    return tool


def _is_flat(tool: Tool) -> bool:
    """Return whether a tool of a namespace can be told by a name alone."""
    return tool.get("type") in ("function", "custom") and isinstance(tool.get("name"), str)


def _plain_name(tool: Tool) -> str | None:
    """Return the name of a tool outside of namespaces, also in the form of Chat Completions."""
    kind = tool.get("type")
    inner = tool.get(kind) if isinstance(kind, str) else None
    name = (inner if isinstance(inner, dict) else tool).get("name")
    return name if kind != "namespace" and isinstance(name, str) else None


def _objects(value: object) -> Iterable[Tool]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()
