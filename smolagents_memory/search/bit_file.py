"""The file of a bit index beside the database: found whole and fitting, or not at all, for it can be made again.

It is named after its scope and embedder. What it holds was made from vectors, so it goes where theirs may not stay.
"""

from __future__ import annotations

import glob
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy
from sqlalchemy import Connection, exists, select

from smolagents_memory._errors import PlaceError
from smolagents_memory._files import erase, left_behind, write_whole
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.search.bits import Bits, Block


_FORMAT = 1
_NAMED = re.compile(r"\.(\d{1,18})-(\d{1,18})\.bits$")
_LONGEST = 1 << 16  # bytes of a head, which has six for each block


class Whose(NamedTuple):
    """Of what a bit index is made: the place's random id, a scope, an embedder, and how wide its vectors are."""

    bank: str
    scope: int
    embedder: int
    dimensions: int


class Taken(NamedTuple):
    """What is in a bit index: the signs, up to which vector, and the last change whose deletions it knows of."""

    bits: Bits
    read: int = 0
    dropped: int = 0


def bit_file(database: Path, scope: int, embedder: int) -> Path:
    """Where the index of a scope is kept."""
    path = Path(os.path.realpath(database))
    return path.with_name(f"{path.name}.{scope}-{embedder}.bits")


def write_bits(path: Path, whose: Whose, taken: Taken) -> bool:
    """Write an index down; whether that could be done."""
    try:
        write_whole(path, _parts(whose, taken), packed=False)
    except (OSError, PlaceError) as error:
        logger.info("the index %s was not written (%s): it is made again from SQL", path, error)
        return False
    return True


def _parts(whose: Whose, taken: Taken) -> Iterator[bytes]:
    told = {**whose._asdict(), "read": taken.read, "dropped": taken.dropped}
    sizes = [len(block) for block in taken.bits.blocks]
    head = json.dumps({"format": _FORMAT, **told, "blocks": sizes}).encode() + b"\n"
    yield head
    checksum = zlib.crc32(head)
    for block in taken.bits.blocks:
        for part in (block.ids.astype("<i8").tobytes(), block.columns.astype("<u8").tobytes()):
            checksum = zlib.crc32(part, checksum)
            yield part
    yield checksum.to_bytes(4, "little")


def read_bits(path: Path) -> tuple[Whose, Taken] | None:
    """What was written down, if all of it is there as it was."""
    if not path.is_file():  # nor is a pipe waited for
        return None
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST)
            head = json.loads(line)
            whose = Whose(**{name: head[name] for name in Whose._fields})
            columns = -(-whose.dimensions // 64)
            size = sum(head["blocks"]) * 8 * (1 + columns)
            if head["format"] != _FORMAT or os.fstat(file.fileno()).st_size != len(line) + size + 4:
                return None
            checksum, blocks = zlib.crc32(line), []
            for rows in head["blocks"]:
                data = file.read(rows * 8 * (1 + columns))
                checksum = zlib.crc32(data, checksum)
                ids, words = numpy.frombuffer(data, "<i8", rows), numpy.frombuffer(data, "<u8", offset=8 * rows)
                blocks.append(Block(ids, words.reshape(columns, rows)))
            whole = file.read() == checksum.to_bytes(4, "little")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return (whose, Taken(Bits(blocks), head["read"], head["dropped"])) if whole else None


def throw_away(path: Path) -> None:
    """Remove a file that is of no use."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.info("the index %s cannot be removed: %s", path, error)


def purge_bits(database: Path, connection: Connection) -> None:
    """Erase the files in which there may be something of vectors that SQL has no more; under a seal, all."""
    path = Path(os.path.realpath(database))
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.bits.*"):
        if left_behind(left):
            erase(left)
    for each in path.parent.glob(f"{glob.escape(path.name)}.*.bits"):
        if _NAMED.search(each.name) and not each.is_symlink() and each.is_file() and _holds_gone(each, connection):
            erase(each)


def _holds_gone(path: Path, connection: Connection) -> bool:
    found = read_bits(path)
    if found is None or envelope_of(connection).sealed is not None:
        return True
    whose, taken = found
    about, gone, scopes = tables.about.c, tables.gone.c, tables.scopes.c
    there = exists().where(scopes.id == whose.scope), exists().where(about.name == "bank", about.value == whose.bank)
    since = exists().where(gone.scope_id == whose.scope, gone.id > taken.dropped)
    return not connection.execute(select(there[0] & there[1] & ~since)).scalar()
