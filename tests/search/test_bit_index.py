"""Bits for large scopes: they find what exact search finds, are made behind, and are the same in every process."""

from __future__ import annotations

import gc
import os
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pytest
from forking import forked
from hypothesis import given, settings
from hypothesis import strategies as st
from large_scopes import COUNT, LARGE, early, files, filled, found, index_of, opened, settled  # noqa: F401
from program import python
from test_chroma_damaged import HERE

from smolagents_memory import EnhancedAgentMemory, Place, Seal, SessionManager
from smolagents_memory.database.engine import MEMORIES, Database
from smolagents_memory.search import bit_index, indexes
from smolagents_memory.search.bit_file import Whose
from smolagents_memory.search.bit_index import BitIndex
from smolagents_memory.search.chroma_index import ChromaIndex
from smolagents_memory.search.exact import ExactIndex
from smolagents_memory.search.full_text import state_of
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import Draft, Record


pytestmark = pytest.mark.usefixtures("early")


# -- the same as exact search ----------------------------------------------------------------------------------------

KEYS = st.integers(0, 11)
CHANGES = st.one_of(
    st.tuples(st.just("put"), st.lists(KEYS, min_size=1, max_size=6, unique=True)),
    st.tuples(st.sampled_from(["forget", "archive", "restore"]), st.lists(KEYS, min_size=1, max_size=3)),
    st.tuples(st.just("refresh"), st.just([])),
)


def change(bank: Bank, what: str, keys: list[str], chosen: Any, dimensions: int) -> None:
    if what == "put":
        rows = chosen.normal(size=(len(keys), 2, dimensions)).astype(numpy.float32)
        rows /= numpy.linalg.norm(rows, axis=2, keepdims=True)
        drafts = [Draft(Record(key, key), vectors=matrix) for key, matrix in zip(keys, rows, strict=True)]
        bank.put(drafts, "by chance")
    else:
        getattr(bank, what)(keys, *([1.0] if what == "archive" else []))


@settings(deadline=None, max_examples=40)
@given(st.lists(CHANGES, max_size=25), st.integers(0, 2**32), st.sampled_from([1, 3, 16, 63, 64, 65, 200]))
def test_it_finds_what_exact_search_finds_whatever_changed_and_whenever_it_looked(
    changes: list[tuple[str, list[int]]], seed: int, dimensions: int
) -> None:
    """So few vectors are all scored exactly; and none is held that has gone."""
    chosen = numpy.random.default_rng(seed)
    database = Database.at(None, faults=MEMORIES)
    bank = Bank(database)
    change(bank, "put", ["first"], chosen, dimensions)
    with database.reading() as connection:
        state = state_of(connection, "")
        assert state is not None
        embedder, place = connection.exec_driver_sql(
            "SELECT (SELECT id FROM memory_embedders), (SELECT value FROM memory_about WHERE name = 'bank')"
        ).one()
    index = BitIndex(database, Whose(place, state.id, embedder, dimensions))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bit_index, "BATCH", 3)
        patched.setattr(bit_index, "PATIENCE", 60.0)
        for what, keys in [*changes, ("refresh", [])]:
            if what != "refresh":
                change(bank, what, [str(key) for key in keys], chosen, dimensions)
                continue
            queries = chosen.normal(size=(2, dimensions)).astype(numpy.float32)
            with database.reading() as connection:
                state = state_of(connection, "")
                assert state is not None
                exact = ExactIndex(state.id, embedder, dimensions)
                both = []
                for each in (exact, index):
                    each.refresh(connection, state.last)
                    both.append(each.best(connection, queries, 5))
                assert index.is_current(state.last)
                assert sorted(index.ids().tolist()) == sorted(exact.ids().tolist())
            for theirs, mine in zip(*both, strict=True):
                assert list(mine.values()) == pytest.approx(list(theirs.values()), abs=1e-5)
                assert all(theirs[number] == pytest.approx(mine[number], abs=1e-5) for number in theirs.keys() & mine)


