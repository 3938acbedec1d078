"""Texts that are no `str`: bytes, and numpy's, without what is taken out of texts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


WITHHELD = "it holds what is redacted"


def without_texts(value: Any, text: Callable[[str], str]) -> Any:
    """Bytes that are UTF-8, and arrays of texts, as they may be kept; the very same where nothing was found.

    >>> without_texts(b"Ann asks", lambda text: text.replace("Ann", "[PERSON]"))
    b'[PERSON] asks'
    """
    kind = type(value)
    if kind is bytes or kind is bytearray:
        return _bytes(value, text)
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    dtype = value.dtype
    if dtype.kind == "V" and not dtype.hasobject and any(code in str(dtype) for code in ("U", "S")):
        shown = str(value.tolist())
        if text(shown) != shown:
            raise ValueError(WITHHELD)
        return value
    if dtype.kind not in "US":
        return value
    cells = [cell if isinstance(cell, str) else cell.decode("utf-8", "replace") for cell in value.ravel().tolist()]
    said = [text(cell) for cell in cells]
    if said == cells:
        return value
    kept = numpy.array([cell if dtype.kind == "U" else cell.encode() for cell in said]).reshape(value.shape)
    return kept if isinstance(value, numpy.ndarray) else kept[()]


def _bytes(value: bytes | bytearray, text: Callable[[str], str]) -> bytes | bytearray:
    try:
        said = value.decode("utf-8")
    except UnicodeDecodeError:
        return value
    scrubbed = text(said)
    return value if scrubbed == said else type(value)(scrubbed.encode("utf-8", "replace"))
