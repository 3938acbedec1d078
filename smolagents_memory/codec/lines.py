"""JSON Lines with a checksum in each line."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import zlib
from collections.abc import Generator
from typing import Any, BinaryIO, Literal, Protocol

from smolagents_memory._errors import DecodeError
from smolagents_memory._json import parse_json
from smolagents_memory.codec.allowance import Allowance


LONGEST_LINE = 1 << 30  # a line of more is taken for an attack (a small .gz can hold a terabyte of zeros)
_UNPACKED = 4  # what a byte of text takes when it is read, at the least
_PART = 1 << 20
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"}$')
_GZIP = b"\x1f\x8b"


def dump_line(record: dict[str, Any]) -> bytes:
    """A record as a line, its checksum last."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text)


def parse_line(line: bytes) -> dict[str, Any]:
    """The record of a line; one that was changed or cut raises DecodeError."""
    line = line.rstrip(b"\r\n")
    found = _CHECKSUM.search(line[-24:])
    if found is None:
        raise DecodeError("it is cut short or has no checksum")
    text = line[: -len(found.group())] + b"}"
    if int(found.group(1), 16) != zlib.crc32(text):
        raise DecodeError("its checksum does not fit: bytes were changed")
    record = parse_json(text)
    if not isinstance(record, dict):
        raise DecodeError("it is no record")
    return record


class Readable(Protocol):
    """A file to read: a path, or what is within a file under a seal."""

    def open(self, mode: Literal["rb"]) -> BinaryIO: ...

    def stat(self) -> os.stat_result: ...


def read_whole(path: Readable, allowance: Allowance) -> bytes:
    """The whole of a file, unpacked if it is packed; DecodeError where it cannot be, or is too much."""
    with path.open("rb") as raw:
        if raw.read(2) != _GZIP:
            raw.seek(0)
            return raw.read()
        raw.seek(0)
        text = bytearray()
        try:
            with gzip.open(raw) as source:
                while part := source.read(_PART):
                    allowance.take(_UNPACKED * len(part), "what it unpacks to")
                    text += part
        except (EOFError, OSError, zlib.error) as error:
            raise DecodeError(f"it cannot be unpacked: {error}") from error
    return bytes(text)


def read_lines(path: Readable, allowance: Allowance | None = None) -> Generator[bytes | DecodeError, None, None]:
    """The lines of a file, unpacked if it is packed; the last item is a DecodeError where reading ends early.

    What is unpacked is taken from the allowance: a few bytes can hold a terabyte.
    """
    allowance = allowance or Allowance(path.stat().st_size)
    with path.open("rb") as raw:
        try:
            packed = raw.read(2) == _GZIP
        except DecodeError as error:  # what is under a seal was changed
            yield error
            return
        raw.seek(0)
        with gzip.open(raw) if packed else contextlib.nullcontext(raw) as source:
            while True:
                longest = min(LONGEST_LINE, max(1, allowance.left // _UNPACKED + 1)) if packed else LONGEST_LINE
                try:
                    line = source.readline(longest)
                    if packed:
                        allowance.take(_UNPACKED * len(line), "what it unpacks to")
                except DecodeError as error:  # it is too much, or what is under a seal was changed
                    yield error
                    return
                except (EOFError, OSError, zlib.error) as error:
                    yield DecodeError(f"it cannot be unpacked: {error}")
                    return
                if not line:
                    return
                yield line
                if longest == LONGEST_LINE and len(line) == LONGEST_LINE:
                    yield DecodeError(f"it has a line of more than {LONGEST_LINE} bytes")
                    return
