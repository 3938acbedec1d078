"""Backup, restore and purge are of the whole place: sessions and memories, of SQLite and of Postgres."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from databases import emptied

from smolagents_memory import (
    EnhancedAgentMemory,
    NewerSchemaError,
    Session,
    SessionManager,
    SessionStorageError,
    SqlStore,
)
from smolagents_memory.testing import code, explain_difference


SCHEMAS = Path(__file__).parent / "data"


class Letters:
    """A quick embedder: how often each letter occurs."""

    name = "letters"

    def embed_documents(self, texts: list[str]) -> Any:
        return [[float(text.lower().count(chr(97 + n))) for n in range(26)] for text in texts]

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


def filled(where: Any) -> list[Any]:
    """A session and memories; gives the steps."""
    agent = code_agent([code("final_answer('kept')")], planning_interval=None)
    with Session("s", where).attach(agent):
        agent.run("go", images=[photo()])
    with EnhancedAgentMemory(where, embedder=Letters()) as memory:
        memory.remember_many({"text": f"note {n} on pumps", "key": f"k{n}", "source": "s"} for n in range(5))
        memory.archive("k4")
        memory.pin("k0")
    with EnhancedAgentMemory(where, embedder=Letters(), scope={"user": "ann"}) as memory:
        memory.remember("Ann's valve sticks.", key="valve")
    return list(agent.memory.steps)


def check(where: Any, steps: list[Any]) -> None:
    """Everything is there, and everything goes on."""
    assert explain_difference(Session("s", where).steps(), steps) is None
    assert sorted(hit.key for hit in SqlStore(where).search("pumps", 9)) == ["k0", "k1", "k2", "k3"]  # by words
    with EnhancedAgentMemory(where, embedder=Letters()) as memory:
        assert sorted(hit.key for hit in memory.recall("note on pumps", 9)) == ["k0", "k1", "k2", "k3"]
        assert memory.restore("k4")
        assert memory.recall("note 4 on pumps", 9)
        memory.remember("a sixth note on pumps", key="k6")
        assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
    with EnhancedAgentMemory(where, embedder=Letters(), scope={"user": "ann"}) as memory:
        assert [hit.key for hit in memory.recall("valve", 9)] == ["valve"]
    agent = code_agent([code("final_answer(2)")], planning_interval=None)
    with Session("s", where).attach(agent):
        assert agent.run("more", reset=False) == 2


def test_a_backup_holds_sessions_and_memories_and_opens_as_a_place(url: str, tmp_path: Path) -> None:
    steps = filled(url)
    check(SessionManager(url).backup(tmp_path / "kept" / "monday.db"), steps)


def test_an_index_keeps_nothing_of_what_was_there_before_a_backup_was_put_back(tmp_path: Path) -> None:
    """It had taken in a memory that is gone since the backup, and heard of that no more."""
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    steps = filled(url)
    with EnhancedAgentMemory(url, embedder=Letters()) as memory:
        assert len(memory.recall("note on pumps", 9)) == 4
        assert memory.stats().index == "chroma"
    backup = SessionManager(url).backup(tmp_path / "monday.db")
    with EnhancedAgentMemory(url, embedder=Letters()) as memory:
        memory.forget("k1")
    SessionManager(url).restore_backup(backup)
    check(url, steps)


def test_a_backup_is_put_back_whole(url: str, tmp_path: Path) -> None:
    steps = filled(url)
    backup = SessionManager(url).backup(tmp_path / "monday.db")
    Session("s", url).delete()
    with EnhancedAgentMemory(url, embedder=Letters()) as memory:
        memory.forget("k1")
        memory.remember("of after the backup", key="later")
    SessionManager(url).restore_backup(backup)
    check(url, steps)


def test_it_is_put_back_on_another_kind_of_database(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    steps = filled(url)
    backup = SessionManager(url).backup(tmp_path / "monday.db")
    other = str(tmp_path / "other") if "postgres" in url else emptied(request.getfixturevalue("postgres"))
    SessionManager(other).restore_backup(backup)
    check(other, steps)


def test_an_open_memory_sees_what_was_put_back(url: str, tmp_path: Path) -> None:
    """Its indexes are in RAM, and know the vectors from before."""
    filled(url)
    with EnhancedAgentMemory(url, embedder=Letters(), scope={"user": "bob"}) as memory:
        memory.remember("zebra zoo", key="kept")
        backup = SessionManager(url).backup(tmp_path / "monday.db")
        memory.forget("kept")
        memory.remember("xylophone", key="gone")
        assert [hit.key for hit in memory.recall("ooz arbez", 9)] == ["gone"]  # by vectors: there is no such word
        SessionManager(url).restore_backup(backup)
        assert [hit.key for hit in memory.recall("ooz arbez", 9)] == ["kept"]
        memory.remember("zebras again", key="more")
        assert {hit.key for hit in memory.recall("ooz arbez", 9)} == {"kept", "more"}


@pytest.mark.parametrize("old", sorted(SCHEMAS.glob("schema_*.db")), ids=lambda path: path.stem)
def test_a_backup_of_an_older_schema_is_put_back_and_stays_as_it_is(old: Path, url: str, tmp_path: Path) -> None:
    backup = Path(shutil.copy(old, tmp_path / "old.db"))
    before = backup.read_bytes()
    SessionManager(url).restore_backup(backup)
    assert SessionManager(url).list_sessions() == ["released"]
    assert len(Session("released", url).steps()) == 3
    SqlStore(url).add("k", "and memories go on")
    assert backup.read_bytes() == before
    assert [path.name for path in tmp_path.glob("old.db*")] == ["old.db"]


def test_what_is_no_backup_changes_nothing(url: str, tmp_path: Path) -> None:
    steps = filled(url)
    poem, theirs, later = tmp_path / "poem.db", tmp_path / "theirs.db", tmp_path / "later.db"
    poem.write_bytes(b"this is a poem" * 200)
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE t (x)")
    SessionManager(url).backup(later)
    with closing(sqlite3.connect(later)) as connection, connection:
        connection.execute("UPDATE smolagents_memory_version SET version_num = '9999'")
    for path, error in ((poem, SessionStorageError), (theirs, SessionStorageError), (later, NewerSchemaError)):
        with pytest.raises(error, match="is as it was"):
            SessionManager(url).restore_backup(path)
    check(url, steps)


def test_purging_sessions_purges_memories_too(tmp_path: Path) -> None:
    """Also the words of the full text, and the copies that migrations left."""
    filled(tmp_path)
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember("Xylophonia marzipankartoffel", key="secretkey", source="secretsource")
    shutil.copy(tmp_path / "memory.db", tmp_path / "memory.db.before-0002-from-none")
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.forget("secretkey")
    SessionManager(tmp_path).purge()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        for needle in (b"lophoni", b"marzipank", b"secretkey", b"secretsource"):
            assert needle not in path.read_bytes(), path
    assert len(Session("s", tmp_path).steps()) == 2
