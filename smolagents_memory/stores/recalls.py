"""How well recall served a scope, counted in SQL over all processes: a row for each of the newest, sums for the rest.

A row names memories by their numbers, so that nothing of what was forgotten stays here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, update

from smolagents_memory.database import tables
from smolagents_memory.stores.records import NEWEST, Recall, Served
from smolagents_memory.stores.rows import take_numbers


_SPARE = 200  # and so many more, so that not each one that is noted needs another folded

_recalls, _scopes = tables.recalls.c, tables.scopes.c
_SUMS = select(
    func.count(),
    func.sum(case((func.length(_recalls.given) > 0, 1), else_=0)),
    func.sum(case((_recalls.helped, 1), else_=0)),
)


def note_recalls(connection: Connection, scope: int, recalls: Sequence[Recall]) -> None:
    """Count recalls."""
    if not recalls:
        return
    first = take_numbers(connection, len(recalls))
    rows = [
        {"id": number, "scope_id": scope, "created": each.at, "given": _packed(each.items), "helped": each.helped}
        for number, each in enumerate(recalls, start=first)
    ]
    connection.execute(insert(tables.recalls), rows)
    mine = _recalls.scope_id == scope
    if int(connection.execute(select(func.count()).where(mine)).scalar() or 0) > NEWEST + _SPARE:
        _fold(connection, scope)


def note_help(connection: Connection, scope: int, item: int) -> None:
    """The newest recall that gave this memory was of use."""
    rows = select(_recalls.id, _recalls.given).where(_recalls.scope_id == scope).order_by(_recalls.id.desc())
    found = next((row.id for row in connection.execute(rows) if item in _unpacked(row.given)), None)
    if found is not None:
        connection.execute(update(tables.recalls).where(_recalls.id == found).values(helped=True))


def served(connection: Connection, scope: int, newest: int = NEWEST) -> Served:
    """What is known of a scope's recalls: of so many of the newest which, of the rest how many."""
    mine = _recalls.scope_id == scope
    folded = connection.execute(select(_scopes.recalls, _scopes.hits, _scopes.helped).where(_scopes.id == scope)).one()
    rows = connection.execute(_SUMS.where(mine)).one()
    total, hits, helped = (int(one) + int(other or 0) for one, other in zip(folded, rows, strict=True))
    last = select(_recalls.created, _recalls.given, _recalls.helped).where(mine).order_by(_recalls.id.desc())
    found = [
        Recall(row.created, _unpacked(row.given), bool(row.helped)) for row in connection.execute(last.limit(newest))
    ]
    return Served(total, hits, helped, found[::-1])


def _fold(connection: Connection, scope: int) -> None:
    """The oldest become numbers in the scope's row."""
    mine = _recalls.scope_id == scope
    newest = select(_recalls.id).where(mine).order_by(_recalls.id.desc())
    last = connection.execute(newest.offset(NEWEST).limit(1)).scalar()
    old = mine & (_recalls.id <= last)
    row: Any = connection.execute(_SUMS.where(old)).one()
    added = {"recalls": _scopes.recalls + row[0], "hits": _scopes.hits + row[1], "helped": _scopes.helped + row[2]}
    connection.execute(update(tables.scopes).where(_scopes.id == scope).values(added))
    connection.execute(delete(tables.recalls).where(old))


def _packed(items: Sequence[int]) -> bytes:
    return struct.pack(f">{len(items)}q", *items)


def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 8}q", data[: len(data) // 8 * 8])
