"""Values and metadata to ASCII JSON and back, faithfully or not at all; and the text by which a value is found."""

from __future__ import annotations

import json
from typing import Any

from smolagents_memory._errors import StoreFormatError, UnsupportedValueError
from smolagents_memory.codec.values import decode_value, new_encoder


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


def unpack(text: str) -> Any:
    """The value that was packed."""
    if text == "{}":
        return {}
    try:
        return decode_value(json.loads(text))
    except ValueError as error:
        raise StoreFormatError(f"a stored value cannot be read: {error}") from error


def _plain(value: Any) -> bool:
    """Whether the commonest values, flat texts and numbers, can skip the encoder."""
    if type(value) is dict:
        return all(
            type(k) is str and not k.startswith("$") and (v is None or type(v) in (str, int, bool))
            for k, v in value.items()
        )
    return value is None or type(value) in (str, int, bool)


def searchable(value: Any) -> str:
    """The text by which a value is found."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(f"{name} {searchable(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return " ".join(map(searchable, value))
    return "" if value is None or isinstance(value, (bytes, bytearray)) else str(value)
