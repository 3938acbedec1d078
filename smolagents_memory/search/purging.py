"""Purging a place: the database, and what was made from it."""

from __future__ import annotations

from smolagents_memory._log import logger
from smolagents_memory.database import maintenance
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.search.bit_file import purge_bits
from smolagents_memory.search.chroma_folder import CHROMA, chroma_folder
from smolagents_memory.search.chroma_state import holds_deleted


def purge(database: Database) -> None:
    """Leave no byte of what was deleted: in the database, its log, in the files of indexes, and in Chroma's."""
    try:
        maintenance.purge(database)
    finally:
        if database.path is not None:
            with database.reading() as connection:
                purge_bits(database.path, connection)
            _purge_chroma(database)


def _purge_chroma(database: Database) -> None:
    """Chroma keeps what it was told to delete, so its folder is thrown away, and made anew where it is used next."""
    assert database.path is not None
    folder = chroma_folder(database.path.parent / CHROMA)
    with database.reading() as connection:
        sealed = envelope_of(connection).sealed is not None  # then no vector lies outside the database
        if not (folder.path.exists() if sealed else holds_deleted(folder.path, connection)):
            return
    if not folder.purge():
        logger.warning(
            "another process has Chroma's folder %s: vectors of what was deleted stay in its files until that process "
            "recalls something, or closes the place",
            folder.path,
        )
