"""What must not grow with the number of memories: a page of them, what waits for indexes that have slept."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from numbered_texts import ByNumber
from sqlalchemy import event

from smolagents_memory import EnhancedAgentMemory, SqlStore


def test_a_page_of_memories_is_found_by_an_index_and_sorted_by_none(tmp_path):
    """With a sort each page reads the whole scope: 160,000 memories took 9.7 seconds, and now take 2.5."""
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember_many(f"note number {n}" for n in range(1200))
    store = SqlStore(tmp_path)
    pages = []
    event.listen(store.database.engine, "before_cursor_execute", lambda *a: pages.append(a[2:4]), once=False)
    assert len(list(store.items())) == 1200
    pages = [page for page in pages if "LIMIT" in page[0]]
    assert len(pages) == 4
    with store.database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {pages[0][0]}", pages[0][1]).all()
    told = " ".join(row[3] for row in plan)
    assert "USING INDEX memory_items_in_order (scope_id=? AND id>?)" in told
    assert "TEMP B-TREE" not in told


def churned(memory, rounds):
    """Memories that come and go."""
    for round_ in range(rounds):
        keys = memory.remember_many(f"{round_} passing {n}" for n in range(500))
        memory.long_term.forget(keys)


def waiting(memory):
    """How many rows wait for indexes."""
    with memory.long_term.keeper.vault.database.reading() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM memory_gone").scalar()


@pytest.mark.slow
def test_what_indexes_must_drop_does_not_pile_up(tmp_path):
    """However many memories come and go."""
    with EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as memory:
        memory.remember_many(f"{n} stays" for n in range(50))
        churned(memory, 14)
        assert waiting(memory) <= 3000


SLEEPER = """
    import sys
    sys.path[:0] = VALUES[2]
    from numbered_texts import ByNumber
    from smolagents_memory import EnhancedAgentMemory
    memory = EnhancedAgentMemory(VALUES[0], embedder=ByNumber(), scope=VALUES[1])
    indexes = memory.long_term.keeper.vault.indexes
    for line in sys.stdin:
        found = [hit.key for hit in memory.recall("pears7", 3)]
        name = memory.long_term.keeper.bank.name
        print(found, len(indexes.of_name(name)), indexes.serving(name), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("scope", [None, {"user": "u"}], ids=["chroma", "exact"])
def test_a_process_that_slept_while_they_were_left_out_holds_nothing_that_was_deleted(tmp_path, scope):
    """It makes its index anew: what is left is found among hundreds of deleted ones that were as near."""
    with EnhancedAgentMemory(tmp_path, embedder=ByNumber(), scope=scope) as memory:
        near = memory.remember_many(f"7 apples {n}" for n in range(500))
        memory.remember("7 survive", key="left")
    values = (str(tmp_path), scope, [os.path.dirname(os.path.dirname(__file__)), *sys.path])
    source = f"VALUES = {values!r}\n" + textwrap.dedent(SLEEPER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", source], **pipes) as sleeper:

        def ask():
            sleeper.stdin.write("recall\n")
            sleeper.stdin.flush()
            return sleeper.stdout.readline().split("] ")[-2:]

        assert ask()[1].split() == ["501", "exact" if scope else "chroma"]
        with EnhancedAgentMemory(tmp_path, embedder=ByNumber(), scope=scope) as memory:
            memory.long_term.forget(near)
            churned(memory, 8)
            assert waiting(memory) <= 3000
        assert ask() == ["['left'", "1 exact\n" if scope else "1 chroma\n"]
        sleeper.stdin.close()
        assert sleeper.wait(30) == 0
