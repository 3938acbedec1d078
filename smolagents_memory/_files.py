"""Writing files: each is the old one or the new one, whole, and what is made is its owner's alone."""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import io
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import PlaceError
from smolagents_memory._forks import in_child
from smolagents_memory._locks import is_locked, lock_file


Meanwhile = Callable[[Path], AbstractContextManager[Any]]
BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database
_LEFT = re.compile(r"\.(\d+)\.(?:([0-9a-f]{8})\.tmp|partial)(?:-wal|-shm|-journal)?$")
_NOT_YET_LOCKED = 2.0  # seconds
_ours: dict[str, int | None] = {}  # the tokens of the files that this process is writing, and their locks


def write_whole(path: Path, lines: Iterable[bytes], *, packed: bool | None = None) -> Path:
    """Write a file so that at any instant it is either the old one or the new one, whole, also after power loss.

    A name that ends in ".gz" is packed, unless told otherwise. A link is followed: the file it points to is replaced,
    not the link.
    """
    path = Path(os.path.realpath(path))
    with replacing(path) as temporary, temporary.open("wb") as raw:
        _write(raw, lines, packed=path.suffix == ".gz" if packed is None else packed)
    return path


def make_once(path: Path, data: bytes) -> None:
    """Make a file with this in it, whole, durable, for its owner alone, unless there is one: that is not replaced."""
    if path.exists():
        return
    with unfinished(path) as temporary:
        temporary.write_bytes(data)
        _sync(temporary)
        try:
            os.link(temporary, path)  # of two who make it at once one finds that it is there
        except FileExistsError:
            return
        except (OSError, AttributeError):  # no file has two names here
            _make_at_once(path, data)
    if os.name != "nt":
        _sync(path.parent)


def _make_at_once(path: Path, data: bytes) -> None:
    try:
        handle = open_private(path)
    except FileExistsError:
        return
    with open(handle, "wb") as target:
        target.write(data)
        target.flush()
        os.fsync(handle)


@contextmanager
def replacing(path: Path, meanwhile: Meanwhile = nullcontext) -> Iterator[Path]:
    """An empty file beside `path`, which takes its place when the block has ended well; its owner's alone if new."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no ordinary file"
        raise PlaceError(f"{path} is {what}; it was left as it is: name a file to be written")
    with unfinished(path, meanwhile) as temporary:
        yield temporary
        _sync(temporary)
        if path.exists():
            with contextlib.suppress(OSError):  # another owner's file: the new one is ours
                os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    if os.name != "nt":  # there a folder cannot be opened; the replacement itself is journaled
        _sync(path.parent)


@contextmanager
def unfinished(path: Path, meanwhile: Meanwhile = nullcontext) -> Iterator[Path]:
    """A private file beside `path` that does not outlive the block; those of killed writers go before.

    `meanwhile` is entered before there can be such a file, and left when there is none any more. A lock on it says
    that its writer lives: write into it, and do not put another one in its place.
    """
    make_folder(path.parent)
    _sweep(path)
    token = secrets.token_hex(4)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.{token}.tmp")
    _ours[token] = None
    try:
        with meanwhile(temporary):
            try:
                _ours[token] = _locked(temporary)
                yield temporary
            finally:
                for each in family(temporary):
                    each.unlink(missing_ok=True)
                _unlock(token)
    finally:
        del _ours[token]


def _locked(temporary: Path) -> int | None:
    """An unfinished file, made and locked; None where no file is locked without being kept from everybody."""
    make_private(temporary)
    handle = os.open(temporary, os.O_RDWR)
    try:
        if os.name != "nt":
            lock_file(handle, alone=True)
            return handle
    except OSError:  # the file system knows no locks
        pass
    os.close(handle)
    return None


def _unlock(token: str) -> None:
    handle, _ours[token] = _ours[token], None
    if handle is not None:
        os.close(handle)


@in_child
def _leave_to_parent() -> None:
    """A forked child shares its parent's locks: while it lives, nobody would see that the parent was killed."""
    for token in _ours:
        _unlock(token)


