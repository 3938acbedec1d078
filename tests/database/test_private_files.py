"""What is made at a place is its owner's alone, whatever the umask; what was there stays as its owner had it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from program import python

from smolagents_memory import Session, SessionManager, SqlStore


MADE = """
import os, sys
os.umask(int(sys.argv[1], 8))
from pathlib import Path
from smolagents import CodeAgent
from smolagents_memory import EnhancedAgentMemory, Session, SessionManager, save_memory
from smolagents_memory.database.migrating import backup_path, _keep_copy
from smolagents_memory import _files
from smolagents_memory.database import maintenance
from smolagents_memory.testing import ScriptedModel, code

seen = {}
def look(root):
    for path in [root, *root.rglob("*")]:
        if path.parent.name != "chroma" and path.parent.parent.name != "chroma":  # Chroma's own, in its folder
            seen[str(path.relative_to(root))] = (path.is_dir(), path.stat().st_mode & 0o777)

root = Path(sys.argv[2]) / "made"
place = root / "deep" / "place"
class Letters:
    name, dimensions = "letters", 26
    def embed(self, texts):
        return [[text.count(chr(97 + n)) + 0.1 for n in range(26)] for text in texts]
copy = maintenance.copy_sqlite
def copied(*paths):
    copy(*paths)
    look(root)
maintenance.copy_sqlite = copied
agent = CodeAgent([], ScriptedModel([code("final_answer(1)")]), verbosity_level=0)
with Session("s", place).attach(agent):
    agent.run("go")
    look(root)
with EnhancedAgentMemory(place, embedder=lambda texts: [[float(len(t)), 1.0] for t in texts]) as memory:
    memory.remember("The key is under the mat.")
    memory.recall("key")
    look(root)
SessionManager(place).backup(root / "kept" / "monday.db")
Session("s", place).export(root / "sent" / "s.jsonl.gz")
save_memory(agent, root / "sent" / "a.jsonl")
_keep_copy(place / "memory.db", backup_path(place / "memory.db", "0001"))
look(root)
os.umask(0)
for name, (is_folder, mode) in sorted(seen.items()):
    print(f"{name} {mode:o} {'folder' if is_folder else 'file'}")
"""


@pytest.mark.parametrize("umask", ["000", "022", "277"])
def test_whatever_is_made_is_its_owners_alone(umask: str, tmp_path: Path) -> None:
    done = python(MADE, umask, tmp_path)
    found = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    assert [each for each in found if each[1] != ("700" if each[2] == "folder" else "600")] == []
    names = {name.rpartition("/")[2] for name, _, _ in found}
    assert {"memory.db", "memory.db-wal", "memory.db-shm", "monday.db", "s.jsonl.gz", "a.jsonl", "chroma"} <= names
    assert any(name.endswith(".lock") for name in names)
    assert any(name.endswith(".copying") for name in names)
    assert any(name.endswith(".tmp") for name in names)
    assert any(".before-" in name for name in names)


def test_what_was_there_stays_as_its_owner_had_it(tmp_path: Path) -> None:
    shared, kept = tmp_path / "shared", tmp_path / "kept"
    for folder in (shared, kept):
        folder.mkdir()
        folder.chmod(0o775)
    store = SqlStore(shared)
    store.add("k", "v")
    (shared / "memory.db").chmod(0o664)
    store.close()
    (kept / "monday.db").touch()
    (kept / "monday.db").chmod(0o640)
    with SqlStore(shared) as again:
        again.add("k2", "v")
        beside = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shared.glob("memory.db*")}
    SessionManager(shared).backup(kept / "monday.db")
    assert set(beside.values()) == {0o664}
    assert stat.S_IMODE((kept / "monday.db").stat().st_mode) == 0o640
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (shared, kept)} == {0o775}


def test_those_who_share_a_database_see_who_writes(tmp_path: Path) -> None:
    """The file by which a writer is seen to live may be read by whoever may read the database."""
    from agents import code_agent

    SqlStore(tmp_path).close()
    (tmp_path / "memory.db").chmod(0o660)
    with Session("s", tmp_path).attach(code_agent([])):
        (lock,) = tmp_path.glob("*.lock")
        assert stat.S_IMODE(lock.stat().st_mode) == 0o660
    assert os.listdir(tmp_path)