def test_one_that_slept_for_long_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When so much has gone that not all of it is known any more."""
    monkeypatch.setattr("smolagents_memory.stores.findable.KEPT_GONE", 1)
    monkeypatch.setattr("smolagents_memory.stores.findable.TRIMMED_EVERY", 1)
    with filled(tmp_path) as memory:
        assert found(memory, 7) == "7"
        for _ in range(4):
            memory.remember_many({"text": f"{n} plums", "key": str(n)} for n in range(COUNT))
        memory.forget("8")
        assert (found(memory, 7), found(memory, 8) == "8") == ("7", False)
        assert len(settled(memory)) == COUNT - 1


def test_of_many_vectors_few_are_scored_and_the_nearest_are_among_them() -> None:
    """Ten thousand by chance, which is harder than texts: the share of the first ten."""
    chosen = numpy.random.default_rng(5)
    database = Database.at(None, faults=MEMORIES)
    rows = chosen.normal(size=(10_000, 128)).astype(numpy.float32)
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    drafts = [Draft(Record(str(n), str(n)), vectors=row[None, :]) for n, row in enumerate(rows)]
    Bank(database).put(drafts, "by chance")
    with database.reading() as connection:
        state = state_of(connection, "")
        assert state is not None
        embedder = connection.exec_driver_sql("SELECT id FROM memory_embedders").scalar_one()
        index, exact = BitIndex(database, Whose("", state.id, embedder, 128)), ExactIndex(state.id, embedder, 128)
        for each in (index, exact):
            each.refresh(connection, state.last)
        queries = rows[:20] + chosen.normal(size=(20, 128)).astype(numpy.float32) * 0.1
        wanted = exact.best(connection, queries, 10)
        got = [index.best(connection, query[None, :], 10)[0] for query in queries]
    shares = [len(mine.keys() & theirs.keys()) / 10 for mine, theirs in zip(got, wanted, strict=True)]
    assert 0.8 < sum(shares) / 20 <= 1
    assert index.bytes == 10_000 * (8 + 16)


# -- which index serves what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [None, {"user": "u"}], ids=["default", "named"])
@pytest.mark.parametrize("leads", [True, False], ids=["leads", "does not lead"])
def test_what_serves_a_scope_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Any, leads: bool
) -> None:
    """Chroma for the default scope in the leading process until it is large, exact search elsewhere; then bits."""
    monkeypatch.setattr(indexes, "MOST_IN_CHROMA", 2 * LARGE)
    first = opened(tmp_path)
    with opened(tmp_path, scope=scope) as memory:
        memory.long_term.keeper.vault.indexes._leads = leads
        seen = []
        for start in (0, 15, 30):
            memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(start, start + 15))
            assert [found(memory, n) for n in (0, start, start + 14)] == ["0", str(start), str(start + 14)]
            seen.append(memory.stats().index)
        assert seen == (["chroma", "chroma", "bits"] if leads and scope is None else ["exact", "bits", "bits"])
        for n in range(10, 28):
            memory.forget(str(n))
        assert found(memory, 5) == "5"
        assert memory.stats().index == "bits"  # it is not left for a few less
        for n in range(38):
            memory.forget(str(n))
        assert (found(memory, 40), found(memory, 5) == "5") == ("40", False)
        assert memory.stats().index == ("chroma" if leads and scope is None else "exact")
    first.close()


def test_a_chroma_that_fails_at_a_large_scope_leaves_it_to_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MOST_IN_CHROMA", 10 * COUNT)
    with filled(tmp_path) as memory:
        assert (found(memory, 7), memory.stats().index) == ("7", "chroma")

        def broken(*_: Any) -> Any:
            raise OSError("no space left")

        monkeypatch.setattr(ChromaIndex, "best", broken)
        assert (found(memory, 7), memory.stats().index) == ("7", "bits")
        memory.remember("99 apples", key="99")
        assert (found(memory, 99), memory.stats().index) == ("99", "bits")


def test_a_long_query_is_answered_from_all_its_sentences(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        query = "Tell all about 7 pears, please, and more. " * 3 + "Then about 9 plums, which are quite another thing."
        assert {"7"} <= {hit.key for hit in memory.recall(query, 10)}
        assert memory.stats().index == "bits"


# -- behind ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Nothing is taken in at once, and nothing behind before the event is set."""
    go_on, one_more = threading.Event(), BitIndex._one_more

    def waiting(self: BitIndex) -> bool:
        while not go_on.is_set():  # to wait for it would hold its lock where another thread forks
            time.sleep(0.005)
        return one_more(self)

    monkeypatch.setattr(bit_index, "PATIENCE", 0.0)
    monkeypatch.setattr(bit_index, "BATCH", 7)
    monkeypatch.setattr(BitIndex, "_one_more", waiting)
    return go_on


def test_while_it_is_made_recall_goes_by_words_and_waits_for_nothing(tmp_path: Path, slow: threading.Event) -> None:
    """What words find is scored by its vectors; what was taken in so far is found by meaning, then the rest."""
    filled(tmp_path).close()
    with opened(tmp_path) as memory:
        begun = time.monotonic()
        hits = memory.recall("pears40, or 41 apples", 3, explain=True)
        assert hits[0].key == "41"
        assert hits[0].parts["vector"] != 0
        assert (found(memory, 3), found(memory, 50) == "50") == ("3", False)
        assert time.monotonic() - begun < 5
        memory.remember("99 apples", key="99")
        memory.forget("3")
        slow.set()
        settled(memory)
        assert [found(memory, n) for n in (40, 50, 99)] == ["40", "50", "99"]
        assert found(memory, 3) != "3"


def test_while_its_file_is_written_what_is_new_is_taken_in(tmp_path: Path, slow: threading.Event) -> None:
    slow.set()
    with filled(tmp_path) as memory:
        found(memory, 7)
        settled(memory)
        slow.clear()
        index = index_of(memory)
        index._unwritten, bit_index.PATIENCE = COUNT, 10.0
        memory.remember("98 apples", key="98")
        assert found(memory, 98) == "98"
        assert index._works_behind()
        memory.remember("99 apples", key="99")
        assert found(memory, 99) == "99"
        slow.set()
        settled(memory)


