"""A sealed place as one transaction sees it: which key each scope and each session has, and what is done with it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sqlalchemy import Connection, select

from smolagents_memory._errors import SealError
from smolagents_memory.database import tables


class Spot(NamedTuple):
    """Where a value belongs: the table, whose it is (a session, a scope), which of theirs, and the column.

    The owner is no part of the checksum: a fork's values are its parent's.
    """

    table: str
    owner: str
    key: str | int
    column: str


class Key(Protocol):
    """The key of an owner, or of a place: see `privacy.data_keys`."""

    def seal(self, value: bytes, associated: bytes) -> bytes: ...

    def open(self, sealed: bytes, associated: bytes) -> bytes: ...

    def name(self, name: bytes, associated: bytes) -> bytes: ...

    def read_name(self, sealed: bytes, associated: bytes) -> bytes: ...

    def word(self, word: str) -> str: ...

    def blob(self, name: bytes) -> bytes: ...

    def mark(self, *parts: bytes) -> bytes: ...

    @property
    def short(self) -> Callable[[bytes], bytes]: ...

    def check(self, mark: Any, *parts: bytes) -> bool: ...


class Keys(Protocol):
    """The keys of one place. A new one is durable before it is given."""

    signs: bool
    number: int
    seen: set[int]  # the scopes all of whose memories were found to be there

    @property
    def place(self) -> Key: ...

    def of(self, owner: str, number: int) -> Key: ...

    def new(self, owner: str) -> int: ...

    def entries_of(self, owners: Iterable[str]) -> Iterable[tuple[str, str]]: ...

    def places(self) -> Sequence[Key]: ...


@runtime_checkable
class Seals(Protocol):
    """What `Place(seal=)` takes: see `privacy.sealing.Seal`."""

    mode: Any
    keyring: Any

    def begin(self, place: str) -> int: ...

    def keys(self, place: str, number: int, shown: str) -> Keys: ...


NAME_OF_SESSION = Spot("sessions", "", "", "name")
PERSON_OF_SESSION = Spot("sessions", "", "", "person")
NAME_OF_SCOPE = Spot("memory_scopes", "", "", "name")
OWNER_OF_REDACTED = Spot("redacted", "", "", "owner")
_OF_PLACE = (NAME_OF_SESSION, PERSON_OF_SESSION, NAME_OF_SCOPE, OWNER_OF_REDACTED)


def of_session(name: str) -> str:
    """What a session is called as the owner of a key."""
    return f"session {name}"


def of_scope(name: str) -> str:
    """What a scope is called as the owner of a key."""
    return f"scope {name}"


def owner_of(spot: Spot) -> str:
    """Who owns the key of a spot."""
    return (
        of_scope(spot.owner) if spot.table.startswith("memory") or spot.table == "redacted" else of_session(spot.owner)
    )


def wording(key: Key, words: str) -> bytes:
    """What nobody without the key can make of the words of a memory."""
    return key.short(b"words\0" + words.encode("utf-8", "surrogatepass"))


def mixed(data: bytes, pad: bytes) -> bytes:
    """Bytes hidden by others that nobody knows, or shown again."""
    length = len(data)
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad[:length], "big")).to_bytes(length, "big")


class Sealed:
    """The keys of a place within one transaction.

    Every value of an owner is sealed with the key whose number the owner's row names. A value with another key's is
    one of another time, put back by somebody.
    """

    def __init__(self, place: str, keys: Keys, shown: str) -> None:
        self.keys, self.shown = keys, shown
        self._place, self.place = place, f"vector of {place} ".encode()
        self._numbers: dict[str, int] = {}
        self._known: dict[str, Key] = {}
        self._scopes: dict[int, str] = {}
        self._texts: dict[tuple[Spot, str], str] = {}  # names of scopes and kinds: few, and on every row
        self._read: dict[tuple[Spot, bytes], bytes] = {}  # other names
        self.connection: Connection | None = None  # of the transaction
        self.ledgers: dict[int, Any] = {}  # what is changed in scopes: see `stores.ledger`
        self.embedders: dict[int, bytes] = {}  # their names: see `database.vectors`
        self.verified: dict[Any, Any] = {}  # sessions whose chains were gone along: see `database.chain`

    def refused(self, what: str, why: object) -> SealError:
        """The error for what is not as it was written."""
        return SealError(
            f"{self.shown}: {what} cannot be trusted ({why}). It was changed by somebody else than this package, or "
            "damaged. Nothing was written; see `smolagents-memory doctor`, and restore the newest backup"
        )

    # -- whose key ---------------------------------------------------------------------------------------------

    def tell(self, owner: str, number: Any) -> None:
        """The number of an owner's key, as its row says."""
        self._numbers[owner] = number if isinstance(number, int) else 0

    def number(self, owner: str) -> int:
        """The number of an owner's key."""
        if owner not in self._numbers:
            self.tell(owner, self._asked(owner))
        number = self._numbers[owner]
        if not number:
            raise self.refused(owner, "it has no key")
        return number

    def new(self, owner: str) -> int:
        """A new key for an owner that is about to be made; its number, for the owner's row."""
        self._numbers[owner] = self.keys.new(owner)
        self._known.pop(owner, None)
        return self._numbers[owner]

    def key(self, owner: str) -> Key:
        """The key of an owner."""
        known = self._known.get(owner)
        if known is None:
            known = self._known[owner] = self.keys.of(owner, self.number(owner))
        return known

    def _asked(self, owner: str) -> Any:
        if self.connection is None:
            return None
        kind, _, name = owner.partition(" ")
        if kind == "session":
            table, key = tables.sessions.c, self.name(NAME_OF_SESSION, name.encode("utf-8", "surrogatepass"))
            return self.connection.execute(select(table.seal_key).where(table.name == key)).scalar()
        scopes = tables.scopes.c
        found = select(scopes.seal_key).where(scopes.name == self.scope(name))
        return self.connection.execute(found).scalar()

    def scope_of(self, number: int) -> str:
        """The name of the scope with this number. What says whose key it has is checked where the scope is used."""
        if number not in self._scopes:
            assert self.connection is not None
            c = tables.scopes.c
            row = self.connection.execute(select(c.name, c.seal_key).where(c.id == number)).first()
            if row is None:
                raise self.refused(f"scope {number}", "it is missing")
            try:
                name = self.read_text(NAME_OF_SCOPE, row.name) if row.name else ""
            except SealError as error:
                raise self.refused("the name of a scope", error) from error
            self._scopes[number] = name
            self._numbers.setdefault(of_scope(name), row.seal_key if isinstance(row.seal_key, int) else 0)
        return self._scopes[number]

    def name_scope(self, number: int, name: str) -> None:
        """The scope with this number is called so, whatever its row says."""
        self._scopes[number] = name

    # -- values and names --------------------------------------------------------------------------------------

    def seal(self, value: bytes, spot: Spot) -> tuple[int, bytes]:
        """A value, sealed, and the number of the key."""
        owner = owner_of(spot)
        return self.number(owner), self.key(owner).seal(value, self.associated(spot))

    def open(self, sealed: bytes, spot: Spot, number: int) -> bytes:
        """The value."""
        owner = owner_of(spot)
        if number != self.number(owner):
            raise SealError("it was sealed with another key than its owner has now")
        return self.key(owner).open(sealed, self.associated(spot))

    def words(self, scope: str, words: str) -> str:
        """Words as they lie in a scope: nobody can tell what they are, but each is the same each time."""
        if self.keys.signs or not words:
            return words
        word = self.key(of_scope(scope)).word
        return " ".join([word(each) for each in words.split(" ")])

    def hidden(self, scope: str, words: str, data: bytes) -> bytes:
        """A few bytes that recall reads of many rows: hidden by what is made of the words beside them, or shown again.

        It costs a quarter of an envelope; that they are as they were written the mark of the row tells.
        """
        if self.keys.signs:
            return data
        return mixed(data, wording(self.key(of_scope(scope)), words))

    def name(self, spot: Spot, name: bytes) -> bytes:
        """A name as it lies in a column by which it is looked up."""
        return self._of_name(spot).name(name, self.associated(spot))

    def read_name(self, spot: Spot, data: bytes) -> bytes:
        """The name itself."""
        known = self._read.get((spot, data))
        if known is None:
            known = self._read[spot, data] = self._of_name(spot).read_name(data, self.associated(spot))
        return known

    def scope(self, name: str) -> str:
        """The name of a scope in its column, which is one of texts. That of the one without a name stays."""
        return self.text(NAME_OF_SCOPE, name) if name else ""

    def text(self, spot: Spot, name: str) -> str:
        """A name in a column of texts."""
        if self.keys.signs:
            return name
        return base64.urlsafe_b64encode(self.name(spot, name.encode("utf-8", "surrogatepass"))).decode().rstrip("=")

    def read_text(self, spot: Spot, text: str) -> str:
        """The name itself."""
        if not isinstance(text, str):  # SQLite keeps any kind of value anywhere
            raise SealError("a name is no text")
        if self.keys.signs:
            return text
        known = self._texts.get((spot, text))
        if known is not None:
            return known
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except ValueError:
            raise SealError("a name is no sealed one") from None
        name = self._texts[spot, text] = self.read_name(spot, data).decode("utf-8", "surrogatepass")
        return name

    def _of_name(self, spot: Spot) -> Key:
        return self.keys.place if spot in _OF_PLACE else self.key(owner_of(spot))

    def associated(self, spot: Spot) -> bytes:
        """What a value is bound to: its place (by the random id that a backup keeps) and its spot there."""
        return repr((self._place, *spot)).encode()  # of a text with halves of characters, too

    # -- marks -------------------------------------------------------------------------------------------------

    def mark(self, owner: str, *parts: object) -> bytes:
        """What only who has the key can say of these parts: numbers, texts, bytes, None."""
        return self.key(owner).mark(self._place.encode(), *_told(parts))

    def mark_of_place(self, *parts: object) -> bytes:
        """The same with the place's own key."""
        return self.keys.place.mark(self._place.encode(), *_told(parts))

    def check(self, owner: str, mark: Any, what: str, *parts: object) -> None:
        """Raise SealError unless it is the mark of these parts."""
        if not self.key(owner).check(mark, self._place.encode(), *_told(parts)):
            raise self.refused(what, "it does not have the mark that it was written with")


def _told(parts: Iterable[object]) -> list[bytes]:
    """Each part with its kind in front, so that none is another one's."""
    return [
        b"b" + part if isinstance(part, bytes) else repr(part).encode("utf-8", "backslashreplace") for part in parts
    ]
