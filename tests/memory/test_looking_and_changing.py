"""What is in a memory can be listed, counted, had by key, said otherwise and cleared, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from quick_embedder import Hashed

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, ScopeInfo, UnsupportedValueError, VectorMemoryStore


@pytest.fixture(params=["folder", "words", "a store", "two stores"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EnhancedAgentMemory]:
    built: dict[str, Any] = {
        "folder": lambda: EnhancedAgentMemory(tmp_path, embedder=Hashed()),
        "words": lambda: EnhancedAgentMemory(tmp_path, vector=False),
        "a store": lambda: EnhancedAgentMemory(InMemoryStore(), vector=False),
        "two stores": lambda: EnhancedAgentMemory(
            long_term=InMemoryStore(), vector_store=VectorMemoryStore(embedder=Hashed())
        ),
    }
    with built[request.param]() as memory:
        memory.remember_many(
            {"text": f"note {n} on pumps", "key": f"k{n}", "meta": {"n": n}, "source": "s", "importance": 2.0}
            for n in range(6)
        )
        yield memory


def test_a_memory_is_had_by_its_key(memory: EnhancedAgentMemory) -> None:
    memory.archive("k3")
    memory.pin("k1")
    one, other = memory.get("k3"), memory.get("k1")
    assert one is not None
    assert other is not None
    assert (one.key, one.value, one.meta, one.source, one.importance) == ("k3", "note 3 on pumps", {"n": 3}, "s", 2.0)
    assert (one.archived is not None, one.pinned, other.archived, other.pinned) == (True, False, None, True)
    assert memory.get("nothing") is None
    with pytest.raises(UnsupportedValueError):
        memory.get("")


def test_what_there_is_is_listed_as_it_was_added_and_counted(memory: EnhancedAgentMemory) -> None:
    memory.archive("k2")
    assert [each.key for each in memory.items()] == ["k0", "k1", "k3", "k4", "k5"]
    assert [each.key for each in memory.items(archived=True)] == ["k2"]
    assert [each.key for each in memory.items({"n": {"$lt": 4}}, archived=None)] == ["k0", "k1", "k2", "k3"]
    assert (memory.count(), memory.count(archived=True), memory.count(archived=None)) == (5, 1, 6)
    assert memory.count({"n": {"$gt": 3}}) == 2
    for each in memory.items():
        memory.forget(each.key)
    assert memory.count() == 0
    assert memory  # an empty memory is true
    with pytest.raises(UnsupportedValueError):
        memory.items({"n": {"$near": 1}})


def test_it_is_listed_lazily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = EnhancedAgentMemory(tmp_path, vector=False)
    memory.remember_many(f"note {n}" for n in range(2000))
    from smolagents_memory.stores import rows

    read: list[int] = []
    record_of = rows.record_of
    monkeypatch.setattr(rows, "record_of", lambda *given: read.append(1) or record_of(*given))
    assert len(list(islice(memory.items(), 3))) == 3
    assert len(read) <= 500


def test_another_text_is_found_by_its_own_words_and_keeps_all_else(memory: EnhancedAgentMemory) -> None:
    memory.recall("note 3 on pumps", 1)
    memory.feedback("k3")
    memory.pin("k3")
    before = memory.long_term.get("k3")
    assert memory.update("k3", text="the zebra sleeps")
    assert memory.recall("zebra sleeps", 1)[0].key == "k3"
    assert "k3" not in [hit.key for hit in memory.recall("note pumps", 5)]
    memory.long_term.keeper.flush()
    assert memory.update("k3", meta={"of": "zoo"})
    after = memory.long_term.get("k3")
    assert before is not None
    assert after is not None
    assert (after.value, after.meta) == ("the zebra sleeps", {"of": "zoo"})
    same = ("key", "created", "useful", "pinned", "importance", "source", "kind", "id", "place", "archived")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert after.uses >= before.uses
    assert memory.stats().not_embedded == 0
    assert not memory.update("nothing", text="x")
    for wrong in ({}, {"text": 3}, {"meta": 3}, {"meta": {1: 2}}, {"meta": {"f": lambda: 1}}):
        with pytest.raises(UnsupportedValueError):
            memory.update("k3", **wrong)  # type: ignore[arg-type]


def test_an_archived_memory_that_is_updated_stays_away(memory: EnhancedAgentMemory) -> None:
    memory.archive("k3")
    assert memory.update("k3", text="the zebra sleeps")
    assert "k3" not in [hit.key for hit in memory.recall("zebra", 5)]
    assert memory.restore("k3")
    assert memory.recall("zebra", 1)[0].key == "k3"


def test_a_text_that_was_changed_can_be_remembered_again(memory: EnhancedAgentMemory) -> None:
    """The key of an unnamed memory is made of its text: the changed one must not swallow it."""
    key = memory.remember("The code is 1234.")
    memory.update(key, text="The code is 9876.")
    again = memory.remember("The code is 1234.")
    assert again != key
    assert memory.remember("The code is 1234.") == again
    assert {each.value for each in memory.items()} >= {"The code is 1234.", "The code is 9876."}


def test_clearing_deletes_all_of_a_scope_and_nothing_else(url: str) -> None:
    heard: list[Any] = []
    other = EnhancedAgentMemory(url, vector=False, scope={"user": "bob"})
    other.remember("bob's note")
    memory = EnhancedAgentMemory(url, vector=False, scope={"user": "ann"})
    memory.remember_many({"text": f"note {n}", "key": f"k{n}"} for n in range(5))
    memory.pin("k1")
    memory.archive("k2")
    memory.recall("note")
    memory.on("forgotten", heard.append)
    assert memory.clear() == 5
    assert memory.clear() == 0
    assert len(heard) == 1
    assert (memory.count(archived=None), memory.recall("note"), other.count()) == (0, [], 1)
    memory.remember("a new note", key="k1")
    assert [hit.key for hit in memory.recall("note")] == ["k1"]
    memory.close()
    other.close()


def test_a_store_of_ones_own_is_cleared_too(memory: EnhancedAgentMemory) -> None:
    memory.archive("k2")
    assert memory.clear() == 6
    assert memory.recall("pumps") == []
    assert memory.count(archived=None) == 0


def test_the_scopes_of_a_place_are_listed_with_what_is_in_them(url: str) -> None:
    for scope, count in ((None, 1), ({"user": "ann"}, 3), ({"user": 1, "team": "é"}, 2)):
        with EnhancedAgentMemory(url, vector=False, scope=scope) as memory:
            memory.remember_many(f"note {n}" for n in range(count))
            if count == 3:
                memory.archive(memory.recall("note 1", 1)[0].key)
    with EnhancedAgentMemory(url, vector=False, scope={"user": "nobody"}) as memory:
        memory.recall("note")  # asking makes no scope
        found = memory.scopes()
    assert sorted(found, key=str) == sorted(
        [ScopeInfo(None, 1, 0), ScopeInfo({"user": "ann"}, 2, 1), ScopeInfo({"user": 1, "team": "é"}, 2, 0)], key=str
    )
    assert str(ScopeInfo({"user": "ann"}, 2, 1)) == "user=ann: 2 memories, 1 archived"
