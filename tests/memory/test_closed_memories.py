"""What is let go of with a memory: its engine, its indexes, its records, wherever it was."""

from __future__ import annotations

import gc
import weakref

import pytest

from smolagents_memory import EnhancedAgentMemory, InMemoryStore


def opened(place, hashed):
    """A memory that was used, and what must not outlive it."""
    memory = EnhancedAgentMemory(place, embedder=hashed)
    memory.remember("The staging server needs the VPN.")
    assert memory.recall("staging server", 1)
    vault = memory.long_term.keeper.vault
    return memory, [weakref.ref(each) for each in (memory, vault, vault.indexes, vault.database.opened.engine)]


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "forgotten"])
@pytest.mark.parametrize("place", [None, "folder"])
def test_nothing_of_a_memory_outlives_it(tmp_path, hashed, place, closed):
    """Whether it was closed or only forgotten, in a file or in RAM."""
    where = None if place is None else tmp_path / place
    memory, parts = opened(where, hashed)
    if closed:
        memory.close()
    del memory
    for n in range(8):  # as many places as are kept open for whoever comes next
        EnhancedAgentMemory(tmp_path / f"other{n}", vector=False)
    gc.collect()
    gc.collect()  # what the first let go of
    assert [part() for part in parts] == [None] * 4


@pytest.mark.slow
def test_a_thousand_memories_that_were_opened_and_closed_leave_nothing(tmp_path, hashed):
    """In RAM, in a store that stays, in many folders, in scopes of one folder."""
    store = InMemoryStore()
    places = [
        *(lambda n: EnhancedAgentMemory(vector=False), lambda n: EnhancedAgentMemory(long_term=store, vector=False))
        * 4,
        lambda n: EnhancedAgentMemory(tmp_path / f"m{n % 20}", embedder=hashed),
        lambda n: EnhancedAgentMemory(tmp_path / "one", embedder=hashed, scope={"user": n % 20}),
    ]

    def objects(count):
        for n in range(count):
            with places[n % 10](n) as memory:
                memory.remember(f"note number {n}", key=str(n % 10))
                memory.recall("note number 7")
        gc.collect()
        return len(gc.get_objects())

    before = objects(200)
    assert objects(1000) < before + 10_000  # three places are kept open for whoever comes next; it was 475,000
