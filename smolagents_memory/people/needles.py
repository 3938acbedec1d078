"""Many byte strings looked for at once, in however many bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


SHORTEST = 4  # characters, and bytes: what is shorter stands everywhere by chance
_PART = 1 << 22  # bytes that are read at once
_BITS = 20
_ODD = np.uint32(2654435761)


class Needles:
    """Byte strings, each with what it is.

    >>> sorted(Needles({b"needle": "a needle", b"hay": "too short"}).within(b"a needle in the hay"))
    [b'needle']
    """

    def __init__(self, told: Mapping[bytes, str]) -> None:
        self.told = {needle: what for needle, what in told.items() if len(needle) >= SHORTEST}
        self.too_short = len(told) - len(self.told)
        self._by_middle: dict[bytes, list[tuple[int, bytes]]] = {}
        for needle in self.told:
            at = (len(needle) - SHORTEST) // 2  # beginnings are often alike
            self._by_middle.setdefault(needle[at : at + SHORTEST], []).append((at, needle))
        self._maybe = np.zeros(1 << _BITS, dtype=bool)
        self._maybe[_hashes(b"".join(self._by_middle))[::SHORTEST]] = True

    def within(self, data: bytes) -> set[bytes]:
        """Those that stand in these bytes."""
        found: set[bytes] = set()
        if len(data) < SHORTEST or not self.told:
            return found
        for place in np.flatnonzero(self._maybe[_hashes(data)]).tolist():
            for at, needle in self._by_middle.get(data[place : place + SHORTEST], ()):
                if needle not in found and data.startswith(needle, max(0, place - at)):
                    found.add(needle)
        return found

    def within_parts(self, read: Callable[[int, int], bytes], advance: Callable[[int], Any]) -> set[bytes]:
        """Those that stand in what `read(size, offset)` gives, until it gives nothing."""
        longest, found, offset, tail = max(map(len, self.told), default=1), set[bytes](), 0, b""
        while part := read(_PART, offset):
            found |= self.within(tail + part)
            tail = (tail + part)[-(longest - 1) :] if longest > 1 else b""
            offset += len(part)
            advance(len(part))
        return found


def forms(text: str) -> set[bytes]:
    """A text as it may lie in a file: as UTF-8, and as JSON writes it."""
    if len(text) < SHORTEST:
        return set()
    plain = text.encode("utf-8", "surrogatepass")
    return {
        plain,
        *(json.dumps(text, ensure_ascii=how)[1:-1].encode("utf-8", "surrogatepass") for how in (True, False)),
    }


def told_of(texts: Iterable[str], what: str) -> dict[bytes, str]:
    """Texts in all of their forms."""
    return {form: what for text in texts for form in forms(text)}


def _hashes(data: bytes) -> Any:
    """A number for each four bytes that follow each other."""
    each = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
    fours = each[:-3] | each[1:-2] << np.uint32(8) | each[2:-1] << np.uint32(16) | each[3:] << np.uint32(24)
    return (fours * _ODD) >> np.uint32(32 - _BITS)
