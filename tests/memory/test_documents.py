"""A document is replaced whole or not at all; a text is a text, and a path is a path."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from quick_embedder import Hashed

from smolagents_memory import (
    DocumentError,
    EnhancedAgentMemory,
    InMemoryStore,
    SmolagentsMemoryError,
    StoreError,
    UnsupportedValueError,
)
from smolagents_memory._errors import MemoryLossWarning
from smolagents_memory.memory import keeping


def version(name, parts):
    """A document that falls into so many parts, each of which names its version."""
    return "\n\n".join(f"Part {n} of version {name}. " + "The ship sails on. " * 32 for n in range(parts))


def whole(memory, source="ship.txt"):
    """Which version is there; it fails where there is a mixture."""
    records = [record for record in memory.long_term.keeper.records(archived=None) if record.source == source]
    versions = {record.value.split("version ")[1].split(".")[0] for record in records}
    assert len(versions) <= 1, versions
    assert {record.meta["parts"] for record in records} <= {len(records)}
    assert sorted(record.meta["part"] for record in records) == list(range(len(records)))
    return next(iter(versions), None)


# -- a text is a text ----------------------------------------------------------------------------------------------


def test_a_text_that_is_the_name_of_a_file_is_kept_as_a_text(tmp_path, monkeypatch, caplog):
    """It is said once how a path is given; what a file may not be called is a text like any other."""
    monkeypatch.chdir(tmp_path)
    Path("notes").write_text("What is in the file.")
    memory = EnhancedAgentMemory(vector=False)
    for text in ("notes", "no\0tes", "x" * 700, str(tmp_path)):
        (key,) = memory.remember_document(text)
        assert memory.long_term.get(key).value == text
    assert [line.message.count("path=") for line in caplog.records] == [1]


@pytest.mark.parametrize("give", [lambda m, p: m.remember_document(p), lambda m, p: m.remember_document(path=str(p))])
def test_a_path_is_a_path_or_named_so(tmp_path, give):
    """It is the source unless another is given."""
    path = tmp_path / "notes.txt"
    path.write_text("What is in the file.", encoding="utf-8-sig")
    memory = EnhancedAgentMemory(vector=False)
    (key,) = give(memory, path)
    record = memory.long_term.get(key)
    assert (record.value, record.source) == ("What is in the file.", path.as_posix())
    (key,) = memory.remember_document(path=path, source="handbook")
    assert memory.long_term.get(key).source == "handbook"


def test_a_document_replaces_none_that_has_nothing_to_do_with_it(tmp_path, monkeypatch):
    """Files of one name in two folders, and texts that nobody named."""
    memory = EnhancedAgentMemory(vector=False)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "notes.txt").write_text(f"What is in folder {folder}.")
        memory.remember_document(tmp_path / folder / "notes.txt")
        memory.remember_document(f"What somebody pasted, {folder}.")
    assert memory.count() == 4
    (tmp_path / "two" / "notes.txt").write_text("It was written anew.")
    memory.remember_document(path=str(tmp_path / "two" / "notes.txt"))
    memory.remember_document("What somebody pasted, two.")
    assert sorted(each.value for each in memory.items()) == [
        "It was written anew.",
        "What is in folder one.",
        "What somebody pasted, one.",
        "What somebody pasted, two.",
    ]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    memory.remember_document("", source="nothing")
    (key,) = memory.remember_document(path="one/notes.txt")
    assert memory.get(key).source == "one/notes.txt"
    (key,) = memory.remember_document(path="~/one/notes.txt")
    assert memory.get(key).source == "~/one/notes.txt"


def test_what_cannot_be_read_is_an_error_of_ours_and_nothing_is_lost(tmp_path):
    """A path that is missing or a folder; both a text and a path; neither."""
    memory = EnhancedAgentMemory(vector=False)
    memory.remember_document("The first version.", "missing.txt")
    for path in (tmp_path / "missing.txt", tmp_path):
        for give in ({"text_or_path": path}, {"path": path}, {"path": str(path)}):
            with pytest.raises(DocumentError, match=r"cannot be read.*nothing was changed") as raised:
                memory.remember_document(**give)
            assert isinstance(raised.value, (SmolagentsMemoryError, OSError))
    for wrong in ({}, {"text_or_path": "text", "path": "path"}, {"text_or_path": 5}, {"path": 5}):
        with pytest.raises(UnsupportedValueError):
            memory.remember_document(**wrong)
    assert [hit.value for hit in memory.recall("first version")] == ["The first version."]


def test_a_file_that_is_not_utf8_is_kept_with_a_warning(tmp_path):
    """What stands in the place of its bytes is said."""
    path = tmp_path / "old.txt"
    path.write_bytes("Größe der Brücke".encode("latin-1"))
    memory = EnhancedAgentMemory(vector=False)
    with pytest.warns(MemoryLossWarning, match="old.txt is not UTF-8"):
        memory.remember_document(path)
    assert memory.stats()["memories"] == 1


# -- whole or not at all -------------------------------------------------------------------------------------------


class FailsAt:
    """An embedder that fails at the n-th text since it was told to."""

    name = "fails"

    def __init__(self):
        self.left, self.inner = 10**9, Hashed()

    def embed_documents(self, texts):
        self.left -= len(texts)
        if self.left < 0:
            raise ConnectionError("the embedder is gone")
        return self.inner.embed_documents(texts)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_an_embedder_that_fails_leaves_the_new_version_whole(tmp_path, monkeypatch):
    """Without vectors, until it is embedded; also where the parts are more than are usually written at once."""
    monkeypatch.setattr(keeping, "CHUNK", 10)
    embedder = FailsAt()
    with EnhancedAgentMemory(tmp_path, embedder=embedder) as memory:
        memory.remember_document(version("one", 61), "ship.txt")
        embedder.left = 13
        keys = memory.remember_document(version("two", 40), "ship.txt")
        assert len(keys) == 40
        assert whole(memory) == "two"
        assert memory.recall("version two")
        embedder.left = 10**9
        memory.reindex()
        assert memory.stats().not_embedded == 0


def test_a_database_that_fails_in_the_middle_leaves_the_old_version_whole(tmp_path, mocker):
    """Deleting and writing is one transaction."""
    from smolagents_memory.stores import bank

    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember_document(version("one", 61), "ship.txt")
        mocker.patch.object(bank, "add_words", side_effect=MemoryError("no room"))
        with contextlib.suppress(MemoryError, SmolagentsMemoryError):
            memory.remember_document(version("two", 30), "ship.txt")
        mocker.stopall()
        assert whole(memory) == "one"
        assert memory.stats()["memories"] == 61


def test_a_store_that_fails_in_the_middle_has_the_old_version_again():
    """As near as a store can: what was written is undone."""

    class Failing(InMemoryStore):
        left = 10**9

        def add(self, key, value, meta=None):
            self.left -= 1
            if self.left == 0:
                raise OSError("no room")
            super().add_many([(key, value, meta)])

        def add_many(self, items):
            return sum(self.add(*item) is None for item in items)

    store = Failing()
    memory = EnhancedAgentMemory(long_term=store, vector=False)
    memory.remember_document(version("one", 9), "ship.txt")
    store.left = 5
    with pytest.raises(StoreError):
        memory.remember_document(version("two", 30), "ship.txt")
    assert whole(memory) == "one"
    assert memory.remember_document(version("two", 3), "ship.txt")
    assert whole(memory) == "two"
    assert len(store) == 3


def test_replacing_a_document_tells_what_went_and_what_came_and_touches_nothing_else(tmp_path):
    """Neither other memories of the source nor another document."""
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember("Said of the ship.", source="ship.txt", key="d-said", kind="document")
        memory.remember_document(version("other", 3), "boat.txt")
        memory.remember_document(version("one", 4), "ship.txt")
        told = []
        memory.on("*", lambda event: told.append((event.name, event.data.get("keys"))))
        keys = memory.remember_document(version("two", 2), "ship.txt")
        assert [name for name, _ in told] == ["forgotten", "added"]
        assert (len(told[0][1]), told[1][1]) == (2, keys)
        assert memory.long_term.get("d-said") is not None
        assert whole(memory, "boat.txt") == "other"


def parts(number):
    """Long and short versions by turns."""
    return 5 + 115 * (number % 2)


KEPT = """
    import sys
    from quick_embedder import Hashed
    from test_documents import parts, version
    from smolagents_memory import EnhancedAgentMemory
    memory = EnhancedAgentMemory(VALUES[0], embedder=Hashed() if VALUES[2] else None)
    for n in range(VALUES[1], 100000):
        keys = memory.remember_document(version(f"v{n}", parts(n)), "ship.txt")
        print(f"v{n}", flush=True)   # acknowledged
