"""A record's simple objects, built while its JSON is read: a long history is loaded several times as fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolagents.models import MessageRole

from smolagents_memory._json import parse_json
from smolagents_memory.codec.graph import TAG
from smolagents_memory.codec.objects import PARTS, check_names, defaults


def parse_prebuilt(text: bytes) -> Any:
    """The JSON of a record. The decoder takes what is built here for what it is, and builds the rest."""
    try:
        return parse_json(text, build=_build)
    except (KeyError, TypeError):  # something else, which may stand inside of these, or refer to one of them
        return parse_json(text)


def _build(node: dict[str, Any]) -> Any:
    return _MAKERS[node.get(TAG)](node)


def _maker(cls: type) -> Callable[[dict[str, Any]], Any]:
    always = defaults(cls)

    def make(node: dict[str, Any]) -> Any:
        del node[TAG]
        check_names(cls, node)
        made: Any = object.__new__(cls)
        made.__dict__ = {**always, **node}
        return made

    return make


_ROLES = {role.value: role for role in MessageRole}
_MAKERS: dict[str | None, Callable[[dict[str, Any]], Any]] = {
    **dict.fromkeys((None, "text", "edit"), lambda node: node),  # no tag, and a journal's own parts of records
    "role": lambda node: _ROLES[node["v"]],
    **{name: _maker(cls) for name, cls in PARTS.items()},
}
