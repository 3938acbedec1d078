"""The records of all scopes in one database, and every change to them: the one place that writes memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from smolagents_memory._errors import StoreUnavailableError
from smolagents_memory._log import logger
from smolagents_memory.database import maintenance, tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import as_key, envelope_of, from_key
from smolagents_memory.database.many import CHUNK, chunks
from smolagents_memory.search.full_text import full_text_of
from smolagents_memory.stores.records import Draft, Record
from smolagents_memory.stores.rows import (
    BY_KEY,
    RECORDS,
    Places,
    contents,
    embedder_id,
    record_of,
    row_of,
    scope_name,
    take_numbers,
    whole,
    writing_memories,
)


_items = tables.items.c
_SCOPE = select(tables.scopes.c.id).where(tables.scopes.c.name == bindparam("name"))
_DECAYED = select(tables.scopes.c.id, tables.scopes.c.decayed).where(tables.scopes.c.name == bindparam("name"))


class Bank:
    """The memories of one scope in one database.

    Every method is one transaction. `put` and the other changes take the numbers of what they write from one
    counter inside their transaction, so whoever has seen number n knows what is newer.
    """

    def __init__(self, database: Database, scope: Mapping[str, Any] | None = None) -> None:
        self.database = database
        self.name = scope_name(scope)

    # -- reading -----------------------------------------------------------------------------------------------

    def scope_id(self, connection: Connection) -> int | None:
        """The scope's number; None before anything was written in it."""
        # not kept: a backup that is put back may bring other numbers
        found: int | None = connection.execute(_SCOPE, {"name": self.name}).scalar()
        return found

    def get(self, key: str) -> Record | None:
        """The memory under `key`, archived or not."""
        with self.database.reading() as connection:
            rows = connection.execute(BY_KEY, {"in_scope": self.name, "of_key": as_key(key)})
            return next(whole(connection, rows), None)

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """The memories that are there, by key."""
        with self.database.reading() as connection:
            found = self._by_keys(connection, list(keys))
            return {record.key: record for record in found if not record.damaged}

    def _by_keys(self, connection: Connection, keys: Sequence[str]) -> Iterator[Record]:
        """Damaged ones too: they can be replaced, put away and forgotten."""
        envelope = envelope_of(connection)
        scope = self.scope_id(connection)
        if scope is None:
            return
        for some in chunks(keys):
            statement = RECORDS.where(_items.scope_id == scope, _items.key.in_([as_key(key) for key in some]))
            yield from (record_of(envelope, row) for row in connection.execute(statement))

    def records(self, *, archived: bool | None = False) -> Iterator[Record]:
        """All memories in the order they were first added; `archived=None` gives the ones put away as well."""
        last = 0
        while True:
            with self.database.reading() as connection:
                scope = self.scope_id(connection)
                if scope is None:
                    return
                statement = RECORDS.where(_items.scope_id == scope, _items.id > last).order_by(_items.id).limit(CHUNK)
                if archived is not None:
                    statement = statement.where(
                        _items.archived.is_not(None) if archived else _items.archived.is_(None)
                    )
                rows = connection.execute(statement).all()
                records = list(whole(connection, rows))
            if not rows:
                return
            yield from records
            last = rows[-1].id

    def histories(self) -> list[Record]:
        """The memories that are not put away, without their texts: what forgetting needs to know."""
        columns = (_items.key, _items.importance, _items.created, _items.touched, _items.uses, _items.pinned)
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            rows = connection.execute(select(*columns).where(_items.scope_id == scope, _items.archived.is_(None)))
            return [
                Record(
                    from_key(key),
                    None,
                    importance=importance,
                    created=created,
                    touched=touched,
                    uses=uses,
                    pinned=pinned,
                )
                for key, importance, created, touched, uses, pinned in rows
            ]

    def take_turn(self, now: float, every: float) -> bool:
        """Whether forgetting is due: true for one caller, and then not before `every` seconds."""
        with self.database.reading() as connection:
            row = connection.execute(_DECAYED, {"name": self.name}).first()
        if row is None or row.decayed > now - every:
            return False
        table = tables.scopes
        due = (table.c.id == row.id) & (table.c.decayed <= now - every)
        with writing_memories(self.database) as connection:
            return bool(connection.execute(update(table).where(due).values(decayed=now)).rowcount)

    def count(self, *, archived: bool | None = False) -> int:
        """How many memories there are."""
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            statement = select(func.count()).select_from(tables.items).where(_items.scope_id == scope)
            if archived is not None:
                statement = statement.where(_items.archived.is_not(None) if archived else _items.archived.is_(None))
            return int(connection.execute(statement).scalar() or 0) if scope is not None else 0

    # -- writing -----------------------------------------------------------------------------------------------

    def put(self, drafts: Sequence[Draft], embedder: str | None = None) -> list[str]:
        """Write memories, all or none; what has their key is replaced, or reinforced where the draft says so."""
        unique: dict[str, Draft] = {}
        for draft in drafts:  # the last one of a key wins, in the place of the first
            unique[draft.record.key] = draft
        with writing_memories(self.database) as connection:
            scope = self._scope_for_writing(connection)
            there = {record.key: record for record in self._by_keys(connection, list(unique))}
            again = {key for key, d in unique.items() if d.reinforce and key in there and not there[key].damaged}
            self._unindex(connection, scope, [record.id for key, record in there.items() if key not in again])
            fresh = [draft for key, draft in unique.items() if key not in again]
            self._write(connection, scope, fresh, there, self._embedder_id(connection, embedder))
            for key in again:
                self._reinforce(connection, there[key], unique[key].record)
        return list(unique)

    def _write(
        self, connection: Connection, scope: int, drafts: list[Draft], there: dict[str, Record], embedder: int | None
    ) -> None:
        first = take_numbers(connection, sum(1 + len(draft.vectors) for draft in drafts))
        places, envelope = Places(connection, scope), envelope_of(connection)
        rows, vector_rows, word_rows, updates = [], [], [], []
        for draft in drafts:
            old = there.get(draft.record.key)
            row = row_of(envelope, draft, scope, self.name)
            row["embedder_id"] = embedder if len(draft.vectors) else None
            if old is None:
                row |= {"id": first, **places.next(draft.record.source)}
                rows.append(row)
            else:
                row |= {"target": old.id, "created": old.created, "pinned": old.pinned, "useful": old.useful}
                row |= places.kept(old, draft.record.source)
                updates.append(row)
            item = first if old is None else old.id
            first += 1
            word_rows.append((item, scope, draft.words))
            for part, vector in enumerate(draft.vectors):
                vector_rows.append(
                    {"id": first, "item_id": item, "scope_id": scope, "embedder_id": embedder, "part": part,
                     "parts": len(draft.vectors), "live": True, "vector": vector.tobytes()}
                )  # fmt: skip
                first += 1
        places.save()
        if rows:
            connection.execute(insert(tables.items), rows)
        if updates:
            names = [name for name in updates[0] if name != "target"]
            statement = update(tables.items).where(_items.id == bindparam("target"))
            connection.execute(statement.values({name: bindparam(name) for name in names}), updates)
        if vector_rows:
            connection.execute(insert(tables.vectors), vector_rows)
        full_text_of(connection).add(connection, word_rows)
        self._count(connection, scope, len(drafts), sum(row["word_count"] for row in (*rows, *updates)))

    def _reinforce(self, connection: Connection, old: Record, new: Record) -> None:
        kept = replace(old, meta={**old.meta, **new.meta})
        connection.execute(
            update(tables.items).where(_items.id == old.id).values(
                **contents(envelope_of(connection), kept, self.name),
                importance=max(old.importance, new.importance),
                touched=new.touched,
                uses=old.uses + 1,
            )
        )  # fmt: skip
        if old.archived is not None:
            self._restore(connection, [old.id])

    def touch(self, uses: Mapping[int, tuple[float, float]], useful: Mapping[int, float] | None = None) -> None:
        """Note that memories were used: number → (how often, when); and how useful they turned out."""
        with writing_memories(self.database) as connection:
            if uses:
                statement = update(tables.items).where(_items.id == bindparam("target"))
                last = case((_items.touched < bindparam("at"), bindparam("at")), else_=_items.touched)
                connection.execute(
                    statement.values(uses=_items.uses + bindparam("more"), touched=last),
                    [{"target": item, "more": more, "at": at} for item, (more, at) in uses.items()],
                )
            if useful:
                connection.execute(
                    update(tables.items).where(_items.id == bindparam("target"))
                    .values(useful=_items.useful + bindparam("more")),
                    [{"target": item, "more": more} for item, more in useful.items()],
                )  # fmt: skip

    def pin(self, key: str, pinned: bool) -> bool:
        """Pin or unpin a memory; whether it is there."""
        with writing_memories(self.database) as connection:
            scope = self.scope_id(connection)
            statement = update(tables.items).where(_items.scope_id == scope, _items.key == as_key(key))
            return bool(connection.execute(statement.values(pinned=pinned)).rowcount)

    def forget(self, keys: Iterable[str]) -> list[Record]:
        """Delete memories for good; returns the ones that were there."""
        with writing_memories(self.database) as connection:
            found = list(self._by_keys(connection, list(keys)))
            if found:
                scope = self._scope_for_writing(connection)
                self._unindex(connection, scope, [record.id for record in found])
                for some in chunks([record.id for record in found]):
                    connection.execute(delete(tables.items).where(_items.id.in_(some)))
            return found

    def archive(self, keys: Iterable[str], at: float) -> list[str]:
        """Put memories away: kept whole, found no more. Returns the keys of those that were not yet."""
        with writing_memories(self.database) as connection:
            found = [record for record in self._by_keys(connection, list(keys)) if record.archived is None]
            ids = [record.id for record in found]
            if ids:
                scope = self._scope_for_writing(connection)
                self._unindex(connection, scope, ids, keep_vectors=True)
                for some in chunks(ids):
                    connection.execute(update(tables.items).where(_items.id.in_(some)).values(archived=at))
            return [record.key for record in found]

    def restore(self, keys: Iterable[str]) -> list[str]:
        """Bring archived memories back as they were. Returns the keys of those that were away."""
        with writing_memories(self.database) as connection:
            found = [record for record in self._by_keys(connection, list(keys)) if record.archived is not None]
            if found:
                self._restore(connection, [record.id for record in found])
            return [record.key for record in found]

    def erase(self) -> bool:
        """Make sure that no byte of what was deleted is left in the files; False when a reader prevents it."""
        try:
            maintenance.purge(self.database)
        except StoreUnavailableError as error:
            logger.info("%s", error)
            return False
        return True

    # -- inside a transaction ----------------------------------------------------------------------------------

    def _scope_for_writing(self, connection: Connection) -> int:
        scope = self.scope_id(connection)
        if scope is None:
            scope = take_numbers(connection, 1)
            connection.execute(insert(tables.scopes).values(id=scope, name=self.name, live=0, words=0, decayed=0.0))
        return scope

    def _embedder_id(self, connection: Connection, name: str | None) -> int | None:
        return embedder_id(connection, name) if name is not None else None

    def _unindex(self, connection: Connection, scope: int, ids: list[int], *, keep_vectors: bool = False) -> None:
        vector = tables.vectors.c
        for some in chunks(ids):
            live = select(_items.id, _items.words, _items.word_count).where(
                _items.id.in_(some), _items.archived.is_(None)
            )
            rows = connection.execute(live).all()
            full_text_of(connection).remove(connection, [(row.id, scope, row.words) for row in rows])
            self._count(connection, scope, -len(rows), -sum(row.word_count for row in rows))
            there = vector.item_id.in_(some)
            dropped = connection.execute(select(vector.id).where(there, vector.live.is_(True))).scalars().all()
            if dropped:
                first = take_numbers(connection, len(dropped))
                connection.execute(
                    insert(tables.gone),
                    [{"id": first + n, "scope_id": scope, "vector_id": each} for n, each in enumerate(dropped)],
                )
            if keep_vectors:
                connection.execute(update(tables.vectors).where(there).values(live=False))
            else:
                connection.execute(delete(tables.vectors).where(there))

    def _restore(self, connection: Connection, ids: list[int]) -> None:
        scope = self._scope_for_writing(connection)
        vector = tables.vectors.c
        for some in chunks(ids):
            connection.execute(update(tables.items).where(_items.id.in_(some)).values(archived=None))
            rows = connection.execute(
                select(_items.id, _items.words, _items.word_count).where(_items.id.in_(some))
            ).all()
            full_text_of(connection).add(connection, [(row.id, scope, row.words) for row in rows])
            self._count(connection, scope, len(rows), sum(row.word_count for row in rows))
            old = (
                connection.execute(select(vector.id).where(vector.item_id.in_(some)).order_by(vector.id))
                .scalars()
                .all()
            )
            first = take_numbers(connection, len(old))
            for number, each in enumerate(old):  # a new number each: to an index they are new
                connection.execute(
                    update(tables.vectors).where(vector.id == each).values(id=first + number, live=True)
                )

    def _count(self, connection: Connection, scope: int, live: int, words: int) -> None:
        if live or words:
            counts = tables.scopes.c
            connection.execute(
                update(tables.scopes)
                .where(counts.id == scope)
                .values(live=counts.live + live, words=counts.words + words)
            )
