"""Under a seal: the marks of memories and of scopes, by which it is noticed that a row was changed or taken away.

A memory's mark has two parts: one of what recall reads of many rows to choose among them, and one of the whole row.
Of each mark there is a number that is nowhere written down. The scope's row keeps the sum of these numbers, hidden,
and marks of this and of itself: whoever knew the numbers could look for others that have the same sum. What a
transaction is about to change is checked and noted before, and gets its new marks when the transaction ends.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.owners import MARK, mark_of_scope, no_scope
from smolagents_memory.database.sealed import Key, Sealed, mixed, of_scope, wording
from smolagents_memory.database.vectors import BOUND, open_vectors


_TAG = 8  # bytes at the end of a sealed value by which it is known again
_PART = 12  # bytes of each part of a mark
_NONCE, _SUM = 12, 16
_HIDDEN = _NONCE + _SUM
_NUMBERS = struct.Struct(">??qqqqddddd")
_items, _scopes = tables.items.c, tables.scopes.c
_CHOSEN_BY = (
    "id",
    "scope_id",
    "place",
    "words",
    "word_count",
    "created",
    "touched",
    "importance",
    "useful",
    "archived",
)
LIGHT = (*_CHOSEN_BY, "cues")
CUES = LIGHT.index("cues")
_WHOLE = ("kind", "form", "uses", "pinned", "origin", "trust", "embedder_id")
_VALUES = ("value", "meta", "made_of")


def _tail(column: Any) -> Any:
    return func.substr(column, func.length(column) - _TAG + 1)


_ROWS = (
    select(*(_items[name] for name in (*LIGHT, "mark", *_WHOLE, "key")))
    .add_columns(*(_tail(_items[name]).label(name) for name in _VALUES))
    .add_columns(tables.sources.c.name.label("source"))
    .outerjoin(tables.sources, tables.sources.c.id == _items.source_id)
)
_NAMES = ("uses", "touched", "useful")
_USED = update(tables.items).where(_items.id == bindparam("target"))
_USED = _USED.values(mark=bindparam("new"), **{name: bindparam(name) for name in _NAMES})
_MARKED = update(tables.items).where(_items.id == bindparam("target")).values(mark=bindparam("new"))
OF_SCOPE = tuple(_scopes[name] for name in ("id", "name", "live", "words", "seal_key", "mark"))
_OF_SCOPE = select(*OF_SCOPE)


_AWAY = "a memory was taken away, repeated or put back"
_light_of = attrgetter(*LIGHT)
_IN_WHOLE = (*_WHOLE, "key", *_VALUES, "source")
_whole_of = attrgetter(*_IN_WHOLE)
_COUNTED = {name: (names, names.index(name)) for name in _NAMES for names in (LIGHT, _IN_WHOLE) if name in names}


@dataclass
class Ledger:
    """What a transaction changes in one scope: its sum, and which memories with the numbers that they had."""

    total: int
    noted: dict[int, int] = field(default_factory=dict)


def check_lights(sealed: Sealed, scope: str, rows: Iterable[Any]) -> Iterator[tuple[Any, bytes | None]]:
    """The rows, each with its cues, shown; SealError at one of whose columns that recall reads one was changed."""
    key, at, signs = sealed.key(of_scope(scope)), len(LIGHT), sealed.keys.signs
    for row in rows:
        light, pad = _light_of_row(sealed, key, row)
        mark, cues = row[at], row[CUES]
        if not isinstance(mark, bytes) or mark[:_PART] != light:
            raise sealed.refused(f"a memory of scope {scope!r}", "its row was changed")
        yield row, cues if signs or cues is None else mixed(cues, pad)


def _light_of_row(sealed: Sealed, key: Key, row: Any) -> tuple[bytes, bytes]:
    """The mark, and what was made of the words for it: all that hashing them costs is paid once."""
    number, of, place, words, count, created, touched, importance, useful, archived, cues = row[: len(LIGHT)]
    try:
        there = (place is not None, archived is not None, number, of, place or 0, count)
        numbers = _NUMBERS.pack(*there, created, touched, importance, useful, archived or 0.0)
        made = wording(key, words)
        return key.short(b"".join((numbers, made, cues or b""))), made
    except (struct.error, AttributeError, TypeError) as error:  # SQLite keeps any kind of value anywhere
        raise sealed.refused("a row of a memory", "one of its numbers is none") from error


def check_whole(sealed: Sealed, scope: str, row: Any) -> None:
    """Raise SealError unless a memory's row is as it was written."""
    _check(sealed, scope, row.mark, _light_of(row), _whole_of(row))


