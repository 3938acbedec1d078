"""What every store must do, as tests: subclass `StoreConformance` and say how your store is made.

    class TestMyStore(StoreConformance):
        def make_store(self, tmp_path):
            return MyStore(tmp_path / "file")

Required of each store: the six methods of `MemoryStore`, and where one is missing the suite names what does not work;
keeping keys, values and metadata faithfully or refusing them with one `StoreError` and nothing written; replacing;
forgetting; order; ranked search; bulk; threads. Optional, and tested when the store names it in `abilities`: "filters"
(`where`), "vectors" (found by meaning, with cosines for scores), "ttl" (entries expire; `make_ttl_store`),
"persistent" (`reopen`).
"""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from smolagents_memory._errors import StoreError, UnsupportedValueError
from smolagents_memory.stores.adapting import as_store, lost_by
from smolagents_memory.stores.base import Hit, MemoryStore


HOSTILE_TEXTS = {
    "empty": "",
    "space": " \n\t ",
    "surrogate": "a lone \ud800 surrogate",
    "nul": "before\0after",
    "emoji": "🦜 naïve façade Ünïcödé",
    "rtl": "שלום العالم",
    "quotes": 'Robert\'); DROP TABLE memory_items;-- "x" %s :name ?',
    "fts": 'AND OR NOT NEAR(a b) "unclosed * ^ col:',
    "json": '{"$": "tuple", "v": [1]}',
}
HOSTILE_KEYS = ["k", "ключ", "a b", "a#1", "=61", "🔑", "\ud800", "nul\0key", "x" * 2000, "../up", "$where", "'; --"]
HOSTILE_META: dict[str, Any] = {
    "none": None,
    "nan": math.nan,
    "infinity": math.inf,
    "nested": {"a": [1, {"b": None}], "$": "marker"},
    "empty list": [],
    "tuple": (1, "two"),
    "big": 2**80,
    "bytes": b"\x00\xff",
    "surrogate": "\udfff",
    "": "an empty name",
    "chroma:document": "a reserved name",
}


