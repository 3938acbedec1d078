"""Seal: what a place is sealed with, and the keys of one place that it gives."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import struct
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from smolagents_memory._brief import brief
from smolagents_memory._errors import SealError, SmolagentsMemoryError
from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory.privacy.data_keys import LENGTH, DataKey, need_extra
from smolagents_memory.privacy.keyring import Keyring, keyring_of, read_all, replace_all
from smolagents_memory.privacy.masters import (
    Master,
    checked_passphrase,
    key_file_of,
    master_from_file,
    master_from_passphrase,
    master_of,
)


Mode = Literal["seal", "sign"]
OF_FILES = "file."  # how entries begin that are of no place
_OF_PLACE = "place"
_ENTRY = struct.Struct(f">I{LENGTH}s")
_KEPT = 1000  # owners whose keys are held in RAM
_CHECK = 16  # bytes of an entry that say under which name it was wrapped


class Seal:
    """What a place is sealed with: `Place(…, seal=Seal(master, keyring=…))`.

    Whatever a person or a model wrote is then encrypted before it reaches the database: texts, keys, names, words,
    vectors, images, variables. Each scope and each session has a key of its own. These keys lie in the keyring,
    wrapped by the master key: without the keyring and the master nobody reads the place, nor a backup of it.

    Args:
        master: A key of 32 bytes, or an object with `wrap` and `unwrap`, such as one that asks a key service.
        keyring: Where the keys are kept: a folder, a database URL, or an object with `get`, `put_if_absent`,
            `replace` and `delete`. Never within the place, nor in a backup of it.
        mode: "seal", or "sign": nothing is encrypted, but what is changed, moved or taken away is noticed.

    >>> from smolagents_memory import EnhancedAgentMemory, Place, Seal
    >>> place = Place("agent_memory", seal=Seal.from_file("master.key", keyring="keys"))
    >>> with EnhancedAgentMemory(place, vector=False) as memory:
    ...     key = memory.remember("The door code is 4711.")
    >>> b"4711" in place.path.read_bytes()
    False
    """

    def __init__(self, master: bytes | Master, keyring: Any, *, mode: Mode = "seal") -> None:
        known = master_of(master)
        self._have(lambda **_: known, keyring_of(keyring), mode)

    def _have(self, find: Callable[..., Master], keyring: Keyring, mode: Mode) -> None:
        _checked(mode)
        self._find, self.keyring, self.mode = find, keyring, mode
        self._known: Master | None = None
        self.key_file: Path | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], keyring: Any, *, mode: Mode = "seal") -> Seal:
        """With the master key in a file, which is made for its owner alone when there is none."""
        kept, file = keyring_of(keyring), key_file_of(path)
        _checked(mode)  # before a file is made
        seal = cls(master_from_file(file), kept, mode=mode)
        seal.key_file = file
        return seal

    @classmethod
    def from_passphrase(cls, passphrase: str, keyring: Any, *, mode: Mode = "seal") -> Seal:
        """With a master key that is made of a passphrase (scrypt); its salt is in the keyring."""
        seal = cls.__new__(cls)
        kept = keyring_of(keyring)  # which may not be there: its salt is read when the place's keys are
        seal._have(partial(master_from_passphrase, checked_passphrase(passphrase), kept), kept, mode)
        return seal

    @property
    def master(self) -> Master:
        """What wraps the keys."""
        return self._master(to_open=False)

    def _master(self, *, to_open: bool) -> Master:
        if self._known is None:
            self._known = self._find(to_open=to_open)
        return self._known

    def __repr__(self) -> str:
        return f"Seal(…, keyring={str(self.keyring)!r})" if self.mode == "seal" else f"Seal(…, mode={self.mode!r})"

    def begin(self, place: str) -> int:
        """Make a key for a place (by its random id) that is to be sealed, not one that it had before; its number."""
        name, number = _entry_name(place, _OF_PLACE), _number(())
        made = self.wrapped(name, {number: secrets.token_bytes(LENGTH)})
        return number if self.keyring.put_if_absent(name, made) == made else self.add(name)

    def keys(self, place: str, number: int, shown: str) -> PlaceKeys:
        """The keys of a place whose own key has this number; `shown` is how errors call the place."""
        return PlaceKeys(self, place, number, shown)

    # -- files that are sealed by themselves -----------------------------------------------------------------------

    def new_file_key(self, file: str) -> tuple[int, DataKey]:
        """Make a key for a file (by its random id), durable when this returns; its number, and the key."""
        number = self.begin_entry(f"{OF_FILES}{file}")
        return number, self.file_key(file, number)

    def file_key(self, file: str, number: int) -> DataKey:
        """The key of a file; SealError where the keyring does not have it, or the master key is another one."""
        keys = self.read(f"{OF_FILES}{file}") or {}
        if number not in keys:
            raise SealError(f"the keyring {self.keyring} has no key of it")
        return DataKey(keys[number], signs=self.mode == "sign")

    # -- entries of the keyring: the keys of one owner, wrapped together --------------------------------------------

    def read(self, name: str) -> dict[int, bytes] | None:
        """The keys of an entry, by number; None where there is no such entry."""
        entry = self.keyring.get(name)
        return None if entry is None else self._unwrapped(name, entry)

    def has_wrapped(self, name: str) -> bool:
        """Whether an entry is wrapped by this master, by its name: a key service may be out of reach just now."""
        entry = self.keyring.get(name)
        try:
            return entry is not None and name_of_master(self.master) in wraps_in(name, entry)
        except SealError as error:
            logger.warning("%s: it is left as it is", error)
            return False

    def _unwrapped(self, name: str, entry: bytes) -> dict[int, bytes]:
        wraps, master = wraps_in(name, entry), self._master(to_open=True)
        mine, cause = wraps.get(name_of_master(master)), None
        for wrapped in [mine] if mine is not None else wraps.values():
            try:
                plain = master.unwrap(wrapped)
            except Exception as error:  # noqa: BLE001 — whatever a key service says of what it did not wrap
                cause = error
                continue
            if isinstance(plain, bytes) and plain[:_CHECK] == _check(name) and not _left_over(plain):
                return dict(_ENTRY.iter_unpack(plain[_CHECK:]))
        answered = mine is None or cause is None or isinstance(cause, SealError)
        silent = "" if answered else f", or did not answer ({type(cause).__name__})"
        raise SealError(
            f"the master key is not the one that its keys were wrapped with{silent}. Nothing was changed: open it "
            "with the one that it was sealed with, or that its keys were wrapped with since"
        ) from cause

    def wrapped(self, name: str, keys: dict[int, bytes], others: dict[str, bytes] | None = None) -> bytes:
        """An entry; `others` are what other masters wrapped of the same keys."""
        plain = _check(name) + b"".join(_ENTRY.pack(number, key) for number, key in sorted(keys.items()))
        try:
            mine = self.master.wrap(plain)
        except SmolagentsMemoryError:
            raise
        except Exception as error:
            raise SealError(
                f"the master did not wrap a key ({type(error).__name__}): a key service that is out of reach, or "
                "refuses. Nothing was written with that key"
            ) from error
        if not isinstance(mine, bytes):
            raise SealError(f"the master's wrap gives bytes, not {brief(mine)}; nothing was written")
        wraps = {**(others or {}), name_of_master(self.master): mine}
        told = {master: base64.b64encode(wrap).decode() for master, wrap in wraps.items()}
        return json.dumps({"version": 1, "wraps": told}).encode()

    def add(self, name: str) -> int:
        """A new key in an entry, durable when this returns; its number."""
        entry = self.keyring.get(name)
        if entry is None:
            return self.begin_entry(name)
        keys = self._unwrapped(name, entry)
        number = _number(keys)
        self.keyring.replace(name, self.wrapped(name, {**keys, number: secrets.token_bytes(LENGTH)}))
        return number

    def begin_entry(self, name: str) -> int:
        """The same in a new entry; somebody else's, or that of an attempt that failed, is as good."""
        made = self.wrapped(name, {_number(()): secrets.token_bytes(LENGTH)})
        return max(self._unwrapped(name, self.keyring.put_if_absent(name, made)))


