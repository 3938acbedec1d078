"""What the files of a folder were when it was last written: whatever differs now was damaged, or written since."""

from __future__ import annotations

import json
import stat
import time
import zlib
from enum import Enum
from pathlib import Path
from typing import Any

from smolagents_memory._files import write_whole


INVENTORY = "inventory.json"
_PIECE = 1 << 20
_LARGEST = 1 << 24  # bytes of an inventory
_TICK = 100_000_000  # nanoseconds; the clocks of file systems are coarse
_COUNTER = slice(24, 28)  # of a SQLite file: a number that every transaction that changes the file makes larger

Stamp = tuple[int, int, int]  # by which a file that was not touched is known: when it was written, its size, its node
Entry = list[int]  # a file's size and checksum


class State(Enum):
    """What a folder is, compared with its inventory."""

    AS_LEFT = "as it was left"
    DAMAGED = "damaged"
    WRITTEN = "written since, or never noted"


class Inventory:
    """The sizes and checksums of all files under a folder, kept in a file among them.

    No mark says "in use": the folder is as it was left exactly if its bytes are, whoever was killed when.
    """

    def __init__(self, folder: Path, database: str) -> None:
        self._folder, self._file, self._database = folder, folder / INVENTORY, database
        self._written = b""
        self._known: dict[str, tuple[Stamp, Entry]] = {}  # what this process has looked at, and need not read again

    def write(self) -> None:
        """Note what is there now."""
        self._known = _looked_at(self._folder, self._known)
        files = {name: entry for name, (_, entry) in sorted(self._known.items())}
        told: dict[str, Any] = {"files": files, "counter": self._counter()}
        data = json.dumps(told).encode()
        if data == self._written and self._file.exists():
            return
        if not self._file.is_file():  # nor is a pipe waited for
            self._file.unlink(missing_ok=True)
        write_whole(self._file, [json.dumps({"checksum": zlib.crc32(data)}).encode(), b"\n", data])
        self._written = data

    def compare(self) -> tuple[State, str]:
        """What the folder is, and how that is known. An empty folder is as it was left."""
        self._known = _looked_at(self._folder, {})
        now = {name: entry for name, (_, entry) in self._known.items()}
        noted = self._read()
        if noted is None:
            state = State.WRITTEN if now else State.AS_LEFT
            return state, "its files were not noted when it was last written"
        then, counter = noted
        names = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
        if not names:
            return State.AS_LEFT, ""
        # nobody writes without the database's counter going on, so what differs while it stands still was damaged
        written = self._counter() not in (counter, None)
        told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return (State.WRITTEN if written else State.DAMAGED), f"{told}: not as when it was last written"

    def _read(self) -> tuple[dict[str, Entry], int | None] | None:
        try:
            checksum, data = beginning(self._file, _LARGEST).split(b"\n", 1)
            if json.loads(checksum)["checksum"] != zlib.crc32(data):
                return None
            noted = json.loads(data)
            return dict(noted["files"]), noted["counter"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _counter(self) -> int | None:
        try:
            head = beginning(self._folder / self._database, 100)
        except OSError:
            return None
        return int.from_bytes(head[_COUNTER], "big") if len(head) == 100 else None


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file; of a pipe or a device, which may never give any, none."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is no file")
    with path.open("rb") as file:
        return file.read(size)


def _looked_at(folder: Path, known: dict[str, tuple[Stamp, Entry]]) -> dict[str, tuple[Stamp, Entry]]:
    """Every file under a folder; what is neither a file nor a folder is noted as being that."""
    found: dict[str, tuple[Stamp, Entry]] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        seen = path.lstat()
        if stat.S_ISDIR(seen.st_mode) or _is_ours(name):
            continue
        stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
        if time.time_ns() - seen.st_mtime_ns < _TICK:  # it may be written once more without its time going on
            stamp = (-1, -1, -1)
        if stamp[0] >= 0 and name in known and known[name][0] == stamp:
            found[name] = known[name]
        elif stat.S_ISREG(seen.st_mode):
            found[name] = (stamp, _entry(path))
        elif path.is_file():  # a link to one: what it leads to is looked at each time
            found[name] = ((-1, -1, -1), [*_entry(path), stat.S_IFMT(seen.st_mode)])
        else:
            found[name] = (stamp, [-1, stat.S_IFMT(seen.st_mode)])
    return found


def _is_ours(name: str) -> bool:
    """The inventory itself, or what a process that was killed left of one."""
    return name == INVENTORY or (name.startswith(f".{INVENTORY}.") and name.endswith(".tmp"))


def _entry(path: Path) -> Entry:
    size, checksum = 0, 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return [size, checksum]
