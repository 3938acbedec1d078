"""Managed agents: every call is a session of its own, linked to the step that made it.

An agent has one memory, and smolagents lets its calls run in it at the same time. Here they wait for each other, so
that each call's memory is its own and can be restored; where they may not, what each thread does is told apart, and
every call stays readable.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from smolagents.utils import AgentToolExecutionError

from smolagents_memory import _turns as turns
from smolagents_memory._errors import AttachError, SessionConflictError, SessionError
from smolagents_memory._listener import Listener, Run, ToolCall
from smolagents_memory._log import logger
from smolagents_memory._turns import Stay, Turn
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.following import Follower, introduce
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import INTERRUPTED, RunLog
from smolagents_memory.upstream import watch
from smolagents_memory.variables.runtime import fold


if TYPE_CHECKING:
    from smolagents_memory.sessions.attachment import Attachment


def managed_by(agent: Any) -> list[Any]:
    """All managed agents of an agent, and theirs, each once; they may manage each other, and it."""
    found, asked = {id(agent): agent}, [agent]
    while asked:
        for managed in (getattr(asked.pop(), "managed_agents", None) or {}).values():
            if id(managed) not in found and hasattr(managed, "memory") and hasattr(managed, "step_callbacks"):
                found[id(managed)] = managed
                asked.append(managed)
    return list(found.values())[1:]


class _Call:
    """One call of a managed agent, while it runs."""

    def __init__(self, journal: Journal, run: Run) -> None:
        self.journal, self.run = journal, id(run)  # who left its stream unread has let go of it, and so shall we
        self.log = RunLog(journal)


class ManagedAgents:
    """Follows all managed agents of an agent, and theirs."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self.followers: dict[int, _ManagedAgent] = {}
        with ExitStack() as undo:
            self._undo = undo
            self.look()
            self._undo = undo.pop_all()

    def look(self) -> None:
        """Follow those that were not there before."""
        agent = self._attachment.agent
        new = [each for each in managed_by(agent) if id(each) not in self.followers]
        if new and not self.followers:
            self._undo.callback(watch(agent, _Caller(self, wait=not self._attachment.session.concurrent_calls)))
        for each in new:
            follower = _ManagedAgent(each, self._attachment, self)
            self.followers[id(each)] = follower
            self._undo.callback(follower.leave)

    def look_again(self) -> None:
        """The same in the middle of a session: one that cannot be followed is no reason not to run."""
        try:
            self.look()
        except (AttachError, SessionError, TypeError) as error:
            logger.error("calls of a managed agent are not being journaled: %s (the run goes on)", error)

    def journal_for(self, turn: Turn | None) -> Journal:
        """The journal of the call that a turn is within, the session's own where there is none."""
        for each in turn.line() if turn is not None else ():
            call = self.followers[id(each.agent)].calls.get(each) if id(each.agent) in self.followers else None
            if call is not None:
                return call.journal
        return self._attachment.journal

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for follower in self.followers.values():
            follower.flush()

    def leave(self) -> None:
        """Let them all go."""
        self._undo.close()


class _Caller(Listener):
    """Gives who calls a managed agent its turn, and knows what is called within it."""

    def __init__(self, agents: ManagedAgents, *, wait: bool) -> None:
        self.agents, self.wait = agents, wait
        self.stays: dict[int, Stay] = {}  # by what began them

    def tool_call_begins(self, call: ToolCall) -> None:
        """A managed agent is called: when its turn has come; or a tool, which may call one."""
        if self.is_of_another():
            return
        above, managed = turns.above(call.agent), getattr(call.agent, "managed_agents", {}).get(call.name)
        if managed is None:
            if above is not None:
                self.stays[id(call)] = Stay(above)
            return
        wait = self.wait and id(managed) in self.agents.followers  # the agent that all began with has its run already
        try:
            self.stays[id(call)] = turns.take(managed, above, wait=wait, by=self.agents)
        except SessionError as error:
            call.fail(AgentToolExecutionError(str(error), call.agent.logger))

    def is_of_another(self) -> bool:
        """Whether this thread is within a call of another session's: agents may be managed by several."""
        here = next(iter(turns.within()), None)
        return here is not None and here.by not in (None, self.agents)

    def tool_call_ends(self, call: ToolCall) -> None:
        """It is the next one's turn."""
        self.over(id(call))

    def over(self, began: int) -> None:
        """What this began is over."""
        stay = self.stays.pop(began, None)
        if stay is not None:
            stay.end()