class StoreConformance:
    """Tests that every MemoryStore passes."""

    def make_store(self, tmp_path: Path) -> MemoryStore[Any]:
        """A new, empty store."""
        raise NotImplementedError("make_store(tmp_path) says how your store is made")  # pragma: no cover

    def reopen(self, store: MemoryStore[Any], tmp_path: Path) -> MemoryStore[Any]:
        """The same storage, opened again."""
        pytest.skip("this store names no way to open it again")

    def make_ttl_store(self, tmp_path: Path, ttl: float) -> MemoryStore[Any]:
        """A new, empty store whose entries expire after `ttl` seconds."""
        pytest.skip("entries of this store do not expire")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        store = as_store(self.make_store(tmp_path))
        yield store
        store.close()

    def test_it_has_the_six_methods_and_what_it_lacks_is_named(self, tmp_path: Path) -> None:
        store = self.make_store(tmp_path)
        lost = [f"no {name}: {what}" for name, what in lost_by(store).items()]
        as_store(store).close()
        assert not lost, "; ".join(lost)

    # -- keeping -----------------------------------------------------------------------------------------------

    def test_what_is_added_can_be_read(self, store: MemoryStore[Any]) -> None:
        store.add("k1", "The key is under the mat.", {"kind": "fact", "year": 2024})
        assert store.get("k1") == "The key is under the mat."
        assert store.meta("k1") == {"kind": "fact", "year": 2024}
        assert len(store) == 1
        assert "k1" in store
        assert list(store) == ["k1"]

    def test_what_is_not_there_is_none_and_cannot_be_forgotten(self, store: MemoryStore[Any]) -> None:
        assert store.get("nothing") is None
        assert store.meta("nothing") is None
        assert store.forget("nothing") is False
        assert "nothing" not in store
        assert store.search("anything") == []
        assert len(store) == 0

    def test_adding_again_replaces_value_and_metadata_and_keeps_the_place(self, store: MemoryStore[Any]) -> None:
        store.add("k1", "the first zebra", {"a": 1})
        store.add("k2", "in between")
        store.add("k1", "the second giraffe", {"b": 2})
        assert [(key, value) for key, value, _ in store.items()] == [
            ("k1", "the second giraffe"),
            ("k2", "in between"),
        ]
        assert store.meta("k1") == {"b": 2}
        assert "k1" in [hit.key for hit in store.search("giraffe", top_k=1)]

    def test_forgetting_removes_it_everywhere(self, store: MemoryStore[Any]) -> None:
        store.add("k1", "a zebra in the garden")
        store.add("k2", "a lion in the garden")
        assert store.forget("k1") is True
        assert store.forget("k1") is False
        assert store.get("k1") is None
        assert [hit.key for hit in store.search("a zebra in the garden")] == ["k2"]
        assert [key for key, _, _ in store.items()] == ["k2"]

    @pytest.mark.parametrize("name", HOSTILE_TEXTS)
    def test_hostile_texts_come_back_as_they_were(self, store: MemoryStore[Any], name: str) -> None:
        store.add(name, HOSTILE_TEXTS[name], {"text": HOSTILE_TEXTS[name]})
        assert store.get(name) == HOSTILE_TEXTS[name]
        assert store.meta(name) == {"text": HOSTILE_TEXTS[name]}
        store.search(HOSTILE_TEXTS[name])

    @pytest.mark.parametrize("key", HOSTILE_KEYS, ids=ascii)
    def test_hostile_keys_stay_apart(self, store: MemoryStore[Any], key: str) -> None:
        store.add(key, "one")
        store.add(key + "1", "two")
        assert store.get(key) == "one"
        assert sorted(store) == sorted([key, key + "1"])
        assert store.forget(key)
        assert list(store) == [key + "1"]

    @pytest.mark.parametrize("key", ["", None, 5, b"k"])
    def test_what_is_no_key_is_refused(self, store: MemoryStore[Any], key: Any) -> None:
        with pytest.raises(UnsupportedValueError, match="key"):
            store.add(key, "value")
        assert len(store) == 0

    @pytest.mark.parametrize("name", HOSTILE_META)
    def test_hostile_metadata_comes_back_as_it_was(self, store: MemoryStore[Any], name: str) -> None:
        store.add("k", "text", {name: HOSTILE_META[name], "other": 1})
        found = store.meta("k")
        assert found is not None
        assert repr(found) == repr({name: HOSTILE_META[name], "other": 1})
        assert repr(store.search("text")[0].meta) == repr(found)

    @pytest.mark.parametrize("value", [{"a": [1, None]}, ["x", 2.5], 7, True, {"$": "x"}], ids=repr)
    def test_values_other_than_text_come_back_with_their_type(self, store: MemoryStore[Any], value: Any) -> None:
        store.add("k", value)
        found = store.get("k")
        assert found == value
        assert type(found) is type(value)

    def test_numpy_scalars_are_kept_with_their_type_or_refused(self, store: MemoryStore[Any]) -> None:
        numpy = pytest.importorskip("numpy")
        try:
            store.add("k", "text", {"score": numpy.float32(1.5), "count": numpy.int64(3)})
        except StoreError:
            assert store.get("k") is None
        else:
            found = store.meta("k")
            assert found == {"score": 1.5, "count": 3}
            assert isinstance(found["count"], numpy.int64)

    def test_what_cannot_be_kept_is_refused_and_nothing_is_written(self, store: MemoryStore[Any]) -> None:
        store.add("old", "stays")
        for meta in ({"lock": threading.Lock()}, {1: "no name"}, ["no mapping"]):
            with pytest.raises(UnsupportedValueError):
                store.add_many([("new", "text", None), ("bad", "text", meta)])  # type: ignore[list-item]
        with pytest.raises(UnsupportedValueError):
            store.add("bad", threading.Lock())
        assert [(key, value) for key, value, _ in store.items()] == [("old", "stays")]

    def test_ten_megabytes_come_back_as_they_were(self, store: MemoryStore[Any]) -> None:
        text = "The warehouse inventory of the northern branch. " * 218_000
        store.add("large", text)
        assert store.get("large") == text
        assert store.forget("large")

    def test_a_value_handed_out_is_a_copy(self, store: MemoryStore[Any]) -> None:
        value, meta = {"a": [1]}, {"tags": ["x"]}
        store.add("k", value, meta)
        value["a"].append(2)
        meta["tags"].append("y")
        assert store.get("k") == {"a": [1]}
        assert store.meta("k") == {"tags": ["x"]}

    # -- bulk --------------------------------------------------------------------------------------------------

    def test_six_thousand_at_once(self, store: MemoryStore[Any]) -> None:
        assert store.add_many((f"k{n}", f"record {n} of the ledger", {"n": n}) for n in range(6000)) == 6000
        assert len(store) == 6000
        assert [key for key, _, _ in store.items()] == [f"k{n}" for n in range(6000)]
        assert store.get("k5999") == "record 5999 of the ledger"
        assert store.forget_many([f"k{n}" for n in range(5990)]) == 5990
        assert len(store) == 10
        store.clear()
        assert len(store) == 0

    def test_the_last_of_equal_keys_in_one_bulk_wins(self, store: MemoryStore[Any]) -> None:
        store.add_many([("k", "one"), ("other", "x"), ("k", "two", {"n": 2})])
        assert store.get("k") == "two"
        assert store.meta("k") == {"n": 2}
        assert len(store) == 2
        assert store.get_many(["k", "nothing"]) == {"k": "two"}

    def test_an_empty_bulk_is_nothing(self, store: MemoryStore[Any]) -> None:
        assert store.add_many([]) == 0

    # -- searching ---------------------------------------------------------------------------------------------

    def test_results_unpack_and_carry_metadata_best_first(self, store: MemoryStore[Any]) -> None:
        store.add_many(
            [
                ("disk", "The deployment failed because the disk of the server was full.", {"kind": "failure"}),
                ("lunch", "Lunch is served in the canteen at noon.", {"kind": "fact"}),
                ("train", "The train to the coast leaves from platform nine.", {"kind": "fact"}),
            ]
        )
        hits = store.search("Why did the deployment fail on the server?", top_k=2)
        assert isinstance(hits[0], Hit)
        key, value, score = hits[0]
        assert (key, hits[0].meta) == ("disk", {"kind": "failure"})
        assert value.startswith("The deployment")
        assert isinstance(score, float)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert len(hits) <= 2

    @pytest.mark.parametrize("top_k", [0, -1])
    def test_no_results_are_asked_for_and_none_come(self, store: MemoryStore[Any], top_k: int) -> None:
        store.add("k", "text")
        assert store.search("text", top_k=top_k) == []

    def test_more_results_than_there_are(self, store: MemoryStore[Any]) -> None:
        store.add("k", "some text")
        assert [hit.key for hit in store.search("text", top_k=10_000)] == ["k"]

    @pytest.mark.parametrize("query", ["", "   ", "?!", "the of and"])
    def test_a_query_without_words_does_no_harm(self, store: MemoryStore[Any], query: str) -> None:
        store.add("k", "some text")
        assert len(store.search(query)) <= 1

    @pytest.mark.parametrize("wrong", [None, 5, b"x"])
    def test_what_is_no_query_is_refused(self, store: MemoryStore[Any], wrong: Any) -> None:
        with pytest.raises(UnsupportedValueError, match="query"):
            store.search(wrong)
        with pytest.raises(UnsupportedValueError, match="top_k"):
            store.search("x", top_k="many")  # type: ignore[arg-type]

    def test_filters(self, store: MemoryStore[Any]) -> None:
        if "filters" not in store.abilities:
            pytest.skip("this store has no filters")
        for n in range(30):
            store.add(f"k{n}", f"A note about the weather on day {n}.", {"n": n, "odd": bool(n % 2), "tags": ["a"]})

        def found(where: Any) -> set[str]:
            return {hit.key for hit in store.search("weather note", top_k=30, where=where)}

        assert found({"n": 3}) == {"k3"}
        assert found({"n": {"$gte": 28}}) == {"k28", "k29"}
        assert found({"n": {"$lt": 3}, "odd": True}) == {"k1"}
        assert found({"$or": [{"n": 1}, {"n": 2}]}) == {"k1", "k2"}
        assert found({"$and": [{"n": {"$in": [1, 2]}}, {"$not": {"n": 2}}]}) == {"k1"}
        assert found({"tags": {"$contains": "a"}, "n": {"$nin": list(range(1, 30))}}) == {"k0"}
        assert found({"missing": 1}) == set()
        assert len(found({})) == 30
        refused: tuple[Any, ...] = ({"$nor": []}, {"n": {"$near": 3}}, "n = 3", {"n": {"$in": 3}})
        for wrong in refused:
            with pytest.raises(UnsupportedValueError):
                found(wrong)

    def test_found_by_meaning(self, store: MemoryStore[Any]) -> None:
        if "vectors" not in store.abilities:
            pytest.skip("this store finds by words")
        store.add("cat", "The kitten sleeps on the sofa.")
        store.add("money", "The invoice was paid by the customer.")
        assert store.search("a pet that naps on furniture", top_k=1)[0].key == "cat"
        assert store.search("settled a bill", top_k=1)[0].key == "money"
        assert all(-1.01 <= hit.score <= 1.01 for hit in store.search("a pet")), "its scores are cosines"

    def test_the_end_of_a_long_text_is_found(self, store: MemoryStore[Any]) -> None:
        filler = " ".join(f"On day {n} the harbour was calm and the ferries ran on time." for n in range(120))
        store.add("long", filler + " The password of the vault is swordfish.")
        store.add("other", "The ferries were late.")
        assert store.search("vault password swordfish", top_k=1)[0].key == "long"

    # -- use by many -------------------------------------------------------------------------------------------

    def test_threads_lose_nothing(self, store: MemoryStore[Any]) -> None:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for n in range(10):
                    store.add(f"{number}-{n}", f"thread {number} wrote note {n}")
                    store.search(f"note {n}", top_k=2)
            except BaseException as error:  # noqa: BLE001 — shown by the assert below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors
        assert len(store) == 60

    def test_iterating_while_it_changes_does_no_harm(self, store: MemoryStore[Any]) -> None:
        store.add_many((f"k{n}", f"text {n}") for n in range(20))
        for key, _, _ in store.items():
            store.forget(key)
        assert len(store) == 0

    def test_an_empty_store_is_a_store(self, store: MemoryStore[Any]) -> None:
        assert bool(store) is True

    def test_what_was_kept_is_there_when_opened_again(self, store: MemoryStore[Any], tmp_path: Path) -> None:
        if "persistent" not in store.abilities:
            pytest.skip("this store keeps nothing for later")
        store.add("k", "it stays", {"n": 1})
        store.close()
        again = self.reopen(store, tmp_path)
        assert (again.get("k"), again.meta("k")) == ("it stays", {"n": 1})
        again.close()

    def test_entries_expire(self, tmp_path: Path) -> None:
        store = self.make_ttl_store(tmp_path, 0.3)
        store.add("k", "soon gone")
        assert store.get("k") == "soon gone"
        time.sleep(0.45)
        assert store.get("k") is None
        assert len(store) == 0
        assert store.search("soon gone") == []
        assert list(store.items()) == []
