"""Times that lie ahead of the clock: of a clock that was wrong once, or is wrong now.

Nothing with such a time would fade for as long as it lies ahead. Memories are numbered in the order in which they were
first written, so often it shows which clock is wrong: where something that was written later, or was used later than
it was written, has a time ahead and what came before has not, the clock was wrong then. Where it does not show, the
clock of today may be behind: it is believed only after a year.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, case, func, literal, or_, select, update

from smolagents_memory.database import tables


DAY = 86_400.0
SLACK = DAY  # by which clocks differ without anything being wrong
PATIENCE = 365 * DAY

_items, _scopes = tables.items.c, tables.scopes.c


def due(noted: float, now: float, every: float) -> bool:
    """Whether what was done at a time is to be done again; a time that lies far ahead does not put it off."""
    return not now - every < noted <= now + max(every, SLACK)


def lies_ahead(connection: Connection, scope: int, now: float) -> bool:
    """Whether some times lie ahead, or did when it was last looked."""
    if connection.execute(select(_scopes.ahead).where(_scopes.id == scope)).scalar() is not None:
        return True
    return connection.execute(_ahead(scope, now).limit(1)).first() is not None


def _ahead(scope: int, now: float) -> Any:
    limit = now + SLACK
    later = or_(_items.created > limit, _items.touched > limit, _items.archived > limit)
    return select(_items.id).where(_items.scope_id == scope, later)


def settle(connection: Connection, scope: int, now: float) -> None:
    """Have what lies ahead age from when that was noticed, if the clock of today can be believed."""
    limit = now + SLACK
    mine = _items.scope_id == scope
    ahead = or_(_items.created > limit, _items.touched > limit, _items.archived > limit)
    since = connection.execute(select(_scopes.ahead).where(_scopes.id == scope)).scalar()
    if connection.execute(_ahead(scope, now).limit(1)).first() is None:
        if since is not None:
            _note(connection, scope, None)
        return
    if since is None or not since <= now:  # or what lies there is no time
        since = now
        _note(connection, scope, now)
    if not _then(connection, scope, limit) and now - since < PATIENCE:
        return
    names = ("created", "touched", "archived")
    values = {name: case((_items[name] > limit, literal(since)), else_=_items[name]) for name in names}
    connection.execute(update(tables.items).where(mine, ahead).values(values))
    _note(connection, scope, None)


def _then(connection: Connection, scope: int, limit: float) -> bool:
    """Whether it shows that the clock was wrong then, and not now."""
    mine = _items.scope_id == scope
    used = select(_items.id).where(mine, _items.created <= limit, or_(_items.touched > limit, _items.archived > limit))
    if connection.execute(used.limit(1)).first() is not None:
        return True
    first = connection.execute(select(func.min(_items.id)).where(mine, _items.created <= limit)).scalar()
    last = connection.execute(select(func.max(_items.id)).where(mine, _items.created > limit)).scalar()
    return first is not None and last is not None and first < last


def _note(connection: Connection, scope: int, since: float | None) -> None:
    connection.execute(update(tables.scopes).where(_scopes.id == scope).values(ahead=since))
