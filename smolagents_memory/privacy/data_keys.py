"""One data key and all that is done with it: values, names that are looked up, words, names of blobs, and marks.

Each use has a key of its own, made of the data key by HKDF, so that none tells anything of another.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

from smolagents_memory._errors import MissingExtraError, SealError


try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    _THERE = True
except ModuleNotFoundError:  # said where a key is made: others who import this need none
    _THERE = False


LENGTH = 32
MARK, SHORT = 16, 12  # bytes of a mark, and of a short one
_NONCE = 12
_WORD = 12  # characters of a blinded word: 60 bits
_CHANGED = "it was changed, moved from somewhere else, or sealed with another key"


def need_extra() -> None:
    """Raise MissingExtraError where nothing can be sealed."""
    if not _THERE:
        raise MissingExtraError("A seal", "seal")


class DataKey:
    """A key of a scope, of a session, or of a place. With `signs` it makes nothing unreadable: it only marks.

    >>> key = DataKey(bytes(32))
    >>> key.open(key.seal(b"tea", b"here"), b"here"), key.read_name(key.name(b"ann", b"user"), b"user")
    (b'tea', b'ann')
    >>> key.word("tea") == key.word("tea") != key.word("coffee")
    True
    """

    def __init__(self, key: bytes, *, signs: bool = False) -> None:
        need_extra()
        if len(key) != LENGTH:
            raise SealError(f"a key has {LENGTH} bytes, not {len(key)}")
        self.key, self.signs = key, signs

    def seal(self, value: bytes, associated: bytes) -> bytes:
        """A value that is only read again where it was sealed for."""
        if self.signs:
            return value + self.mark(b"value", associated, value)
        nonce = os.urandom(_NONCE)
        return nonce + self._values.encrypt(nonce, value, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        """What was sealed; SealError for everything else."""
        if self.signs:
            value, mark = sealed[:-MARK], sealed[-MARK:]
            if not hmac.compare_digest(mark, self.mark(b"value", associated, value)):
                raise SealError(_CHANGED)
            return value
        try:
            return self._values.decrypt(sealed[:_NONCE], sealed[_NONCE:], associated)
        except (InvalidTag, ValueError):
            raise SealError(_CHANGED) from None

    def name(self, name: bytes, associated: bytes) -> bytes:
        """A name that is the same each time, so that it can be looked up."""
        return name if self.signs else self._names.encrypt(name, [associated])

    def read_name(self, sealed: bytes, associated: bytes) -> bytes:
        """The name itself."""
        if self.signs:
            return sealed
        try:
            return self._names.decrypt(sealed, [associated])
        except (InvalidTag, ValueError):
            raise SealError(f"a name cannot be read: {_CHANGED}") from None

    def word(self, word: str) -> str:
        """Letters and digits that stand for a word wherever this key is."""
        return word if self.signs else _blinded(self._words, word)

    def blob(self, name: bytes) -> bytes:
        """The name of a blob, which tells nothing of its content."""
        return hmac.digest(self._blobs, name, "sha256")

    def mark(self, *parts: bytes) -> bytes:
        """What only the holder of the key can say of these parts."""
        lengths = b",".join([b"%d" % len(part) for part in parts])
        return blake2b(b"".join((lengths, b":", *parts)), key=self._marks, digest_size=MARK).digest()

    @cached_property
    def short(self) -> Callable[[bytes], bytes]:
        """A function that gives a short mark of bytes: for what is checked by the hundred."""
        begun = blake2b(key=self.derived("short"), digest_size=SHORT).copy  # the key is taken in once

        def short(data: bytes) -> bytes:
            mark = begun()
            mark.update(data)
            return mark.digest()

        return short

    def check(self, mark: Any, *parts: bytes) -> bool:
        """Whether it is the mark of these parts."""
        return isinstance(mark, bytes) and hmac.compare_digest(mark, self.mark(*parts))

    @cached_property
    def _values(self) -> AESGCM:
        return AESGCM(self.derived("values"))

    @cached_property
    def _names(self) -> AESSIV:
        return AESSIV(self.derived("names", 64))

    @cached_property
    def _words(self) -> bytes:
        return self.derived("words")

    @cached_property
    def _blobs(self) -> bytes:
        return self.derived("blobs")

    @cached_property
    def _marks(self) -> bytes:
        return self.derived("marks")

    def derived(self, use: str, length: int = LENGTH) -> bytes:
        """A key of its own for one use."""
        return HKDFExpand(hashes.SHA256(), length, f"smolagents-memory {use}".encode()).derive(self.key)


@lru_cache(maxsize=1 << 17)  # of all keys together: texts of one language have some ten thousand words
def _blinded(key: bytes, word: str) -> str:
    blinded = hmac.digest(key, word.encode("utf-8", "surrogatepass"), "sha256")
    return base64.b32encode(blinded[:8]).decode()[:_WORD].lower()
