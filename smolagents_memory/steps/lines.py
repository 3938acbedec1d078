"""JSON Lines with a checksum in each line, and writing a file so that it is either the old one or the new one."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from smolagents_memory._errors import DecodeError


LONGEST_LINE = 1 << 30  # a line of more is taken for an attack (a small .gz can hold a terabyte of zeros)
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


def parse_json(
    text: bytes | str, *, constants: bool = False, build: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """JSON from a source that is not trusted; `constants` lets NaN and infinities pass, which others write.

    `build` gets every object, the inner ones first, and gives what is to stand in its place.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _decoder(constants, build).decode(text)
    except RecursionError:
        raise DecodeError("it is nested deeper than anything that this package writes") from None
    except ValueError as error:
        raise DecodeError(f"it is not JSON: {error}") from error


@functools.lru_cache(maxsize=8)
def _decoder(constants: bool, build: Callable[[dict[str, Any]], Any] | None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=None if constants else _refuse, object_hook=build)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def read_lines(path: Path) -> Iterator[bytes | DecodeError]:
    """The lines of a file, unpacked if it is packed; the last item is a DecodeError where reading ends early."""
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        with gzip.open(raw) if packed else contextlib.nullcontext(raw) as source:
            while True:
                try:
                    line = source.readline(LONGEST_LINE)
                except (EOFError, OSError, zlib.error) as error:
                    yield DecodeError(f"it cannot be unpacked: {error}")
                    return
                if not line:
                    return
                yield line
                if len(line) == LONGEST_LINE:
                    yield DecodeError(f"it has a line of more than {LONGEST_LINE} bytes")
                    return


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
    for left in path.parent.glob(f".{_escaped(path.name[:100])}.*.tmp"):
        owner = left.name.split(".")[-3]
        if owner.isdigit() and int(owner) != os.getpid() and not _alive(int(owner)):
            left.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", name)


def _alive(process: int) -> bool:
    if os.name == "nt":  # asking would kill it there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
