"""How a value that a person or a model wrote lies in the database: versioned, checked, packed, sealed if asked.

An envelope is: version, flags, checksum, and the content. Small contents lie as they are, larger ones are compressed
where that helps. Where a place has a seal, the number of the key follows, and the content is what the key made of it.
The checksum is of all that lies there and of the spot that it belongs to, so that neither a changed byte nor a value
in another's row is read. It is of the version as well, in every version to come: a flipped bit in it is damage, and
not a newer package.
"""

from __future__ import annotations

import json
import struct
import zlib
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from smolagents_memory._errors import DecodeError, NewerFormatError, SealError
from smolagents_memory._json import parse_json
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database.sealed import NAME_OF_SCOPE, NAME_OF_SESSION, Keys, Sealed, Spot, of_session, owner_of


VERSION = 2  # 1 had no flags and a checksum of the content alone; values older than that lie bare
_PACKED, _SEALED = 1, 2
_HEAD = struct.Struct(">BBI")
_KEY = struct.Struct(">I")
_WORTH = 200  # bytes from which compressing is tried
_PAYS = 2 / 3  # and what must come of it: to save less is not worth the time that every reading takes
_LARGER = 100  # times may content be larger than what it was packed into; what is more of it lies as it is
_ROOM = 256 << 20  # bytes beyond that which one transaction may read all the same: older packages packed without limit
_PART = 1 << 24  # bytes that are unpacked at once
_SAMPLE = 1024  # bytes in the middle of a larger value, by which it is tried


class Envelope:
    """Packs the values of one place, and the names by which they are looked up, and reads them again."""

    def __init__(self, place: str = "", keys: Keys | None = None, shown: str = "the place") -> None:
        self.sealed = Sealed(place, keys, shown) if keys is not None else None
        self._room = _ROOM  # an envelope serves one transaction

    def pack(self, record: Any, spot: Spot) -> bytes:
        """A record as bytes."""
        return self.pack_bytes(
            json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(), spot
        )

    def unpack(self, data: bytes, spot: Spot) -> Any:
        """The record of an envelope; a damaged one raises DecodeError."""
        return parse_json(self.unpack_bytes(data, spot))

    def unpack_if_whole(self, data: bytes, spot: Spot, what: str) -> dict[str, Any]:
        """The record of an envelope; a damaged one is named in a warning, and is empty."""
        try:
            record = self.unpack(data, spot)
        except DecodeError as error:
            warn_of_loss(f"{what} is damaged ({error}); all the rest is read")
            return {}
        return record if isinstance(record, dict) else {}

    def pack_bytes(self, content: bytes, spot: Spot) -> bytes:
        """Bytes in an envelope."""
        flags = 0
        if len(content) > _WORTH:
            packed = _packed(content)
            if packed is not None:
                content, flags = packed, _PACKED
        if self.sealed is not None:
            key, sealed = self.sealed.seal(content, spot)
            content, flags = _KEY.pack(key) + sealed, flags | _SEALED
        return _HEAD.pack(VERSION, flags, _checksum(VERSION, flags, spot, content)) + content

    def unpack_bytes(self, data: bytes, spot: Spot) -> bytes:
        """The bytes of an envelope; damaged ones raise DecodeError, under a seal SealError, newer NewerFormatError."""
        if self.sealed is None:
            return self._read(data, spot)
        try:
            return self._read(data, spot)
        except (DecodeError, SealError) as error:
            raise self.sealed.refused(f"{spot.column} of {spot.key!r} of the {owner_of(spot)}", error) from error

    def _read(self, data: bytes, spot: Spot) -> bytes:
        if len(_as_bytes(data)) < _HEAD.size:
            raise DecodeError("it is cut short")
        version, flags, checksum = _HEAD.unpack_from(data)
        content = bytes(data[_HEAD.size :])
        if version == 1 and not flags and zlib.crc32(content) == checksum:
            self._refuse_plain()
            return content
        if _checksum(version, flags, spot, content) != checksum:
            raise DecodeError("its checksum does not fit: bytes were changed")
        if version != VERSION or flags & ~(_PACKED | _SEALED):
            raise NewerFormatError(
                f"a value in {spot.table} was written by a newer smolagents-memory (its envelope has version "
                f"{version}; this one knows up to {VERSION}). Nothing was changed: pip install -U smolagents-memory"
            )
        if flags & _SEALED:
            content = self._opened(content, spot)
        else:
            self._refuse_plain()
        return self._unpacked(content) if flags & _PACKED else content

    def _unpacked(self, content: bytes) -> bytes:
        """In time and memory in proportion to what lies there, whatever it says of itself."""
        fair = _LARGER * len(content)
        inflate, parts, size, left = zlib.decompressobj(), [], 0, content
        try:
            while not inflate.eof:  # in parts, so that what is refused was never there as a whole
                parts.append(inflate.decompress(left, min(_PART, fair + self._room - size + 1)))
                size, left = size + len(parts[-1]), inflate.unconsumed_tail
                if size > fair + self._room:
                    raise DecodeError(
                        f"{len(content):,} bytes would be more than {size:,} when unpacked, and are not read"
                    )
                if not parts[-1] and not left:
                    break
        except zlib.error as error:
            raise DecodeError(f"it cannot be unpacked: {error}") from error
        if not inflate.eof or inflate.unused_data:
            raise DecodeError("it cannot be unpacked: it is cut short, or goes on")
        unpacked = b"".join(parts)
        self._room -= max(0, len(unpacked) - fair)
        return unpacked

    def _opened(self, content: bytes, spot: Spot) -> bytes:
        if self.sealed is None:
            raise SealError(
                f"a value in the table {spot.table} is sealed, and the place was opened without a seal: "
                "Place(…, seal=…). Nothing was changed"
            )
        if len(content) < _KEY.size:
            raise DecodeError("it is cut short")
        (key,) = _KEY.unpack_from(content)
        return self.sealed.open(content[_KEY.size :], spot, key)

    def _refuse_plain(self) -> None:
        if self.sealed is not None:
            raise SealError("it lies there without a seal")

    def bare(self, data: bytes) -> bytes:
        """A value of envelope 0: one that was written before memories had envelopes."""
        self._refuse_plain()
        return bytes(data)

    # -- names by which something is looked up -----------------------------------------------------------------

    def name(self, name: str, spot: Spot = NAME_OF_SESSION) -> bytes:
        """A name as it lies in a column of bytes; that of a session unless another spot is given."""
        return as_key(name) if self.sealed is None else self.sealed.name(spot, as_key(name))

    def read_name(self, data: bytes, spot: Spot = NAME_OF_SESSION) -> str:
        """The name that lies there; what is none raises DecodeError, under a seal SealError."""
        if self.sealed is None:
            return from_key(data)
        try:
            return from_key(self.sealed.read_name(spot, bytes(_as_bytes(data))))
        except (DecodeError, SealError) as error:
            raise self.sealed.refused(f"a {spot.column} in {spot.table}", error) from error

    def blob(self, name: str, owner: str) -> bytes:
        """The name of a session's blob as it lies in its column; ValueError for what is none."""
        plain = bytes.fromhex(name)
        return plain if self.sealed is None else self.sealed.key(of_session(owner)).blob(plain)

    def key(self, scope: str, key: str, column: str = "key") -> bytes:
        """The key of a memory as it lies in its column; with another column the name of its source."""
        return (
            as_key(key)
            if self.sealed is None
            else self.sealed.name(Spot("memory_items", scope, "", column), as_key(key))
        )

    def read_key(self, scope: str, data: bytes, column: str = "key") -> str:
        """The key that lies there."""
        return from_key(data) if self.sealed is None else self.read_name(data, Spot("memory_items", scope, "", column))

    def words(self, scope: str, words: str) -> str:
        """Words of a scope, joined by spaces, as they lie in their column."""
        return words if self.sealed is None else self.sealed.words(scope, words)

    def cues(self, scope: str, words: str, data: bytes) -> bytes:
        """What the form of a text tells, as it lies in its column beside these words, or out of it again."""
        return data if self.sealed is None else self.sealed.hidden(scope, words, data)

    def text(self, name: str, spot: Spot) -> str:
        """A name in a column of texts."""
        return name if self.sealed is None else self.sealed.text(spot, name)

    def read_text(self, text: str, spot: Spot) -> str:
        """The name that lies there."""
        if self.sealed is None:
            return text
        try:
            return self.sealed.read_text(spot, text)
        except SealError as error:
            raise self.sealed.refused(f"a {spot.column} in {spot.table}", error) from error

    def scope(self, name: str) -> str:
        """The name of a scope as it lies in its column."""
        return name if self.sealed is None else self.sealed.scope(name)

    def read_scope(self, text: str) -> str:
        """The name of the scope that lies there."""
        if self.sealed is None or not text:
            return text
        try:
            return self.sealed.read_text(NAME_OF_SCOPE, text)
        except SealError as error:
            raise self.sealed.refused("the name of a scope", error) from error