class PlaceKeys:
    """The keys of one place, as they are needed. `owner` is what a scope or a session is called within the package."""

    def __init__(self, seal: Seal, place: str, number: int, shown: str) -> None:
        self.seal, self.id, self.number, self.shown = seal, place, number, shown
        self.signs = seal.mode == "sign"
        self.seen: set[int] = set()
        self._lock = Lock()
        self._known: OrderedDict[str, dict[int, DataKey]] = OrderedDict()  # by entry, the newest at the end
        self.place = self._key(_entry_name(place, _OF_PLACE), number, "the place")
        self._places = list(self._known[self.entry].values())

    def of(self, owner: str, number: int) -> DataKey:
        """The key of this number of an owner."""
        return self._key(self.entry_of(owner), number, f"the {owner.partition(' ')[0]}")

    def new(self, owner: str) -> int:
        """Make a key for an owner, durable when this returns; its number."""
        self.of_place()  # raises where the keys were wrapped by another master since: this one wraps none beside them
        name = self.entry_of(owner)
        number = self.seal.add(name)
        self._known.pop(name, None)
        return number

    def entry_of(self, owner: str) -> str:
        """What the entry of an owner is called in the keyring."""
        return _owned(self.id, self.place, owner)

    def entries_of(self, owners: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The same under every key that the place ever had, each with its owner."""
        places = self.places()
        yield from ((_owned(self.id, place, owner), owner) for owner in owners for place in places)

    def places(self) -> list[DataKey]:
        """Every key that the place had when these were read; when it gets another one, they are read anew."""
        return self._places

    def of_place(self) -> dict[int, bytes]:
        """All keys that the place has had and that were not dropped."""
        return self.seal.read(self.entry) or {}

    @property
    def entry(self) -> str:
        """What the place's own entry is called."""
        return _entry_name(self.id, _OF_PLACE)

    def _key(self, name: str, number: int, whose: str) -> DataKey:
        known = self._known.get(name, {})
        if number not in known:
            try:
                keys = self.seal.read(name)
            except SealError as error:
                raise SealError(f"{self.shown} cannot be opened: {error}") from error
            if keys is None or number not in keys:
                raise SealError(
                    f"{self.shown}: the keyring {self.seal.keyring} has no key of {whose}. It is another keyring, or "
                    "the key was shredded, and then this cannot be read any more. Nothing was changed"
                )
            known = {each: DataKey(key, signs=self.signs) for each, key in keys.items()}
            with self._lock:
                self._known[name] = known
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return known[number]


def _owned(place: str, key: DataKey, owner: str) -> str:
    return _entry_name(place, key.mark(b"owner", owner.encode("utf-8", "surrogatepass")).hex())


def _entry_name(place: str, whose: str) -> str:
    return f"{place}.{whose}"


def name_of_master(master: Any) -> str:
    """What tells a master apart from others."""
    name = getattr(master, "name", None)
    return name if isinstance(name, str) else type(master).__name__


def _check(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:_CHECK]


def _number(taken: Collection[int]) -> int:
    while (number := 1 + secrets.randbelow(0x7FFFFFFF)) in taken:
        pass
    return number


def _checked(mode: Any) -> None:
    need_extra()
    if mode not in ("seal", "sign"):
        raise SealError(f'the mode of a seal is "seal" or "sign", not {brief(mode)}')


def _left_over(plain: bytes) -> int:
    return (len(plain) - _CHECK) % _ENTRY.size


def wraps_in(name: str, entry: bytes) -> dict[str, bytes]:
    """What an entry of a keyring holds, by the names of the masters that wrapped it; SealError for what is none."""
    try:
        told = json.loads(entry)
        return {str(master): base64.b64decode(wrap, validate=True) for master, wrap in told["wraps"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise SealError(f"its entry {name} in the keyring is damaged") from None


def rewrap(old: Seal, new: Seal, names: Iterable[str]) -> int:
    """Wrap these entries by another master; how many that were. At any instant one of both opens all of them.

    First every entry is wrapped by both, then by the new one alone.
    """
    entries = read_all(old.keyring, names)
    both = {}
    for name, entry in entries.items():
        wraps = wraps_in(name, entry)
        if name_of_master(new.master) not in wraps:
            both[name] = new.wrapped(name, old._unwrapped(name, entry), wraps)
    replace_all(new.keyring, both)
    alone = {name: both.get(name, entry) for name, entry in entries.items()}
    alone = {name: _alone(name, entry, name_of_master(new.master)) for name, entry in alone.items()}
    replace_all(new.keyring, {name: entry for name, entry in alone.items() if entry != entries[name]})
    return len(alone)


def _alone(name: str, entry: bytes, master: str) -> bytes:
    kept = base64.b64encode(wraps_in(name, entry)[master]).decode()
    return json.dumps({"version": 1, "wraps": {master: kept}}).encode()
