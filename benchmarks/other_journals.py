"""What else could keep a run, step by step, for comparison: each is given the steps, or the messages, of the run."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any


class Journal(ABC):
    """Something that keeps a run on disk."""

    name: str

    @abstractmethod
    def __init__(self, folder: Path) -> None: ...

    @abstractmethod
    def prepare(self, step: Any, shown: list[dict[str, Any]], new: int) -> Any:
        """What `write` needs, made outside of the time that is measured; `shown` are all messages so far, the last
        `new` of them this step's."""

    @abstractmethod
    def write(self, prepared: Any) -> None:
        """Write a step, so that it survives a power cut."""

    @abstractmethod
    def size(self) -> int:
        """The bytes on disk, after a checkpoint."""


class _Appended(Journal):
    """A file to which every step is appended. (To write the whole memory at every step would cost n times as much.)"""

    def __init__(self, folder: Path) -> None:
        self._path = folder / type(self).__name__
        self._file = self._path.open("ab")

    def prepare(self, step: Any, shown: list[dict[str, Any]], new: int) -> Any:
        return step

    def write(self, prepared: Any) -> None:
        self._file.write(self._dumped(prepared))
        self._file.flush()
        os.fsync(self._file.fileno())

    @abstractmethod
    def _dumped(self, step: Any) -> bytes: ...

    def size(self) -> int:
        return self._path.stat().st_size


class FullJson(_Appended):
    name = "full JSON"

    def _dumped(self, step: Any) -> bytes:
        return json.dumps(step.dict(), default=lambda image: image.tobytes().hex()).encode()


class Pickle(_Appended):
    name = "pickle"

    def _dumped(self, step: Any) -> bytes:
        return pickle.dumps(step)


class LangGraph(Journal):
    name = "LangGraph SqliteSaver"

    def __init__(self, folder: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._path = folder / "langgraph.db"
        self._connection = sqlite3.connect(self._path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._config: Any = {"configurable": {"thread_id": "run", "checkpoint_ns": ""}}
        self._version = 0

    def prepare(self, step: Any, shown: list[dict[str, Any]], new: int) -> Any:
        from langgraph.checkpoint.base import empty_checkpoint

        if self._version == 0:  # the writes of a step belong to the checkpoint before it
            self.write((empty_checkpoint(), []))
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(shown)}
        return checkpoint, shown[-new:]

    def write(self, prepared: Any) -> None:
        checkpoint, new = prepared
        self._version += 1
        versions: Any = {"messages": f"{self._version:032}"}
        checkpoint["channel_versions"] = versions
        if new:
            self._saver.put_writes(self._config, [("messages", new)], f"task-{self._version}")
        metadata: Any = {"source": "loop", "step": self._version, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, versions)

    def size(self) -> int:
        return checkpointed_size(self._path)


class OpenAIAgents(Journal):
    name = "OpenAI SQLiteSession"

    def __init__(self, folder: Path) -> None:
        from agents.memory import SQLiteSession

        self._path = folder / "openai.db"
        self._session = SQLiteSession("run", self._path)
        self._loop = asyncio.new_event_loop()

    def prepare(self, step: Any, shown: list[dict[str, Any]], new: int) -> Any:
        return shown[-new:]

    def write(self, prepared: Any) -> None:
        self._loop.run_until_complete(self._session.add_items(prepared))

    def size(self) -> int:
        return checkpointed_size(self._path)


def checkpointed_size(path: Path) -> int:
    """The bytes of a SQLite database whose write-ahead log has been taken in."""
    connection = sqlite3.connect(path)
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, f"{path} is being read"
    finally:
        connection.close()
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if not file.name.endswith("-shm"))


def available() -> tuple[list[type[Journal]], list[str]]:
    """Those that are installed, and the names of the others."""
    found: list[type[Journal]] = [FullJson, Pickle]
    missing = []
    for journal, module, package in (
        (LangGraph, "langgraph.checkpoint.sqlite", "langgraph-checkpoint-sqlite"),
        (OpenAIAgents, "agents.memory", "openai-agents"),
    ):
        try:
            __import__(module)
        except ImportError:
            missing.append(f"{journal.name} (pip install {package})")
        else:
            found.append(journal)
    return found, missing
