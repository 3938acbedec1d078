"""Stores of one's own under an agent's memory: ranked as SQL is, told what they lack, kept in step."""

from __future__ import annotations

import pytest
from quick_embedder import Hashed
from test_memories_conform import FourMethods, SixMethods

from smolagents_memory import (
    EnhancedAgentMemory,
    InMemoryStore,
    UnsupportedValueError,
    VectorMemoryStore,
)
from smolagents_memory._errors import MemoryLossWarning
from smolagents_memory.testing.conformance import StoreConformance
from smolagents_memory.testing.filling import varied_memories


QUERIES = [
    "Which backup fails when the disk is full?", "Who owns the robot arm?", "staging server over the VPN",
    "What did Freya ask in the meeting about the login page?", "units of the greenhouse sensor",
]  # fmt: skip


def filled(**options):
    memory = EnhancedAgentMemory(clock=lambda: 1_700_000_000.0, **options)
    memory.remember_many(list(varied_memories(35)))
    memory.archive("memory-3")
    return memory


@pytest.mark.parametrize("query", QUERIES)
def test_words_in_a_store_are_ranked_as_in_sql_to_the_last_digit(query):
    """Neighbours, rarity of words, relevance: the same figures from another place."""
    ours, theirs = filled(vector=False), filled(long_term=InMemoryStore(), vector=False)
    expected, found = (each.recall(query, 30, explain=True) for each in (ours, theirs))
    assert [hit.key for hit in found] == [hit.key for hit in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.parts == pytest.approx(other.parts)
        assert (one.score, one.relevance) == pytest.approx((other.score, other.relevance))


@pytest.mark.parametrize("query", QUERIES)
def test_meaning_in_a_store_is_weighed_as_in_sql(query):
    """How a whole scope is spread is told from the best alone: the order is much the same."""
    ours = filled(embedder=Hashed())
    theirs = filled(long_term=InMemoryStore(), vector_store=VectorMemoryStore(embedder=Hashed()))
    expected, found = ([hit.key for hit in each.recall(query, 10)] for each in (ours, theirs))
    assert found[0] == expected[0]
    assert len(set(found) & set(expected)) >= 8


def test_what_an_object_lacks_of_the_six_methods_is_said_when_it_is_given():
    """By name, with what then does not work; one that has all six is not spoken of."""
    with pytest.warns(MemoryLossWarning, match=r"FourMethods has less than the six .*\n  no items\(\): .*fade"):
        memory = EnhancedAgentMemory(long_term=FourMethods())
    assert set(memory.stats().lost) == {"items()", "__len__()", "add(key, value, meta)"}
    assert EnhancedAgentMemory(long_term=SixMethods()).stats().lost == {}
    with pytest.raises(UnsupportedValueError, match="no store: it needs add, get, search, forget"):
        EnhancedAgentMemory(long_term=5)


def test_the_suite_for_stores_names_what_is_lost(tmp_path):
    """So whoever proves a store reads it there."""

    class Suite(StoreConformance):
        def make_store(self, tmp_path):
            return FourMethods()

    with pytest.raises(AssertionError, match=r"no items\(\): .*; no __len__\(\): .*; no add\(key, value, meta\)"):
        Suite().test_it_has_the_six_methods_and_what_it_lacks_is_named(tmp_path)


def test_what_the_second_store_refuses_is_written_nowhere():
    """And a text that was there stays as it was."""

    class Down(InMemoryStore):
        down = False

        def add_many(self, items):
            if self.down:
                raise UnsupportedValueError("it takes no such text")
            return super().add_many(items)

    vectors = Down()
    memory = EnhancedAgentMemory(long_term=InMemoryStore(), vector_store=vectors)
    memory.remember("the first text", key="k")
    vectors.down = True
    for key in ("k", "new"):
        with pytest.raises(UnsupportedValueError):
            memory.remember("another text", key=key)
    assert memory.long_term.get("k").value == "the first text"
    assert memory.long_term.get("new") is None


def test_a_second_store_that_fell_behind_is_brought_in_line():
    """By `reindex`, without archived memories."""
    vectors = InMemoryStore()
    memory = EnhancedAgentMemory(long_term=InMemoryStore(), vector_store=vectors)
    memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(4))
    memory.archive("k3")
    vectors.clear()
    assert memory.stats().not_embedded == 3
    assert memory.reindex() == {"embedded": 3, "rebuilt": 0}
    assert sorted(vectors) == ["k0", "k1", "k2"]


