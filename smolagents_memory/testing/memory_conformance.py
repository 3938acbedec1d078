"""What every EnhancedAgentMemory must do, wherever it keeps its memories, as tests: subclass `MemoryConformance`.

    class TestMemoryInMyStore(MemoryConformance):
        def make_memory(self, tmp_path, **options):
            return EnhancedAgentMemory(long_term=MyStore(tmp_path / "file"), vector=False, **options)

Remembering, trust, recall with filters, explained, with relevance and with what neighbours lend, feedback, time,
archive, pin, forget, decay, purge and scopes. What a store lacks of the six methods of `MemoryStore`, and what does
not work without it, is named as the reason where a test is skipped.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.memory.enhanced import EnhancedAgentMemory
from smolagents_memory.memory.forgetting import DAY


class Clock:
    """A clock that is set by hand: give it to `EnhancedAgentMemory(clock=…)`."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        """Go on by some days."""
        self.now += days * DAY


class MemoryConformance:
    """Tests that every EnhancedAgentMemory passes."""

    def make_memory(self, tmp_path: Path, **options: Any) -> EnhancedAgentMemory:
        """A new, empty memory; the options are EnhancedAgentMemory's."""
        raise NotImplementedError("make_memory(tmp_path, **options) says how it is made")  # pragma: no cover

    def reopen(self, memory: EnhancedAgentMemory, tmp_path: Path, **options: Any) -> EnhancedAgentMemory:
        """The same place, opened again by another object, which knows nothing of the first."""
        pytest.skip("this memory names no way to open it again")

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def memory(self, tmp_path: Path, clock: Clock) -> Any:
        memory = self.make_memory(tmp_path, clock=clock)
        yield memory
        memory.close()

    # -- remembering -------------------------------------------------------------------------------------------

    def test_what_is_remembered_is_recalled_with_key_score_and_metadata(self, memory: EnhancedAgentMemory) -> None:
        key = memory.remember("The staging server needs the VPN.", meta={"team": "ops"}, kind="fact", source="wiki")
        memory.remember("Lunch is at noon.")
        hit = memory.recall("How is the staging server reached?", k=1)[0]
        assert tuple(hit) == (key, "The staging server needs the VPN.", hit.score)
        assert (hit.meta, hit.kind, hit.source, hit.importance) == ({"team": "ops"}, "fact", "wiki", 1.0)
        assert hit.parts == {}

    def test_nothing_is_found_where_nothing_is(self, memory: EnhancedAgentMemory) -> None:
        assert memory.recall("anything at all") == []
        memory.remember("a note")
        for query, k in (("", 5), ("   ", 5), ("a note", 0)):
            assert memory.recall(query, k) == []
        assert not memory.feedback("nothing")
        assert not memory.forget("nothing")
        assert not memory.pin("nothing")

    def test_the_same_text_again_is_one_stronger_memory(self, memory: EnhancedAgentMemory, clock: Clock) -> None:
        first = memory.remember("The disk is full.", importance=1, meta={"a": 1})
        clock.pass_days(1)
        assert memory.remember("The disk is full.", importance=3, meta={"b": 2}) == first
        record = memory.long_term.get(first)
        assert record is not None
        assert (record.importance, record.uses, record.touched) == (3, 1, clock.now)
        assert record.meta == {"a": 1, "b": 2}
        assert memory.stats().memories == 1

    def test_a_key_that_exists_is_replaced(self, memory: EnhancedAgentMemory, clock: Clock) -> None:
        memory.remember("the zebra", key="animal")
        memory.pin("animal")
        began = clock.now
        clock.pass_days(1)
        memory.remember("the giraffe", key="animal")
        assert memory.stats().memories == 1
        assert memory.recall("giraffe")[0].value == "the giraffe"
        record = memory.long_term.get("animal")
        assert record is not None
        assert (record.value, record.created, record.pinned) == ("the giraffe", began, True)

    @pytest.mark.parametrize(
        "item", [5, {"text": 5}, {"texts": "x"}, {"text": "x", "importance": "high"}, {"text": "x", "key": ""}]
    )
    def test_one_bad_item_of_many_is_refused_and_nothing_is_written(
        self, memory: EnhancedAgentMemory, item: Any
    ) -> None:
        with pytest.raises(UnsupportedValueError):
            memory.remember_many(["good", item])
        assert memory.stats().memories == 0

    def test_a_document_is_kept_in_parts_and_replaced_as_a_whole(self, memory: EnhancedAgentMemory) -> None:
        text = "\n\n".join(f"Chapter {n}. " + "The ship sails on. " * 30 for n in range(6))
        keys = memory.remember_document(text + "\n\nThe treasure is in the attic.", "story.txt")
        assert len(keys) > 3
        (hit, *_) = memory.recall("Where is the treasure in the attic?")
        assert "attic" in hit.value
        assert (hit.origin, hit.trust) == ("document", 1)
        assert len(memory.remember_document("The treasure moved to the cellar.", "story.txt")) == 1
        assert memory.stats().memories == 1

    # -- trust -------------------------------------------------------------------------------------------------

    def test_a_memory_says_who_wrote_it_and_what_is_made_of_others_is_trusted_no_more(
        self, memory: EnhancedAgentMemory
    ) -> None:
        page = memory.remember("The tram to the harbour is red.", origin="tool", source="web_search")
        lesson = memory.remember("Take the red tram to the harbour.", made_of=[page])
        memory.remember("The harbour tram costs two euros.")
        hits = {hit.key: hit for hit in memory.recall("the tram to the harbour")}
        assert len(hits) == 3
        assert (hits[page].origin, hits[page].trust, hits[page].tools) == ("tool", 0, ("web_search",))
        assert (hits[lesson].origin, hits[lesson].trust, hits[lesson].tools) == ("user", 0, ("web_search",))
        assert [hit.trust for hit in memory.recall("harbour", where={"origin": "user", "trust": 1})] == [1]
        assert [hit.key for hit in memory.recall("harbour", where={"origin": "tool"})] == [page]
        assert memory.confirm(page)
        assert memory.recall("harbour", where={"origin": "tool"})[0].trust == 2
        assert not memory.confirm("nothing")

    def test_what_is_replaced_is_history(self, memory: EnhancedAgentMemory) -> None:
        old = memory.remember("Ann lives in Berlin.")
        new = memory.remember("Ann lives in Paris.", replaces=old)
        assert [hit.key for hit in memory.recall("Where does Ann live?")] == [new]
        assert [each.key for each in memory.history(new)] == [new, old]
        with pytest.raises(UnsupportedValueError, match="nothing was written"):
            memory.remember("Ann lives in Rome.", replaces="nobody's key")

    def test_what_is_revoked_goes_with_all_that_was_made_of_it(self, memory: EnhancedAgentMemory) -> None:
        page = memory.remember("The bridge is closed.", origin="tool", source="web_search")
        lesson = memory.remember("Go round by the ferry.", made_of=[page], source="run 1")
        plan = memory.remember("Ferries leave at noon.", made_of=[lesson])
        memory.archive(plan)
        own = memory.remember("The ferry costs two euros.", source="run 1")
        assert set(memory.revoke(source="web_search")) == {page, lesson, plan}
        assert [hit.key for hit in memory.recall("ferry bridge")] == [own]
        assert memory.revoke(source="web_search") == []
        assert memory.revoke(key=own) == [own]
        for wrong in ({}, {"source": "a", "key": "b"}, {"source": 5}):
            with pytest.raises(UnsupportedValueError, match="name what is revoked"):
                memory.revoke(**wrong)

    @pytest.mark.parametrize(
        ("first", "second", "trust"),
        [("user", "tool", 1), ("tool", "agent", 0), ("tool", "tool", 0), ("tool", "user", 1), ("tool", "document", 1)],
    )
    def test_the_same_text_is_vouched_for_by_a_more_trusted_writer_alone(
        self, memory: EnhancedAgentMemory, first: str, second: str, trust: int
    ) -> None:
        for origin in (first, second):
            memory.remember("The disk is full.", origin=origin, source="probe")
        (hit,) = memory.recall("disk")
        assert (hit.trust, hit.origin) == (trust, second if trust and first == "tool" else first)

    def test_an_origin_that_there_is_not_is_refused(self, memory: EnhancedAgentMemory) -> None:
        for wrong in ({"origin": "web"}, {"trust": 2}, {"tools": [5]}, {"made_of": [None]}):
            with pytest.raises(UnsupportedValueError):
                memory.remember_many(["good", {"text": "x", **wrong}])
        assert memory.stats()["memories"] == 0

    # -- recall ------------------------------------------------------------------------------------------------

    def test_explaining_shows_parts_that_add_up(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many(["a red car", "a blue boat", "a green plane"])
        hit = memory.recall("red car", explain=True)[0]
        assert hit.value == "a red car"
        form = {"covers", "speaker", "question", "time", "names", "first"}
        assert set(hit.parts) == {"lexical", "vector", *form, "neighbour", "recency", "importance", "use"}
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-5)

    def test_filters_reach_metadata_and_the_memorys_own_fields(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many({"text": f"note {n} about the harbour", "meta": {"n": n}} for n in range(300))
        memory.remember("a note about the harbour too", kind="failure", source="log", key="mine", importance=4)
        assert [hit.meta["n"] for hit in memory.recall("harbour", where={"n": 299})] == [299]
        for where in ({"kind": "failure"}, {"source": "log"}, {"key": "mine"}, {"importance": {"$gt": 3}}):
            assert [hit.key for hit in memory.recall("harbour note", where=where)] == ["mine"]
        assert memory.recall("harbour", where={"n": -1}) == []
        with pytest.raises(UnsupportedValueError):
            memory.recall("harbour", where={"n": {"$near": 1}})

    def test_relevance_tells_what_has_to_do_with_the_query_from_what_has_not(
        self, memory: EnhancedAgentMemory
    ) -> None:
        memory.remember_many(f"filler number {n} of the ledger" for n in range(30))
        key = memory.remember("the staging server needs the vpn")
        best = memory.recall("the staging server needs the vpn", 1)[0]
        assert best.key == key
        assert 0.5 < best.relevance <= 1
        assert all(0 <= hit.relevance < 0.5 for hit in memory.recall("zebra giraffe elephant", 5))
        assert [hit.key for hit in memory.recall("staging server vpn", min_relevance=0.5)] == [key]

    def test_neighbours_of_one_source_lend_each_other_weight(self, memory: EnhancedAgentMemory) -> None:
        talk = ["Which colour did the committee choose for the bridge?", "Teal, in the end.", "Good."]
        memory.remember_many(f"unrelated filler number {n}" for n in range(20))
        memory.remember_many({"text": text, "source": "talk"} for text in talk)
        memory.remember_many(f"unrelated filler number {n}" for n in range(20, 40))
        found = memory.recall("colour chosen by the committee for the bridge", 3, explain=True)
        teal = next(hit for hit in found if hit.value == "Teal, in the end.")
        assert teal.parts["neighbour"] > 0.5
        assert all(hit.parts["neighbour"] == 0 for hit in found if hit.source is None)

    def test_importance_and_feedback_decide_between_equals(self, memory: EnhancedAgentMemory) -> None:
        memory.remember("the pump in hall one leaks", key="one", importance=1)
        memory.remember("the pump in hall two leaks", key="two", importance=8)
        assert memory.recall("which pump leaks")[0].key == "two"
        for _ in range(6):
            assert memory.feedback("one", useful=True)
            assert memory.feedback("two", useful=False)
        best = memory.recall("which pump leaks", explain=True)[0]
        assert best.key == "one"
        assert best.parts["use"] > 0

    def test_of_equals_the_newer_comes_first(self, memory: EnhancedAgentMemory, clock: Clock) -> None:
        memory.remember("the badge opens gate 3", key="old")
        clock.pass_days(200)
        memory.remember("the badge opens gate 4", key="new")
        found = memory.recall("which gate does the badge open", explain=True)
        assert [hit.key for hit in found] == ["new", "old"]
        assert found[0].parts["recency"] > found[1].parts["recency"] > 0

    def test_being_recalled_is_noted_as_use(self, memory: EnhancedAgentMemory, clock: Clock) -> None:
        memory.remember("the vault code is in the red book", key="code")
        clock.pass_days(3)
        for _ in range(2):
            memory.recall("vault code", 1)
        record = next(record for record in memory.long_term.keeper.records() if record.key == "code")
        assert (record.uses, record.touched) == (2, clock.now)

    # -- forgetting --------------------------------------------------------------------------------------------

    def test_forgetting_by_key_and_by_filter(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many({"text": f"fact {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(10))
        assert memory.forget("k0")
        assert not memory.forget("k0")
        assert memory.forget_where({"n": {"$gte": 5}}) == 5
        with pytest.raises(UnsupportedValueError, match="everything"):
            memory.forget_where({})
        assert sorted(hit.key for hit in memory.recall("fact", 20)) == ["k1", "k2", "k3", "k4"]
        assert memory.stats().memories == 4

    def test_what_is_archived_is_kept_and_not_recalled_until_it_is_restored(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many({"text": f"note {n} about the harbour", "key": f"k{n}", "source": "s"} for n in range(9))
        before = [(hit.key, round(hit.score, 3)) for hit in memory.recall("note 4 harbour", 9)]
        assert memory.archive("k4")
        assert not memory.archive("k4")
        assert "k4" not in [hit.key for hit in memory.recall("note 4 harbour", 9)]
        assert (memory.stats().memories, memory.stats().archived) == (8, 1)
        assert memory.long_term.get("k4") is not None
        assert memory.restore("k4")
        assert not memory.restore("k4")
        assert [(hit.key, round(hit.score, 3)) for hit in memory.recall("note 4 harbour", 9)] == before

    def test_many_archived_memories_do_not_hide_the_one_that_is_left(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many(
            {"text": f"the pump {n} of hall {7 * n} near gate {13 * n} leaks", "key": f"k{n}"} for n in range(120)
        )
        memory.long_term.change([f"k{n}" for n in range(119)], "archive")
        assert [hit.key for hit in memory.recall("which pump leaks", 5)] == ["k119"]

    def test_what_fades_is_archived_then_purged_and_what_is_pinned_stays(
        self, memory: EnhancedAgentMemory, clock: Clock
    ) -> None:
        memory.remember_many({"text": f"a passing remark {n}", "key": f"k{n}"} for n in range(3))
        assert memory.pin("k0")
        assert memory.decay() == []
        clock.pass_days(1000)
        assert sorted(memory.decay()) == ["k1", "k2"]
        assert memory.restore("k1")
        assert memory.pin("k1")
        clock.pass_days(1000)
        assert memory.decay() == []
        assert memory.purge() == ["k2"]
        assert memory.long_term.get("k2") is None
        assert memory.unpin("k1")
        assert memory.decay() == ["k1"]

    # -- around it ---------------------------------------------------------------------------------------------

    def test_listeners_hear_what_happens(self, memory: EnhancedAgentMemory) -> None:
        told: list[str] = []
        for name in ("added", "recalled", "forgotten", "archived"):
            memory.on(name, lambda event: told.append(event.name))
        key = memory.remember("a fact")
        memory.recall("a fact")
        memory.archive(key)
        memory.forget(key)
        assert told == ["added", "recalled", "archived", "forgotten"]

    def test_statistics_and_reindexing_speak_the_same_words(self, memory: EnhancedAgentMemory) -> None:
        memory.remember_many(["one", "two"])
        stats = memory.stats()
        assert {"memories", "archived", "embedder", "index", "recalls", "hit_ratio", "counted"} <= set(stats.to_dict())
        assert (stats.memories, stats.archived, stats.not_embedded) == (2, 0, 0)
        assert memory.reindex() == {"embedded": 0, "rebuilt": 0}

    def test_scopes_are_kept_apart_or_refused(self, tmp_path: Path) -> None:
        try:
            ada = self.make_memory(tmp_path, scope={"user": "ada"})
        except UnsupportedValueError as refused:
            assert "scope" in str(refused)  # noqa: PT017 — either is right
            return
        ada.remember("Ada prefers tea.", key="tea")
        bob = self.make_memory(tmp_path, scope={"user": "bob"})
        assert bob.recall("Who prefers tea?") == []
        assert not bob.forget("tea")
        for each in (ada, bob):
            each.close()

    def test_threads_lose_nothing(self, memory: EnhancedAgentMemory) -> None:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for n in range(8):
                    memory.remember(f"thread {number} wrote note {n}", key=f"{number}-{n}", source="threads")
                    assert memory.recall(f"thread {number} note {n}", 2)
            except BaseException as error:  # noqa: BLE001 — shown by the assert below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors
        assert memory.stats().memories == 40

    def test_another_object_on_the_same_place_knows_all_of_it(self, tmp_path: Path, clock: Clock) -> None:
        memory = self.make_memory(tmp_path, clock=clock)
        talk = ["Which colour did the committee choose for the bridge?", "Teal, in the end.", "Good."]
        memory.remember_many({"text": text, "source": "talk", "key": text[:4]} for text in talk)
        memory.remember_many({"text": f"filler number {n}", "key": f"k{n}", "importance": 2} for n in range(30))
        memory.pin("k1")
        memory.archive("k2")
        memory.close()
        again = self.reopen(memory, tmp_path, clock=clock)
        assert again.recall("filler number 7", 1)[0].key == "k7"
        if again.stats().lost:
            pytest.skip("; ".join(f"no {name}: {what}" for name, what in again.stats().lost.items()))
        pinned, archived = again.long_term.get("k1"), again.long_term.get("k2")
        assert pinned is not None
        assert archived is not None
        assert (pinned.pinned, pinned.importance, archived.archived) == (True, 2, clock.now)
        assert again.stats().memories == 32
        found = again.recall("colour chosen by the committee for the bridge", 3)
        assert "Teal, in the end." in [hit.value for hit in found]
        again.close()
