"""A clock that was once far ahead, or behind, neither turns forgetting off nor makes it forget everything."""

from __future__ import annotations

from typing import Any

import pytest

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve, InMemoryStore
from smolagents_memory.testing.memory_conformance import Clock


YEARS = 365.25


def opened(where: Any, clock: Clock) -> EnhancedAgentMemory:
    return EnhancedAgentMemory(where, vector=False, clock=clock)


def archived(where: Any, clock: Clock) -> set[str]:
    """What is put away after the memory was opened now."""
    with opened(where, clock) as memory:
        return {record.key for record in memory.long_term.keeper.records(archived=True)}


def test_forgetting_goes_on_after_the_clock_was_far_ahead(url: str, clock: Clock) -> None:
    """It ran then, and noted that it had: 64 years ahead."""
    with opened(url, clock) as memory:
        memory.remember("soon forgotten", key="k")
        memory.pin("k")
    clock.pass_days(64 * YEARS)
    assert archived(url, clock) == set()
    clock.pass_days(-63 * YEARS)
    with opened(url, clock) as memory:
        memory.unpin("k")
    clock.pass_days(2)
    assert archived(url, clock) == {"k"}


def test_what_was_remembered_and_recalled_then_fades_from_when_that_is_noticed(url: str, clock: Clock) -> None:
    with opened(url, clock) as memory:
        memory.remember("recalled on that day", key="recalled")
    clock.pass_days(64 * YEARS)
    with EnhancedAgentMemory(url, vector=False, clock=clock, forgetting=ForgettingCurve(every=0)) as memory:
        memory.remember("written on that day", key="written")
        memory.recall("recalled")
    clock.pass_days(-64 * YEARS + 10)
    assert archived(url, clock) == set()
    clock.pass_days(60)
    assert archived(url, clock) == set()
    clock.pass_days(700)
    assert archived(url, clock) == {"written", "recalled"}


def test_what_was_put_away_then_can_be_purged_after_its_time(url: str, clock: Clock) -> None:
    with opened(url, clock) as memory:
        memory.remember("a note", key="k")
        clock.pass_days(64 * YEARS)
        memory.archive("k")
        clock.pass_days(-64 * YEARS)
        assert memory.purge() == []
        clock.pass_days(80)
        assert memory.purge() == []
        clock.pass_days(20)
        assert memory.purge() == ["k"]


def test_a_clock_that_is_behind_for_a_while_costs_no_memory(url: str, clock: Clock) -> None:
    """A machine that begins in 1970 until it hears the time."""
    clock.pass_days(50 * YEARS)
    with opened(url, clock) as memory:
        memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(3))
    clock.pass_days(-50 * YEARS)
    for _ in range(5):
        clock.pass_days(30)
        assert archived(url, clock) == set()
    clock.pass_days(50 * YEARS - 149)
    assert archived(url, clock) == set()
    clock.pass_days(400)
    assert len(archived(url, clock)) == 3


def test_where_nothing_shows_which_clock_was_wrong_a_year_decides(url: str, clock: Clock) -> None:
    """All that there is was written then: it could be the clock of today that is behind."""
    clock.pass_days(64 * YEARS)
    with opened(url, clock) as memory:
        memory.remember("the first of all", key="k")
    clock.pass_days(-64 * YEARS)
    assert archived(url, clock) == set()
    clock.pass_days(300)
    assert archived(url, clock) == set()
    clock.pass_days(100)
    assert archived(url, clock) == {"k"}


def test_a_store_of_ones_own_forgets_all_the_same(clock: Clock) -> None:
    """But for what was used on that day: a store has no place to note since when that is known."""
    with opened(InMemoryStore(), clock) as memory:
        memory.remember_many([{"text": "recalled on that day", "key": "k"}, {"text": "an owl", "key": "idle"}])
        clock.pass_days(64 * YEARS)
        memory.recall("recalled", 1)
        clock.pass_days(-64 * YEARS + 500)
        assert memory.decay() == ["idle"]


@pytest.mark.parametrize("days", [-1, 0.5])
def test_a_clock_that_is_a_little_off_changes_nothing(url: str, clock: Clock, days: float) -> None:
    with opened(url, clock) as memory:
        memory.remember("a note", key="k")
    clock.pass_days(days)
    assert archived(url, clock) == set()
