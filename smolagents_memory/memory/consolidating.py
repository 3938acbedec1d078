"""Consolidation: what is the same once more becomes one memory that says how often; the others are put away for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from smolagents_memory._progress import progress
from smolagents_memory.memory.alike import groups, told_by
from smolagents_memory.memory.keeping import Keeper
from smolagents_memory.stores.joining import Kin, Regrouped


_NEAR = 20  # memories that are looked at for one that was just kept


def consolidate(keeper: Keeper[Any], now: float, show: bool | None) -> dict[str, list[str]]:
    """Join all that is the same in a scope: by the key of each that stays, the keys of those put away for it."""
    found = groups(keeper.records(archived=False))
    joined: dict[str, list[str]] = {}
    with progress("Consolidating", len(found), show=show) as advance:
        for keys in found:
            joined |= join(keeper, keys, now)
            advance(1)
    return joined


def settle(keeper: Keeper[Any], keys: Collection[str], now: float) -> dict[str, list[str]]:
    """The same for what was just kept: what it is like is found by its words."""
    joined: dict[str, list[str]] = {}
    for record in keeper.bank.get_many(keys).values():
        told = told_by(record)
        if told is None:
            continue
        near = [each.record for each in keeper.recall(str(record.value), _NEAR, now, None, all_alike=True)]
        like = [each.key for each in near if (other := told_by(each)) is not None and told.is_like(other)]
        joined |= join(keeper, list(dict.fromkeys([*like, record.key])), now)
    return joined


def join(keeper: Keeper[Any], keys: Sequence[str], now: float) -> dict[str, list[str]]:
    """Make one of these. It is pinned, or the most important, or the newest; what else is pinned stays as it is."""

    def plan(kin: Kin) -> Regrouped:
        live = [each for each in kin.get(keys).values() if each.archived is None and not each.damaged]
        kept = max(live, key=lambda r: (r.pinned, r.importance, max(r.created, r.touched), r.id), default=None)
        others = [record for record in live if record is not kept and not record.pinned]
        return Regrouped() if kept is None or not others else kin.join(kept, others)

    done = keeper.bank.regroup(plan, now) if len(keys) > 1 else Regrouped()
    return {} if done.kept is None else {done.kept: list(done.away)}


def separate(keeper: Keeper[Any], key: str, now: float) -> list[str]:
    """Bring back what was put away for a memory, and for that: the keys."""

    def plan(kin: Kin) -> Regrouped:
        back = [each for each in kin.with_joined([key]) if each != key]
        kin.come_back(back)
        return Regrouped(back=back)

    return list(keeper.bank.regroup(plan, now).back)