def _check(sealed: Sealed, scope: str, mark: Any, light: Sequence[Any], whole: Sequence[Any]) -> None:
    if mark != _whole_mark(sealed, scope, light, whole):
        raise sealed.refused(f"a memory of scope {scope!r}", "its row was changed")


def _whole_mark(sealed: Sealed, scope: str, light: Sequence[Any], whole: Sequence[Any]) -> bytes:
    """The mark of a memory's row; of its values the end is enough."""
    owner = sealed.key(of_scope(scope))
    begun = _light_of_row(sealed, owner, light)[0]
    kind, form, uses, pinned, origin, trust, embedder, key, value, meta, made_of, source = whole
    told = repr((kind, form, uses, pinned, origin, trust, embedder)).encode("utf-8", "backslashreplace")
    try:
        values = (value[-_TAG:], (meta or b"")[-_TAG:], b"-" if made_of is None else made_of[-_TAG:])  # SQLite's NULL
        of = b"-" if source is None else b"=" + source
        return begun + owner.mark(begun, told, key, *values, of)[:_PART]
    except TypeError as error:  # SQLite keeps any kind of value anywhere
        raise sealed.refused(f"a memory of scope {scope!r}", "its row was changed") from error


def check_scope(sealed: Sealed, row: Any, name: str) -> int:
    """Raise SealError unless a scope's row is as it was written; the sum of its memories."""
    sealed.tell(of_scope(name), row.seal_key)
    mark = row.mark if isinstance(row.mark, bytes) else b""
    hidden, owners, places = mark[:_HIDDEN], mark[_HIDDEN:-MARK], mark[-MARK:]
    sealed.check(of_scope(name), owners, f"scope {name!r}", *_of_scope(row, hidden))
    if places != mark_of_scope(sealed, row):
        raise sealed.refused(f"scope {name!r}", "its row was changed")
    return int.from_bytes(hidden[_NONCE:], "big") ^ _mask(sealed, name, hidden[:_NONCE])


def trusted_scope(connection: Connection, sealed: Sealed, name: str) -> int | None:
    """The number of a scope, None where there is none; SealError unless its row is as it was written."""
    row = connection.execute(_OF_SCOPE.where(_scopes.name == sealed.scope(name))).first()
    if row is None:
        no_scope(connection)
        return None
    if row.id not in sealed.ledgers:  # whose row is being changed
        enter(connection, sealed, row, name)
    return int(row.id)


def enter(connection: Connection, sealed: Sealed, row: Any, name: str) -> None:
    """Raise SealError unless a scope's row is as it was written, and (looked at once) none of its memories is away."""
    total = check_scope(sealed, row, name)
    if row.id not in sealed.keys.seen:
        _counted(connection, sealed, row, name, total)
        sealed.keys.seen.add(row.id)


def counted(connection: Connection, scope: int) -> dict[bool | None, int]:
    """How many memories a scope has, archived, not archived and (None) all; empty where there is no seal.

    SealError unless these are the ones that it should have.
    """
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return {}
    row, name = connection.execute(_OF_SCOPE.where(_scopes.id == scope)).one(), sealed.scope_of(scope)
    every = _counted(connection, sealed, row, name, check_scope(sealed, row, name))
    return {None: every, False: int(row.live), True: every - int(row.live)}


