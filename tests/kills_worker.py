"""What the killed processes of test_kills.py run: one place in use, and whatever its parent asks for done there."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import chromadb  # noqa: F401 — imported once, in the process that all lives are forked off
import sqlalchemy.dialects.sqlite  # noqa: F401
from PIL import Image
from quick_embedder import Hashed
from smolagents import CodeAgent
from sqlalchemy import func, select, text, update
from torture_worker import STEPS, make_agent, next_output, picture_of, untimed

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve, ObservedMemory, Session, SessionManager
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.sessions import leases
from smolagents_memory.stores.bank import Bank
from smolagents_memory.testing import ScriptedModel, code


Image.preinit()  # once, as the imports
FADING = {"user": "fading"}  # whose memories fade
YEAR = 365 * 86_400.0


class Life:
    """One process at one place. Each public method is an operation, or looks at what is there."""

    def __init__(self, tell: Callable[[Any], None], url: str, folder: Path) -> None:
        self.tell, self.url, self.folder = tell, url, folder
        tempfile.tempdir = str(folder / "tmp")
        self._open: dict[str, EnhancedAgentMemory] = {}

    # -- runs --------------------------------------------------------------------------------------------------

    def run(self, name: str, kind: str) -> tuple[int, Any]:
        """One more task of a session, or what is left of the one that was interrupted: its number, its answer."""
        agent = make_agent("calls" if kind == "calls" else "code", self.folder / "work", **_parts(kind))
        agent.memory = memory = ObservedMemory(agent.system_prompt)
        session = Session(name, self.url)
        runs = session.runs() if session.exists() else []
        with session.attach(agent):
            memory.on("steps_changed", lambda event: self.tell(len(memory.steps)))  # the session heard it before
            if runs and runs[-1].state == "interrupted":
                return len(runs), session.resume(agent)
            task = len(runs) + 1
            images = [picture_of(task)]
            return task, agent.run(f"Torture {task}.", reset=False, images=images, max_steps=STEPS + 1)

    def fork(self, name: str, new: str) -> None:
        Session(name, self.url).fork(new)

    def delete(self, name: str) -> bool:
        return Session(name, self.url).delete()

    # -- memories ----------------------------------------------------------------------------------------------

    def remember_many(self, scope: str, items: dict[str, str]) -> None:
        meta = {"bundle": next(iter(items)).partition("-")[0]}
        given = [{"text": text, "key": key, "meta": meta} for key, text in items.items()]
        self.memory(scope).remember_many(given, show_progress=False)

    def remember_document(self, source: str, written: str) -> list[str]:
        return self.memory().remember_document(written, source)

    def forget_where(self, bundle: str) -> int:
        return self.memory().forget_where({"bundle": bundle})

    def reindex(self, lost: float) -> dict[str, int]:
        """After that share of the vectors was lost."""
        memory, items = self.memory(), tables.items
        with Database.at(self.url).writing() as connection:
            first = connection.execute(select(func.max(items.c.id) * (1 - lost))).scalar() or 0
            connection.execute(update(items).where(items.c.id >= first).values(embedder_id=None))
        return memory.reindex(show_progress=False)

    def decay(self) -> list[str]:
        """As it is after two years."""
        with self._later(2) as memory:
            return memory.decay()

    def purge_faded(self) -> list[str]:
        """As it is after four years."""
        with self._later(4) as memory:
            return memory.purge()

    # -- the whole place ---------------------------------------------------------------------------------------

    def purge(self) -> None:
        SessionManager(self.url).purge()

    def backup(self, path: Path) -> None:
        SessionManager(self.url).backup(path)

    def restore_backup(self, path: Path) -> None:
        SessionManager(self.url).restore_backup(path)

    def migrate(self, path: Path) -> dict[str, Any]:
        return picture(str(path))

    # -- looking -----------------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        """All that can be read in the place."""
        _wait_for_the_dead(self.url)
        return picture(self.url)

    def found(self, texts: list[str]) -> list[bool]:
        """Whether recall brings these back."""
        return [each in [hit.value for hit in self.memory().recall(each, 5)] for each in texts]

    def mended(self) -> tuple[Any, Any, int]:
        """What a last reindex has to do, and one after it, and what then lacks vectors."""
        memory = self.memory()
        return memory.reindex(show_progress=False), memory.reindex(show_progress=False), memory.stats()["not embedded"]

    def tidy(self) -> None:
        """What removes whatever killed processes left."""
        self.memory().purge()
        leases._NOT_YET_LOCKED = -1.0
        SessionManager(self.url).purge()

    def memory(self, scope: str = "") -> EnhancedAgentMemory:
        if scope not in self._open:
            given = FADING if scope else None
            self._open[scope] = EnhancedAgentMemory(self.url, embedder=Hashed(), scope=given)
        return self._open[scope]

    def _later(self, years: float) -> EnhancedAgentMemory:
        then, curve = time.time() + years * YEAR, ForgettingCurve(every=0)
        return EnhancedAgentMemory(self.url, embedder=Hashed(), scope=FADING, forgetting=curve, clock=lambda: then)


def _parts(kind: str) -> dict[str, Any]:
    """What an agent of this kind has beside what each has."""
    if kind != "managed":
        return {}

    def answers() -> Any:
        while True:
            yield code("final_answer('helped')")

    model = ScriptedModel(answers(), record="none")
    worker = CodeAgent([], model, name="worker", description="Helps.", verbosity_level=-1)

    def answer(kind: str, messages: list[Any]) -> Any:
        said = next_output(kind, messages)
        return said.replace("class Box:", "said = worker(task='Help.')\nclass Box:")

    return {"managed_agents": [worker], "answer": answer}


def picture(url: str) -> dict[str, Any]:
    """What is at a place, by names: steps of sessions, texts of memories, whether they are put away."""
    found: dict[str, Any] = {}
    database = Database.at(url)
    for name in SessionManager(url).list_sessions():
        session = Session(name, url)
        found[f"session {name}"] = [_told(step) for step in session.steps()]
        for child in session.children():
            assert Session(child, url).exists()
            Session(child, url).steps()
    for scope in (None, FADING):
        for record in Bank(database, scope).records(archived=None):
            name = f"{'fading' if scope else 'memory'} {record.key}"
            if record.kind == "document":
                name = f"document {record.source} {record.meta['part']}"
            found[name] = [record.value, record.archived is not None]
    with database.reading() as connection:
        sessions = tables.sessions
        there = select(sessions.c.id)
        orphans = select(func.count()).where(sessions.c.parent.is_not(None), sessions.c.parent.not_in(there))
        assert connection.execute(orphans).scalar() == 0, "calls of managed agents without their parents"
    if database.path is not None:
        with closing(sqlite3.connect(database.path)) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
    return found


def _told(step: Any) -> str:
    """What tells a step from every other of its session, whatever callbacks cut."""
    said = [getattr(step, name, None) for name in ("step_number", "model_output", "plan")]
    said.append(str(getattr(step, "task", ""))[: len("Torture 1.")])  # a callback adds the time to it later
    calls = [call.id for call in getattr(step, "tool_calls", None) or []]
    whole = untimed(json.dumps([type(step).__name__, *said, calls], default=str))
    return f"{type(step).__name__} {hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _wait_for_the_dead(url: str) -> None:
    """A server may still be at work for one that was killed: what it had sent to be committed is committed."""
    if "postgres" not in url:
        return
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend' AND state <> 'idle'"
    )
    deadline = time.monotonic() + 30
    with Database.at(url).engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while connection.execute(text(others)).scalar():
            assert time.monotonic() < deadline, "the server is at work for one that is dead"
            time.sleep(0.02)


def live(conn: Any, url: str, folder: Path) -> None:
    """Do what is asked for, one thing after the other, until the other end is closed."""
    life = Life(lambda what: conn.send(("kept", what)), url, folder)
    try:
        while True:
            what, arguments = conn.recv()
            conn.send(("ok", getattr(life, what)(*arguments)))
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))
