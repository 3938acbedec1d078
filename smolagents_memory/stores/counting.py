"""How many memories there are, without reading them: one number is kept in a scope's row, one index has the rest."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, select, true

from smolagents_memory.database import tables
from smolagents_memory.database.ledger import counted


_items, _scopes = tables.items.c, tables.scopes.c
_HELD = select(_items.scope_id, func.count(_items.id)).group_by(_items.scope_id)  # from the index of these two alone


class Count(NamedTuple):
    """Of one scope."""

    live: int
    archived: int

    def of(self, archived: bool | None) -> int:
        """Those that are put away, those that are not, or (None) both."""
        return self.live + self.archived if archived is None else self.archived if archived else self.live


def counts(connection: Connection, scope: int | None = None) -> dict[int, Count]:
    """How many each scope has, or one. Under a seal SealError unless these are the ones that it should have."""
    mine = true() if scope is None else _items.scope_id == scope
    rows = connection.execute(select(_scopes.id, _scopes.live).where(true() if scope is None else _scopes.id == scope))
    held = {row[0]: row[1] for row in connection.execute(_HELD.where(mine))}
    return {row.id: _counted(connection, row.id, row.live, held.get(row.id, 0)) for row in rows.all()}


def _counted(connection: Connection, scope: int, live: int, held: int) -> Count:
    sealed = counted(connection, scope)
    if sealed:
        return Count(sealed[False], sealed[True])
    if not 0 <= live <= held:  # it was damaged: the memories themselves are looked at
        here = _HELD.where(_items.scope_id == scope, _items.archived.is_(None))
        live = sum(row[1] for row in connection.execute(here))
    return Count(live, held - live)