"""


def killed(path, kills, chance, *, vectors):
    """After each kill: the last version that was acknowledged, and the one that is there."""
    number = 0
    for _ in range(kills):
        values = (str(path), number, vectors)
        here = os.path.dirname(__file__)
        head = f"import sys; sys.path[:0] = {[here, os.path.dirname(here)]!r}\nVALUES = {values!r}\n"
        command = [sys.executable, "-c", head + textwrap.dedent(KEPT)]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            said = process.stdout.readline()
            time.sleep(chance.random() * 0.2)
            process.send_signal(signal.SIGKILL)
            rest, errors = process.communicate(timeout=30)
        lines = [line for line in (said + rest).splitlines(keepends=True) if line.endswith("\n")]
        assert lines, errors
        with EnhancedAgentMemory(path, embedder=Hashed() if vectors else None) as memory:
            there = int(whole(memory)[1:])
            assert len(list(memory.long_term.keeper.records())) == parts(there)
            assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
        acknowledged = int(lines[-1].strip()[1:])
        assert there in (acknowledged, acknowledged + 1)
        number = there + 1


@pytest.mark.slow
def test_killed_at_any_instant_a_document_is_whole_in_its_old_or_its_new_version(tmp_path, chance):
    """What was acknowledged, or the one after that."""
    killed(tmp_path, 6, chance, vectors=False)


@pytest.mark.endurance
def test_so_it_is_after_150_kills(tmp_path, chance, rounds):
    """Of one place."""
    killed(tmp_path, rounds(150), chance, vectors=True)
