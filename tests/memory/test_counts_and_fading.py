"""What is chosen and counted by the database is what going through all memories gives, also after damage."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve
from smolagents_memory.database import tables
from smolagents_memory.memory.forgetting import DAY
from smolagents_memory.stores.records import Record


NOW = 2e9
HISTORIES = st.fixed_dictionaries({
    "created": st.floats(0, NOW + 5 * DAY),
    "touched": st.floats(0, NOW + 5 * DAY),
    "uses": st.one_of(st.floats(-2, 10), st.floats(0, 1e12), st.integers(0, 40).map(lambda n: 2.0**n - 1)),
    "importance": st.one_of(st.floats(0, 3), st.floats(0, 1e9), st.integers(-4, 29).map(lambda n: 2.0**n)),
})  # fmt: skip


@pytest.mark.slow
@settings(max_examples=30)
@given(
    histories=st.lists(HISTORIES, min_size=1, max_size=20),
    half_life=st.floats(0.01, 1000),
    floor=st.one_of(st.floats(1e-6, 0.999999), st.sampled_from([0.0, 1.0, 2.0])),
    near=st.floats(-10, 10),
)
def test_the_database_leaves_out_nothing_that_has_faded(
    histories: list[dict[str, float]], half_life: float, floor: float, near: float
) -> None:
    """Also what was last used just about as long ago as the curve says."""
    curve = ForgettingCurve(half_life=half_life, floor=floor, every=0)
    if curve.idle is not None:  # one more at the very edge
        lasting = 1 + math.log2(1 + max(0.0, histories[0]["uses"]))
        edge = NOW - curve.idle * lasting * max(0.25, 1 + math.log2(max(histories[0]["importance"], 0.1))) + near
        histories = [*histories, {**histories[0], "created": max(0.0, edge), "touched": 0.0}]
    memory = EnhancedAgentMemory(vector=False, forgetting=curve, clock=lambda: NOW)
    memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(len(histories)))
    with memory.long_term.keeper.bank.database.writing() as connection:
        for n, values in enumerate(histories):
            one = update(tables.items).where(tables.items.c.key == f"k{n}".encode())
            connection.execute(one.values(**values))
    records = [Record(f"k{n}", "", **values) for n, values in enumerate(histories)]  # type: ignore[arg-type]
    faded = {record.key for record in records if curve.faded(record, NOW)}
    assert set(memory.decay()) == faded
    memory.close()


def test_what_is_fresh_is_not_read_to_find_what_has_faded(url: str) -> None:
    """In SQLite and in Postgres."""
    now = [NOW]
    memory = EnhancedAgentMemory(url, vector=False, forgetting=ForgettingCurve(every=0), clock=lambda: now[0])
    memory.remember_many({"text": f"old {n}", "key": f"o{n}"} for n in range(5))
    now[0] += 300 * DAY
    memory.remember_many({"text": f"new {n}", "key": f"n{n}"} for n in range(50))
    curve = memory.long_term.curve
    assert {each.key for each in memory.long_term.keeper.bank.histories(now[0], curve.idle)} == {
        f"o{n}" for n in range(5)
    }
    assert len(memory.decay()) == 5
    memory.close()


class Stubborn(ForgettingCurve):
    """Another curve."""

    def strength(self, record: Record, now: float) -> float:
        return 0.0 if record.key == "k1" else 1.0


def test_a_curve_of_ones_own_is_asked_of_every_memory() -> None:
    memory = EnhancedAgentMemory(vector=False, forgetting=Stubborn())
    memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(3))
    assert memory.decay() == ["k1"]


@pytest.mark.parametrize("damage", [None, -3, 10**6, "text"])
def test_counts_are_right_whatever_lies_where_one_is_kept(tmp_path: Any, damage: Any) -> None:
    """A number that it cannot be is not believed."""
    memories = {user: EnhancedAgentMemory(tmp_path, vector=False, scope={"user": user}) for user in ("ann", "ben")}
    for size, memory in enumerate(memories.values(), start=3):
        memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(size))
        memory.archive("k0")
    if damage is not None:
        with memories["ann"].long_term.keeper.bank.database.writing() as connection:
            connection.exec_driver_sql("UPDATE memory_scopes SET live = ?", (damage,))
    for size, memory in enumerate(memories.values(), start=3):
        assert [memory.count(archived=each) for each in (False, True, None)] == [size - 1, 1, size]
        assert (memory.stats().memories, memory.stats().archived) == (size - 1, 1)
        assert [(each.user, each.memories, each.archived) for each in memory.scopes()] == [
            ("ann", 2, 1), ("ben", 3, 1),
        ]  # fmt: skip
