"""What long-term memory can do, whatever place keeps it: remember, recall, forget, and count how well it serves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory.codec.plain_json import pack
from smolagents_memory.memory.consolidating import consolidate, join, separate, settle
from smolagents_memory.memory.documents import parts_of
from smolagents_memory.memory.forgetting import DAY, ForgettingCurve
from smolagents_memory.memory.items import Memory, as_memory, as_record, digest, saying
from smolagents_memory.memory.keeping import Keeper
from smolagents_memory.memory.ranking import checked_relevance
from smolagents_memory.memory.recalling import Fits
from smolagents_memory.memory.said import Said
from smolagents_memory.memory.serving import LongTermStats, Watch
from smolagents_memory.memory.trust import inherit, made_of
from smolagents_memory.stores.base import checked_key, checked_keys, checked_meta, checked_query, checked_top_k
from smolagents_memory.stores.filters import chosen, compiled
from smolagents_memory.stores.joining import Kin
from smolagents_memory.stores.records import CONFIRMED, Record, ScopeInfo
from smolagents_memory.stores.requirements import required


_NOTED: dict[str, dict[str, Any]] = {
    "pin": {"pinned": True},
    "unpin": {"pinned": False},
    "confirm": {"trust": CONFIRMED},
}

_PASSED_OVER = 30  # memories that stand in the prompt, say, before what comes after them is not looked for


class LongTerm:
    """Long-term memory over a Keeper. Any number of threads may use it."""

    def __init__(
        self, keeper: Keeper[Any], curve: ForgettingCurve, clock: Callable[[], float], tell: Callable[..., None]
    ) -> None:
        self.keeper, self.curve, self.clock = keeper, curve, clock
        self._watch = Watch()
        self.said = Said(keeper.redaction)
        self._tell = tell
        self._lock = Lock()
        self.just_recalled: deque[str] = deque(maxlen=256)  # texts: what was just recalled is not learnt again

    def remember(self, items: Iterable[str | Mapping[str, Any]], *, show: bool | None = None) -> list[str]:
        """Keep texts or mappings; all are looked at before the first is written."""
        if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable):
            raise UnsupportedValueError("remember_many takes a list of memories, not one text; nothing was written")
        now = self.clock()
        records = [as_record(self.said.item(item), now) for item in items]
        self.said.keep()
        self._rename({record.key: record for record, named in records if not named})
        inherit([record for record, _ in records], self.keeper.bank.get_many)
        self._check_replaced([record for record, _ in records])
        keys = [record.key for record, _ in records]
        if keys:
            unnamed = {record.key for record, named in records if not named}
            replaced = self.keeper.put([record for record, _ in records], reinforce=unnamed, show=show)
            self._tell("added", keys=keys)
            if replaced:
                self._tell("archived", keys=replaced)
        return keys

    def _check_replaced(self, records: Sequence[Record]) -> None:
        """Whether all is there that these are written in the place of, and none of these."""
        keys = list(dict.fromkeys(key for record in records for key in record.replaces))
        there = self.keeper.bank.get_many(keys) if keys else {}
        if missing := [key for key in keys if key not in there]:
            raise UnsupportedValueError(
                f"there is no memory under the key {brief(missing[0])}, which was to be replaced; nothing was written"
            )
        written = {record.key for record in records}
        if both := [key for key in keys if key in written]:
            raise UnsupportedValueError(
                f"{brief(both[0])} is both written and replaced, and nothing would be left of what it said, or both "
                "would be recalled: give what replaces it another key, or none. Nothing was written"
            )

    def history(self, key: str) -> list[Memory]:
        """A memory, those in whose place it came, and those that were the same; the newest first."""
        kin = Kin(lambda keys: self.keeper.bank.get_many(keys).values())
        found: dict[str, Record] = {}
        waiting = [self.said.key(checked_key(key))]
        while waiting:
            there = {key: record for key, record in kin.with_joined(waiting).items() if key not in found}
            found |= there
            older = dict.fromkeys(old for record in there.values() for old in record.replaces)
            waiting = [old for old in older if old not in found]
        return [as_memory(record) for record in found.values()]

    # -- the same once more ------------------------------------------------------------------------------------

    def consolidate(self, *, show: bool | None = None) -> dict[str, list[str]]:
        """Join what is the same; by the key of each that stays, the keys of those put away for it."""
        return self._told_of(consolidate(self.keeper, self.clock(), show))

    def settle(self, keys: Sequence[str]) -> dict[str, list[str]]:
        """The same for what was just kept."""
        return self._told_of(settle(self.keeper, keys, self.clock()))

    def join(self, keys: Iterable[str]) -> str:
        """Make one of memories of which somebody says that they are the same; the key of the one that stays."""
        names = list(dict.fromkeys(map(self.said.key, checked_keys(keys))))
        there = self.keeper.bank.get_many(names)
        missing = [key for key in names if key not in there or there[key].archived is not None]
        if len(names) < 2 or missing:
            why = f"there is none under {brief(missing[0])}, or it is put away" if missing else "these are not two"
            raise UnsupportedValueError(f"join takes the keys of two memories or more, and {why}; nothing was changed")
        if own := [key for key in names if not there[key].counts]:
            raise UnsupportedValueError(
                f'the metadata of {brief(own[0])} has an entry "repeated", which join writes; nothing was changed: '
                "call yours something else with update(key, meta=…)"
            )
        done = self._told_of(join(self.keeper, names, self.clock()))
        return next(iter(done), names[0])

    def separate(self, key: str) -> list[str]:
        """Bring back what was put away for a memory as the same; the keys."""
        return separate(self.keeper, self.said.key(checked_key(key)), self.clock())

    def _told_of(self, joined: dict[str, list[str]]) -> dict[str, list[str]]:
        if away := [key for keys in joined.values() for key in keys]:
            self._tell("archived", keys=away)
        return joined

    def remember_document(self, text: str, source: str) -> list[str]:
        """Keep a text in neighbouring parts, in the place of those of an earlier version: all of it, or nothing."""
        source = self.said.source(source, "written")
        text = self.said.text(text)  # before it is cut: a part may end anywhere
        self.said.keep()
        parts, prefix, now = parts_of(text), f"d-{digest(source)}-", self.clock()
        records = []
        for n, part in enumerate(parts):
            item = {"text": part, "key": f"{prefix}{n}", "source": source, "kind": "document", "origin": "document"}
            records.append(as_record({**item, "meta": {"part": n, "parts": len(parts)}}, now)[0])
        gone = self.keeper.replace(source, prefix, records)
        keys = [record.key for record in records]
        for event, told in (("forgotten", gone), ("added", keys)):
            if told:
                self._tell(event, keys=told)
        return keys

    def recall(
        self,
        query: str,
        k: int = 5,
        *,
        where: Mapping[str, Any] | None = None,
        explain: bool = False,
        min_relevance: float = 0.0,
        sure: float = 0.0,
        trusted: Collection[str] | None = None,
        unless: Callable[[Record], bool] | None = None,
    ) -> list[Memory]:
        """The best memories that reach `min_relevance`, if one of them reaches `sure`; none for which `unless` holds.

        With `trusted`, tools that are the program's own, only those that may come unasked.
        """
        query, where, least = self.said.query(query), self.said.filter(where), checked_relevance(min_relevance)
        fits, k = _fits(where, trusted), checked_top_k(k)
        now = self.clock()
        most, wanted = k + _PASSED_OVER if unless else k, required(where)
        found = self.keeper.recall(checked_query(query), most, now, fits, wanted, least=least)
        found = [each for each in found if not (unless and unless(each.record))][:k]
        if not any(each.relevance >= sure for each in found):
            found = []
        if k and query.strip():
            self._count([each.record for each in found], now)
        memories = [
            Memory(
                each.record.key, each.record.value, round(each.score, 6), each.record.meta,
                each.parts if explain else {}, each.record.kind, each.record.source, each.record.created,
                each.record.importance, each.relevance, each.record.origin, each.record.trust,
                tuple(each.record.tools), pinned=each.record.pinned,
            )
            for each in found
        ]  # fmt: skip
        self._tell("recalled", query=query, memories=memories)
        return memories

    def feedback(self, key: str, useful: bool) -> bool:
        """Note whether a memory helped."""
        record = self.get(key)
        if record is None:
            return False
        self.keeper.traces.helped(record, useful)
        return True

    def _count(self, records: Sequence[Record], now: float) -> None:
        """One more recall."""
        self.keeper.traces.recalled(records, now)
        drift = self._watch.asked(self.keeper.traces.served)
        if drift:
            logger.warning("recall serves less well than it did: %s", drift)

    def get(self, key: str) -> Record | None:
        """A memory by its key, archived or not."""
        key = self.said.key(checked_key(key))
        found: Record | None = self.keeper.bank.get_many([key]).get(key)
        return found

    def memory(self, key: str) -> Memory | None:
        """A memory as users see it."""
        self.keeper.flush()
        record = self.get(key)
        return None if record is None else as_memory(record)

    def items(self, where: Mapping[str, Any] | None, *, archived: bool | None) -> Iterator[Memory]:
        """Those that fit, read as they are asked for."""
        where = self.said.filter(where)
        fits = compiled(where)
        found = self.keeper.records(archived=_checked(archived), wanted=required(where))
        return (as_memory(record) for record in found if fits is None or fits(record.view()))

    def count(self, where: Mapping[str, Any] | None, *, archived: bool | None) -> int:
        """How many fit."""
        if compiled(self.said.filter(where)) is None:
            return int(self.keeper.bank.count(archived=_checked(archived)))
        return sum(1 for _ in self.items(where, archived=archived))

    def scopes(self) -> list[ScopeInfo]:
        """All that there are in the place."""
        found: list[ScopeInfo] = self.keeper.bank.scopes()
        return found

    def update(self, key: str, *, text: str | None, meta: Mapping[str, Any] | None) -> bool:
        """Another text, other metadata, or both."""
        key = self.said.key(checked_key(key))
        if text is None and meta is None:
            raise UnsupportedValueError("update takes a text, metadata, or both; nothing was changed")
        if text is not None and not isinstance(text, str):
            raise UnsupportedValueError(f"a memory is a text, not {brief(text)}; nothing was changed")
        if text is not None:
            text = self.said.text(saying(text, "changed"))
        kept = None if meta is None else checked_meta(self.said.value(meta))
        if kept is not None:
            pack(kept, "metadata")
        self.said.keep()
        if not self.keeper.update(key, text, kept):
            return False
        self._tell("added", keys=[key])
        return True

    # -- forgetting --------------------------------------------------------------------------------------------

    def revoke(self, source: str | None, key: str | None) -> list[str]:
        """Delete what came from a source or tool, or one memory, and all that was made of it; the keys."""
        if (source is None) == (key is None) or not isinstance(source if key is None else key, str):
            raise UnsupportedValueError("name what is revoked: source=… (a source or a tool) or key=…; nothing was")
        source = None if source is None else self.said.source(source, "deleted")
        key = None if key is None else self.said.key(key)
        names = made_of(self.keeper.records(archived=None), source, key)
        return self._forget([name for name in names if name == key], names)

    def forget(self, keys: Sequence[str]) -> list[str]:
        """Delete, and what was put away for that as the same; the keys that were there."""
        return self._forget([self.said.key(checked_key(key)) for key in keys])

    def _forget(self, keys: Sequence[str], alone: Sequence[str] = ()) -> list[str]:
        gone = [record.key for record in self.keeper.bank.forget(keys, alone)] if keys or alone else []
        if gone:
            self._tell("forgotten", keys=gone)
        return gone

    def forget_where(self, where: Mapping[str, Any]) -> int:
        """Delete what fits."""
        where = self.said.filter(where)
        fits, held = chosen(where), self.keeper.records(archived=None, wanted=required(where))
        return len(self._forget([], [record.key for record in held if fits(record.view())]))

    def clear(self) -> int:
        """Delete the scope."""
        keys = [record.key for record in self.keeper.records(archived=None)]
        count = int(self.keeper.bank.clear())
        self.said.keep_only(())
        if keys:
            self._tell("forgotten", keys=keys)
        return count

    def change(self, keys: Sequence[str], what: str) -> list[str]:
        """ "archive", "restore", "pin", "unpin" or "confirm"; the keys that this changed."""
        names, bank = [self.said.key(checked_key(key)) for key in keys], self.keeper.bank
        if what in _NOTED:
            return [key for key in names if bank.note(key, **_NOTED[what])]
        changed: list[str] = bank.restore(names) if what == "restore" else bank.archive(names, self.clock())
        if changed and what == "archive":
            self._tell("archived", keys=changed)
        return changed

    def decay(self) -> list[str]:
        """Archive what has faded."""
        now = self.clock()
        self.keeper.flush()
        self.keeper.bank.settle_times(now)
        held = self.keeper.bank.histories(now, self.curve.idle)
        faded = [record.key for record in held if self.curve.faded(record, now)]
        return self.change(faded, "archive") if faded else []

    def decay_if_due(self) -> None:
        """Run `decay` by itself, at most once in the curve's `every` days."""
        if self.curve.every > 0 and self.keeper.bank.take_turn(self.clock(), self.curve.every * DAY):
            self.decay()

    def purge(self) -> list[str]:
        """Delete what is over, and the bytes of everything deleted."""
        now = self.clock()
        self.keeper.bank.settle_times(now)
        over = [record.key for record in self.keeper.records(archived=True) if self.curve.over(record, now)]
        gone = self._forget([], over)
        self.said.keep_only(self.keeper.records(archived=None))
        self.keeper.erase()  # what prevents it is said there
        return gone

    def stats(self) -> LongTermStats:
        """Counts, what serves recall, and how well."""
        return self.keeper.stats()

    def close(self) -> None:
        """Write what waits and let go."""
        self.keeper.close()

    def _rename(self, unnamed: Mapping[str, Record]) -> None:
        """Give a text whose key has another text now, for that was updated, a key of its own."""
        while unnamed:
            there = self.keeper.bank.get_many(unnamed)
            unnamed = {
                key: record for key, record in unnamed.items() if key in there and there[key].value != record.value
            }
            for key, record in unnamed.items():
                record.key = f"m-{digest(key + record.value)}"
            unnamed = {record.key: record for record in unnamed.values()}


def _checked(archived: object) -> bool | None:
    if archived is not None and not isinstance(archived, bool):
        raise UnsupportedValueError(f"archived is True, False or None (both), not {brief(archived)}")
    return archived


def _fits(where: Mapping[str, Any] | None, trusted: Collection[str] | None) -> Fits | None:
    fits = compiled(where)
    if fits is None and trusted is None:
        return None
    return lambda record: (trusted is None or record.comes_unasked(trusted)) and (fits is None or fits(record.view()))
