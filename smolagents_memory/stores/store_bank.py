"""The memories in a store of the user's own, and every change to them; with a second store that finds by meaning."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, TypeVar, cast

from smolagents_memory._errors import SmolagentsMemoryError, StoreUnavailableError, UnsupportedValueError
from smolagents_memory._log import Outage, logger
from smolagents_memory.stores.base import Hit, MemoryStore
from smolagents_memory.stores.joining import Kin, Regroup, Regrouped, last_of_each, with_lists
from smolagents_memory.stores.records import (
    NEWEST,
    UNCONFIRMED,
    USUAL,
    Draft,
    Recall,
    Record,
    ScopeInfo,
    Served,
    Use,
    Written,
    origin_of,
)
from smolagents_memory.stores.requirements import Needed
from smolagents_memory.stores.survey import Survey


FIELDS = "_memory"  # the metadata entry that holds a record's own fields
REREAD = 60.0  # seconds after which a store is read again at the earliest; that takes a thousandth of the time at most
SURVEYED = 50_000  # memories up to which a store is read as a whole; of a larger one, what is found stands for it
_OWN = ("key", "value", "meta", "id", "place")  # what is not written into that entry


Answer = TypeVar("Answer")
Method = TypeVar("Method", bound=Callable[..., Any])


@contextmanager
def _asking(store: Any) -> Iterator[None]:
    """Whatever a store of somebody else's raises is told as an error of ours."""
    try:
        yield
    except SmolagentsMemoryError:
        raise
    except Exception as error:
        what = f"{type(store).__name__} failed ({type(error).__name__}: {error})"
        raise StoreUnavailableError(f"{what}; what is kept there is as the store left it") from error


def _asks(method: Method) -> Method:
    """A method that asks the stores."""

    @functools.wraps(method)
    def asks(self: StoreBank, *args: Any, **options: Any) -> Any:
        with _asking(self.texts):
            return method(self, *args, **options)

    return cast("Method", asks)


