"""The records of all scopes in one database, and every change to them: the one place that writes memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from smolagents_memory._errors import StoreUnavailableError
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import as_key, envelope_of
from smolagents_memory.database.ledger import balance, begun, changing, changing_keys, made, rewrite
from smolagents_memory.database.many import chunks
from smolagents_memory.database.sealed import of_scope
from smolagents_memory.search.purging import purge
from smolagents_memory.stores.bank_reading import AWAY, BankReader
from smolagents_memory.stores.clocks import SLACK, due, lies_ahead, settle
from smolagents_memory.stores.findable import add_vectors, add_words, change_labels, drop_vectors, drop_words
from smolagents_memory.stores.joining import Kin, Regroup, Regrouped, last_of_each, with_lists
from smolagents_memory.stores.recalls import note_help, note_recalls
from smolagents_memory.stores.records import Draft, Recall, Record, Use, Written
from smolagents_memory.stores.rows import (
    Places,
    contents,
    embedder_id,
    row_of,
    take_numbers,
    word_count,
    writing_memories,
)


_items = tables.items.c
_ONE = update(tables.items).where(_items.id == bindparam("target"))
_SAYING = _ONE.values({name: bindparam(name) for name in ("form", "value", "meta", "made_of")})
_TOUCH = (
    update(tables.items)
    .where(_items.scope_id == bindparam("scope"), _items.key == bindparam("name"))
    .values(
        uses=func.coalesce(_items.uses, 0) + bindparam("often"),
        touched=case((_items.touched < bindparam("last"), bindparam("last")), else_=_items.touched),
        useful=func.coalesce(_items.useful, 0) + bindparam("helped"),
    )
)
_DECAYED = select(tables.scopes.c.id, tables.scopes.c.decayed).where(tables.scopes.c.name == bindparam("name"))


class Bank(BankReader):
    """The memories of one scope in one database, to be read and written.

    Every method is one transaction. `put` and the other changes take the numbers of what they write from one
    counter inside their transaction, so whoever has seen number n knows what is newer.
    """

    def light(self) -> Callable[[], Bank | None]:
        """How to have this bank again without holding on to it; None where its file is gone."""
        place, faults, name = self.database.place, self.database.faults, self.name

        def opened() -> Bank | None:
            if place.path is not None and not place.path.exists():
                return None
            bank = Bank(Database(place, faults))
            bank.name = name
            return bank

        return opened

    # -- writing -----------------------------------------------------------------------------------------------

    def take_turn(self, now: float, every: float) -> bool:
        """Whether forgetting is due: true for one caller, and then not before `every` seconds."""
        with self.database.reading() as connection:
            row = connection.execute(_DECAYED, {"name": envelope_of(connection).scope(self.name)}).first()
        if row is None or not due(row.decayed, now, every):
            return False
        table = tables.scopes
        noted = func.coalesce(table.c.decayed, 0)  # also where no number lies there any more
        still = (table.c.id == row.id) & ~((noted > now - every) & (noted <= now + max(every, SLACK)))
        with writing_memories(self.database) as connection:
            return bool(connection.execute(update(table).where(still).values(decayed=now)).rowcount)

    def settle_times(self, now: float) -> None:
        """Have memories whose times lie ahead of the clock age too."""
        with self.database.reading() as connection:
            scope = self.scope_id(connection)
            if scope is None or not lies_ahead(connection, scope, now):
                return  # as ever: nobody who writes need be waited for
        with writing_memories(self.database) as connection:
            scope = self.scope_id(connection)
            if scope is not None:
                changing(connection, scope, None)
                settle(connection, scope, now)

    def begin(self) -> None:
        """Make the scope, if there is none."""
        with self.database.reading() as connection:
            there = self.scope_id(connection) is not None
        if not there:
            with writing_memories(self.database) as connection:
                self._scope_for_writing(connection)

    def put(self, drafts: Sequence[Draft], embedder: str | None = None) -> Written:
        """Write memories, all or none; what has their key is replaced, or reinforced where the draft says so."""
        with writing_memories(self.database) as connection:
            return self._put(connection, drafts, embedder)

    def replace(self, source: str, prefix: str, drafts: Sequence[Draft], embedder: str | None = None) -> list[str]:
        """Write all that belongs together, or nothing, and forget what did before and is no more: the keys of that.

        It is what has this source and a key that begins so.
        """
        with writing_memories(self.database) as connection:
            before = self.of_source(connection, self._scope_for_writing(connection), source)
            keys = {draft.record.key for draft in drafts}
            gone = [each for each in before if each.key.startswith(prefix) and each.key not in keys]
            self._delete_alone(connection, self._kin(connection), gone)
            balance(connection)  # what was changed by that is read again
            self._put(connection, drafts, embedder)
            return [record.key for record in gone]

    def _put(self, connection: Connection, drafts: Sequence[Draft], embedder: str | None) -> Written:
        unique = last_of_each(drafts)
        scope, envelope = self._scope_for_writing(connection), envelope_of(connection)
        unique = {key: replace(each, words=envelope.words(self.name, each.words)) for key, each in unique.items()}
        kin = self._kin(connection)
        there = kin.get(unique)
        kin.come_back(key for key, record in there.items() if record.archived is not None)
        self._write_changed(connection, scope, kin)
        there = kin.get(unique)
        changing(connection, scope, [record.id for record in there.values()])
        again = {key for key, d in unique.items() if d.reinforce and key in there and not there[key].damaged}
        self._unindex(connection, scope, [record.id for key, record in there.items() if key not in again])
        fresh = [draft for key, draft in unique.items() if key not in again]
        self._write(connection, scope, fresh, there, embedder)
        for key in again:
            self._reinforce(connection, scope, there[key], unique[key].record)
        away = self._retire(connection, scope, [draft.record for draft in unique.values()])
        return Written([draft.record.key for draft in fresh if draft.reinforce and not len(draft.vectors)], away)

    def _retire(self, connection: Connection, scope: int, records: Sequence[Record]) -> list[str]:
        """Put away what memories were written in the place of; the keys."""
        replaced = {key for record in records for key in record.replaces} - {record.key for record in records}
        if replaced:
            balance(connection)  # what was changed so far may be among them
        old = [each for each in self.by_keys(connection, list(replaced)) if each.archived is None]
        if old:
            self._put_away(connection, scope, [each.id for each in old], max(record.touched for record in records))
        return [each.key for each in old]

    def _kin(self, connection: Connection) -> Kin:
        return Kin(lambda keys: self.by_keys(connection, keys))

    def _write_changed(self, connection: Connection, scope: int, kin: Kin) -> None:
        """What is said of memories otherwise, because of what became of others."""
        changed, envelope = list(kin.changed.values()), envelope_of(connection)
        changing(connection, scope, [record.id for record in changed])
        change_labels(connection, scope, [(record.id, kin.was[record.key], record) for record in changed])
        if rows := [{"target": record.id, **contents(envelope, record, self.name)} for record in changed]:
            connection.execute(_SAYING, rows)

    def _write(
        self, connection: Connection, scope: int, drafts: list[Draft], there: dict[str, Record], embedder: str | None
    ) -> None:
        by = embedder_id(connection, embedder) if embedder is not None else 0
        first = take_numbers(connection, sum(1 + len(draft.vectors) for draft in drafts))
        places, envelope = Places(connection, scope, self.name), envelope_of(connection)
        rows, updates, numbers = [], [], []
        for number, draft in enumerate(drafts, start=first):
            old = there.get(draft.record.key)
            draft = draft if old is None else replace(draft, record=with_lists(draft.record, old.made_of))
            row = row_of(envelope, draft, scope, self.name)
            row["embedder_id"] = by if len(draft.vectors) else None
            if old is None:
                rows.append(row | {"id": number, **places.next(draft.record.source)})
            else:
                kept = {"created": old.created, "useful": old.useful} if old.created or not old.damaged else {}
                row |= {"target": old.id, "pinned": old.pinned, **kept}
                updates.append(row | places.kept(old, draft.record.source))
            numbers.append(number if old is None else old.id)
        places.save()
        if rows:
            connection.execute(insert(tables.items), rows)
        if updates:
            names = updates[0].keys() - {"target"}
            connection.execute(_ONE.values({name: bindparam(name) for name in names}), updates)
        made(connection, scope, numbers)
        add_words(connection, scope, [(n, draft.words) for n, draft in zip(numbers, drafts, strict=True)])
        records = [(n, there.get(draft.record.key), draft.record) for n, draft in zip(numbers, drafts, strict=True)]
        change_labels(connection, scope, records)
        owners = [(n, scope, True, draft.vectors) for n, draft in zip(numbers, drafts, strict=True)]
        add_vectors(connection, by, owners, first + len(drafts))

    def _reinforce(self, connection: Connection, scope: int, old: Record, new: Record) -> None:
        kept = replace(old, meta=old.kept_again(new), **old.vouched(new))
        stronger = {"importance": max(old.importance, new.importance), "touched": new.touched, "uses": old.uses + 1}
        vouched = {"origin": kept.origin, "trust": kept.trust}
        values = {**contents(envelope_of(connection), kept, self.name), **stronger, **vouched}
        connection.execute(_ONE.values(values), {"target": old.id})
        change_labels(connection, scope, [(old.id, old, kept)])
        if old.archived is not None:
            self._restore(connection, [old.id])

    def touch(self, uses: Mapping[str, Use], recalls: Sequence[Recall] = (), helped: Any = None) -> bool:
        """Note that memories were used, by key; recalls; and of one memory, by its number, that it helped.

        False, and nothing is noted, before anything was written in the scope.
        """
        with writing_memories(self.database) as connection:
            scope = self.scope_id(connection)
            if scope is None:
                return False
            if not rewrite(connection, scope, list(uses), lambda key, row: uses[key].noted(row)):
                rows = [{"scope": scope, "name": as_key(key), **use._asdict()} for key, use in uses.items()]
                if rows:
                    connection.execute(_TOUCH, rows)
            note_recalls(connection, scope, recalls)
            if helped is not None:
                note_help(connection, scope, helped)
            return True

    def note(self, key: str, **noted: Any) -> bool:
        """Note of a memory whether it is `pinned`, or its `trust`; whether it is there."""
        with writing_memories(self.database) as connection:
            scope = self.scope_id(connection)
            if scope is None:
                return False
            changing_keys(connection, scope, [key])
            held = envelope_of(connection).key(self.name, key)
            statement = update(tables.items).where(_items.scope_id == scope, _items.key == held)
            return bool(connection.execute(statement.values(**noted)).rowcount)

    def forget(self, keys: Iterable[str], alone: Iterable[str] = ()) -> list[Record]:
        """Delete memories for good, and what was put away for them as the same; returns the ones that were there.

        Those that go `alone` take nothing with them: what was put away for them comes back.
        """
        with writing_memories(self.database) as connection:
            kin = self._kin(connection)
            found = list(kin.get([*kin.with_joined(keys), *alone]).values())
            self._delete_alone(connection, kin, found)
            return found

    def reword(self, key: str, draft: Draft | None, meta: dict[str, Any] | None, embedder: str | None) -> bool:
        """Give a memory another text (with its words and vectors), other metadata, or both; whether it is there."""
        with writing_memories(self.database) as connection:
            old = next(self.by_keys(connection, [key]), None)
            if old is None or old.damaged:
                return False
            new = old.reworded(draft.record.value if draft else old.value, meta)
            envelope = envelope_of(connection)
            scope = self._scope_for_writing(connection)
            changing(connection, scope, [old.id])
            change_labels(connection, scope, [(old.id, old, new)])
            values = {**contents(envelope, new, self.name), "trust": new.trust}
            if draft is not None:
                draft = replace(draft, words=envelope.words(self.name, draft.words))
                values |= self._reworded(connection, old, draft, embedder)
            connection.execute(_ONE.values(values), {"target": old.id})
            return True

    def _reworded(self, connection: Connection, old: Record, draft: Draft, embedder: str | None) -> dict[str, Any]:
        """The words and vectors of another text, in the place of the old ones; archived, it is not found by them."""
        scope, by = self._scope_for_writing(connection), 0
        self._unindex(connection, scope, [old.id])
        if old.archived is None:
            add_words(connection, scope, [(old.id, draft.words)])
        if embedder is not None and len(draft.vectors):
            by = embedder_id(connection, embedder)
            add_vectors(connection, by, [(old.id, scope, old.archived is None, draft.vectors)])
        return {
            "words": draft.words,
            "word_count": word_count(draft.words),
            "cues": envelope_of(connection).cues(self.name, draft.words, draft.cues),
            "embedder_id": by or None,
        }

    def clear(self) -> int:
        """Delete everything in the scope; how many memories that was."""
        with writing_memories(self.database) as connection:
            scope = self.number_of(connection)
            if scope is None:
                return 0
            begun(connection, scope)  # whatever lies there
            return self.empty(connection, scope)

    def empty(self, connection: Connection, scope: int) -> int:
        """Delete everything in this scope, within a transaction; how many memories that was."""
        ids = list(connection.scalars(select(_items.id).where(_items.scope_id == scope)))
        self._unindex(connection, scope, ids)
        for some in chunks(ids):
            connection.execute(delete(tables.items).where(_items.id.in_(some)))
        for table in (tables.vectors, tables.labels, tables.recalls):  # vectors of memories that are gone already, too
            connection.execute(delete(table).where(table.c.scope_id == scope))
        return len(ids)

    def archive(self, keys: Iterable[str], at: float) -> list[str]:
        """Put memories away: kept whole, found no more. Returns the keys of those that were not yet."""
        with writing_memories(self.database) as connection:
            found = [record for record in self.by_keys(connection, list(keys)) if record.archived is None]
            ids = [record.id for record in found]
            if ids:
                self._put_away(connection, self._scope_for_writing(connection), ids, at)
            return [record.key for record in found]

    def _put_away(self, connection: Connection, scope: int, ids: list[int], at: float) -> None:
        changing(connection, scope, ids)
        self._unindex(connection, scope, ids, keep_vectors=True)
        for some in chunks(ids):
            connection.execute(update(tables.items).where(_items.id.in_(some)).values(archived=at))

    def restore(self, keys: Iterable[str]) -> list[str]:
        """Bring archived memories back as they were. Returns the keys of those that were away."""
        with writing_memories(self.database) as connection:
            kin = self._kin(connection)
            found = [record for record in kin.get(keys).values() if record.archived is not None]
            if found:
                kin.come_back(record.key for record in found)
                self._write_changed(connection, self._scope_for_writing(connection), kin)
                self._restore(connection, [record.id for record in found])
            return [record.key for record in found]

    def regroup(self, plan: Regroup, at: float) -> Regrouped:
        """Do with memories what a plan says of them as they are: all of it, or nothing."""
        with writing_memories(self.database) as connection:
            kin = self._kin(connection)
            done = plan(kin)
            if kin.changed:
                scope = self._scope_for_writing(connection)
                self._write_changed(connection, scope, kin)
                if done.away:
                    self._put_away(connection, scope, [kin.was[key].id for key in done.away], at)
                if done.back:
                    self._restore(connection, [kin.was[key].id for key in done.back])
            return done

    def erase(self) -> bool:
        """Make sure that no byte of what was deleted is left in the files; False when a reader prevents it."""
        try:
            purge(self.database)
        except StoreUnavailableError as error:
            logger.warning("%s", error)
            return False
        return True

    # -- inside a transaction ----------------------------------------------------------------------------------

    def _scope_for_writing(self, connection: Connection) -> int:
        scope, sealed = self.scope_id(connection), envelope_of(connection).sealed
        if scope is None:
            scope = take_numbers(connection, 1)
            key = None if sealed is None else sealed.new(of_scope(self.name))
            row = {
                "id": scope,
                "name": envelope_of(connection).scope(self.name),
                "live": 0,
                "words": 0,
                "decayed": 0.0,
            }
            connection.execute(insert(tables.scopes).values({**row, "seal_key": key}))
            begun(connection, scope)
        return scope

    def _delete_alone(self, connection: Connection, kin: Kin, records: Sequence[Record]) -> None:
        if not records:
            return
        scope, back = self._scope_for_writing(connection), kin.leave(record.key for record in records)
        self._write_changed(connection, scope, kin)
        if back:
            self._restore(connection, [kin.was[key].id for key in back])
        ids = [record.id for record in records]
        changing(connection, scope, ids)
        self._unindex(connection, scope, ids)
        change_labels(connection, scope, [(record.id, record, None) for record in records])
        for some in chunks(ids):
            connection.execute(delete(tables.items).where(_items.id.in_(some)))

    def _unindex(self, connection: Connection, scope: int, ids: list[int], *, keep_vectors: bool = False) -> None:
        for some in chunks(ids):
            live = select(_items.id, _items.words).where(_items.id.in_(some), AWAY[False])
            drop_words(connection, scope, [(row.id, row.words) for row in connection.execute(live)])
        drop_vectors(connection, ids, keep=keep_vectors)

    def _restore(self, connection: Connection, ids: list[int]) -> None:
        scope, vector = self._scope_for_writing(connection), tables.vectors.c
        changing(connection, scope, ids)
        for some in chunks(ids):
            connection.execute(update(tables.items).where(_items.id.in_(some)).values(archived=None))
            rows = connection.execute(select(_items.id, _items.words).where(_items.id.in_(some)))
            add_words(connection, scope, [(row.id, row.words) for row in rows])
            there = select(vector.id).where(vector.item_id.in_(some)).order_by(vector.id)
            old = connection.execute(there).scalars().all()
            for number, each in enumerate(old, start=take_numbers(connection, len(old))):
                one = update(tables.vectors).where(vector.id == each)
                connection.execute(one.values(id=number, live=True))  # to an index they are new
