"""Files that a process locks for as long as it lives: the kernel lets go of them when it dies, in a container as well.

The lock of `flock` belongs to the open file. One by `fcntl.lockf`, as SQLite takes them, is lost as soon as anybody in
the process closes that file: what SQLite may have open is never locked or looked at here.
"""

from __future__ import annotations

import os
from pathlib import Path


def lock_file(handle: int, *, alone: bool) -> None:
    """Lock an open file until it is closed; an OSError where somebody else has. To look, two may at once."""
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def is_locked(path: Path, *, unreadable: bool | None = True) -> bool | None:
    """Whether somebody has locked a file; None where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError:  # somebody else's, who may live
        return unreadable
    try:
        lock_file(handle, alone=False)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
