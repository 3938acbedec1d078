"""URLs to stores; a third party's scheme; what is refused and how it is said."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from program import python

from smolagents_memory import (
    InMemoryStore,
    SqliteStore,
    SqlStore,
    StoreBusyError,
    StoreFormatError,
    StoreUnavailableError,
    UnsupportedValueError,
    VectorMemoryStore,
    open_store,
)


def test_a_url_names_its_store(tmp_path):
    """By scheme; a path is a SQLite file."""
    assert isinstance(open_store("memory://"), InMemoryStore)
    assert isinstance(open_store(tmp_path / "a.db"), SqliteStore)
    assert isinstance(open_store(f"sqlite:///{tmp_path}/b.db"), SqlStore)
    with open_store(f"chroma:///{tmp_path}/c") as store:
        assert isinstance(store, VectorMemoryStore)
    with pytest.raises(UnsupportedValueError, match=r"no store is known for nosuch://.*known are .*redis"):
        open_store("nosuch://x")


def test_another_package_adds_a_scheme_by_an_entry_point(tmp_path):
    """A tiny package, installed as pip would leave it."""
    (tmp_path / "tiny_store.py").write_text(
        "from smolagents_memory import InMemoryStore\n"
        "def open_tiny(url, **options):\n    store = InMemoryStore()\n    store.add('url', url)\n    return store\n"
    )
    info = tmp_path / "tiny_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[smolagents_memory.stores]\ntiny = tiny_store:open_tiny\n")
    root = Path(__file__).parents[2]
    source = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]\n"
    source += "from smolagents_memory import open_store\nprint(open_store('tiny://there').get('url'))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "tiny://there", done.stderr


def test_a_second_process_on_a_chroma_folder_is_told_the_remedy(tmp_path):
    """And does no harm to the first."""
    with VectorMemoryStore(tmp_path / "c") as store:
        store.add("k", "the cat sleeps")
        source = "from smolagents_memory import VectorMemoryStore, StoreBusyError\n"
        source += (
            f"try:\n    VectorMemoryStore({str(tmp_path / 'c')!r})\nexcept StoreBusyError as error:\n    print(error)"
        )
        done = python(source)
        assert "chroma run --path" in done.stdout, done.stderr
        assert store.search("cat")[0].key == "k"
    assert issubclass(StoreBusyError, Exception)


def test_a_collection_of_another_embedder_is_refused(tmp_path):
    """Vectors of two embedders cannot be compared."""
    with VectorMemoryStore(tmp_path / "c") as store:
        store.add("k", "text")
        with pytest.raises(StoreFormatError, match="embedded with 'all-MiniLM-L6-v2'"):
            VectorMemoryStore(tmp_path / "c", embedder=lambda texts: [[1.0, 2.0] for _ in texts])


def test_what_is_no_database_is_left_as_it_is(tmp_path):
    """With an error of our own tree."""
    path = tmp_path / "x.db"
    path.write_bytes(b"this is a poem, not a database. " * 50)
    before = path.read_bytes()
    with pytest.raises((StoreFormatError, StoreUnavailableError), match=r"x\.db"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    """It says what to upgrade."""
    path = tmp_path / "x.db"
    with SqliteStore(path) as store, store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE memory_about SET value = '99' WHERE name = 'schema'")
    with pytest.raises(StoreFormatError, match="newer version"):
        SqliteStore(path)


@pytest.mark.slow
def test_two_first_openings_at_once_both_succeed(tmp_path):
    """In processes, several times."""
    root = Path(__file__).parents[2]
    for attempt in range(2):
        path = tmp_path / f"{attempt}.db"
        source = f"import sys; sys.path.insert(0, {str(root)!r})\nfrom smolagents_memory import SqliteStore\n"
        source += f"SqliteStore({str(path)!r}).add(sys.argv[1], 'text')"
        processes = [
            subprocess.Popen([sys.executable, "-c", source, str(n)], stderr=subprocess.PIPE, text=True)
            for n in range(3)
        ]
        for process in processes:
            assert process.wait(60) == 0, process.stderr.read()
            process.stderr.close()
        assert sorted(SqliteStore(path)) == ["0", "1", "2"]


def test_a_failed_bulk_leaves_nothing(tmp_path):
    """One transaction."""
    store = SqliteStore(tmp_path / "x.db")
    with pytest.raises(UnsupportedValueError):
        store.add_many([("a", "text"), ("b", threading.Lock())])
    assert len(store) == 0
    assert store.search("text") == []
