"""What stands in the place of values that cannot be kept, or whose class is not known here."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smolagents_memory.codec.graph import TAG, Node


@dataclass(frozen=True)
class NotKept:
    """Stands where a value was that cannot be kept, and says what it was."""

    type_name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"⟨not kept: {self.type_name}{f' ({self.detail})' if self.detail else ''}⟩"


@dataclass(frozen=True)
class Unknown:
    """A value that was kept whole, but whose class is not known here; it goes back to data as it came."""

    type_name: str
    tag: str
    data: Any

    def __str__(self) -> str:
        return f"⟨{self.type_name}, a class that is not known here (see register_value): {_short_repr(self.data)}⟩"


def not_kept_node(value: Any, why: str) -> dict[str, Node]:
    """The placeholder for a value that cannot be kept."""
    return {TAG: "not-kept", "type": type_name(value), "detail": why or _short_repr(value)}


def type_name(value: Any) -> str:
    """What people call the class of a value."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _short_repr(value: Any) -> str:
    shortener = reprlib.Repr()
    shortener.maxother = shortener.maxstring = 120
    try:
        text = shortener.repr(value)
    except Exception:  # noqa: BLE001 — a repr may do anything
        return ""
    return text.encode("utf-8", "replace").decode("utf-8")


def blob_names(node: Any) -> Iterator[str]:
    """The blobs that a node needs."""
    if isinstance(node, dict):
        if _is_name(node.get("at")):
            yield node["at"]
        node = list(node.values())
    for part in node if isinstance(node, list) else ():
        yield from blob_names(part)


def needs(node: Any, name: str) -> bool:
    """Whether a node needs a blob, and does not only hold a dictionary of somebody's that looks so."""
    if isinstance(node, dict):
        if TAG in node and name in (node.get("at"), *(_at(part) for part in node.get("palette") or ())):
            return True
        node = list(node.values())
    return isinstance(node, list) and any(needs(part, name) for part in node)


def _at(part: Any) -> Any:
    return part.get("at") if isinstance(part, dict) else None


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def spared(node: Any, damaged: set[str]) -> Any:
    """A node with a placeholder for each part that needs damaged content."""
    if isinstance(node, list):
        return [spared(part, damaged) for part in node]
    if not isinstance(node, dict):
        return node
    palette = [part for part in node.get("palette") or () if isinstance(part, dict)]
    if any(part.get("at") in damaged for part in (node, *palette)):
        return {TAG: "not-kept", "type": str(node.get(TAG)), "detail": "damaged in the database"}
    return {name: spared(part, damaged) for name, part in node.items()}
