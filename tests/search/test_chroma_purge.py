"""After forgetting and purging no vector, name or word of what was forgotten is in any file of the place."""

from __future__ import annotations

import struct
import subprocess
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import pytest
from numbered_texts import ByNumber
from program import python
from test_chroma_damaged import HERE

from smolagents_memory import EnhancedAgentMemory, SessionManager, SqliteStore, VectorMemoryStore
from smolagents_memory.search.chroma_graphs import clear_remains


KEPT = 40
SECRET = "the zweibrueckenstrasse vault opens with number 7777"
NAMES = (b"zweibruecken", b"zweib", b"confidential-report", b"secret-key")


def floats(number: int) -> bytes:
    """The vector of a text with that number, as it is kept: of length one."""
    vector = numpy.array(ByNumber().embed_query(f"{number}"), dtype=numpy.float32)
    return (vector / numpy.linalg.norm(vector)).tobytes()


def found_in(folder: Path, number: int = 7777, names: Iterable[bytes] = NAMES) -> list[tuple[str, str]]:
    """Where 16 bytes in a row of the vector are, or a name."""
    vector = floats(number)
    pieces = {vector[start : start + 16]: "vector" for start in range(0, len(vector) - 15, 4)}
    wanted = {**pieces, **{name: name.decode() for name in names}}
    return sorted(
        {
            (str(path.relative_to(folder)), what)
            for path in folder.rglob("*")
            if path.is_file()
            for piece, what in wanted.items()
            if piece in path.read_bytes()
        }
    )


def filled(path: Path, count: int = KEPT, **options: Any) -> EnhancedAgentMemory:
    memory = EnhancedAgentMemory(path, embedder=ByNumber(), **options)
    memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(count))
    memory.remember(SECRET, key="secret-key", source="confidential-report")
    assert memory.recall("pears7777", 1)[0].key == "secret-key"
    return memory


@pytest.mark.parametrize("count", [40, 1500], ids=["in Chroma's log", "in its graph"])
def test_after_forget_and_purge_no_vector_is_left(tmp_path: Path, count: int) -> None:
    with filled(tmp_path, count) as memory:
        memory.long_term.keeper.vault.indexes.flush()
        assert ("chroma/chroma.sqlite3", "vector") in found_in(tmp_path) or count > 1000
        memory.forget("secret-key")
        memory.purge()
        assert memory.stats()["index"] == "chroma"
        assert found_in(tmp_path) == []
        for n in (0, 7, 39):
            assert memory.recall(f"pears{n}", 1)[0].key == str(n)
    assert found_in(tmp_path) == []


def test_an_archived_memory_that_is_purged_leaves_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        memory.long_term.keeper.vault.indexes.flush()
        memory.archive("secret-key")
        memory.long_term.keeper.vault.indexes.flush()
        memory.restore("secret-key")
        memory.long_term.keeper.vault.indexes.flush()
        memory.forget("secret-key")
        memory.purge()
    assert found_in(tmp_path) == []


def test_nor_where_it_was_embedded_with_another_embedder_before(tmp_path: Path) -> None:
    """Its collection is nobody's any more."""

    class Another(ByNumber):
        name = "by number, otherwise"

        def embed_query(self, text: str) -> Any:
            return super().embed_query(text)[::-1]

    filled(tmp_path).close()
    with EnhancedAgentMemory(tmp_path, embedder=Another()) as memory:
        assert memory.recall("pears7777", 1)[0].key == "secret-key"
        memory.forget("secret-key")
        memory.purge()
        assert memory.recall("pears7", 1)[0].key == "7"
    assert found_in(tmp_path) == []


