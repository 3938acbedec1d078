"""Managed agents: every call is a session of its own, linked to the step that made it.

smolagents lets calls of one managed agent run at the same time in one memory, which mixes their steps. What each
thread does is told apart here, so that every call stays readable; a mixed memory cannot be restored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolagents.memory import ActionStep, TaskStep

from smolagents_memory._errors import SessionError
from smolagents_memory._log import logger
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import RunLog
from smolagents_memory.sessions.sensors import Sensors
from smolagents_memory.variables.runtime import fold


if TYPE_CHECKING:
    from smolagents_memory.sessions.attachment import Attachment


class _Call:
    """One call of a managed agent, while it runs."""

    def __init__(self, journal: Journal, token: str) -> None:
        self.journal, self.token = journal, token
        self.log = RunLog(journal)


class ManagedAgents:
    """The sensors round all managed agents of an agent, and theirs."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._sensors: list[_ManagedSensors] = []
        self._put_round(attachment.agent, lambda: attachment.journal)

    def _put_round(self, agent: Any, parent: Callable[[], Journal]) -> None:
        for managed in (getattr(agent, "managed_agents", None) or {}).values():
            if hasattr(managed, "memory") and hasattr(managed, "step_callbacks"):
                sensors = _ManagedSensors(managed, self._attachment, parent)
                self._sensors.append(sensors)
                self._put_round(managed, sensors.journal_of_any)

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for sensors in self._sensors:
            sensors.flush()

    def remove(self) -> None:
        """Take everything off."""
        for sensors in self._sensors:
            sensors.sensors.remove()


class _ManagedSensors:
    """The sensors round one managed agent; a journal for each of its calls, found by the thread that runs it."""

    def __init__(self, agent: Any, attachment: Attachment, parent: Callable[[], Journal]) -> None:
        self._agent, self._attachment, self._parent = agent, attachment, parent
        self._calls: dict[int, _Call] = {}
        self._failed: list[Journal] = []
        self._lock = threading.Lock()
        self.sensors = Sensors(agent, self._here, begin=self._begin, acted=self._acted, shared=True)

    def journal_of_any(self) -> Journal:
        """The journal of a call that runs now: the parent of what this agent's own managed agents do."""
        here = self._calls.get(threading.get_ident())
        calls = list(self._calls.values())
        return here.journal if here else calls[-1].journal if calls else self._parent()

    def _here(self) -> tuple[Journal, RunLog] | None:
        call = self._calls.get(threading.get_ident())
        return (call.journal, call.log) if call else None

    def _acted(self, step: ActionStep | TaskStep) -> None:
        """A managed agent's variables are gone with its call: nothing to keep."""

    def _begin(self, max_steps: int | None) -> Any:
        thread = threading.get_ident()
        if thread in self._calls:  # it calls itself: the steps belong to the call that runs
            return lambda state, error: None
        try:
            call = self._open()
        except SessionError as error:
            logger.error("a call of %r is not being journaled: %s (the run goes on)", self._agent.name, error)
            return lambda state, error: None
        call.log.announced = max_steps
        self._calls[thread] = call

        def ended(state: str, error: BaseException | None) -> None:
            with self._lock:
                self._calls.pop(thread, None)
            call.log.end(state, error)
            call.journal.commit()
            try:
                directory.let_go(call.journal.database, call.journal.position, call.token)
            except SessionError as problem:
                logger.error("the session of a call of %r could not be let go: %s", self._agent.name, problem)
            if call.journal.error is not None:
                self._failed.append(call.journal)

        return ended

    def _open(self) -> _Call:
        parent, database = self._parent(), self._attachment.session.database
        with self._lock:
            with database.reading() as connection:
                number = len(directory.children(connection, parent.position.id)) + 1
            name = f"{parent.position.name}/{self._agent.name}/{number}"
            described = {"name": self._agent.name, "class": type(self._agent).__name__}
            position, token = directory.claim(
                database,
                name,
                described,
                take_over=False,
                parent=parent.position.id,
                parent_record=parent.next_record,
            )
        journal = Journal(database, position, (), fold)
        journal.prompted(self._agent.memory.system_prompt)
        return _Call(journal, token)

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for journal in [call.journal for call in self._calls.values()] + self._failed:
            journal.flush()
        self._failed.clear()
