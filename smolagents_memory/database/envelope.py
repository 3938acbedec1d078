"""How a record lies in the database: a version, room for a key, a checksum, then JSON as UTF-8."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from smolagents_memory._errors import DecodeError
from smolagents_memory._json import parse_json
from smolagents_memory._log import warn_of_loss


VERSION = 1
PLAIN = 0  # the key's number; 0 is no key
_HEAD = struct.Struct(">BBI")


def pack(record: Any) -> bytes:
    """A record as bytes."""
    return pack_text(json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def pack_text(text: str) -> bytes:
    """A record whose JSON is already written."""
    return pack_bytes(text.encode())


def pack_bytes(payload: bytes) -> bytes:
    """Bytes in an envelope."""
    return _HEAD.pack(VERSION, PLAIN, zlib.crc32(payload)) + payload


def unpack_bytes(data: bytes) -> bytes:
    """The bytes of an envelope; damaged ones raise DecodeError."""
    if len(data) < _HEAD.size:
        raise DecodeError("it is cut short")
    version, key, checksum = _HEAD.unpack_from(data)
    if version != VERSION or key != PLAIN:
        raise DecodeError(f"it has envelope version {version} and key {key}, which this package cannot read")
    payload = bytes(data[_HEAD.size :])
    if zlib.crc32(payload) != checksum:
        raise DecodeError("its checksum does not fit: bytes were changed")
    return payload


def unpack(data: bytes) -> Any:
    """The record of an envelope; a damaged one raises DecodeError."""
    return parse_json(unpack_bytes(data))


def unpack_if_whole(data: bytes, what: str) -> dict[str, Any]:
    """The record of an envelope; a damaged one is named in a warning, and is empty."""
    try:
        record = unpack(data)
    except DecodeError as error:
        warn_of_loss(f"{what} is damaged ({error}); all the rest is read")
        return {}
    return record if isinstance(record, dict) else {}


def as_key(text: str) -> bytes:
    """Any string at all as bytes: databases refuse some texts (NUL, halves of surrogate pairs) but no bytes."""
    return text.encode("utf-8", "surrogatepass")


def from_key(data: bytes) -> str:
    """The string that `as_key` was given."""
    return bytes(data).decode("utf-8", "surrogatepass")