def test_records_of_others_are_recalled_and_left_alone(clock):
    """They neither fade nor are their uses written into them."""
    store = InMemoryStore()
    store.add("page", "The harbour opens at six.", {"author": "Ada"})
    memory = EnhancedAgentMemory(long_term=store, vector=False, clock=clock)
    assert memory.recall("When does the harbour open?", where={"author": "Ada"})[0].key == "page"
    clock.pass_days(1000)
    assert memory.decay() == []
    memory.close()
    assert store.meta("page") == {"author": "Ada"}


def test_what_another_memory_wrote_into_the_store_is_found_with_its_neighbours(monkeypatch):
    """The store is read again when it has grown by much."""
    from smolagents_memory.stores import store_bank

    store = InMemoryStore()
    mine, theirs = (EnhancedAgentMemory(long_term=store, vector=False) for _ in range(2))
    mine.remember_many(f"unrelated filler number {n}" for n in range(20))
    assert mine.recall("filler number 3")
    talk = ["Which colour did the committee choose for the bridge?", "Teal, in the end.", "Good."]
    theirs.remember_many({"text": text, "source": "talk"} for text in talk)
    assert mine.recall("colour of the bridge")[0].value == talk[0]
    later = store_bank.time.monotonic() + 2
    monkeypatch.setattr(store_bank.time, "monotonic", lambda: later)
    assert "Teal, in the end." in [hit.value for hit in mine.recall("colour of the bridge", 3)]


def test_what_another_process_replaced_is_counted_anew(monkeypatch):
    """The number of entries does not tell: the store is read again after a while."""
    from smolagents_memory.stores import store_bank

    store = InMemoryStore()
    mine, theirs = (EnhancedAgentMemory(long_term=store, vector=False, clock=lambda: 1e9) for _ in range(2))
    mine.remember_many({"text": f"note number {n} on pumps", "key": f"k{n}"} for n in range(60))
    assert mine.recall("pumps")
    theirs.remember_many({"text": f"note number {n} on valves", "key": f"k{n}"} for n in range(50))
    later = store_bank.time.monotonic() + 3600
    monkeypatch.setattr(store_bank.time, "monotonic", lambda: later)
    new = EnhancedAgentMemory(long_term=store, vector=False, clock=lambda: 1e9)
    for query in ("pumps", "valves"):
        expected, found = (each.recall(query, 60, explain=True) for each in (new, mine))
        assert [(hit.key, hit.parts) for hit in found] == [(hit.key, hit.parts) for hit in expected]


@pytest.mark.slow
def test_what_is_known_of_a_large_store_does_not_grow_without_end(monkeypatch):
    """Of one that is not read as a whole what is found is noted, up to a bound."""
    from smolagents_memory.stores import store_bank

    monkeypatch.setattr(store_bank, "SURVEYED", 100)
    store = InMemoryStore()
    store.add_many((f"k{n}", f"entry number{n} of the ledger") for n in range(1000))
    memory = EnhancedAgentMemory(long_term=store, vector=False)
    for n in range(1000):
        assert memory.recall(f"number{n}", 1)[0].key == f"k{n}"
    assert len(memory.long_term.keeper.bank.survey()) <= 300


def test_an_object_that_lists_nothing_is_not_believed_to_hold_what_others_forgot():
    """What is known of it here goes when it is seen to be gone there."""
    given = FourMethods()
    with pytest.warns(MemoryLossWarning):
        memory = EnhancedAgentMemory(long_term=given)
    memory.remember_many({"text": f"note number {n}", "key": f"k{n}"} for n in range(5))
    for n in range(4):
        given.forget(f"k{n}")
    assert memory.stats().memories == 1
    assert len(memory.long_term.keeper.bank.texts._known) == 1


class Misses(VectorMemoryStore):
    """What Chroma's graph does now and then: it never comes to a vector that it holds."""

    def search(self, query, top_k=5, where=None):
        return [hit for hit in super().search(query, top_k + 1, where) if hit.key != "lost"][:top_k]


@pytest.mark.parametrize("beside", [False, True])
def test_a_narrow_filter_finds_what_a_graph_does_not_come_to(beside):
    store = Misses(embedder=Hashed())
    memory = EnhancedAgentMemory(
        **({"long_term": InMemoryStore(), "vector_store": store} if beside else {"long_term": store})
    )
    memory.remember_many({"text": f"note {n} about the harbour", "meta": {"n": n}} for n in range(60))
    memory.remember("a note about the quay", key="lost", meta={"n": 60})
    assert [hit.key for hit in memory.recall("harbour", where={"n": 60})] == ["lost"]
    assert "lost" not in [hit.key for hit in memory.recall("harbour", 30)]