def test_making_it_is_begun_again_where_it_died(
    tmp_path: Path, slow: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path).close()
    with opened(tmp_path) as memory:
        slow.set()
        with monkeypatch.context() as patched:
            patched.setattr(BitIndex, "_one_more", lambda self: 1 / 0)
            found(memory, 50)
            settled(memory)
            assert "a fault of ours" in caplog.text
            assert len(index_of(memory)) < COUNT
        found(memory, 50)
        assert len(settled(memory)) == COUNT
        assert found(memory, 50) == "50"


def test_many_threads_recall_and_write_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bit_index, "PATIENCE", 0.0)
    monkeypatch.setattr(bit_index, "BATCH", 2)
    filled(tmp_path).close()
    wrong: list[Any] = []
    with opened(tmp_path) as memory:

        def work(number: int) -> None:
            try:
                for n in range(8):
                    memory.remember(f"{1000 * number + n} apples", key=f"{number}-{n}")
                    found(memory, n)
                    memory.forget(str(8 * number + n))
            except Exception as error:  # noqa: BLE001 — shown by the assert below
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong
        found(memory, 0)
        settled(memory)
        assert found(memory, 5007) == "5-7"
        assert len(index_of(memory)) == COUNT
        assert found(memory, 20) != "20"


# -- processes, places, seals ----------------------------------------------------------------------------------------

ANOTHER = """
    import sys
    sys.path[:0], path = VALUES
    from large_scopes import *
    indexes.MOST_EXACT = indexes.MOST_IN_CHROMA = LARGE
    with opened(path) as memory:
        assert not memory.stats().leads
        assert (found(memory, 7), memory.stats().index) == ("7", "bits")
        memory.remember("99 apples", key="99")
        memory.forget("8")
        assert (found(memory, 99), found(memory, 8) == "8") == ("99", False)
"""


def by_another(path: Path, source: str = ANOTHER) -> None:
    here = [os.path.dirname(__file__), *HERE]
    python(f"VALUES = {(here, str(path))!r}\n" + textwrap.dedent(source))


def test_what_one_process_writes_the_other_finds_at_once(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        assert found(memory, 7) == "7"
        by_another(tmp_path)
        assert (found(memory, 99), found(memory, 8) == "8") == ("99", False)
        assert memory.stats().index == "bits"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_forked_child_has_an_index_of_its_own(tmp_path: Path, slow: threading.Event) -> None:
    """Whatever its parent was in the middle of."""
    filled(tmp_path).close()
    with opened(tmp_path) as memory:
        found(memory, 50)
        assert index_of(memory)._works_behind()
        gc.collect()  # a client of Chroma's that an earlier test left would hang in the child

        def child() -> None:
            slow.set()
            for _ in range(2):
                found(memory, 50)
                settled(memory)
            memory.remember("99 apples", key="99")
            assert (found(memory, 50), found(memory, 99)) == ("50", "99")

        assert forked(child) == 0
        slow.set()
        settled(memory)
        assert (found(memory, 50), found(memory, 99)) == ("50", "99")


@pytest.mark.parametrize("saved", [True, False], ids=["with a file", "without"])
def test_another_places_backup_is_searched_when_it_is_put_back(tmp_path: Path, saved: bool) -> None:
    filled(tmp_path / "other", range(100, 150), scope={"user": "u"}).close()
    filled(tmp_path / "other", range(100, 150)).close()
    backup = SessionManager(tmp_path / "other").backup(tmp_path / "backup.db")
    with filled(tmp_path / "place") as memory:
        assert found(memory, 7) == "7"
        settled(memory)
        for file in () if saved else files(tmp_path / "place"):
            file.unlink()
        SessionManager(tmp_path / "place").restore_backup(backup)
        assert (found(memory, 107), found(memory, 7) == "7") == ("107", False)
        settled(memory)
    with opened(tmp_path / "place") as again:
        assert (found(again, 149), again.stats().index) == ("149", "bits")


def test_under_a_seal_it_is_made_in_ram_and_lies_in_no_file(tmp_path: Path) -> None:
    place = Place(tmp_path / "place", seal=Seal(bytes(32), keyring=tmp_path / "keys"))
    filled(place).close()
    with opened(place) as memory:
        assert (found(memory, 7), memory.stats().index) == ("7", "bits")
        memory.forget("8")
        memory.remember("99 apples", key="99")
        assert (found(memory, 99), found(memory, 8) == "8") == ("99", False)
        settled(memory)
    assert files(tmp_path / "place") == []


@pytest.mark.slow
def test_in_postgres_it_is_made_in_ram(postgres: str) -> None:
    from databases import emptied

    url = emptied(postgres)
    filled(url).close()
    with EnhancedAgentMemory(url, embedder=opened(None).long_term.keeper.vault.vectors.embedder) as memory:
        assert (found(memory, 7), memory.stats().index) == ("7", "bits")
        memory.archive("7")
        assert found(memory, 7) != "7"
        memory.restore("7")
        assert found(memory, 7) == "7"
        settled(memory)
