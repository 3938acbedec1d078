"""Writing a file so that it is either the old one or the new one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import IO


def write_whole(path: Path, lines: Iterable[bytes]) -> Path:
    """Write a file so that at any instant it is either the old one or the new one, whole, also after power loss.

    A name that ends in ".gz" is packed. A link is followed: the file it points to is replaced, not the link.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as raw:
            _write(raw, lines, packed=path.suffix == ".gz")
            if path.exists():
                with contextlib.suppress(OSError):  # another owner's file: the new one is ours
                    os.chmod(temporary, path.stat().st_mode & 0o777)
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def _write(raw: IO[bytes], lines: Iterable[bytes], *, packed: bool) -> None:
    if not packed:
        raw.writelines(lines)
        return
    # without a time in it the same memory gives the same bytes
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as target, io.BufferedWriter(target) as buffered:
        buffered.writelines(lines)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # there a folder cannot be opened; the replacement itself is journaled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Remove what writers of this file left behind when they were killed."""
    import psutil  # a module that not everybody who imports this needs

    for left in path.parent.glob(f".{_escaped(path.name[:100])}.*.tmp"):
        owner = left.name.split(".")[-3]
        if owner.isdigit() and int(owner) != os.getpid() and not psutil.pid_exists(int(owner)):
            left.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", name)
