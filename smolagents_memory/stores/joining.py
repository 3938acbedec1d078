"""Memories that say the same: which are put away for which, and what becomes of the others when one comes or goes.

The one that stays lists those that are put away for it, and each of them names the one that it is put away for. The
list says where to look, the name decides: what came back, and was put away later for itself, goes with nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from smolagents_memory.stores.records import JOINED, REPLACES, Draft, Record


_LISTS = (JOINED, REPLACES)


class Regrouped(NamedTuple):
    """What becomes of some memories together: which stays, which are put away, which come back."""

    kept: str | None = None
    away: Sequence[str] = ()
    back: Sequence[str] = ()


class Kin:
    """Memories of one transaction: as they lie there, and as they are to be written."""

    def __init__(self, read: Callable[[Sequence[str]], Iterable[Record]]) -> None:
        self._read, self._asked = read, set[str]()
        self.was: dict[str, Record] = {}
        self.changed: dict[str, Record] = {}

    def get(self, keys: Iterable[str]) -> dict[str, Record]:
        """Those that are there, in the order in which they are asked for."""
        names = list(dict.fromkeys(keys))
        if new := [key for key in names if key not in self._asked]:
            self._asked.update(new)
            self.was |= {record.key: record for record in self._read(new)}
        return {key: self.changed.get(key, self.was[key]) for key in names if key in self.was}

    def with_joined(self, keys: Iterable[str]) -> dict[str, Record]:
        """These, and those that are put away for them: each behind the one that it is put away for."""
        found = self.get(keys)
        listed, waiting = dict.fromkeys(found), list(found.values())
        by_parent: dict[str, list[Record]] = {}
        while waiting:
            away: list[Record] = []
            self.get(key for parent in waiting for key in parent.joined)  # all at once
            for parent in waiting:
                new = [key for key in reversed(parent.joined) if key not in listed]
                listed |= dict.fromkeys(new)
                for record in self.get(new).values():
                    if record.archived is not None:
                        away.append(record)
                        named = parent.key if record.damaged else record.joined_to  # of a damaged one that is lost
                        by_parent.setdefault(named or "", []).append(record)
            waiting = away
        every = list(found)
        for key in every:  # it grows meanwhile
            behind = {each.key: each for each in by_parent.get(key, ()) if each.key not in found}
            found |= behind
            every.extend(behind)
        return found

    def join(self, kept: Record, others: Sequence[Record]) -> Regrouped:
        """Put these away for one."""
        for each in others:
            self._change(each.put_away_for(kept.key))
        self._change(kept.standing_for(others))
        return Regrouped(kept.key, away=[each.key for each in others])

    def come_back(self, keys: Iterable[str]) -> None:
        """What is put away is no more: those that it was put away for stand for it, and for its own, no longer."""
        records = list(self.get(keys).values())
        self.get(each.joined_to for each in records if each.joined_to is not None)  # all at once
        for record in records:
            now = self.changed.get(record.key, record)  # one of the others may have come back from it
            if now.joined_to is None:
                continue
            seen: set[str | None] = {None, now.key}
            up: str | None = now.joined_to
            while up not in seen and (above := self._one(up)) is not None:
                seen.add(up)
                self._change(above.standing_no_more_for(now))
                up = above.joined_to
            self._change(now.put_away_for(None))

    def leave(self, keys: Iterable[str]) -> list[str]:
        """These are about to be deleted, and nothing with them: the keys of what comes back.

        What is put away for one of them is put away for the next that stays, or stays away as that was.
        """
        gone, back = self.get(keys), []
        for child in self.with_joined(gone).values():
            if child.key in gone or child.joined_to not in gone:
                continue
            last: Record = child
            for _ in gone:  # as many as there can be above it
                if last.joined_to not in gone:
                    break
                last = gone[last.joined_to]
            above = self._one(last.joined_to)
            self._change(child.put_away_for(None if above is None else above.key))
            if above is not None and child.key not in above.joined:
                self._change(replace(above, made_of={**above.made_of, JOINED: [*above.joined, child.key]}))
            if last.archived is None:
                back.append(child.key)
        return back

    def _one(self, key: str | None) -> Record | None:
        return None if key is None else self.get([key]).get(key)

    def _change(self, record: Record) -> None:
        if not record.damaged:  # of which what it says is lost
            self.changed[record.key] = record


Regroup = Callable[[Kin], Regrouped]


def last_of_each(drafts: Iterable[Draft]) -> dict[str, Draft]:
    """By key: the last one wins, in the place of the first, and replaces what all of them do."""
    found: dict[str, Draft] = {}
    for draft in drafts:
        before = found.get(draft.record.key)
        named = [] if before is None else before.record.replaces
        found[draft.record.key] = replace(draft, record=with_lists(draft.record, {REPLACES: named}))
    return found


def with_lists(record: Record, before: Mapping[str, Sequence[str]]) -> Record:
    """With what was joined with the one before, and what that replaced."""
    lists = {name: [*dict.fromkeys([*before.get(name, ()), *record.made_of.get(name, ())])] for name in _LISTS}
    lists = {name: keys for name, keys in lists.items() if keys}
    return replace(record, made_of={**record.made_of, **lists}) if lists else record