def test_a_purge_with_nothing_deleted_makes_no_index_anew(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        index = memory.long_term.keeper.vault.indexes.of_name("")
        index.flush()
        generation = index.folder.generation
        memory.purge()
        assert memory.recall("pears7777", 1)[0].key == "secret-key"
        assert index.folder.generation == generation


PURGING = """
    import sys
    sys.path[:0], path = VALUES
    from numbered_texts import ByNumber
    from smolagents_memory import EnhancedAgentMemory
    with EnhancedAgentMemory(path, embedder=ByNumber()) as memory:
        assert not memory.stats()["leads"]
        memory.forget("secret-key")
        memory.purge()
"""


def purged_by_another(path: Path) -> subprocess.CompletedProcess[str]:
    source = f"VALUES = {(HERE, str(path))!r}\n" + textwrap.dedent(PURGING)
    return python(source, check=False)


def test_a_purge_by_another_process_is_finished_by_the_one_that_has_the_folder(tmp_path: Path) -> None:
    """It says so; the other does it at its next recall, or when it closes."""
    memory = filled(tmp_path)
    memory.long_term.keeper.vault.indexes.flush()
    done = purged_by_another(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "another process has Chroma's folder" in done.stderr
    assert {name for name, _ in found_in(tmp_path)} == {"chroma/chroma.sqlite3"}
    assert memory.recall("pears7", 1)[0].key == "7"
    assert found_in(tmp_path) == []
    assert memory.stats()["index"] == "chroma"
    memory.close()


def test_and_when_it_never_recalls_again_at_its_close(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    memory.long_term.keeper.vault.indexes.flush()
    assert purged_by_another(tmp_path).returncode == 0
    memory.close()
    assert found_in(tmp_path) == []
    with EnhancedAgentMemory(tmp_path, embedder=ByNumber()) as again:
        assert again.recall("pears7", 1)[0].key == "7"


@pytest.mark.parametrize("by", ["sessions", "store"])
def test_a_purge_of_the_place_from_any_side_leaves_nothing(tmp_path: Path, by: str) -> None:
    filled(tmp_path).close()
    with SqliteStore(tmp_path) as store:
        assert store.forget("secret-key")
        assert store.purge() if by == "store" else SessionManager(tmp_path).purge() is None
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("count", [40, 1500], ids=["in Chroma's log", "in its graph"])
def test_nothing_that_lay_in_memory_is_left_behind_the_rows_of_a_graph(tmp_path: Path, count: int) -> None:
    """Chroma makes these files larger than what is in them, of memory as it lies about."""
    filled(tmp_path, count).close()
    [header] = (tmp_path / "chroma").glob("*/header.bin")
    _, _, room, rows, width = struct.unpack("<i4Q", header.read_bytes()[:36])
    assert rows < room
    for name, row in (("data_level0.bin", width), ("length.bin", 4)):
        file = header.with_name(name)
        kept = file.read_bytes()[: rows * row]
        assert not any(file.read_bytes()[rows * row :])
        file.write_bytes(kept + b"confidential-report".ljust((room - rows) * row, b"x"))
        assert found_in(tmp_path / "chroma", names=[b"confidential-report"])
        clear_remains(tmp_path / "chroma")
        assert file.read_bytes() == kept + bytes((room - rows) * row)


# -- a store of one's own --------------------------------------------------------------------------------------------


def test_a_store_in_a_folder_purges_what_it_forgot(tmp_path: Path) -> None:
    """Other collections in the folder stay."""
    path = tmp_path / "store"
    with VectorMemoryStore(path, embedder=ByNumber(), collection="another") as other:
        other.add("1", "1 pear", {"kind": "fruit"})
    with VectorMemoryStore(path, embedder=ByNumber()) as store:
        store.add_many((str(n), f"{n} apples", {"n": n}) for n in range(1200))
        store.add("secret-key", SECRET, {"from": "confidential-report"})
        store.forget("secret-key")
        assert found_in(path)
        assert store.purge()
        assert found_in(path) == []
        assert store.search("pears7", 1)[0].meta == {"n": 7}
        assert list(store) == [str(n) for n in range(1200)]
        store.add("more", "8888 pears")
    with VectorMemoryStore(path, embedder=ByNumber(), collection="another") as other:
        assert other.search("pears1", 1)[0].meta == {"kind": "fruit"}
    with VectorMemoryStore(path, embedder=ByNumber()) as store:
        assert store.search("pears8888", 1)[0].key == "more"
        assert len(store) == 1201


def test_a_memory_over_stores_purges_both(tmp_path: Path) -> None:
    vectors = VectorMemoryStore(tmp_path / "vectors", embedder=ByNumber())
    memory = EnhancedAgentMemory(long_term=SqliteStore(tmp_path / "texts"), vector_store=vectors)
    memory.remember(SECRET, key="secret-key", source="confidential-report")
    memory.remember("7 apples", key="7")
    memory.forget("secret-key")
    memory.purge()
    assert found_in(tmp_path) == []
    assert memory.recall("pears7", 1)[0].key == "7"
    memory.close()


def test_a_server_says_that_it_keeps_what_it_was_told_to_delete(caplog: pytest.LogCaptureFixture) -> None:
    import chromadb
    from chromadb.config import Settings

    client = chromadb.EphemeralClient(settings=Settings(_env_file=None))
    store = VectorMemoryStore(client=client, collection="of-a-client", embedder=ByNumber())
    store.add("7", "7 apples")
    store.forget("7")
    assert not store.purge()
    assert "whoever runs it" in caplog.text