def family(temporary: Path) -> list[Path]:
    """An unfinished file, after what SQLite and migrations made beside it: their names hold its own."""
    found = temporary.parent.glob(f"*{glob.escape(temporary.name)}*")
    return [*(each for each in found if each != temporary), temporary]


def named_file(given: Any) -> Path:
    """The file that somebody names; PlaceError for what can be no file's name."""
    try:
        path = Path(given)
        os.lstat(path)
    except (TypeError, ValueError) as error:  # also NUL, and half a character
        raise PlaceError(
            f"{brief(given)} names no file ({type(error).__name__}); nothing was read or written"
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise PlaceError(f"{brief(given)} is too long for a file's name; nothing was read or written") from None
    return path


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone; one that is there stays as it is."""
    for each in reversed([each for each in (path, *path.parents) if not each.exists()]):
        with contextlib.suppress(FileExistsError):
            each.mkdir(0o700)
            if each.stat().st_mode & 0o700 != 0o700:  # a umask that takes its owner's rights
                each.chmod(0o700)
    path.mkdir(exist_ok=True)  # a file of that name is in the way


def make_private(path: str | os.PathLike[str], mode: int = 0o600) -> None:
    """Make an empty file for its owner alone, if there is none. What SQLite adds beside it is as private."""
    with contextlib.suppress(FileExistsError):
        os.close(open_private(path, mode))


def open_private(path: str | os.PathLike[str], mode: int = 0o600) -> int:
    """A new file for its owner alone, whatever the umask; raises FileExistsError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    if os.name != "nt" and os.fstat(handle).st_mode & 0o777 != mode:
        os.fchmod(handle, mode)
    return handle


def erase(path: Path) -> None:
    """Overwrite a file, then remove it."""
    with path.open("r+b") as target:
        left = path.stat().st_size
        while left > 0:
            left -= target.write(bytes(min(left, 1 << 20)))
        target.flush()
        os.fsync(target.fileno())
    path.unlink()


def left_behind(path: Path) -> bool:
    """Whether an unfinished file, or what lies beside one, is of a writer that is dead. False for every other file.

    Its lock says it. Where there is none (the file is about to be made, an older version wrote it, or it is out of
    sight here) the number of the process does, which another one may have got meanwhile.
    """
    import psutil  # a module that not everybody who imports this needs

    found = _LEFT.search(path.name)
    if not found or not path.name.startswith("."):
        return False
    owner, token = int(found[1]), found[2] or ""
    if token in _ours:
        return False
    temporary = path.with_name(f"{path.name[: found.end(2)]}.tmp")
    locked = is_locked(temporary) if token else None
    if locked or (locked is False and os.name != "nt" and _is_old(temporary)):
        return not locked
    return owner == os.getpid() or not psutil.pid_exists(owner)


def _is_old(temporary: Path) -> bool:
    """Whether it is about to be locked no more."""
    try:
        return abs(time.time() - temporary.stat().st_mtime) > _NOT_YET_LOCKED
    except OSError:  # it went meanwhile
        return True


def _write(raw: IO[bytes], lines: Iterable[bytes], *, packed: bool) -> None:
    if not packed:
        raw.writelines(lines)
        return
    # without a time in it the same memory gives the same bytes
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as target, io.BufferedWriter(target) as buffered:
        buffered.writelines(lines)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(path: Path) -> None:
    """Remove what writers of this file left behind when they were killed."""
    for left in path.parent.glob(f".{glob.escape(path.name[:100])}.*"):
        if _LEFT.fullmatch(left.name[len(path.name[:100]) + 1 :]) and left_behind(left):
            for each in family(left):
                with contextlib.suppress(OSError):  # it went meanwhile, or is somebody else's
                    erase(each)
