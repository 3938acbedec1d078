"""From a URL to a store: `open_store("redis://localhost")`. Other packages add schemes by an entry point."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.stores.base import MemoryStore


if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from smolagents_memory.database.places import Place

GROUP = "smolagents_memory.stores"
_PLACES = ("sqlite", "postgresql", "postgres")  # the schemes of places

Opener = Callable[..., MemoryStore[Any]]


def open_store(url: str | os.PathLike[str] | Place | URL | None, **options: Any) -> MemoryStore[Any]:
    """The store behind a URL. `options` go to its class; so do those after the URL's question mark.

    | URL | store |
    |---|---|
    | `memory://` | InMemoryStore |
    | a folder, a file, `sqlite:///memory.db`, a `Place` | SqliteStore, SqlStore |
    | `postgresql://user@host/name` | SqlStore |
    | `redis://host:6379/0?ttl=60`, `rediss://`, `unix://` | RedisStore |
    | `chroma:///folder`, `chroma+http://host:8000` | VectorMemoryStore |

    Another package adds a scheme with an entry point in the group `smolagents_memory.stores`: its name is the
    scheme, and what it points to is called with the URL and the options.

    >>> open_store("memory://")
    InMemoryStore()
    """
    given = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(given, str):
        return _OPENERS["sqlite"](given, **options)
    scheme = _scheme(given)
    opener = _OPENERS.get(scheme) or _OPENERS.get(scheme.split("+", 1)[0]) or _from_entry_point(scheme)
    if opener is None:
        known = sorted({*filter(None, _OPENERS), *(point.name for point in metadata.entry_points(group=GROUP))})
        raise UnsupportedValueError(f"no store is known for {scheme:.40}://…; known are {', '.join(known)}")
    return opener(given, **options)


def is_store_url(given: Any) -> bool:
    """Whether it is the URL of a store that is no place: one of memories alone."""
    return isinstance(given, str) and _scheme(given).split("+", 1)[0] not in ("", *_PLACES)


def _scheme(url: str) -> str:
    """What stands before the first ://; of a malformed URL that is no scheme, but may be a password."""
    found = re.match(r"\w[\w+.-]*(?=://)", url)
    return found[0].lower() if found else ""


def _from_entry_point(scheme: str) -> Opener | None:
    for point in metadata.entry_points(group=GROUP):
        if point.name == scheme:
            opener: Opener = point.load()
            return opener
    return None


def _opener(module: str, name: str, *, by_url: bool = True) -> Opener:
    """A class of this room, imported when it is used."""

    def opened(url: str | Place, **options: Any) -> MemoryStore[Any]:
        kind: Opener = getattr(import_module(f"smolagents_memory.stores.{module}"), name)
        return kind(url, **options) if by_url else kind(**options)

    return opened


def _redis(url: str, **options: Any) -> MemoryStore[Any]:
    from smolagents_memory.database.places import split_url
    from smolagents_memory.stores.redis import RedisStore

    parts = split_url(url)
    query = dict(parse_qsl(parts.query))
    if "ttl" in query:
        options.setdefault("ttl", _seconds(query.pop("ttl")))
    if "prefix" in query:
        options.setdefault("prefix", query.pop("prefix"))
    rest = urlencode(query)
    # not urlunsplit, which makes unix:/path of unix:///path
    address = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return RedisStore(f"{address}?{rest}" if rest else address, **options)


def _seconds(ttl: str) -> float:
    try:
        return float(ttl)
    except ValueError:
        raise UnsupportedValueError(f"ttl is a number of seconds, not {ttl!r:.80}: redis://host?ttl=60") from None


def _chroma(url: str, **options: Any) -> MemoryStore[Any]:
    from smolagents_memory.stores.chroma import VectorMemoryStore

    scheme, rest = url.split("://", 1)
    _, _, transport = scheme.partition("+")
    if transport:
        return VectorMemoryStore(url=f"{transport}://{rest}", **options)
    return VectorMemoryStore(rest or None, **options)


_OPENERS: dict[str, Opener] = {
    "": _opener("sql", "SqliteStore"),
    "memory": _opener("in_memory", "InMemoryStore", by_url=False),
    **dict.fromkeys(_PLACES, _opener("sql", "SqlStore")),
    "redis": _redis,
    "rediss": _redis,
    "unix": _redis,
    "chroma": _chroma,
}
