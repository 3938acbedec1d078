"""Words that another analyser made are made anew from the texts, once, when a place is opened."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from smolagents_memory import EnhancedAgentMemory, Place, Seal, SqliteStore, SqlStore
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database.engine import Database
from smolagents_memory.database.many import CHUNK
from smolagents_memory.search import words as analyser
from smolagents_memory.search.full_text import full_text_of
from smolagents_memory.stores import rereading
from smolagents_memory.stores.redis import RedisStore


TESTS = Path(__file__).parents[1]
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
    store = SqlStore(postgres, scope=scope)
    assert [hit.key for hit in store.search("technology")] == ["tech"]
    store.add("de", "Die Server der Firma stehen im Keller.")
    store.add("en", "The servers are in the hall.")
    assert {hit.key for hit in store.search("Where is a server?")} == {"de", "en"}


def test_under_a_seal_too(tmp_path, monkeypatch):
    """What nobody can read is taken out of the full text as it was put there."""
    path = tmp_path / "sealed" / "memory.db"
    place = Place(path, seal=Seal(bytes(32), tmp_path / "keys"))
    by_another_analyser(monkeypatch, lambda: SqliteStore(place).add_many(TEXTS.items()))
    forgotten_analyser(path)
    store = SqliteStore(place)
    assert [hit.key for hit in store.search("trekked")] == ["walk"]
    assert store.search("technolog") == []
    with store.database.writing() as connection:
        assert full_text_of(connection).whole(connection)


def test_a_place_of_0_1_0_recalls_as_well_as_a_new_one(tmp_path, monkeypatch):
    """Facts in ten languages that the released package left: each question finds what it finds in a new place."""
    monkeypatch.syspath_prepend(str(TESTS.parent / "benchmarks"))
    from recall_in_languages import FIRST, cases

    shutil.unpack_archive(TESTS / "goldens" / "data" / "languages.tar.xz", tmp_path, "xztar", filter="data")
    for language in ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "mixed", "ru", "zh"):
        with (
            EnhancedAgentMemory(tmp_path / "place", vector=False, scope={"language": language}) as old,
            EnhancedAgentMemory(vector=False) as new,
        ):
            kept = list(old.items())
            assert len(kept) >= 20
            new.remember_many({"text": each.value, "key": each.key} for each in kept)
            for case in cases(language):
                found, expected = ([hit.value for hit in each.recall(case.question, FIRST)] for each in (old, new))
                assert found == expected
            database = old.long_term.keeper.vault.database
    with database.writing() as connection:
        assert full_text_of(connection).whole(connection)
        rows = {row.id: row for row in connection.execute(rereading._ROWS)}
        for record in rereading.whole(connection, rows.values()):
            assert rows[record.id].words == " ".join(analyser.words(searchable(record.value)))


def test_what_redis_keeps_by_other_words_is_found_too(redis_url):
    """Its words are made when they are looked for: it has no place where one could note what was read anew."""
    client = pytest.importorskip("redis").Redis.from_url(redis_url)
    store = RedisStore(redis_url, prefix="words")
    store.add_many([("ko", "비밀번호는 왜가리"), ("en", "The sea is calm.")])
    (field,) = (name for name in client.hkeys("words:item:ko") if name.startswith(b"words"))
    client.hdel("words:item:ko", field)
    client.hset("words:item:ko", "words", "비밀번호는 왜가리")
    assert [hit.key for hit in store.search("비밀번호를")] == ["ko"]
    assert [hit.key for hit in store.search("calm")] == ["en"]


KILLED = """
import os, signal, sys
from smolagents_memory import SqliteStore
from smolagents_memory.stores import rereading
from smolagents_memory.stores.redis import RedisStore

made_anew, batches = rereading._made_anew, []

def killed(connection, rows):
    batches.append(len(rows))
    changed = made_anew(connection, rows)
    if len(batches) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return changed

rereading._made_anew = killed
SqliteStore(sys.argv[1])
"""


def many_texts(path, monkeypatch, count):
    """A place with as many texts whose words another analyser made."""
    texts = [(f"k{n}", f"technology number{n}") for n in range(count)]
    by_another_analyser(monkeypatch, lambda: SqliteStore(path).add_many(texts))
    forgotten_analyser(path)


def watched(monkeypatch):
    """How many memories each batch of this process reads, and what its bar is told."""
    made_anew, batches, bar = rereading._made_anew, [], []

    def counted(connection, rows):
        batches.append(len(rows))
        return made_anew(connection, rows)

    @contextmanager
    def progress(what, total, **options):
        bar.append(-total)
        yield bar.append

    monkeypatch.setattr(rereading, "_made_anew", counted)
    monkeypatch.setattr(rereading, "progress", progress)
    return batches, bar


def test_one_that_is_killed_is_gone_on_with_where_it_stopped(tmp_path, monkeypatch):
    """In the middle of its third batch: what the first two have read is not read again, and the bar begins there."""
    path, count = tmp_path / "memory.db", 2 * CHUNK + 120
    many_texts(path, monkeypatch, count)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=TESTS.parent, check=False)
    assert done.returncode == -signal.SIGKILL
    batches, bar = watched(monkeypatch)
    store = SqliteStore(path)
    assert batches == [120, 0]
    assert bar == [-120, 120, 0]
    assert len(store.search("technology", count)) == count
    with store.database.writing() as connection:
        assert full_text_of(connection).whole(connection)


@pytest.mark.slow
def test_processes_that_open_a_place_at_the_same_time_share_the_work(tmp_path, monkeypatch):
    """Nothing is read twice, and each bar comes to its end."""
    path, count = tmp_path / "memory.db", 3 * CHUNK
    many_texts(path, monkeypatch, count)
    batches, bar = watched(monkeypatch)
    advance = bar.append

    def other_goes_on(done):
        advance(done)
        if len(bar) == 2:  # after our first batch
            code = "import sys; from smolagents_memory import SqliteStore; SqliteStore(sys.argv[1])"
            subprocess.run([sys.executable, "-c", code, str(path)], cwd=TESTS.parent, check=True)

    @contextmanager
    def progress(what, total, **options):
        bar.append(-total)
        yield other_goes_on

    monkeypatch.setattr(rereading, "progress", progress)
    store = SqliteStore(path)
    assert batches == [CHUNK, 0]
    assert sum(bar) == 0
    assert len(store.search("technology", count)) == count


def test_what_a_reindex_reads_is_all_of_it(tmp_path, monkeypatch):
    """Though all was read by today's analyser: it is what one does about words that were damaged."""
    path = tmp_path / "memory.db"
    many_texts(path, monkeypatch, CHUNK + 1)
    SqliteStore(path)
    batches, _ = watched(monkeypatch)
    assert rereading.reread(Database.at(path), anew=True) == 0
    assert batches == [CHUNK, 1, 0]


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
