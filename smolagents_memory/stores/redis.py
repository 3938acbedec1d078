"""RedisStore: a cache of memories that many processes share and whose entries may expire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic

from smolagents_memory._brief import brief
from smolagents_memory._errors import (
    MissingExtraError,
    PlaceError,
    StoreFormatError,
    StoreUnavailableError,
    UnsupportedValueError,
)
from smolagents_memory.codec.plain_json import searchable, unpack
from smolagents_memory.database.envelope import as_key, from_key
from smolagents_memory.database.places import split_url
from smolagents_memory.search.words import ANALYSER, words
from smolagents_memory.stores.base import Hit, Item, MemoryStore, Meta, Value, Where, checked_key, entries
from smolagents_memory.stores.kept import Kept, found


BATCH = 1000
_WORDS = f"words {ANALYSER}"  # the field: what another analyser left is not looked at


class RedisStore(MemoryStore[Value], Generic[Value]):
    """Memories in Redis, shared by every process that knows the URL. Search reads all of them: made for thousands.

    Args:
        url: `redis://host:6379/0`, `rediss://…` or `unix:///path/redis.sock`.
        ttl: Seconds after which an entry is gone; None keeps it. Adding it again starts anew.
        prefix: Under which names the entries are in Redis; stores with another prefix are other stores.
        client: A client of your own instead of a URL (with `decode_responses` off).
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        ttl: float | None = None,
        prefix: str = "smolagents-memory",
        client: Any = None,
    ) -> None:
        if ttl is not None and ttl <= 0:
            raise UnsupportedValueError(f"ttl is a number of seconds above 0, or None, not {brief(ttl)}")
        self.abilities = frozenset({"filters", "persistent"} | ({"ttl"} if ttl else set()))
        self.ttl = ttl
        self._client = client if client is not None else _client("redis://localhost:6379/0" if url is None else url)
        self._prefix = prefix.encode()
        self._order = self._prefix + b":order"
        with _translated():
            self._client.ping()

    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        self.add_many([(key, value, meta)])

    def add_many(self, items: Iterable[Item[Value]]) -> int:
        """Add all in one transaction, or none."""
        new = {as_key(key): _entry(Kept.of(value, meta)) for key, value, meta in entries(items)}
        if not new:
            return 0
        with _translated():
            last = self._client.incrby(self._prefix + b":last", len(new))
            pipe = self._client.pipeline(transaction=True)
            for number, (name, entry) in enumerate(new.items(), start=last - len(new) + 1):
                pipe.delete(self._name(name))
                pipe.hset(self._name(name), mapping=entry)
                if self.ttl is not None:
                    pipe.pexpire(self._name(name), max(1, int(self.ttl * 1000)))
                pipe.zadd(self._order, {name: number}, nx=True)
            pipe.execute()
        return len(new)

    def get(self, key: str) -> Value | None:
        kept = self._kept(checked_key(key))
        return None if kept is None else kept.unpacked()[0]

    def meta(self, key: str) -> dict[str, Any] | None:
        with _translated():
            packed = self._client.hget(self._name(as_key(checked_key(key))), "meta")
        return None if packed is None else unpack(packed.decode())

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        return found(query, top_k, where, self._words(), self._kept)

    def forget(self, key: str) -> bool:
        name = as_key(checked_key(key))
        with _translated():
            pipe = self._client.pipeline(transaction=True)
            pipe.delete(self._name(name))
            pipe.zrem(self._order, name)
            return bool(pipe.execute()[0])

    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        for names, answers in self._read(lambda pipe, name: pipe.hgetall(name)):
            for name, entry in zip(names, answers, strict=True):
                if entry:
                    yield from_key(name), *_of_entry(entry).unpacked()

    def __len__(self) -> int:
        return sum(sum(map(bool, there)) for _, there in self._read(lambda pipe, name: pipe.exists(name)))

    def close(self) -> None:
        self._client.close()

    def _name(self, key: bytes) -> bytes:
        return self._prefix + b":item:" + key

    def _kept(self, key: str) -> Kept | None:
        with _translated():
            entry = self._client.hgetall(self._name(as_key(key)))
        return _of_entry(entry) if entry else None

    def _words(self) -> Iterator[tuple[str, str]]:
        for names, answers in self._read(lambda pipe, name: pipe.hget(name, _WORDS)):
            for name, packed in zip(names, answers, strict=True):
                kept = self._kept(from_key(name)) if packed is None else None  # by another analyser, or gone
                if packed is not None or kept is not None:
                    yield from_key(name), kept.words if kept is not None else packed.decode()

    def _read(self, ask: Callable[[Any, bytes], Any]) -> Iterator[tuple[list[bytes], list[Any]]]:
        """What `ask` asks for each entry, in batches; names of entries that expired are dropped on the way."""
        with _translated():
            order = self._client.zrange(self._order, 0, -1)
        for start in range(0, len(order), BATCH):
            names = order[start : start + BATCH]
            with _translated():
                pipe = self._client.pipeline(transaction=False)
                for name in names:
                    ask(pipe, self._name(name))
                answers = pipe.execute()
                if self.ttl is not None:
                    expired = [name for name, answer in zip(names, answers, strict=True) if not answer]
                    if expired:
                        self._drop_expired(expired)
            yield names, answers

    def _drop_expired(self, names: list[bytes]) -> None:
        script = (
            "for i, name in ipairs(ARGV) do if redis.call('EXISTS', KEYS[2] .. name) == 0 then "
            "redis.call('ZREM', KEYS[1], name) end end"
        )
        self._client.eval(script, 2, self._order, self._prefix + b":item:", *names)


def _entry(kept: Kept) -> dict[str, bytes]:
    """What Redis keeps: a text as its bytes, anything else as JSON."""
    return {
        "text" if kept.is_text else "json": as_key(kept.value),
        "meta": kept.meta.encode(),
        _WORDS: kept.words.encode(),
    }


def _of_entry(entry: dict[bytes, bytes]) -> Kept:
    value = entry.get(b"text", entry.get(b"json"))
    if value is None or b"meta" not in entry:
        raise StoreFormatError("an entry in Redis under our prefix was not written by this package; it was left as is")
    kept = Kept(from_key(value), b"text" in entry, entry[b"meta"].decode(), entry.get(_WORDS.encode(), b"").decode())
    if _WORDS.encode() in entry:
        return kept
    return replace(kept, words=" ".join(words(searchable(kept.unpacked()[0]))))


def _client(url: str) -> Any:
    try:
        import redis
    except ImportError as error:
        raise MissingExtraError("RedisStore", "redis") from error
    split_url(url)
    try:
        return redis.Redis.from_url(url)
    except (redis.RedisError, OSError, ValueError, TypeError, AttributeError):  # which may say what stands in it
        raise PlaceError(
            "what was given is no URL of Redis; it looks like redis://user:password@host:6379/0, rediss://… or "
            "unix:///path/redis.sock, with %40 for an @ in the password and %2F for a /"
        ) from None


@contextmanager
def _translated() -> Iterator[None]:
    try:
        import redis
    except ImportError as error:
        raise MissingExtraError("RedisStore", "redis") from error
    try:
        yield
    except (redis.RedisError, OSError, ValueError) as error:
        raise StoreUnavailableError(
            f"Redis could not be read or written ({error}); nothing was half-written"
        ) from error