class StoreBank:
    """What `Bank` is over SQL, over a MemoryStore. Any number of threads may use it."""

    def __init__(self, texts: MemoryStore[Any], vectors: MemoryStore[Any] | None) -> None:
        self.texts, self.vectors = texts, vectors
        self.outage = Outage()  # of the store that finds by meaning
        self._lock = threading.RLock()
        self._survey = Survey()
        self._served = Served()
        self._size, self._look_again, self._stale = 0, 0.0, 0.0

    # -- reading -----------------------------------------------------------------------------------------------

    @_asks
    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """The memories that are there, by key, archived or not."""
        there = self.texts.get_many(keys)
        return {key: self.record(key, value, self.texts.meta(key) or {}) for key, value in there.items()}

    def records(self, *, archived: bool | None = False, wanted: Sequence[Needed] = ()) -> Iterator[Record]:
        """All memories in the order they were first added; `archived=None` gives the ones put away as well.

        A store does not tell which of them meet what is wanted.
        """
        for item in self._items():
            record = self.record(*item)
            if archived is None or (record.archived is not None) == archived:
                yield record

    def _items(self) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
        with _asking(self.texts):  # what who reads them does meanwhile goes by way of us, too
            yield from self.texts.items()

    def search(self, store: MemoryStore[Any], text: str, limit: int) -> list[Hit[Any]]:
        """What one of the stores finds."""
        with _asking(store):
            return list(store.search(text, limit))

    def by_meaning(self, ask: Callable[[], Answer]) -> Answer | None:
        """What is asked of the store that finds by meaning. Where it fails None: words do without, which is said."""
        if self.outage.rests:
            return None
        begun = time.monotonic()
        try:
            answer = ask()
        except UnsupportedValueError:
            raise
        except Exception as error:  # noqa: BLE001 — whatever a store of somebody else's raises
            self.outage.failed(error, begun)
            self.outage.say(
                f"{type(self.vectors or self.texts).__name__} failed ({error}): until it works again recall goes by "
                "words, and it lacks what is remembered meanwhile, until reindex()"
            )
            return None
        self.outage.worked()
        return answer

    def histories(self, now: float = 0.0, idle: float | None = None) -> Iterable[Record]:
        """The memories that may fade: not put away, and written here. A store has nothing to choose them by."""
        return (record for record in self.records() if is_ours(record))

    def take_turn(self, now: float, every: float) -> bool:
        """Forgetting is left to whoever calls `decay`: a store has no place to note when it last ran."""
        return False

    def settle_times(self, now: float) -> None:
        """Times that lie ahead of the clock stay: a store has no place to note since when they are known to."""

    def record(self, key: str, value: Any, meta: Mapping[str, Any]) -> Record:
        """What a store gave as a record."""
        rest = {name: each for name, each in meta.items() if name != FIELDS}
        fields = {name: each for name, each in (meta.get(FIELDS) or {}).items() if name not in _OWN}
        if fields:  # 0.1.0 noted no origin
            return Record(key, value, rest, **{"origin": origin_of(fields["kind"]), **fields})
        # others wrote it, before this memory was put over their store; or the store does not tell who did
        trust = USUAL if getattr(self.texts, "keeps", True) else UNCONFIRMED
        return Record(key, value, rest, origin="import", trust=trust)

    @property
    def live(self) -> int:
        """How many memories can be found, as far as that is known."""
        return max(self._survey.texts, self._size - self._survey.archived)

    @_asks
    def survey(self) -> Survey:
        """What is known of the store as a whole; read again after a while, or when others have changed much of it."""
        with self._lock:
            now = time.monotonic()
            if now >= self._look_again:
                self._look_again = now + 1.0
                self._size, known = len(self.texts), len(self._survey)
                if self._size <= SURVEYED and (now >= self._stale or abs(self._size - known) > known // 20):
                    self._survey = Survey()
                    self.seen(self._survey, self.records(archived=None))
                    self._stale = now + max(REREAD, 1000 * (time.monotonic() - now))
            return self._survey

    def seen(self, survey: Survey, records: Iterable[Record]) -> None:
        """Memories were met with: a survey that does not know them takes them in."""
        with self._lock:
            for record in records:
                if record.key not in survey:
                    survey.note(record)
            self._bound()

    def scopes(self) -> list[ScopeInfo]:
        """The one scope of a store: what it holds."""
        away = [record.archived is not None for record in self.records(archived=None)]
        return [ScopeInfo(None, away.count(False), away.count(True))] if away else []

    def count(self, *, archived: bool | None = False) -> int:
        """How many memories there are."""
        return sum(1 for _ in self.records(archived=archived))

    # -- writing -----------------------------------------------------------------------------------------------

    @_asks
    def put(self, drafts: Sequence[Draft]) -> Written:
        """Write memories; what has their key is replaced, or reinforced where the draft says so."""
        with self._lock:
            unique, kin = last_of_each(drafts), self._kin()
            kin.come_back(key for key, old in kin.get(unique).items() if old.archived is not None)
            there = kin.get(unique)
            changed = []
            for key, draft in unique.items():
                old, new = there.get(key), draft.record
                if old is not None and draft.reinforce:
                    new = replace(
                        old, importance=max(old.importance, new.importance), meta=old.kept_again(new),
                        touched=new.touched, uses=old.uses + 1, archived=None, **old.vouched(new),
                    )  # fmt: skip
                elif old is not None:
                    new = replace(new, created=old.created, pinned=old.pinned, useful=old.useful)
                    new = with_lists(new, old.made_of)
                changed.append(new)
            self._write(changed, there, by_meaning=True)
            self._write_changed(kin, unique)
            replaced = {key for draft in unique.values() for key in draft.record.replaces} - unique.keys()
            last = max((draft.record.touched for draft in unique.values()), default=0.0)
            return Written(away=self.archive(replaced, last) if replaced else ())

    def _kin(self) -> Kin:
        return Kin(lambda keys: self.get_many(keys).values())

    def _write_changed(self, kin: Kin, but: Collection[str] = ()) -> None:
        """What is said of memories otherwise, because of what became of others; but for what was written anyway."""
        changed = [record for key, record in kin.changed.items() if key not in but]
        if changed:
            self._write(changed, kin.was, by_meaning=False)

    @_asks
    def replace(self, source: str, prefix: str, drafts: Sequence[Draft]) -> list[str]:
        """As `Bank.replace`, as near as a store can: what is no more goes last, and what fails is undone."""
        with self._lock:
            before = {r.key: r for r in self.records(archived=None) if r.source == source and r.key.startswith(prefix)}
            new = {draft.record.key for draft in drafts}
            try:
                self.put(drafts)
            except Exception:
                self._put_back(before, new)
                raise
            gone = [key for key in before if key not in new]
            self.forget((), alone=gone)
            return gone

    def _put_back(self, before: Mapping[str, Record], new: Collection[str]) -> None:
        try:
            self._write(list(before.values()), before, by_meaning=True)
            self.forget(key for key in new if key not in before)
        except Exception as error:  # noqa: BLE001 — the first error is raised, and says why
            logger.warning("the older version could not be put back (%s): remember the document again", error)

    @_asks
    def touch(self, uses: Mapping[str, Use], recalls: Sequence[Recall] = (), helped: Any = None) -> bool:
        """Note that memories were used, by key; recalls, in this process; and of one memory, by its key, its help."""

        def used(record: Record) -> Record | None:
            if not is_ours(record):
                return None  # somebody else's, in a collection that existed before: it is only read
            often, last, helped = uses[record.key]
            useful, touched = record.useful + helped, max(record.touched, last)
            return replace(record, uses=record.uses + often, touched=touched, useful=useful)

        with self._lock:
            self._served = self._served.beside(recalls).with_help(helped)
            self._edit(uses, used)
        return True

    def served(self, newest: int = NEWEST) -> Served:
        """How well recall served this object: a store has no place to count for all processes."""
        with self._lock:
            return self._served._replace(newest=self._served.newest[-newest:])

    @_asks
    def note(self, key: str, **noted: Any) -> bool:
        """Note of a memory whether it is `pinned`, or its `trust`; whether it is there."""
        return bool(self._edit([key], lambda record: replace(record, **noted)))

    @_asks
    def reword(self, key: str, draft: Draft | None, meta: dict[str, Any] | None, embedder: str | None) -> bool:
        """Give a memory another text, other metadata, or both; whether it is there."""

        def changed(record: Record) -> Record:
            return record.reworded(record.value if draft is None else draft.record.value, meta)

        return bool(self._edit([key], changed, by_meaning=draft is not None))

    @_asks
    def clear(self) -> int:
        """Delete everything that the store lists; how many memories that was."""
        with self._lock:
            return len(self.forget([record.key for record in self.records(archived=None)]))

    @_asks
    def archive(self, keys: Iterable[str], at: float) -> list[str]:
        """Put memories away: kept whole, found no more. Returns the keys of those that were not yet."""
        with self._lock:
            away = self._edit(keys, lambda record: replace(record, archived=at) if record.archived is None else None)
            if self.vectors is not None:
                self.vectors.forget_many(away)
            return away

    @_asks
    def restore(self, keys: Iterable[str]) -> list[str]:
        """Bring archived memories back as they were. Returns the keys of those that were away."""
        with self._lock:
            kin, names = self._kin(), list(keys)
            kin.come_back(key for key, record in kin.get(names).items() if record.archived is not None)
            self._write_changed(kin)
            return self._brought_back(names)

    def _brought_back(self, keys: Iterable[str]) -> list[str]:
        back = lambda record: replace(record, archived=None) if record.archived is not None else None  # noqa: E731
        return self._edit(keys, back, by_meaning=True)

    @_asks
    def regroup(self, plan: Regroup, at: float) -> Regrouped:
        """Do with memories what a plan says of them as they are; what is put away goes last."""
        with self._lock:
            kin = self._kin()
            done = plan(kin)
            kin.changed |= {key: replace(kin.changed[key], archived=at) for key in done.away}
            self._write_changed(kin)
            self._brought_back(done.back)
            if self.vectors is not None and done.away:
                self.vectors.forget_many(done.away)
            return done

    @_asks
    def forget(self, keys: Iterable[str], alone: Iterable[str] = ()) -> list[Record]:
        """Delete memories for good, and what was put away for them as the same; returns the ones that were there.

        Those that go `alone` take nothing with them: what was put away for them comes back.
        """
        with self._lock:
            kin = self._kin()
            there = kin.get([*kin.with_joined(keys), *alone])
            back = kin.leave(there)
            self._write_changed(kin)
            self._brought_back(back)
            for store in (self.vectors, self.texts):
                if store is not None:
                    store.forget_many(there)
            for record in there.values():
                self._survey.note(None, record)
            return list(there.values())

    @_asks
    def erase(self) -> bool:
        """Make sure that no byte of what was deleted is left, where the store can do that."""
        stores = [store for store in (self.texts, self.vectors) if store is not None]
        left = [store for store in stores if not store.purge()]
        for store in left:
            logger.warning("%r could not be purged: bytes of what was deleted are left in it", store)
        return not left

    @_asks
    def complete(self) -> int:
        """Bring the second store in line with the texts; how many it lacked."""
        if self.vectors is None:
            return 0
        there = self.vectors
        lacking = [record for record in self.records() if there.get(record.key) != record.value]
        return there.add_many((record.key, record.value, record.meta) for record in lacking)

    @_asks
    def embedded(self) -> int | None:
        """How many memories the second store holds; None where there is none."""
        return None if self.vectors is None else len(self.vectors)

    def close(self) -> None:
        """Let go of the stores."""
        for store in (self.texts, self.vectors):
            if store is not None:
                with _asking(store):
                    store.close()

    # -- inside ------------------------------------------------------------------------------------------------

    def _edit(
        self, keys: Iterable[str], edit: Callable[[Record], Record | None], *, by_meaning: bool = False
    ) -> list[str]:
        """Change records; the keys of those that this changed."""
        with self._lock:
            there = self.get_many(keys)
            changed = [new for record in there.values() if (new := edit(record)) is not None]
            self._write(changed, there, by_meaning=by_meaning)
            return [record.key for record in changed]

    def _write(self, records: Sequence[Record], there: Mapping[str, Record], *, by_meaning: bool) -> None:
        if by_meaning and (vectors := self.vectors) is not None:  # first: what it refuses is written nowhere
            self.by_meaning(lambda: vectors.add_many((each.key, each.value, each.meta) for each in records))
        self.texts.add_many((record.key, record.value, {**record.meta, FIELDS: _fields(record)}) for record in records)
        for record in records:
            self._survey.note(record, there.get(record.key))
        self._bound()

    def _bound(self) -> None:
        """Begin anew when more keys were heard of than a survey is made for: most are gone, or it is a large store."""
        if self._survey.heard_of > 2 * SURVEYED:
            self._survey, self._look_again = Survey(), 0.0


def is_ours(record: Record) -> bool:
    """Whether it was written here: what others wrote into the same store has no time."""
    return record.created > 0


def _fields(record: Record) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in _OWN}
