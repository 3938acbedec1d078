"""A place with all there can be in it, and a process that works with a damaged one; it must not die of it."""

from __future__ import annotations

import sqlite3
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import chromadb  # noqa: F401 — so that each process need not
from agents import calling_agent, code_agent
from numbered_texts import ByNumber
from smolagents import CodeAgent

from smolagents_memory import (
    EnhancedAgentMemory,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    load_memory,
    save_memory,
)
from smolagents_memory.cli.doctor import examine
from smolagents_memory.testing import ScriptedModel, code


COUNT = 1100  # memories, so many that Chroma writes its graph
SESSIONS = ("calls", "code", "managed")
DOCUMENT = "\n\n".join(f"Paragraph {n} of the manual is about pumps of type {n}. " * 12 for n in range(12))
USER = {"user": "somebody"}
FILES = ("backup.db", "export.jsonl", "portable.jsonl.gz")


READERS: list[sqlite3.Connection] = []


def make(folder: Path) -> None:
    """Make it. The database's log is left as it is: somebody still reads."""
    place = folder / "place"
    place.mkdir(parents=True)
    made = agents()
    last = made.popitem()
    for name, agent in made.items():
        lived(place, name, agent)
    with memory_of(place) as memory:
        memory.remember_many({"text": f"{n} apples", "key": str(n), "source": f"s{n % 7}"} for n in range(COUNT))
    reader = sqlite3.connect(place / "memory.db")
    reader.execute("SELECT count(*) FROM memory_items").fetchall()
    lived(place, *last)
    with memory_of(place) as memory, memory_of(place, USER) as theirs:
        memory.remember_document(DOCUMENT, "manual")
        theirs.remember_many({"text": f"{n} figs", "key": str(n)} for n in range(30))
        assert memory.recall("pears7", 1)[0].key == theirs.recall("pears7", 1)[0].key == "7"
        memory.archive("11")
    manager = SessionManager(place)
    manager.backup(folder / "backup.db")
    Session("code", place).export(folder / "export.jsonl")
    save_memory(Session("calls", place).memory(), folder / "portable.jsonl.gz")
    READERS.append(reader)


def lived(place: Path, name: str, agent: Any) -> None:
    with Session(name, place).attach(agent):
        agent.run(f"Task of {name}.")


def agents() -> dict[str, Any]:
    worker = CodeAgent([], ScriptedModel([code("final_answer(5)")]), name="worker", description="Works.")
    worker.logger.level = -1
    script = [code("x = worker(task='work')"), code("final_answer(x)")]
    managing = code_agent(script, managed_agents=[worker], planning_interval=None)
    return {"calls": calling_agent(), "code": code_agent(), "managed": managing}


def memory_of(place: Path, scope: dict[str, str] | None = None) -> EnhancedAgentMemory:
    return EnhancedAgentMemory(place, embedder=ByNumber(), scope=scope)


def work(conn: Any, folder: Path) -> None:
    """Do all that can be done with a place, and tell how each went: what it gave, our error, or another's."""
    warnings.simplefilter("ignore")
    try:
        for name, does in deeds(folder):
            conn.send(("begins", name, None))
            try:
                conn.send(("gave", name, does()))
            except (SmolagentsMemoryError, FileNotFoundError) as error:
                conn.send(("raised", name, f"{type(error).__name__}: {error}"))
            except BaseException:  # noqa: BLE001 — the parent says so
                conn.send(("failed", name, traceback.format_exc()))
        conn.send(("end", "", None))
    finally:
        conn.close()


def deeds(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    place = folder / "place"
    yield "doctor", lambda: len(list(examine(str(place))))
    yield "list", lambda: SessionManager(place).list_sessions()
    yield "info", lambda: len(SessionManager(place).sessions())
    for name in SESSIONS:
        yield f"steps of {name}", lambda name=name: len(Session(name, place).steps())
        yield f"runs of {name}", lambda name=name: [run.state for run in Session(name, place).runs()]
        yield f"resume {name}", lambda name=name: resumed(place, name)
    yield "recall", lambda: recalled(place)
    yield "recall of somebody", lambda: recalled(place, USER)
    yield "words", lambda: words(place)
    yield "keys", lambda: keys(place)
    yield "remember", lambda: remembered(place)
    yield "reindex", lambda: reindexed(place)
    yield "decay", lambda: decayed(place)
    yield "forget", lambda: forgotten(place)
    yield "purge", lambda: purged(place)
    yield "purge sessions", lambda: SessionManager(place).purge()
    for name in FILES[1:]:
        yield f"load {name}", lambda name=name: len(load_memory(folder / name).steps)
        yield f"recover {name}", lambda name=name: len(load_memory(folder / name, recover=True).steps)
    yield "restore", lambda: SessionManager(place).restore_backup(folder / "backup.db")
    yield "recall after restore", lambda: recalled(place)
    yield "steps after restore", lambda: len(Session("code", place).steps())


def resumed(place: Path, name: str) -> int:
    agent = agents()[name]
    session = Session(name, place)
    with session.attach(agent):
        return len(agent.memory.steps)


def recalled(place: Path, scope: dict[str, str] | None = None) -> list[str]:
    with memory_of(place, scope) as memory:
        return [hit.key for n in (0, 7, 20) for hit in memory.recall(f"pears{n}", 1)]


def words(place: Path) -> list[str]:
    with memory_of(place) as memory:
        return [hit.source for hit in memory.recall("manual about pumps", 3)]


def keys(place: Path) -> list[str]:
    with memory_of(place) as memory:
        return sorted(record.key for record in memory.long_term.keeper.records(archived=None))


def remembered(place: Path) -> list[str]:
    with memory_of(place) as memory:
        memory.remember("77777 plums", key="new")
        return [hit.key for hit in memory.recall("pears77777", 1)]


def reindexed(place: Path) -> list[str]:
    with memory_of(place) as memory:
        memory.reindex()
        return [hit.key for n in (0, 7, 20) for hit in memory.recall(f"pears{n}", 1)]


def decayed(place: Path) -> list[str]:
    with memory_of(place) as memory:
        return memory.decay()


def forgotten(place: Path) -> bool:
    with memory_of(place) as memory:
        return memory.forget("new")


def purged(place: Path) -> list[str]:
    with memory_of(place) as memory:
        return memory.purge()


def tables_in(database: Path) -> dict[str, list[Any] | None]:
    """What plain sqlite3 reads of each table, and whether it finds the whole well; None for what it cannot read."""
    found: dict[str, list[Any] | None] = {}
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as base:
            base.text_factory = bytes
            names = [row[0].decode() for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for name in ["", *names]:
                try:
                    check = "PRAGMA integrity_check" if not name else f"SELECT * FROM {name}"
                    found[name] = base.execute(check).fetchall()
                except sqlite3.Error:
                    found[name] = None
    except (sqlite3.Error, OSError, UnicodeDecodeError):
        return {}
    return found
