"""Values and metadata to ASCII JSON and back, faithfully or not at all; and the text by which a value is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from smolagents_memory._errors import StoreFormatError, UnsupportedValueError
from smolagents_memory.codec.values import decode_value, new_encoder


_CONTAINERS = (dict, list, tuple, set, frozenset)


def pack(value: Any, what: str = "the value") -> str:
    """ASCII JSON of a value (a lone surrogate or NUL is escaped, so every database takes it)."""
    if _plain(value):
        return json.dumps(value, separators=(",", ":"))
    encoder = new_encoder()
    node = encoder.encode(value)
    if encoder.losses:
        kinds = ", ".join(sorted(set(encoder.losses))[:5])
        raise UnsupportedValueError(f"{what} holds what cannot be kept ({kinds}); nothing was written")
    if encoder.blobs.data:
        raise UnsupportedValueError(f"{what} holds images or large bytes; keep these in a file; nothing was written")
    return json.dumps(node, separators=(",", ":"))


_decoded = json.JSONDecoder().decode  # `json.loads` looks at its eight arguments each time


def unpack(text: str) -> Any:
    """The value that was packed."""
    if text == "{}":
        return {}
    try:
        node = _decoded(text)
        return node if _plain(node) else decode_value(node)
    except ValueError as error:
        raise StoreFormatError(f"a stored value cannot be read: {error}") from error


def _plain(value: Any) -> bool:
    """Whether the commonest values, flat texts and numbers, can skip the encoder, and the decoder."""
    if type(value) is dict:
        return all(
            type(k) is str and not k.startswith("$") and (v is None or type(v) in (str, int, bool))
            for k, v in value.items()
        )
    return value is None or type(value) in (str, int, bool)


def searchable(value: Any) -> str:
    """The text by which a value is found. It may be as deep as it likes, or hold itself."""
    if isinstance(value, str):
        return value
    return " ".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    waiting, within = [(0, iter((value,)))], {0}  # of each container round this, what is still to be read
    while waiting:
        around, inner = waiting[-1]
        each = next(inner, waiting)
        if each is waiting:
            waiting.pop()
            within.discard(around)
        elif not isinstance(each, _CONTAINERS):
            yield _text(each)
        elif id(each) not in within:
            within.add(id(each))
            waiting.append((id(each), iter(chain.from_iterable(each.items()) if isinstance(each, dict) else each)))


def _text(value: Any) -> str:
    try:
        return "" if value is None or isinstance(value, (bytes, bytearray)) else str(value)
    except Exception:  # noqa: BLE001 — a stranger's own; whether it can be kept is not to be told here
        return ""