def check_rows(connection: Connection, scope: int, ids: Sequence[int] | None = None) -> None:
    """Raise SealError unless these memories of a scope, or all that are there, are as they were written."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        name = sealed.scope_of(scope)
        for row in _rows(connection, scope, ids):
            check_whole(sealed, name, row)


def _counted(connection: Connection, sealed: Sealed, row: Any, name: str, total: int) -> int:
    """How many memories a scope has; SealError unless their marks are those that it should have."""
    there = select(_items.id, _items.key, _items.archived, _items.mark).where(_items.scope_id == row.id)
    held = connection.execute(there).all()
    if (total - sum(_number(sealed, name, each, each.mark) for each in held)) % 256**_SUM:
        raise sealed.refused(f"scope {name!r}", _AWAY)
    return len(held)


def _number(sealed: Sealed, name: str, row: Any, mark: Any) -> int:
    """What a memory adds to the sum, with this mark: also of that by which it is found, or is not."""
    told = repr((row.id, row.key, row.archived is None, mark)).encode("utf-8", "backslashreplace")
    return int.from_bytes(sealed.key(of_scope(name)).mark(b"number", told), "big")


def _mask(sealed: Sealed, name: str, nonce: bytes) -> int:
    return int.from_bytes(sealed.key(of_scope(name)).mark(b"sum", nonce), "big")


def _of_scope(row: Any, total: bytes) -> tuple[Any, ...]:
    return "scope", row.id, row.name, row.live, row.words, row.seal_key, total


def changing(connection: Connection, scope: int, ids: Iterable[int] | None) -> None:
    """These memories of a scope (None: all) are about to be changed, or have just been made."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return
    ledger = _ledger(connection, sealed, scope)
    name = sealed.scope_of(scope)
    for row in _rows(connection, scope, None if ids is None else [each for each in ids if each not in ledger.noted]):
        check_whole(sealed, name, row)
        ledger.noted[row.id] = _number(sealed, name, row, row.mark)


def made(connection: Connection, scope: int, ids: Iterable[int]) -> None:
    """These memories are new."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        ledger = _ledger(connection, sealed, scope)
        for each in ids:
            ledger.noted.setdefault(each, 0)


def changing_keys(connection: Connection, scope: int, keys: Sequence[str]) -> None:
    """The memories with these keys are about to be changed."""
    envelope = envelope_of(connection)
    if envelope.sealed is not None:
        name = envelope.sealed.scope_of(scope)
        held = [envelope.key(name, key) for key in keys]
        changing(connection, scope, [row.id for row in _of_keys(connection, scope, held)])


def rewrite(
    connection: Connection, scope: int, keys: Sequence[str], change: Callable[[str, Any], dict[str, float]]
) -> bool:
    """Change numbers of memories, and their marks with them, in one go; False where there is no seal.

    `change` gets the key and the row of each, and gives what is to stand there of its uses, touched and useful.
    """
    envelope = envelope_of(connection)
    sealed = envelope.sealed
    if sealed is None:
        return False
    ledger, name, rows = _ledger(connection, sealed, scope), sealed.scope_of(scope), []
    called = {envelope.key(name, key): key for key in keys}
    for row in _of_keys(connection, scope, list(called)):
        light, whole = list(row[: len(LIGHT)]), list(row[len(LIGHT) + 1 :])  # by their places: it is done for hundreds
        _check(sealed, name, row.mark, light, whole)
        values = change(called[row.key], row)
        for column, value in values.items():
            where, at = _COUNTED[column]
            (light if where is LIGHT else whole)[at] = value
        mark = _whole_mark(sealed, name, light, whole)
        rows.append({"target": row.id, **values, "new": mark})
        ledger.total += _number(sealed, name, row, mark) - _number(sealed, name, row, row.mark)
    if rows:
        connection.execute(_USED, rows)
    return True


def _of_keys(connection: Connection, scope: int, keys: Sequence[bytes]) -> Iterator[Any]:
    for some in chunks(keys):
        yield from connection.execute(_ROWS.where(_items.scope_id == scope, _items.key.in_(some))).all()


def balance(connection: Connection) -> None:
    """At the end of a transaction: the new marks of what it changed, and of its scopes."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return
    for scope, ledger in sealed.ledgers.items():
        name, total = sealed.scope_of(scope), ledger.total - sum(ledger.noted.values())
        rows = []
        for row in _rows(connection, scope, list(ledger.noted)):
            mark = _whole_mark(sealed, name, _light_of(row), _whole_of(row))
            rows.append({"target": row.id, "new": mark})
            total += _number(sealed, name, row, mark)
        if rows:
            connection.execute(_MARKED, rows)
        _mark_scope(connection, sealed, scope, total)
    sealed.ledgers.clear()