def envelope_of(connection: Connection) -> Envelope:
    """The envelope of the place that a connection leads to."""
    envelope: Envelope = connection.get_execution_options()["envelope"]
    return envelope


def _checksum(version: int, flags: int, spot: Spot, content: bytes) -> int:
    table, _, key, column = spot
    return zlib.crc32(content, zlib.crc32(as_key(f"{key} {column}\n"), _begun(version, flags, table)))


@lru_cache(maxsize=256)
def _begun(version: int, flags: int, table: str) -> int:
    return zlib.crc32(as_key(f"{version} {flags} {table} "))


def _packed(content: bytes) -> bytes | None:
    """The content compressed, or None where that does not help."""
    if len(content) > 4 * _SAMPLE:
        middle = len(content) // 2
        if len(_deflated(content[middle : middle + _SAMPLE])) > 0.75 * _SAMPLE:  # a little is packed less well
            return None
    packed = _deflated(content)
    return packed if len(content) / _LARGER <= len(packed) <= _PAYS * len(content) else None


def _deflated(content: bytes) -> bytes:
    window = 13 if len(content) < 1 << 14 else 15  # a small one is set up in no time
    deflate = zlib.compressobj(1, zlib.DEFLATED, window)
    return deflate.compress(content) + deflate.flush()


def as_key(text: str) -> bytes:
    """Any string at all as bytes: databases refuse some texts (NUL, halves of surrogate pairs) but no bytes."""
    return text.encode("utf-8", "surrogatepass")


def from_key(data: bytes) -> str:
    """The string that `as_key` was given."""
    try:
        return bytes(_as_bytes(data)).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DecodeError(f"a name that is no text: {error}") from error


def _as_bytes(data: Any) -> bytes:
    """What a column of bytes gave: SQLite keeps any kind of value in any column."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise DecodeError(f"bytes were expected, and there is {type(data).__name__}")
    return data  # type: ignore[return-value]