class _ManagedAgent(_Caller, Follower):
    """Follows one managed agent; a journal for each of its calls, found by its turn."""

    def __init__(self, agent: Any, attachment: Attachment, agents: ManagedAgents) -> None:
        self.shared = attachment.session.concurrent_calls
        super().__init__(agents, wait=not self.shared)
        self._agent, self._attachment = agent, attachment
        self.calls: dict[Turn, _Call] = {}
        self._failed: list[Journal] = []
        self.follow(agent)
        introduce(agent, self._session_of_call)

    def _session_of_call(self) -> Any:
        """The session of the call that runs, to be read."""
        kept = self.kept()
        return None if kept is None else self._attachment.session._named(kept[0].position.name)

    def kept(self) -> tuple[Journal, RunLog] | None:
        """Those of the call that there is; of several that which this thread is within."""
        here = turns.within() if self.shared else list(self.calls)[-1:]
        call = next((self.calls[turn] for turn in here if turn in self.calls), None)
        return (call.journal, call.log) if call is not None else None

    def run_announced(self, run: Run) -> None:
        """A call begins, when its turn has come. Within a call of its own the steps belong to that one."""
        if self.is_of_another():
            return
        self.look_at_memory(self._agent)
        introduce(self._agent, self._session_of_call)  # tools may have come since
        within, self.runner = next(iter(turns.within()), None), threading.get_ident()
        try:
            stay = self.stays[id(run)] = turns.take(self._agent, within, wait=self.wait)
        except SessionError as error:
            run.refuse(error)
            return
        weakref.finalize(run, self.over, id(run))  # a stream that nobody began to read does not end
        for turn, call in list(self.calls.items()):
            if call.run not in self.stays:
                self._leave(turn)
        if stay.turn in self.calls:
            return
        try:
            call = self.calls[stay.turn] = self._open(run, stay.turn.above)
            call.log.announced = run.max_steps
        except SessionError as error:
            logger.error("a call of %r is not being journaled: %s (the run goes on)", self._agent.name, error)

    def run_ends(self, run: Run) -> None:
        """A call is over."""
        for turn, call in list(self.calls.items()):
            if call.run == id(run):
                self.run_ended(run, call.journal, call.log)
                self._leave(turn)
        self.over(id(run))

    def _leave(self, turn: Turn) -> None:
        """Write no more of a call."""
        call = self.calls.pop(turn)
        call.log.end(INTERRUPTED)
        call.journal.commit()
        try:
            directory.let_go(call.journal.database, call.journal.position)
        except SessionError as problem:
            logger.error("the session of a call of %r could not be let go: %s", self._agent.name, problem)
        if call.journal.error is not None:
            self._failed.append(call.journal)

    def _open(self, run: Run, above: Turn | None) -> _Call:
        parent, database = self.agents.journal_for(above), self._attachment.session.database
        if parent.position.lease.is_inherited:
            raise SessionConflictError("its manager's session is attached in the process that this was forked from")
        described = {"name": self._agent.name, "class": type(self._agent).__name__}
        position = directory.claim_call(database, parent.position, parent.next_record, self._agent.name, described)
        journal = Journal(database, position, (), fold)
        journal.prompted(self._agent.memory.system_prompt)
        if not (self.shared or run.reset):
            journal.appended(self._agent.memory.steps)
        return _Call(journal, run)

    def flush(self) -> None:
        """Raise what prevents a call from being written."""
        for journal in [call.journal for call in self.calls.values()] + self._failed:
            journal.flush()
        self._failed.clear()
        if self.replaced is not None:
            raise self.replaced

    def leave(self) -> None:
        """Let go of the agent, and of calls that have not ended."""
        super().leave()
        for turn in list(self.calls):
            self._leave(turn)
        for began in list(self.stays):
            self.over(began)
