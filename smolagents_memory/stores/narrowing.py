"""Which memories a filter may fit, told by SQL before anything is looked at. What fits is for the filter to say.

It never leaves one out. So nothing is narrowed under a seal, where labels could be taken away and nobody would notice;
nor while memories are read anew, some of which have no labels yet.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, literal_column, select

from smolagents_memory.database import tables
from smolagents_memory.database.envelope import as_key, envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.stores.requirements import Needed, Range
from smolagents_memory.stores.rereading import is_all_read
from smolagents_memory.stores.rows import POSITIONS


SCORED = (1_000, 10_000)  # memories that a recall scores instead of searching: beyond, in a million, that is faster
READ = (1_000, 10_000, 100_000)  # that are read one by one, instead of all

_items, _sources = tables.items.c, tables.sources.c
_LABELLED = "SELECT item_id FROM memory_labels WHERE scope_id = {scope} AND label IN ({labels}) LIMIT {most}"
_OF_SOURCE = "SELECT id FROM memory_items WHERE place BETWEEN {first} AND {last} LIMIT {most}"
_LARGEST = sys.float_info.max
Ids = Collection[int]


def narrowed(
    connection: Connection, scope: int, wanted: Sequence[Needed], most: Sequence[int] = SCORED
) -> list[int] | None:
    """All memories of a scope that may fit, and maybe some of others; None where these are more than the `most`.

    It is tried with few first: what is rare is told soon, and what many meet need not be counted then.
    """
    if not wanted or envelope_of(connection).sealed is not None or not is_all_read(connection):
        return None
    for few in most:
        found = [ids for each in wanted if (ids := _ids(connection, scope, each, few)) is not None]
        if found:
            return sorted(set.intersection(*found))
    return None


def of_source(connection: Connection, scope: int, name: bytes) -> list[int]:
    """The memories of a source, by its name as it lies in its column."""
    return sorted(each for some in _of_sources(connection, scope, [name], sys.maxsize) for each in some)


def _ids(connection: Connection, scope: int, needed: Needed, most: int) -> set[int] | None:
    """What meets one of the alternatives; None for more than `most`."""
    found: set[int] = set()
    for some in _alternatives(connection, scope, needed, most + 1):
        found.update(each for each in some if isinstance(each, int))  # on a damaged page anything may stand
        if len(found) > most:
            return None
    return found


def _alternatives(connection: Connection, scope: int, needed: Needed, most: int) -> Iterator[Ids]:
    for some in chunks([as_key(key) for key in needed.keys]):
        yield connection.scalars(select(_items.id).where(_items.scope_id == scope, _items.key.in_(some))).all()
    if needed.labels:
        labels = ",".join(str(int(each)) for each in needed.labels)
        yield _numbers(connection, _LABELLED.format(scope=int(scope), labels=labels, most=int(most)))
    if needed.sources:
        yield from _of_sources(connection, scope, [as_key(name) for name in needed.sources], most)
    for each in needed.ranges:
        yield _in_range(connection, scope, each, most)


def _of_sources(connection: Connection, scope: int, names: Sequence[bytes], most: int) -> Iterator[Ids]:
    """By their places, which have an index: source and position lie in one number."""
    for some in chunks(names):
        named = select(_sources.id).where(_sources.scope_id == scope, _sources.name.in_(some))
        for number in connection.scalars(named).all():
            first = int(number) * POSITIONS
            yield _numbers(connection, _OF_SOURCE.format(first=first, last=first + POSITIONS - 1, most=int(most)))


def _in_range(connection: Connection, scope: int, between: Range, most: int) -> Ids:
    column = _items[between.column]
    least, largest = max(between.least, -_LARGEST), min(between.most, _LARGEST)
    found = select(_items.id).where(_items.scope_id == scope, column >= least, column <= largest)
    if between.column == "importance":
        found = found.where(column != literal_column("1.0"))  # what its index leaves out: nearly all have that
    return connection.scalars(found.limit(most)).all()


def _numbers(connection: Connection, statement: str) -> Ids:
    """Only numbers ever go into its text."""
    return [row[0] for row in connection.exec_driver_sql(statement)]
