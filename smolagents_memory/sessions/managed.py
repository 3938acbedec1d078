"""Managed agents: every call is a session of its own, linked to the step that made it.

smolagents lets calls of one managed agent run at the same time in one memory, which mixes their steps. What each
thread does is told apart here, so that every call stays readable; a mixed memory cannot be restored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolagents_memory._errors import SessionError
from smolagents_memory._listener import Run
from smolagents_memory._log import logger
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.following import Follower
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import RunLog
from smolagents_memory.variables.runtime import fold


if TYPE_CHECKING:
    from smolagents_memory.sessions.attachment import Attachment


class _Call:
    """One call of a managed agent, while it runs."""

    def __init__(self, journal: Journal, run: Run) -> None:
        self.journal, self.run = journal, run
        self.log = RunLog(journal)


class ManagedAgents:
    """Follows all managed agents of an agent, and theirs."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._followers: list[_ManagedAgent] = []
        self._follow(attachment.agent, lambda: attachment.journal)

    def _follow(self, agent: Any, parent: Callable[[], Journal]) -> None:
        for managed in (getattr(agent, "managed_agents", None) or {}).values():
            if hasattr(managed, "memory") and hasattr(managed, "step_callbacks"):
                follower = _ManagedAgent(managed, self._attachment, parent)
                self._followers.append(follower)
                self._follow(managed, follower.journal_of_any)

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for follower in self._followers:
            follower.flush()

    def leave(self) -> None:
        """Let them all go."""
        for follower in self._followers:
            follower.leave()


class _ManagedAgent(Follower):
    """Follows one managed agent; a journal for each of its calls, found by the thread that runs it."""

    shared = True

    def __init__(self, agent: Any, attachment: Attachment, parent: Callable[[], Journal]) -> None:
        self._agent, self._attachment, self._parent = agent, attachment, parent
        self._calls: dict[int, _Call] = {}
        self._failed: list[Journal] = []
        self._lock = threading.Lock()
        self.follow(agent)

    def journal_of_any(self) -> Journal:
        """The journal of a call that runs now: the parent of what this agent's own managed agents do."""
        here = self._calls.get(threading.get_ident())
        calls = list(self._calls.values())
        return here.journal if here else calls[-1].journal if calls else self._parent()

    def kept(self) -> tuple[Journal, RunLog] | None:
        """Those of the call that this thread is in."""
        call = self._calls.get(threading.get_ident())
        return (call.journal, call.log) if call else None

    def run_announced(self, run: Run) -> None:
        """A call begins."""
        thread = threading.get_ident()
        if thread in self._calls:  # it calls itself: the steps belong to the call that runs
            return
        try:
            call = self._calls[thread] = self._open(run)
            call.log.announced = run.max_steps
        except SessionError as error:
            logger.error("a call of %r is not being journaled: %s (the run goes on)", self._agent.name, error)

    def run_ends(self, run: Run) -> None:
        """A call is over."""
        with self._lock:
            thread = next((thread for thread, call in list(self._calls.items()) if call.run is run), None)
            if thread is None:
                return
            call = self._calls.pop(thread)
        self.run_ended(run, call.journal, call.log)
        try:
            directory.let_go(call.journal.database, call.journal.position)
        except SessionError as problem:
            logger.error("the session of a call of %r could not be let go: %s", self._agent.name, problem)
        if call.journal.error is not None:
            self._failed.append(call.journal)

    def _open(self, run: Run) -> _Call:
        parent, database = self._parent(), self._attachment.session.database
        described = {"name": self._agent.name, "class": type(self._agent).__name__}
        position = directory.claim_call(database, parent.position, parent.next_record, self._agent.name, described)
        journal = Journal(database, position, (), fold)
        journal.prompted(self._agent.memory.system_prompt)
        return _Call(journal, run)

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for journal in [call.journal for call in self._calls.values()] + self._failed:
            journal.flush()
        self._failed.clear()
