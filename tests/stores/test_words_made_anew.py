"""Words that another analyser made are made anew from the texts, once, when a place is opened."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing

from smolagents_memory import EnhancedAgentMemory, SqliteStore, SqlStore
from smolagents_memory.search import words as analyser
from smolagents_memory.stores import rereading


TEXTS = {"tech": "Our technology is impossibly old.", "walk": "They trekked home.", "sea": "The sea is calm."}


def by_another_analyser(monkeypatch, write):
    """Write with stems as 0.1.0 made them."""
    old = {"technology": "technolog", "impossibly": "imposs", "trekked": "trek"}
    new = analyser.stem
    with monkeypatch.context() as then:
        then.setattr(analyser, "stem", lambda word: old.get(word) or new(word))
        analyser._stems.cache_clear()
        write()
    analyser._stems.cache_clear()


def forgotten_analyser(path):
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("DELETE FROM memory_about WHERE name = 'words'")
    rereading._read.clear()


def test_what_was_kept_by_other_words_is_found_again(tmp_path, monkeypatch):
    """In the full text and in the ranking; archived memories too; and it is done once."""
    path = tmp_path / "memory"

    def write():
        with EnhancedAgentMemory(path, vector=False) as memory:
            memory.remember_many({"text": text, "key": key} for key, text in TEXTS.items())
            memory.archive("walk")

    by_another_analyser(monkeypatch, write)
    with EnhancedAgentMemory(path, vector=False) as memory:
        assert memory.recall("technology") == []
    forgotten_analyser(path / "memory.db")
    with EnhancedAgentMemory(path, vector=False) as memory:
        assert [hit.key for hit in memory.recall("technology")] == ["tech"]
        assert [hit.key for hit in memory.recall("impossibly")] == ["tech"]
        assert memory.restore("walk")
        assert [hit.key for hit in memory.recall("trekked")] == ["walk"]
        assert memory.recall("technolog") == []
        assert rereading.reread(memory.long_term.keeper.vault.database) == 0


def test_a_store_is_read_anew_as_well(tmp_path, monkeypatch):
    """It may be opened without any memory."""
    path = tmp_path / "memory.db"
    by_another_analyser(monkeypatch, lambda: SqliteStore(path).add_many(TEXTS.items()))
    forgotten_analyser(path)
    assert [hit.key for hit in SqliteStore(path).search("trekked")] == ["walk"]


def test_in_postgres_too(postgres, monkeypatch):
    """By the same statements."""
    scope = {"test": "words"}
    by_another_analyser(monkeypatch, lambda: SqlStore(postgres, scope=scope).add_many(TEXTS.items()))
    store = SqlStore(postgres, scope=scope)
    with store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM memory_about WHERE name = 'words'")
    rereading._read.clear()
    assert [hit.key for hit in SqlStore(postgres, scope=scope).search("technology")] == ["tech"]


def test_threads_stem_alike():
    """The stemmer works on a word in place: each thread has its own."""
    expected = {word: analyser.stem(word) for word in (f"generalizations{chr(97 + n)}ing" for n in range(26))}
    wrong = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work():
        for _ in range(60):
            wrong.extend(each for each, right in expected.items() if analyser.stem(each) != right)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    sys.setswitchinterval(interval)
    assert not wrong
