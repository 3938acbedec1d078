"""What happens when Chroma fails, or its folder: memories are kept, recall goes on from SQL, and it is said once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest
from numbered_texts import ByNumber

from smolagents_memory import EnhancedAgentMemory, StoreUnavailableError, VectorMemoryStore
from smolagents_memory.search.chroma_index import ChromaIndex
from smolagents_memory.stores import chroma as chroma_store


EXACT = "the vectors in SQL are searched instead"


def filled(path, count=60):
    memory = EnhancedAgentMemory(path, embedder=ByNumber())
    memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(count))
    assert memory.recall("pears7", 1)[0].key == "7"
    assert memory.stats().index == "chroma"
    return memory


# -- whose fault it is -----------------------------------------------------------------------------------------------


def test_what_chroma_refuses_is_searched_exactly_and_said_once(tmp_path, caplog):
    """A collection that was deleted under us, as Chroma's own tools can do."""
    memory = filled(tmp_path)
    index = memory.long_term.keeper.vault.indexes.of_name("")
    index.flush()
    memory.long_term.keeper.vault.indexes.folder.client().delete_collection(index.name)
    for n in (8, 9):
        assert memory.recall(f"pears{n}", 1)[0].key == str(n)
    assert caplog.text.count(EXACT) == 1
    assert memory.stats().index == "exact"
    assert memory.reindex()["rebuilt"] == 1
    assert memory.stats().index == "chroma"
    assert memory.recall("pears10", 1)[0].key == "10"


def test_a_fault_of_sql_is_told_as_one(tmp_path, caplog):
    """Chroma is not blamed for it, and nothing is made anew."""
    memory = filled(tmp_path)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as base:
        base.execute("ALTER TABLE memory_gone RENAME TO elsewhere")
    memory.remember("61 apples", key="61")
    with pytest.raises(StoreUnavailableError, match=r"memory\.db.* cannot be read .*memory_gone"):
        memory.recall("pears61")
    assert "Chroma" not in caplog.text
    with closing(sqlite3.connect(tmp_path / "memory.db")) as base:
        base.execute("ALTER TABLE elsewhere RENAME TO memory_gone")
    assert memory.recall("pears61", 1)[0].key == "61"
    assert memory.stats().index == "chroma"


def test_a_fault_of_ours_is_shown_with_its_traceback_once_and_breaks_no_recall(tmp_path, monkeypatch, caplog):
    """It is not said to be Chroma's."""

    def broken(*arguments):
        raise TypeError("a fault in our code")

    memory = filled(tmp_path)
    monkeypatch.setattr(ChromaIndex, "best", broken)
    for n in (8, 9):
        assert memory.recall(f"pears{n}", 1)[0].key == str(n)
    assert caplog.text.count("TypeError: a fault in our code") == 1
    assert "Traceback" in caplog.text
    assert "Chroma failed" not in caplog.text


def test_a_store_in_chroma_tells_its_own_faults_from_chromas(tmp_path, monkeypatch):
    """A deleted collection is the storage's; what our code does wrong is shown as it is."""
    store = VectorMemoryStore(tmp_path / "vectors", embedder=ByNumber())
    store.add("7", "7 apples")
    store._folder.client().delete_collection("memories")
    with pytest.raises(StoreUnavailableError, match="Chroma refused: NotFoundError"):
        store.search("pears7")

    def broken(*arguments, **options):
        raise TypeError("a fault in our code")

    monkeypatch.setattr(chroma_store, "entries_of", broken)
    again = VectorMemoryStore(embedder=ByNumber())
    again.add("7", "7 apples")
    with pytest.raises(TypeError, match="a fault in our code"):
        again.search("pears7")


# -- its folder ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [5, 1500])
def test_a_folder_that_is_deleted_under_a_writer_is_made_anew(tmp_path, caplog, count):
    """What was written meanwhile is kept; the index holds all of it; it is said once."""
    memory = filled(tmp_path)
    memory.long_term.keeper.vault.indexes.flush()
    shutil.rmtree(tmp_path / "chroma")
    more = range(60, 60 + count)
    assert len(memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in more)) == count
    for n in (7, 60, 59 + count):
        assert memory.recall(f"pears{n}", 1)[0].key == str(n)
    assert caplog.text.count("made anew from SQL") == 1
    assert memory.stats().index == "chroma"
    memory.close()
    with EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as again:
        assert again.recall("pears60", 1)[0].key == "60"
        assert again.reindex() == {"embedded": 0, "rebuilt": 0}


def test_a_folder_that_is_deleted_before_the_memory_is_closed_is_no_loss(tmp_path):
    """The next one to open makes it anew."""
    memory = filled(tmp_path)
    shutil.rmtree(tmp_path / "chroma")
    memory.close()
    with EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as again:
        assert again.recall("pears7", 1)[0].key == "7"


MOUNTED = """
    import os, subprocess, sys
    sys.path[:0] = VALUES[2]
    from numbered_texts import ByNumber
    from smolagents_memory import EnhancedAgentMemory

    path, options, _ = VALUES
    def mounted(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", f"{path}/chroma"], capture_output=True)

    os.makedirs(f"{path}/chroma")
    if mounted("size=4m" if options == "full" else "size=64m").returncode:
        sys.exit(77)
    memory = EnhancedAgentMemory(path, embedder=ByNumber())
    memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(60))
    assert memory.recall("pears7", 1)[0].key == "7"
    assert memory.stats().index == "chroma"
    if options == "full":
        with open(f"{path}/chroma/filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
    else:
        memory.long_term.keeper.vault.indexes.flush()
        assert mounted("ro").returncode == 0
    keys = memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(60, 2060))
    assert len(keys) == 2000
    for n in (7, 60, 2059):
        assert memory.recall(f"pears{n}", 1)[0].key == str(n)
    assert memory.stats().index == "exact", memory.stats()
    assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
    memory.close()
    again = EnhancedAgentMemory(path, embedder=ByNumber())
    assert again.recall("pears1000", 1)[0].key == "1000"
    again.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_folder_that_cannot_be_written_costs_no_memory(tmp_path, trouble):
    """A disk that is full, or that has become read-only, in a namespace of its own."""
    here = [os.path.dirname(os.path.dirname(__file__)), *sys.path]
    source = f"VALUES = ({str(tmp_path)!r}, {trouble!r}, {here!r})\n" + textwrap.dedent(MOUNTED)
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespace")
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this machine allows no mount")
    assert done.returncode == 0, done.stderr
    # at first, when reindex() tries again, and where it is opened the next time
    assert 1 <= done.stderr.count(" searched instead") <= 3, done.stderr
