"""A filter is looked up in SQL before anything is searched or read: what fits is what it always was."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numbered_texts import ByNumber
from quick_embedder import Hashed
from sqlalchemy import delete, func, insert, select, update

from smolagents_memory import EnhancedAgentMemory, KeyManager, Place, Seal, SessionManager, SqlStore
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.memory import candidates_in_sql
from smolagents_memory.stores import bank_reading, rereading
from smolagents_memory.stores.field_labels import LABELLER, MOST, label, labels_of
from smolagents_memory.stores.filters import compiled
from smolagents_memory.stores.narrowing import narrowed
from smolagents_memory.stores.records import Record
from smolagents_memory.stores.requirements import required
from smolagents_memory.stores.rows import every_record


class Team(str, Enum):
    """A text of a class of its own."""

    RED = "red"


NAMES = ["n", "team", "kind", "source", "key", "created", "importance", "origin", "trust", "\ud83d\ude00", "a b"]
VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, -0.0, 2, -1, 2**63, 2.0**63, 10**400, 0.5, math.nan, math.inf, Decimal(1),
    Decimal("1.0"), Decimal("0.5"), Decimal("NaN"), Decimal("1e400"), Fraction(1), Fraction(1, 2), complex(1), "", "1",
    "red", "blue", "fact", "memory", "k3", "s1", "user", "\N{GRINNING FACE}", "\ud83d\ude00", "\ud83d", [1], ["red"],
    (1,), {"red": 1}, {1}, b"red", date(2024, 1, 1), 1000.0, 1007, 1e300,
]  # fmt: skip
ONE = st.sampled_from(VALUES)
TESTS = (
    ONE
    | st.builds(lambda operator, value: {operator: value}, st.sampled_from(["$eq", "$ne", "$gt", "$lte"]), ONE)
    | st.builds(lambda low, high: {"$gte": low, "$lt": high}, ONE, ONE)
    | st.builds(lambda operator, some: {operator: some}, st.sampled_from(["$in", "$nin"]), st.lists(ONE, max_size=3))
    | st.builds(lambda value: {"$contains": value}, ONE)
    | st.builds(lambda value: {"$exists": value}, st.booleans())
    | st.just(Team.RED)
)
FILTERS = st.recursive(
    st.dictionaries(st.sampled_from(NAMES), TESTS, min_size=1, max_size=2),
    lambda deeper: st.builds(
        lambda how, parts, beside: {**beside, how: parts[0] if how == "$not" else parts},
        st.sampled_from(["$and", "$or", "$not"]), st.lists(deeper, min_size=1, max_size=3), deeper,
    ),
    max_leaves=4,
)  # fmt: skip


def some_item(chance: random.Random, key: str) -> dict[str, Any]:
    """A memory with any metadata, which may have the names of its own fields."""
    meta = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.choice([0, 1, 2, 4]))}
    if chance.random() < 0.03:
        meta |= {f"field {n}": n for n in range(MOST)}
    return {
        "text": f"a note on {chance.choice(['pumps', 'valves'])} {key}", "key": key, "meta": meta,
        "kind": chance.choice(["memory", "fact", "red"]), "source": chance.choice([None, "s1", "s2", "red"]),
        "importance": chance.choice([1, 1, 0.5, 2]),
    }  # fmt: skip


class Clock:
    """A second later each time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def written(memory: EnhancedAgentMemory, count: int, seed: int) -> None:
    """So many memories, one by one, a few of them put away."""
    chance = random.Random(seed)
    for n in range(count):
        memory.remember_many([some_item(chance, f"k{n}")])
    for n in chance.sample(range(count), count // 8):
        memory.archive(f"k{n}")


def records(memory: EnhancedAgentMemory, archived: bool | None = False) -> list[Record]:
    return list(memory.long_term.keeper.records(archived=archived))


def is_as_without(memory: EnhancedAgentMemory, where: dict[str, Any]) -> None:
    """What each way of asking gives is what the filter says of each memory."""
    fits = compiled(where) or (lambda view: True)
    for archived in (False, True, None):
        expected = [each.key for each in records(memory, archived) if fits(each.view())]
        assert [each.key for each in memory.items(where=where, archived=archived)] == expected
        assert memory.count(where, archived=archived) == len(expected)
        if archived is False:
            hits = memory.recall("a note", 1000, where=where)
            assert {each.key for each in hits} == set(expected)


def labels_held(database: Database) -> set[tuple[int, int]]:
    labels = tables.labels.c
    with database.reading() as connection:
        return {tuple(row) for row in connection.execute(select(labels.label, labels.item_id))}


def database_of(memory: EnhancedAgentMemory) -> Database:
    return memory.long_term.keeper.vault.database


def has_its_labels(memory: EnhancedAgentMemory) -> None:
    there = every_record(database_of(memory))
    assert labels_held(database_of(memory)) == {(label, each.id) for each in there for label in labels_of(each)}


@pytest.fixture(scope="module", params=["words", "vectors", pytest.param("postgres", marks=pytest.mark.slow)])
def memory(request: pytest.FixtureRequest) -> Iterator[EnhancedAgentMemory]:
    """Full of memories of all kinds, beside a scope with others."""
    where = request.getfixturevalue("postgres") if request.param == "postgres" else None
    how: dict[str, Any] = {"embedder": Hashed()} if request.param == "vectors" else {"vector": False}
    with EnhancedAgentMemory(where, scope={"test": "narrowing"}, clock=Clock(), **how) as memory:
        memory.clear()
        written(memory, 90, seed=1)
        memory.remember("a note", key="rare", meta={"rare": 7})
        yield memory


@given(where=FILTERS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_fits_is_what_the_filter_says_of_each(memory: EnhancedAgentMemory, where: dict[str, Any]) -> None:
    is_as_without(memory, where)


def test_no_filter_of_one_field_or_two_leaves_out_what_fits(memory: EnhancedAgentMemory) -> None:
    """Every name with every value and operator, and any two of these beside each other or instead of each other."""
    bank, chance, held = memory.long_term.keeper.bank, random.Random(2), records(memory, None)
    ones = [
        {name: {operator: [value, 7] if operator == "$in" else value}}
        for name in NAMES
        for value in VALUES
        for operator in ("$eq", "$in", "$ne", "$gt", "$gte", "$lt", "$lte")
    ]
    twos = [{chance.choice(["$or", "$and"]): chance.sample(ones, 2)} for _ in range(500)]
    with bank.database.reading() as connection:
        scope = bank.scope_id(connection) or 0
        for where in (*ones, *twos, *({"$not": each} for each in chance.sample(ones, 50))):
            found = narrowed(connection, scope, required(where))
            fits = compiled(where)
            assert fits is not None
            assert found is None or {each.id for each in held if fits(each.view())} <= set(found), where


def test_what_a_filter_names_is_narrowed_to_little_more(memory: EnhancedAgentMemory) -> None:
    """Or else nothing here would be of use."""
    bank = memory.long_term.keeper.bank
    live = memory.count(archived=None)
    with bank.database.reading() as connection:
        for where in (
            {"team": "blue"}, {"key": "k7"}, {"key": {"$in": ["k1", "k2"]}}, {"source": "s2"}, {"n": {"$in": [0, 7]}},
            {"created": {"$gte": 1010.0, "$lt": 1015}}, {"importance": {"$gt": 1}}, {"kind": Team.RED},
            {"$or": [{"team": "blue"}, {"key": "k7", "trust": 1}]}, {"$and": [{"kind": "fact"}, {"trust": 1}]},
        ):  # fmt: skip
            found = narrowed(connection, bank.scope_id(connection) or 0, required(where))
            assert found is not None, where
            assert len(found) < live * 0.7, where
        parts = [required(where) for where in ({"team": "blue"}, {"kind": "fact"}, {"team": "blue", "kind": "fact"})]
        one, other, both = (set(narrowed(connection, bank.scope_id(connection) or 0, each) or ()) for each in parts)
        assert both == one & other < one
        for where in ({"team": {"$ne": "blue"}}, {"source": None}, {"importance": 1}, {"$not": {"team": "blue"}}):
            assert narrowed(connection, bank.scope_id(connection) or 0, required(where)) is None


def test_where_many_fit_they_are_looked_for_as_ever(memory: EnhancedAgentMemory, monkeypatch: Any) -> None:
    """The rarer part of a filter is looked up all the same."""
    seen: list[Any] = []

    def few(*arguments: Any) -> Any:
        seen.append(narrowed(*arguments, most=(4, 12)))
        return seen[-1]

    monkeypatch.setattr(candidates_in_sql, "narrowed", few)
    monkeypatch.setattr(bank_reading, "READ", (12, 40))
    for where, is_narrow in (
        ({"kind": "fact"}, False),
        ({"kind": "memory", "rare": 7.0}, True),
        ({"kind": "fact", "created": {"$gte": 1000}}, False),
    ):
        is_as_without(memory, where)
        assert (seen[-1] is not None) == is_narrow


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_done_to_memories_their_labels_are_theirs(url: str, seed: int) -> None:
    chance, keys = random.Random(seed), [f"k{n}" for n in range(12)]
    with EnhancedAgentMemory(url, vector=False) as memory:
        for _ in range(60):
            key = chance.choice(keys)
            deed = chance.choice(["remember", "remember", "again", "update", "forget", "away", "document", "replaces"])
            if deed == "remember":
                memory.remember_many([some_item(chance, key)])
            elif deed == "again":
                memory.remember("a note, the same again", meta={chance.choice(NAMES): chance.choice(VALUES)})
            elif deed == "update":
                memory.update(key, meta=some_item(chance, key)["meta"])
            elif deed == "forget":
                memory.forget(key)
            elif deed == "away":
                (memory.archive if chance.random() < 0.6 else memory.restore)(key)
            elif deed == "document":
                memory.remember_document("\n\n".join(["a note " * 99] * chance.randrange(1, 4)), source="s1")
            elif memory.get(key) is not None:
                memory.remember(f"a note instead of {key}", replaces=key, meta={"n": 1})
        has_its_labels(memory)
        is_as_without(memory, {"source": "s1"})
        is_as_without(memory, {"n": 1})
        memory.forget_where({"n": {"$in": [1, 2]}, "kind": {"$exists": True}})
        assert not [each for each in records(memory, None) if each.view().get("n") in (1, 2)]
        has_its_labels(memory)
        memory.clear()
        assert labels_held(database_of(memory)) == set()


def test_parts_of_an_earlier_version_go_wherever_they_stand(url: str) -> None:
    """Beside memories of the same source, and of others; put away or not."""
    with EnhancedAgentMemory(url, vector=False) as memory:
        memory.remember("beside it", key="beside", source="book")
        memory.remember_document("\n\n".join(["word " * 150] * 5), source="book")
        memory.remember_document("other", source="another book")
        parts = [each.key for each in memory.items({"kind": "document", "source": "book"})]
        memory.archive(parts[3])
        memory.remember_document("word", source="book")
        assert [each.key for each in memory.items({"source": "book"}, archived=None)] == ["beside", parts[0]]
        assert memory.count() == 3


def test_a_place_that_was_read_in_part_is_not_narrowed_until_all_of_it_is(url: str) -> None:
    """Of an older package, or of one that was killed while it read the place anew."""
    with EnhancedAgentMemory(url, vector=False) as memory:
        memory.remember_many({"text": f"note {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(6))
        with database_of(memory).writing() as connection:
            connection.execute(delete(tables.labels))
            about = tables.about.c
            for mark in ("3", f"{rereading.MADE_BY} after 3"):
                connection.execute(update(tables.about).where(about.name == "words").values(value=mark))
                assert narrowed(connection, 1, required({"n": 4})) is None
            connection.execute(delete(tables.about).where(about.name == "words"))
        assert memory.count({"n": 4}) == 1
        assert [each.key for each in memory.recall("note", where={"n": 4})] == ["k4"]
    rereading._read.clear()
    with EnhancedAgentMemory(url, vector=False) as memory:
        has_its_labels(memory)
        assert memory.count({"n": 4}) == 1
        with database_of(memory).reading() as connection:
            found = narrowed(connection, memory.long_term.keeper.bank.scope_id(connection) or 0, required({"n": 4}))
        assert found is not None
        assert len(found) == 1


def test_a_label_that_is_not_true_brings_nothing(url: str) -> None:
    """It may name what is gone, what is another scope's, or what does not fit."""
    with (
        EnhancedAgentMemory(url, scope={"user": "ann"}, embedder=Hashed()) as memory,
        EnhancedAgentMemory(url, scope={"user": "bob"}, embedder=Hashed()) as other,
    ):
        memory.remember("a note of Ann's", key="a", meta={"n": 1})
        memory.remember("a note of Ann's, too", key="b")
        other.remember("a note of Bob's", key="c", meta={"n": 1})
        bank = memory.long_term.keeper.bank
        with bank.database.writing() as connection:
            scope = bank.scope_id(connection)
            [label] = labels_of(Record("", "", {"n": 1})) - labels_of(Record("", ""))
            strange = ["'text'", "x'ff00'"] if connection.dialect.name == "sqlite" else []
            for item in (*connection.scalars(select(tables.items.c.id)).all(), 10**9, 0, -1, *strange):
                connection.exec_driver_sql(
                    f"INSERT INTO memory_labels VALUES ({scope}, {label}, {item}) ON CONFLICT DO NOTHING"
                )
            assert len(narrowed(connection, scope or 0, required({"n": 1})) or ()) == 6
        assert [each.key for each in memory.recall("a note", 9, where={"n": 1})] == ["a"]
        assert [each.key for each in memory.items({"n": 1}, archived=None)] == ["a"]
        assert memory.forget_where({"n": 1}) == 1
        assert other.count() == 1
        memory.long_term.keeper.reindex()  # which drops those of nobody
        with bank.database.reading() as connection:
            there = select(func.count()).where(tables.labels.c.item_id.not_in(select(tables.items.c.id)))
            assert connection.execute(there).scalar() == 0


def test_another_labeller_has_another_number() -> None:
    """Where this fails, memories get other labels than they had: what places hold is then to be labelled anew."""
    made = {
        "1": {
            ("kind", "fact"): -30512590, ("n", 7): 707373436, ("n", -0.5): 548723732, ("n", True): -1465494081,
            ("\ud83d\ude00", None): 652560105,
            ("tags", ("a",)): 1941121786, ("text", "\N{GRINNING FACE}"): -1897487156,
        }
    }  # fmt: skip
    assert {each: label(*each) for each in made[LABELLER]} == made[LABELLER]


def test_nothing_is_labelled_under_a_seal_and_all_is_after_it(tmp_path: Path) -> None:
    """Whoever took a label away would not be noticed: there memories are read, as ever."""
    path, seal = tmp_path / "place", Seal(bytes(32), tmp_path / "keys")
    with EnhancedAgentMemory(path, vector=False) as memory:
        memory.remember_many({"text": f"note {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(6))
    KeyManager(Place(path, seal=seal)).seal()
    with EnhancedAgentMemory(Place(path, seal=seal), vector=False) as memory:
        memory.update("k3", meta={"n": 4})
        assert labels_held(database_of(memory)) == set()
        with database_of(memory).writing() as connection:
            connection.execute(insert(tables.labels).values(scope_id=1, label=1, item_id=1))
            assert narrowed(connection, 1, required({"n": 4})) is None
        assert [each.key for each in memory.items({"n": 4})] == ["k3", "k4"]
        assert {each.key for each in memory.recall("note", 9, where={"n": 4})} == {"k3", "k4"}
    KeyManager(Place(path, seal=seal)).unseal()
    with EnhancedAgentMemory(path, vector=False) as memory:
        has_its_labels(memory)
        assert [each.key for each in memory.items({"n": 4})] == ["k3", "k4"]


def test_a_copy_is_narrowed_as_well(tmp_path: Path) -> None:
    """One that was put back over others, too."""
    first, second = tmp_path / "first", tmp_path / "second"
    with EnhancedAgentMemory(first, vector=False, clock=Clock()) as memory:
        written(memory, 30, seed=3)
        SessionManager(first).backup(tmp_path / "copy.db")
    with EnhancedAgentMemory(second, vector=False) as memory:
        memory.remember("in the way", meta={"n": 1})
    SessionManager(second).restore_backup(tmp_path / "copy.db")
    with EnhancedAgentMemory(second, vector=False) as memory:
        has_its_labels(memory)
        for where in ({"n": 1}, {"source": "s1"}, {"key": "k4"}, {"kind": "red"}):
            is_as_without(memory, where)


def test_a_store_looks_up_its_filters_too(url: str) -> None:
    """Which see metadata alone; a text that holds no word of the query is not found because it fits."""
    store, other = (SqlStore[str](url, scope={"user": user}) for user in ("ann", "bob"))
    chance = random.Random(4)
    for n in range(40):
        store.add(f"k{n}", chance.choice(["a note on pumps", "valves"]), some_item(chance, f"k{n}")["meta"])
    other.add("b", "a note on pumps", {"n": 1})
    store.bank.archive(["k3", "k4"], at=5.0)
    for where in ({"n": 1}, {"kind": "fact"}, {"key": "k3"}, {"created": {"$lt": 2}}, {"source": "s1", "n": None}):
        fits = compiled(where)
        assert fits is not None
        expected = {key for key, value, meta in store.items() if "note" in value and fits(meta)}
        assert {hit.key for hit in store.search("a note", 100, where)} == expected
        assert len(store.search("a note", 1, where)) == min(1, len(expected))


def test_what_was_damaged_loses_its_labels_when_the_place_is_purged(url: str) -> None:
    """It is not known which it had: until then they bring nothing."""
    with EnhancedAgentMemory(url, vector=False) as memory:
        memory.remember("a note", key="a", meta={"n": 1})
        with database_of(memory).writing() as connection:
            connection.execute(update(tables.items).values(meta=b"no envelope at all"))
        with pytest.warns(UserWarning, match="damaged"):
            assert memory.forget("a")
        assert labels_held(database_of(memory)) != set()
        memory.purge()
        assert labels_held(database_of(memory)) == set()


@pytest.mark.parametrize(
    "query", ["colour of the bridge 7", "Teal, they said in the end. " * 3 + "Which bridge? " * 30]
)
def test_a_recall_of_few_scores_each_as_a_search_does(query: str) -> None:
    """Also what its neighbours lend, though they do not fit; in deviations of the whole scope."""
    with EnhancedAgentMemory(embedder=Hashed(), clock=lambda: 5.0) as memory:
        for n in range(60):
            memory.remember_many([
                {"text": f"Which colour for bridge {n}?", "source": "m", "meta": {"asks": True}},
                {"text": f"Teal, in the end {n}.", "source": "m", "meta": {"asks": False, "n": n}},
            ])  # fmt: skip
            if n == 3:
                memory.recall("bridge")
        [hit] = memory.recall(query, 500, explain=True, where={"n": 7})  # the index has but few of them yet
        searched = {each.key: each for each in memory.recall(query, 500, explain=True)}
        assert hit.parts == pytest.approx(searched[hit.key].parts)
        assert hit.relevance == pytest.approx(searched[hit.key].relevance)
        assert hit.parts["neighbour"] > 0
        assert len(searched) > 100


def test_of_many_that_fit_the_best_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a search finds; and where few of them meet the rest of the filter, all that do."""
    chance, words = random.Random(7), ["ash", "birch", "cedar", "elm", "larch", "maple", "oak", "pine", "yew", "rowan"]
    with EnhancedAgentMemory(embedder=Hashed(), clock=lambda: 5.0) as memory:
        memory.remember_many(
            {"text": " ".join(chance.choices(words, k=6)), "key": f"k{n}", "meta": {"half": n % 2, "n": n}}
            for n in range(400)
        )
        asked: list[tuple[str, dict[str, Any]]] = [("larch and yew by the oak", {"half": 1}), ("pine", {"half": 0})]
        found = [[each.key for each in memory.recall(query, 5, where=where)] for query, where in asked]
        assert len(memory.recall("pine", 5, where={"half": 1, "n": {"$gte": 390}})) == 5
        monkeypatch.setattr(candidates_in_sql, "narrowed", lambda *_: None)
        assert found == [[each.key for each in memory.recall(query, 5, where=where)] for query, where in asked]


def test_what_fits_and_holds_no_word_is_not_found_by_words() -> None:
    """It is when it stands beside what does."""
    with EnhancedAgentMemory(vector=False) as memory:
        memory.remember("Teal, in the end.", key="alone", meta={"n": 1})
        memory.remember("Which colour for the bridge?", source="m", meta={"n": 2})
        memory.remember("Grey, in the end.", key="beside", source="m", meta={"n": 1})
        assert [each.key for each in memory.recall("colour", 9, where={"n": 1})] == ["beside"]


def test_of_many_that_fit_the_nearest_in_meaning_comes() -> None:
    """No word of the query is in a text."""
    with EnhancedAgentMemory(embedder=ByNumber()) as memory:
        memory.remember_many({"text": f"{n} apples", "key": f"k{n}", "meta": {"half": n % 2}} for n in range(400))
        assert [memory.recall(f"pears{n}", 1, where={"half": 1})[0].key for n in (7, 301)] == ["k7", "k301"]
