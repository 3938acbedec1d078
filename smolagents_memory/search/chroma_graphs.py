"""Chroma's files of a graph: a new one is as large as it may become, filled with what the process had in memory."""

from __future__ import annotations

import os
import struct
from pathlib import Path


_HEAD = struct.Struct("<i4Q")  # version, offset, room, rows, and how many bytes a row has
_VERSION = 1
_LENGTH = 4  # bytes of a row in the file of lengths
_PIECE = 1 << 20


def clear_remains(folder: Path) -> None:
    """Zeros for what lies behind the last row of each graph: it may be of what was forgotten."""
    for header in folder.glob("*/header.bin"):
        if header.is_symlink():
            continue
        try:
            with header.open("rb") as file:
                version, _, room, count, width = _HEAD.unpack(file.read(_HEAD.size))
        except (OSError, struct.error):
            continue  # not such a file, or not there yet
        if version == _VERSION:
            _clear_behind(header.with_name("data_level0.bin"), count * width, room * width)
            _clear_behind(header.with_name("length.bin"), count * _LENGTH, room * _LENGTH)


def _clear_behind(path: Path, used: int, most: int) -> None:
    """Of a file of rows, which may become so large."""
    if path.is_symlink() or not path.is_file():
        return
    size = path.stat().st_size
    if used < size <= most:
        _clear(path, used, size)


def _clear(path: Path, start: int, end: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        left = file.read()
        if left.count(0) == len(left):
            return
        file.seek(start)
        for at in range(start, end, _PIECE):
            file.write(bytes(min(_PIECE, end - at)))
        file.flush()
        os.fsync(file.fileno())
