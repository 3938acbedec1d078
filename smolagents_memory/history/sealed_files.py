"""Portable files and exported dictionaries under a seal."""

from __future__ import annotations

import base64
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from smolagents_memory._errors import DamagedFileError, MemoryFileError, SealError
from smolagents_memory._json import parse_json
from smolagents_memory.codec.lines import Readable


if TYPE_CHECKING:
    from smolagents_memory.privacy.sealing import Seal

_FIRST = 1000  # bytes by which a sealed file is known


def sealed_lines(lines: Iterable[bytes], seal: Seal, *, packed: bool) -> Iterator[bytes]:
    """The bytes of a file under a seal; what is in it is packed before it is sealed."""
    from smolagents_memory.privacy.sealed_stream import sealed_stream

    return sealed_stream(_packed(lines) if packed else lines, checked(seal))


def _packed(lines: Iterable[bytes]) -> Iterator[bytes]:
    deflate = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)  # as gzip does, without a time
    for line in lines:
        yield deflate.compress(line)
    yield deflate.flush()


def checked(seal: Any) -> Seal:
    """The seal that was given; SealError for what is none."""
    if not hasattr(seal, "new_file_key"):
        raise SealError(f"seal is a Seal, such as Seal.from_file(…, keyring=…), not a {type(seal).__name__}")
    return cast("Seal", seal)


def is_sealed(path: Path) -> bool:
    """Whether a file says that it is sealed."""
    with path.open("rb") as raw:
        first = raw.readline(_FIRST)
    return b"smolagents-memory sealed" in first and _header(first) is not None


def _header(first: bytes) -> dict[str, Any] | None:
    from smolagents_memory.privacy.sealed_stream import sealed_header

    return sealed_header(first)


def readable(path: Path, seal: Any) -> Readable:
    """The file, or what is within it: with a seal it must be sealed, without one it must not."""
    if seal is not None:
        return _Within(path, checked(seal))
    if is_sealed(path):
        raise _without_seal(path.name)
    return path


def _without_seal(named: str) -> SealError:
    return SealError(
        f"{named} is sealed, and was opened without a seal: load_memory(…, seal=Seal(…)), or import_memory"
    )


class _Within:
    """What is within a sealed file, to be read like any."""

    def __init__(self, path: Path, seal: Seal) -> None:
        self._path, self._seal = path, seal

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        from smolagents_memory.privacy.sealed_stream import Unsealed

        raw = self._path.open(mode)
        try:
            return cast(BinaryIO, Unsealed(raw, self._seal, self._path.name))
        except BaseException:
            raw.close()
            raise

    def stat(self) -> os.stat_result:
        return self._path.stat()


# -- dictionaries --------------------------------------------------------------------------------------------------


def sealed_dictionary(exported: dict[str, Any], seal: Seal) -> dict[str, Any]:
    """An exported memory as one dictionary that nobody reads without the seal's keys."""
    from smolagents_memory.privacy.sealed_stream import FORMAT, VERSION

    text = json.dumps(exported, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    data = b"".join(sealed_lines([text], seal, packed=False))
    return {"format": FORMAT, "version": VERSION, "sealed": base64.b64encode(data).decode()}


def unsealed_dictionary(data: Any, seal: Any) -> Any:
    """What was exported, of a dictionary that is sealed where a seal is given, and is not where none is."""
    is_sealed = isinstance(data, Mapping) and data.get("format") == "smolagents-memory sealed"
    if seal is None:
        if is_sealed:
            raise _without_seal("the data")
        return data
    from smolagents_memory.privacy.sealed_stream import Unsealed

    try:
        sealed = base64.b64decode(data["sealed"] if is_sealed else b"", validate=True)
        return parse_json(Unsealed(cast(BinaryIO, io.BytesIO(sealed)), checked(seal), "the data").read())
    except (SealError, MemoryFileError):
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedFileError(f"the data is damaged ({error}); nothing of it can be read") from error
