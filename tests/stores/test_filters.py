"""What a filter means, also where it says nothing: nothing is deleted then, and nothing breaks however deep it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, UnsupportedValueError, evaluate
from smolagents_memory.stores.filters import compiled


NOTHING_IN_IT = st.recursive(
    st.sampled_from([{}, [], "", (), None, float("nan")]),
    lambda deeper: st.lists(deeper, max_size=2) | st.tuples(deeper),
)
EMPTIES = st.recursive(
    st.just({}),
    lambda deeper: (
        st.builds(lambda parts: {"$and": parts}, st.lists(deeper, max_size=3))
        | st.builds(lambda parts: {"$or": parts}, st.lists(deeper, max_size=3))
        | st.builds(lambda part: {"$not": part}, deeper)
        | st.builds(lambda name, value: {name: value}, st.sampled_from(["n", "key", "missing"]), NOTHING_IN_IT)
        | st.builds(
            lambda name, operator, value: {name: {operator: value}},
            st.sampled_from(["n", "key", "missing"]),
            st.sampled_from(["$eq", "$ne", "$in", "$nin", "$contains"]),
            NOTHING_IN_IT,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module", params=["sql", "a store"])
def memory(request: pytest.FixtureRequest) -> EnhancedAgentMemory:
    memory = EnhancedAgentMemory(None if request.param == "sql" else InMemoryStore(), vector=False)
    memory.remember_many({"text": f"note {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(3))
    return memory


@given(where=EMPTIES)
def test_a_filter_of_nothing_but_empties_deletes_nothing(memory: EnhancedAgentMemory, where: dict[str, Any]) -> None:
    try:
        assert memory.forget_where(where) == 0
    except UnsupportedValueError as error:
        assert "nothing was deleted" in str(error) or "takes a list" in str(error)
    assert memory.stats().memories == 3


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"$and": []},
        {"$and": [{}]},
        {"$or": [{"n": 1}, {}]},
        {"$not": {"$or": []}},
        {"$not": {"n": {"$in": []}}},
        {"n": {"$nin": []}},
        {"n": {}},
        {"$not": {"n": {}}},
        {"key": {"$contains": ""}},
        {"key": {"$ne": ""}},
        {"source": None},
        {"n": None},
        {"n": {"$in": [None, 1]}},
        {"user": {"$ne": None}},
        {"n": {"$ne": 7}},
        {"n": {"$nin": [None]}},
        {"n": {"$nin": ["", None]}},
        {"n": {"$ne": float("nan")}},
        {"$not": {"n": None}},
        {"$not": {"nosuch": {"$gt": 5}}},
        {"$or": [{"n": 1}, {"user": {"$ne": None}}]},
        {"$and": [{"source": None}, {"n": {"$ne": None}}]},
        {"$not": {"$and": [{"n": 1}, {"n": {"$exists": True}}]}},
    ],
)
def test_a_filter_that_says_nothing_is_refused(memory: EnhancedAgentMemory, where: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedValueError, match="nothing was deleted"):
        memory.forget_where(where)
    assert memory.stats().memories == 3


def test_one_that_fits_nothing_deletes_nothing_and_one_that_says_something_works() -> None:
    memory = EnhancedAgentMemory(vector=False)
    memory.remember_many({"text": f"note {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(6))
    assert memory.forget_where({"$or": []}) == memory.forget_where({"n": {"$in": []}}) == 0
    assert memory.forget_where({"$and": [{"n": 1}, {}]}) == 1  # an empty part beside one that says something
    assert memory.forget_where({"n": {"$nin": [], "$gt": 4}}) == 1
    assert memory.forget_where({"n": {"$exists": True}, "$not": {"n": {"$lt": 4}}}) == 1
    assert memory.stats().memories == 3
    memory.remember_many([{"text": "a tea", "kind": "x"}, {"text": "a bus", "kind": "x", "meta": {"n": 9}}])
    assert (
        memory.forget_where({"$and": [{"kind": "x"}, {"n": {"$ne": None}}]}) == 2
    )  # what lacks it fits, as it always did
    assert memory.forget_where({"user": {"$exists": False}, "n": {"$ne": 2}}) == 2
    assert [hit.meta["n"] for hit in memory.items()] == [2]


def test_what_an_empty_filter_means_in_a_search() -> None:
    everything = [None, {}, {"$and": []}, {"$not": {"$or": []}}, {"n": {"$nin": []}}, {"$or": [{}, {"n": 1}]}]
    assert all(compiled(where) is None for where in everything)
    assert all(fit and fit({}) for fit in map(compiled, [{"n": {"$ne": None}}, {"$not": {"n": None}}]))
    nothing = [{"$or": []}, {"$not": {}}, {"n": {"$in": []}}, {"$and": [{}, {"$or": []}], "n": 1}]
    fits = [compiled(where) for where in nothing]
    assert not any(fit is None or fit({"n": 1}) for fit in fits)
    equal = compiled({"n": {}})
    assert equal is not None
    assert equal({"n": {}})
    assert not equal({"n": 1})


@pytest.mark.parametrize("wanted", [{"$gt": 1, "a": 2}, {"a": 2, "$gt": 1}])
def test_operators_beside_a_value_are_refused(memory: EnhancedAgentMemory, wanted: dict[str, Any]) -> None:
    for ask in (lambda where: memory.recall("note", where=where), memory.items, memory.forget_where):
        with pytest.raises(UnsupportedValueError, match="operators alone"):
            ask({"n": wanted})
    fits = compiled({"n": {"$eq": wanted}})
    assert fits is not None
    assert fits({"n": wanted})


def deep(levels: int, name: str = "$not") -> dict[str, Any]:
    where: dict[str, Any] = {"n": 1}
    for _ in range(levels):
        where = {name: where} if name == "$not" else {name: [where]}
    return where


@pytest.mark.parametrize("name", ["$not", "$and", "$or"])
def test_a_filter_of_ten_thousand_levels_is_refused_in_a_sentence(memory: EnhancedAgentMemory, name: str) -> None:
    for ask in (lambda where: memory.recall("note", where=where), memory.forget_where):
        with pytest.raises(UnsupportedValueError, match="at most 50 filters deep"):
            ask(deep(10_000, name))
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    assert memory.recall("note", where={"n": value}) == []
    for wrong in (value, {"$and": value}, {"n": {"$near": value}}, {"$or": [value]}, {"n": {"$in": {"a": value}}}):
        with pytest.raises(UnsupportedValueError):
            memory.recall("note", where=wrong)  # type: ignore[arg-type]


def test_a_bare_key_is_one_key() -> None:
    """Counting its letters, a memory that was found looked as if it had not been."""
    memory = EnhancedAgentMemory(vector=False)
    key = memory.remember("The cat is called Mia.")
    assert evaluate(memory, [("What is the cat called?", key)]).recall == 1.0
    assert evaluate(memory, [("What is the cat called?", "another")]).recall == 0.0
    with pytest.raises(UnsupportedValueError, match="pairs"):
        evaluate(memory, "What is the cat called?")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedValueError, match="pairs"):
        evaluate(memory, [("What is the cat called?", 3)])  # type: ignore[list-item]
    for cases in (None, 3, [("What is the cat called?", [])], [("What is the cat called?", "")], [("a", ["k", ""])]):
        with pytest.raises(UnsupportedValueError, match="pairs"):
            evaluate(memory, cases)  # type: ignore[arg-type]
    for k in (0, -1, None, 1.5, "3", True):
        with pytest.raises(UnsupportedValueError, match="whole number"):
            evaluate(memory, [("What is the cat called?", key)], k=k)  # type: ignore[arg-type]


def test_a_bare_text_where_many_are_expected_is_refused() -> None:
    memory, store = EnhancedAgentMemory(vector=False), InMemoryStore()
    with pytest.raises(UnsupportedValueError, match="one text"):
        memory.remember_many("The cat is called Mia.")
    for key in "abc":
        store.add(key, "a text")
    for ask in (store.forget_many, store.get_many, store.add_many):
        with pytest.raises(UnsupportedValueError):
            ask("abc")
    assert len(store) == 3
