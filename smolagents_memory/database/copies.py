"""Copies of a place: where none may go, and how those that were never finished are found again."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smolagents_memory._errors import PlaceError
from smolagents_memory._files import BESIDE, erase, family, left_behind, make_private, unfinished
from smolagents_memory._log import logger
from smolagents_memory.database.migrating import backup_paths
from smolagents_memory.database.places import Place


_ELSEWHERE = "smolagents_memory"  # in the temporary folder, for a place that has no folder
_NOTED = re.compile(r"(\.\d+\.[0-9a-f]{8})\.copying$")
_OWN = re.compile(r"(-wal|-shm|-journal|\.before-.*|\.[0-9a-f]{16}\.lock|\..*\.copying)?", re.DOTALL)


def refuse_own_files(place: Place, path: Path) -> None:
    """Raise PlaceError if `path` is the database of a place, or one of the files that belong to it."""
    own = place.path
    if own is None:
        return
    target, database = Path(os.path.realpath(path)), Path(os.path.realpath(own))
    named = target.parent == database.parent and target.name.startswith(database.name)
    if (named and _OWN.fullmatch(target.name[len(database.name) :])) or any(
        _same(target, Path(f"{database}{suffix}")) for suffix in ("", *BESIDE)
    ):
        raise PlaceError(f"{path} is the database that is in use, or part of it; it is as it was: name another file")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


@contextmanager
def noted(place: Place, temporary: Path) -> Iterator[None]:
    """Note beside a place that a copy of it is being made, for whoever purges it after that was killed."""
    beside = _beside(place)
    token = ".".join(temporary.name.split(".")[-3:-1])  # and the number of the process
    note = beside.with_name(f"{beside.name}.{token}.copying") if beside is not None else None
    if note is not None:
        try:
            make_private(note)
            note.write_bytes(os.fsencode(os.path.abspath(temporary)))
        except OSError as error:  # a place that can only be read
            logger.debug("it cannot be noted that a copy is being made (%s)", error)
    try:
        yield
    finally:
        if note is not None:
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)


@contextmanager
def passing(place: Place) -> Iterator[Path]:
    """A private file beside a place, for a copy that is needed for a moment; if it is killed a purge finds that."""
    beside = _beside(place) or Path(tempfile.gettempdir()) / _ELSEWHERE
    with unfinished(beside, lambda copied: noted(place, copied)) as copied:
        yield copied


def erase_copies(place: Place) -> None:
    """Erase what migrations left beside a place, and the unfinished copies of those who were killed."""
    for copy in backup_paths(place.path) if place.path is not None else ():
        erase(copy)
        logger.info("erased %s, a copy from before a migration", copy)
    beside = _beside(place)
    notes = beside.parent.glob(f"{glob.escape(beside.name)}.*.copying") if beside is not None else ()
    for note in notes:
        with contextlib.suppress(OSError):  # somebody else's, or it went meanwhile
            token = _NOTED.search(note.name)
            if not token or note.is_symlink() or (os.name != "nt" and note.stat().st_uid != os.geteuid()):
                continue
            temporary = Path(os.fsdecode(note.read_bytes()))
            if not (temporary.name.startswith(".") and temporary.name.endswith(f"{token[1]}.tmp")):
                temporary = note.with_name(f".{token[1]}.tmp")  # not written yet, or no such note: erases nothing
            if not left_behind(temporary):  # its writer is at work
                continue
            for left in family(temporary):
                if left.is_file() and not left.is_symlink():
                    erase(left)
                    logger.info("erased %s, a copy whose writer was killed", left)
            note.unlink(missing_ok=True)


def _beside(place: Place) -> Path | None:
    """What the names of a place's notes begin with; None for RAM."""
    if place.in_ram:
        return None
    return Path(os.path.realpath(place.path)) if place.path else Path(tempfile.gettempdir()) / _ELSEWHERE