def marked_anew(connection: Connection, scope: int) -> None:
    """The marks of a scope all of whose rows this process has just written."""
    sealed = envelope_of(connection).sealed
    assert sealed is not None
    ids = connection.scalars(select(_items.id).where(_items.scope_id == scope)).all()
    sealed.ledgers[scope] = Ledger(0, dict.fromkeys(ids, 0))
    balance(connection)


def begun(connection: Connection, scope: int) -> None:
    """A scope is new."""
    sealed = envelope_of(connection).sealed
    if sealed is not None:
        sealed.ledgers[scope] = Ledger(0)


def check_all(connection: Connection, scope: int) -> None:
    """Raise SealError unless every memory of a scope is there and as it was written."""
    sealed = envelope_of(connection).sealed
    if sealed is None:
        return
    name, total = sealed.scope_of(scope), _ledger(connection, sealed, scope).total
    del sealed.ledgers[scope]
    for row in _rows(connection, scope, None):
        check_whole(sealed, name, row)
        total -= _number(sealed, name, row, row.mark)
    if total % 256**_SUM:
        raise sealed.refused(f"scope {name!r}", _AWAY)


def check_vectors(connection: Connection, scope: int) -> None:
    """Raise SealError unless every memory of a scope has all of its vectors, and there are no others."""
    sealed, v = envelope_of(connection).sealed, tables.vectors.c
    if sealed is None:
        return
    found: dict[tuple[int, Any, bool], list[tuple[int, int]]] = {}
    held = connection.execute(
        select(v.id, v.vector, v.live.is_(True).label("live"), *BOUND).where(v.scope_id == scope).order_by(v.part)
    ).all()
    for row in held:
        found.setdefault((row.item_id, row.embedder_id, bool(row.live)), []).append((row.part, row.parts))
    open_vectors(connection, scope, held)
    items = select(_items.id, _items.embedder_id, _items.archived.is_(None))
    there = {tuple(row) for row in connection.execute(items.where(_items.scope_id == scope)) if row[1] is not None}
    last = connection.execute(select(tables.changes.c.last)).scalar() or 0
    whole = all(0 < row.id <= last for row in held)  # or else no index asks for it
    whole &= all(parts == [(each, parts[0][1]) for each in range(parts[0][1])] for parts in found.values())
    if not whole or {(item, by, bool(live)) for item, by, live in there} != set(found):
        raise sealed.refused(f"scope {sealed.scope_of(scope)!r}", "a vector was taken away, repeated or put back")


def _ledger(connection: Connection, sealed: Sealed, scope: int) -> Ledger:
    found: Ledger | None = sealed.ledgers.get(scope)
    if found is None:
        row = connection.execute(_OF_SCOPE.where(_scopes.id == scope)).one()
        found = sealed.ledgers[scope] = Ledger(check_scope(sealed, row, sealed.scope_of(scope)))
    return found


def _mark_scope(connection: Connection, sealed: Sealed, scope: int, total: int) -> None:
    row = connection.execute(_OF_SCOPE.where(_scopes.id == scope)).first()
    if row is not None:
        name, nonce = sealed.scope_of(scope), os.urandom(_NONCE)  # or two sums would tell what lies between them
        told = nonce + (total % 256**_SUM ^ _mask(sealed, name, nonce)).to_bytes(_SUM, "big")
        mark = told + sealed.mark(of_scope(name), *_of_scope(row, told)) + mark_of_scope(sealed, row)
        connection.execute(update(tables.scopes).where(_scopes.id == scope).values(mark=mark))


def _rows(connection: Connection, scope: int, ids: Sequence[int] | None) -> Iterable[Any]:
    mine = _items.scope_id == scope
    if ids is None:
        yield from connection.execute(_ROWS.where(mine)).all()
        return
    for some in chunks(list(ids)):
        yield from connection.execute(_ROWS.where(mine, _items.id.in_(some))).all()
