"""A file under a seal: a line that says so, and chunks that are each sealed, bound to the file and to their place.

None can be changed, moved, repeated or left out, and an end that is missing is noticed: the last chunk is sealed as
the last. Each file has a key of its own in the keyring.
"""

from __future__ import annotations

import io
import json
import secrets
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, NewerFormatError, SealError


if TYPE_CHECKING:
    from smolagents_memory.privacy.data_keys import DataKey
    from smolagents_memory.privacy.sealing import Seal

FORMAT = "smolagents-memory sealed"
VERSION = 1
CHUNK = 1 << 16  # bytes of what is sealed
_MORE = 64  # bytes that a chunk grows by, at the most
_LENGTH = struct.Struct(">I")
_LONGEST = 1000  # bytes of the first line


def sealed_stream(parts: Iterable[bytes], seal: Seal) -> Iterator[bytes]:
    """What these bytes are under a seal, piece by piece. The key is durable before the first one is given.

    >>> import io, os
    >>> from smolagents_memory import Seal
    >>> seal = Seal(os.urandom(32), keyring="keys")
    >>> sealed = b"".join(sealed_stream([b"a secret"], seal))
    >>> b"secret" in sealed, Unsealed(io.BytesIO(sealed), seal, "the file").read()
    (False, b'a secret')
    """
    file = secrets.token_hex(16)
    number, key = seal.new_file_key(file)
    told = {"format": FORMAT, "version": VERSION, "id": file, "key": number, "mode": seal.mode}
    header = json.dumps(told).encode() + b"\n"
    yield header
    held, index = bytearray(), 0
    for part in parts:
        held += part
        while len(held) > CHUNK:
            yield _framed(key, bytes(held[:CHUNK]), _bound(header, index, last=False))
            del held[:CHUNK]
            index += 1
    yield _framed(key, bytes(held), _bound(header, index, last=True))


def _framed(key: DataKey, chunk: bytes, associated: bytes) -> bytes:
    sealed = key.seal(chunk, associated)
    return _LENGTH.pack(len(sealed)) + sealed


def _bound(header: bytes, index: int, *, last: bool) -> bytes:
    return header + b"%d %s" % (index, b"last" if last else b"more")


def sealed_header(line: bytes) -> dict[str, Any] | None:
    """What the first line of a file under a seal says; None for any other file's."""
    if FORMAT.encode() not in line[:_LONGEST]:
        return None
    try:
        told = json.loads(line[:_LONGEST])
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and told.get("format") == FORMAT else None


class Unsealed(io.RawIOBase):
    """The bytes within a file under a seal, read chunk by chunk. `named` is how errors call the file.

    A wrong key is a SealError at once; bytes that were changed are a DecodeError when it is their turn.
    """

    def __init__(self, raw: BinaryIO, seal: Seal, named: str) -> None:
        self._raw = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
        self._header = self._raw.readline(_LONGEST)
        self._key = _key_of(self._header, seal, named)
        self._begin()

    def _begin(self) -> None:
        self._chunk, self._read, self._index, self._ended = b"", 0, 0, False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """To the beginning."""
        if whence == 0 and offset == 0:
            self._raw.seek(len(self._header))
            self._begin()
            return 0
        raise io.UnsupportedOperation("a file under a seal is read from its beginning")

    def peek(self, _: int = 0) -> bytes:
        """What can be read at once; empty at the end."""
        while self._read == len(self._chunk) and not self._ended:
            self._chunk, self._read = self._next(), 0
        return self._chunk[self._read :]

    def readinto(self, buffer: Any) -> int:
        part = self.peek()[: len(buffer)]
        buffer[: len(part)] = part
        self._read += len(part)
        return len(part)

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _next(self) -> bytes:
        length = self._raw.read(_LENGTH.size)
        size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
        if size > CHUNK + _MORE:
            raise DecodeError("its bytes were changed")
        sealed = self._raw.read(size)
        if len(length) < _LENGTH.size or len(sealed) < size:
            raise DecodeError("it was cut short")
        is_last = not self._raw.peek(1)
        for last in (is_last, not is_last):
            try:
                chunk = self._key.open(sealed, _bound(self._header, self._index, last=last))
            except SealError:
                continue
            if last != is_last:
                raise DecodeError("it goes on after its end" if last else "it was cut short")
            self._index, self._ended = self._index + 1, last
            return chunk
        raise DecodeError("its bytes were changed")


def _key_of(header: bytes, seal: Seal, named: str) -> DataKey:
    told = sealed_header(header)
    if told is None:
        raise SealError(f"{named} is not sealed, and was opened with a seal: read it without one if it may be trusted")
    version, file, number, mode = (told.get(each) for each in ("version", "id", "key", "mode"))
    if not isinstance(version, int) or not isinstance(file, str) or not isinstance(number, int):
        raise SealError(f"{named}: what says how it is sealed is damaged")
    if version > VERSION:
        raise NewerFormatError(
            f"{named} has version {brief(version)} of sealed files, written by a newer smolagents-memory: "
            "pip install -U smolagents-memory"
        )
    if mode != seal.mode:
        raise SealError(f"{named} has a seal of the mode {brief(mode)}, and was opened with one of {seal.mode!r}")
    try:
        return seal.file_key(file, number)
    except SealError as error:
        raise SealError(f"{named} cannot be opened: {error}") from error
