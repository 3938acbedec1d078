"""The process in which the demo's agent works, and which is killed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from smolagents import Model

from smolagents_memory import (
    EnhancedAgentMemory,
    MiniLMEmbedder,
    MissingExtraError,
    RecallTool,
    Session,
    SessionConflictError,
)
from smolagents_memory.demo.screen import Screen
from smolagents_memory.demo.watcher import TASK, watcher


def database(folder: Path) -> str:
    """Where the demo keeps its sessions and what was learnt."""
    return f"sqlite:///{(folder / 'memory.db').as_posix()}"


def opened_memory(folder: Path, session: Session | None = None) -> EnhancedAgentMemory:
    """Long-term memory in the demo's folder; by meaning where the model is installed, never by a download."""
    try:
        embedder = MiniLMEmbedder()
    except MissingExtraError:
        embedder = None
    return EnhancedAgentMemory(folder, session=session, embedder=embedder)


def work(folder: Path, session_id: str, url: str, model: Model, *, pictures: bool, screen: Screen) -> Any:
    """Begin the session's task, or go on with it wherever it was left, whoever left it and why."""
    session = Session(session_id, database(folder))
    with opened_memory(folder, session) as memory:
        agent = watcher(url, model, pictures=pictures, more_tools=[RecallTool(memory)])
        _attach(memory, agent)
        with session:
            found, me = len(agent.memory.steps), os.getpid()
            begun = f"Process {me} found {found} steps of the one before, and goes on."
            screen.say(begun if found else f"The agent works in process {me}.")
            memory.on("steps_changed", lambda event: screen.steps(event.added))
            return session.resume(agent) if session.runs() else agent.run(TASK, reset=False)


def _attach(memory: EnhancedAgentMemory, agent: Any, patience: float = 10.0) -> None:
    """Attach; a process that was told to end a moment ago may still hold the session."""
    until = time.monotonic() + patience
    while True:
        try:
            memory.attach(agent)
            return
        except SessionConflictError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def end_with_the_demo() -> None:
    """End this process when the demo has ended, however that came: it holds the other end of our standard input."""

    def wait() -> None:
        while os.read(0, 1024):  # not sys.stdin: Python cannot end while a thread waits in it
            pass
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()
