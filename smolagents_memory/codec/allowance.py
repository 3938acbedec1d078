"""How much may be made of bytes that are not trusted: memory and time stay in proportion to what was read."""

from __future__ import annotations

from collections.abc import Mapping

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, OversizedError


BASE = 64 << 20  # what may be made of nothing at all
FACTOR = 128  # and of each byte that was read
MOST = 2 << 30  # together, unless a caller says otherwise


class Allowance:
    """What may still be made of a source: pixels, arrays, keys, lists, in bytes or what takes as long."""

    def __init__(self, read: int = 0, most: int | None = None, *, total: int = MOST) -> None:
        self._most = total if most is None else most
        self.left = min(BASE + FACTOR * read, total) if most is None else most
        self._gained = self.left
        self._made = 0

    def gain(self, read: int) -> None:
        """So many bytes more were read."""
        more = max(0, min(FACTOR * read, self._most - self._gained))
        self.left += more
        self._gained += more

    def take(self, amount: int, what: str, *, packed: int = 1) -> None:
        """So much is to be made; OversizedError where that is beyond all proportion to what was read.

        What comes from bytes of its own counts as that much less: a plain page is a thousandth of its pixels.
        """
        if type(amount) is not int or amount < 0:  # a size that was read, and would give back what is not its own
            raise DecodeError(f"a size that is none: {brief(amount)}")
        self.left -= amount // packed
        self._made += amount
        if self.left < 0 or self._made > self._most:
            raise OversizedError(f"{what} is beyond all proportion to the bytes that say so (see max_bytes=)")


def allowance_of(blobs: Mapping[str, bytes]) -> Allowance:
    """The allowance that belongs to the blobs of one source."""
    known = getattr(blobs, "allowance", None)
    return known if isinstance(known, Allowance) else Allowance(sum(map(len, blobs.values())))
