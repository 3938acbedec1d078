"""A session while it is attached to an agent, or for the moment in which a whole memory is written into it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from smolagents.memory import ActionStep, AgentMemory, MemoryStep, TaskStep

from smolagents_memory import _turns as turns
from smolagents_memory._errors import SessionConflictError, SessionError, SessionStorageError
from smolagents_memory._listener import Run
from smolagents_memory._log import logger
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.encoding import INPUTS, step_record
from smolagents_memory.codec.registry import attributes
from smolagents_memory.history.observed import ObservedMemory
from smolagents_memory.privacy.scrubbers import Scrubber
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.entries import Position
from smolagents_memory.sessions.following import Follower, introduce, observed
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.managed import ManagedAgents, managed_by
from smolagents_memory.sessions.reading import Restored
from smolagents_memory.sessions.runs import INTERRUPTED, RunLog, last_run
from smolagents_memory.sessions.states import KeptStates
from smolagents_memory.steps.kinds import is_task
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.upstream import namespace_of
from smolagents_memory.variables.restore import RestoreReport
from smolagents_memory.variables.runtime import Runtime, fold, forget_runtime, overridden_names, restore_runtime


if TYPE_CHECKING:
    from smolagents_memory.sessions.session import Session


_OF_MEMORY = ("system_prompt", "steps", "journaled_in", "journaled", "kept_in")


class Attachment(Follower):
    """Keeps one agent's journal: restores it, follows the agent, and lets go of it at the end."""

    _told_of_reset = False
    _there: set[str] | None = None  # the variables that there were when a run was announced

    def __init__(self, session: Session, agent: Any, position: Position, restored: Restored) -> None:
        self.session, self.agent = session, agent
        self._overridden = overridden_names(restored.runtime)
        self._place = (str(session.database), session.session_id)
        self.journal = Journal(session.database, position, restored.runtime, fold)
        self.states = KeptStates(self.journal, restored)
        self.log = RunLog(self.journal, last_run(self.journal))
        self.runtime = Runtime(agent, session.variables_budget)
        self.report = RestoreReport()
        with _all_or_nothing([agent, *managed_by(agent)]) as undo:
            memory = observed(agent)
            self.managed = ManagedAgents(self)
            undo.callback(self.managed.leave)
            self._begin(memory, restored, undo)

    def _begin(self, memory: ObservedMemory, restored: Restored, undo: ExitStack) -> None:
        agent, adopted = self.agent, self._steps_to_adopt(restored)
        restored.warn(self.session.session_id)
        if not adopted:
            self.report = put_into(agent, restored, self._place)
            self.journal.adopt(restored)
            self.runtime.tell_later(self.report.missing)
            found = self.runtime.begin(restored.runtime, self.journal.blobs)
            if found is not None:
                self.journal.runtime(found)
        memory.journaled_in, memory.kept_in = self._place, self.session
        introduce(agent, self.session)
        self.follow(agent)
        undo.callback(self.leave)
        if adopted:
            self.journal.prompted(memory.system_prompt)
            _append(self.journal, self.log, list(memory.steps))
            self._note_runtime(None)
            self.journal.commit()
        memory.journaled = ()  # until it is let go of: steps that are dropped meanwhile need not stay

    def _steps_to_adopt(self, restored: Restored) -> bool:
        """Whether the agent's own steps begin the session. Those of another session never do: they are its own."""
        memory = self.agent.memory
        own = len(memory.steps)
        place = getattr(memory, "journaled_in", None)
        if not own:
            return not restored.live and restored.prompt is None
        if place is not None and _same_objects(memory.steps, memory.journaled):
            if place != self._place:
                forget_runtime(self.agent)
                memory.reset()
            return not restored.live
        if place is None and not restored.live:
            return True
        raise SessionError(
            f"the agent holds {own} steps of which some are in no session, and session {self.session.session_id!r} "
            f"has {len(restored.live)}: nothing was attached. SessionManager.save_session keeps the agent's under "
            "another id; agent.memory.reset() gives them up"
        )

    # -- what the agent does -----------------------------------------------------------------------------------

    def kept(self) -> tuple[Journal, RunLog]:
        """The one journal that there is."""
        return self.journal, self.log

    def check_ownership(self) -> None:
        """Raise SessionConflictError if somebody else has taken the session over, or it is a parent's."""
        try:
            self.journal.check_ownership()
        except SessionStorageError as error:
            self.journal.hold(error, "the run begins all the same")

    def run_announced(self, run: Run) -> None:
        """A run is about to begin: the place where a conflict is told, and what a task that goes on has lost."""
        self.look_at_memory(self.agent)
        if run.beside and not any(turn.agent is self.agent for turn in turns.within()):
            run.refuse(
                SessionError(
                    f"the agent of session {self.session.session_id!r} is in the middle of a run in another thread, "
                    "and the steps of both would be mixed: this run was not begun. Wait for the other, or give each "
                    "thread an agent and a session of its own"
                )
            )
            return
        try:
            self.check_ownership()
        except SessionConflictError as error:
            run.refuse(error)
            return
        introduce(self.agent, self.session)  # tools may have come since
        self.managed.look_again()
        if run.reset_unasked and self.agent.memory.steps and not self._told_of_reset:
            self._told_of_reset = True
            logger.warning(
                "run(task) begins a new conversation, and the %d steps of session %r leave the prompt (the session "
                "keeps them): run(task, reset=False), or session.run(task), goes on with them",
                len(self.agent.memory.steps),
                self.session.session_id,
            )
        self.log.announced, self.runner = run.max_steps, threading.get_ident()
        namespace = namespace_of(self.agent)
        self._there = set(namespace.variables) if namespace is not None else set()
        if run.goes_on:
            self.log.go_on()
            self._tell_what_is_missing()
            self.journal.commit()

    def run_overtaken(self, run: Run) -> None:
        """A stream goes on though another run has begun since: only within a call of the agent itself."""
        if not any(turn.agent is self.agent for turn in turns.within()):
            run.refuse(
                SessionError(
                    f"another run of the agent of session {self.session.session_id!r} has begun since this one "
                    "stopped between two steps, and the steps of both would be mixed: this one does not go on, and is "
                    "noted as interrupted. Let one end before the next begins, or give each an agent and a session "
                    "of its own"
                )
            )

    def run_begins(self, run: Run) -> None:
        """What has just been sent again although the agent's code had deleted it is taken back."""
        namespace = namespace_of(self.agent)
        if run.goes_on and namespace is not None and self._there is not None:
            for name in self._overridden - self._there:
                namespace.variables.pop(name, None)

    def run_ends(self, run: Run) -> None:
        """Note how."""
        if run.refusal is None and not run.overtaken:  # else it never began, or was noted when the next one did
            self.run_ended(run, self.journal, self.log)

    def _tell_what_is_missing(self) -> None:
        note = self.report.note()
        if note:
            self.agent.memory.steps.append(NoteStep(note, kind="restored"))
            self.report = RestoreReport()
            self.runtime.tell_later({})

    def acted(self, step: ActionStep | TaskStep) -> None:
        """Note what has changed beside the steps."""
        self._note_runtime(step)

    def _note_runtime(self, step: ActionStep | TaskStep | None) -> None:
        with self.journal.lock:  # whoever flushes is maybe another thread than the agent's
            delta = self.runtime.changes(step, self.journal.blobs)
            if delta is not None:
                self.journal.runtime(delta)

    def keep(self, state: Any) -> None:
        """Bring a typed state back and follow it; see `Session.keep`."""
        self.states.keep(state)

    def original_of(self, step: MemoryStep | int) -> int | None:
        """The record of a live step's original."""
        live = self.journal.live
        if isinstance(step, int):
            return live[step].original if -len(live) <= step < len(live) else None
        return next((kept.original for kept in live if kept.step is step), None)

    # -- the end -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Find edits, write everything, raise what prevents it."""
        self.journal.blobs.forget_images()  # somebody may have painted on one
        self.look_at_memory(self.agent)
        self.memory.flush()
        self.journal.find_painted_images()
        self._note_runtime(None)
        self.states.flush()
        self.managed.flush()
        self.journal.flush()
        if self.replaced is not None:
            raise self.replaced

    def end(self) -> None:
        """Write everything and let go."""
        if not self.journal.position.lease.is_inherited:  # else it is the parent's run, and goes on there
            self.log.end(INTERRUPTED)
        try:
            self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go without writing more, but for what another thread has just done."""
        self.leave()
        self.managed.leave()
        if self.journal.error is None:
            self.journal.commit()
        self.states.let_go()
        self.memory.journaled = tuple(self.memory.steps) if self.journal.error is None else ()
        if self.journal.position.lease.is_inherited:
            return  # there is nothing of one's own to let go of
        try:
            directory.let_go(self.session.database, self.journal.position)
        except SessionStorageError as error:
            if self.journal.error is None:  # otherwise it was said
                logger.error("session %r could not be let go: %s", self.session.session_id, error)


@contextmanager
def _all_or_nothing(agents: list[Any]) -> Iterator[ExitStack]:
    """Leave the memories of agents as they were, and undo what is put down, unless all of it could be done."""
    with ExitStack() as undo:
        for agent in agents:
            undo.callback(_put_back, agent, agent.memory, _held_by(agent.memory))
        yield undo
        undo.pop_all()


def _held_by(memory: Any) -> dict[str, Any]:
    held = {name: getattr(memory, name) for name in _OF_MEMORY if hasattr(memory, name)}
    return {**held, "steps": list(memory.steps)}


def _put_back(agent: Any, memory: Any, held: dict[str, Any]) -> None:
    if agent.memory is not memory:
        agent.memory = memory
    if _same_objects(memory.steps, held["steps"]):
        del held["steps"]
    for name, value in held.items():
        setattr(memory, name, value)


def _same_objects(steps: Sequence[MemoryStep], others: Sequence[MemoryStep]) -> bool:
    return len(steps) == len(others) and all(a is b for a, b in zip(steps, others, strict=True))


def put_into(agent: Any, restored: Restored, place: tuple[str, str]) -> RestoreReport:
    """Make an agent's memory what a session holds; the report names what could not be brought back."""
    memory = observed(agent)
    if restored.prompt is not None:
        memory.system_prompt = restored.prompt.step
    memory.steps = restored.steps
    memory.journaled_in, memory.journaled = place, tuple(restored.steps)
    memory.events.emit("restored", memory, steps=len(restored.live), session=place[1])
    return restore_runtime(agent, restored.runtime, restored.blobs)


def describe_agent(agent: Any) -> dict[str, Any]:
    """What a session notes of its agent."""
    name, model = getattr(agent, "name", None), getattr(getattr(agent, "model", None), "model_id", None)
    described = {"name": name, "class": type(agent).__name__, "model_id": model}
    return {key: None if value is None else str(value) for key, value in described.items()}


def store(session: Session, memory: AgentMemory, described: dict[str, Any], runtime: Runtime | None) -> None:
    """Make a session hold what a memory holds."""
    given, keep = session._as_written(session._given)
    position = directory.claim(session.database, session.session_id, described, take_over=False, given=given)
    try:
        keep()
        restored = session._read()
        journal = Journal(session.database, position, restored.runtime, fold)
        journal.adopt(restored)
        log = RunLog(journal)
        prompt = memory.system_prompt
        if restored.prompt is None or restored.prompt.step.system_prompt != prompt.system_prompt:
            journal.prompted(prompt)
        old, new = restored.steps, list(memory.steps)
        head = _common(old, new, journal.redaction)
        tail = _common(old[head:][::-1], new[head:][::-1], journal.redaction)
        added = new[head : len(new) - tail]
        within, behind = (added, []) if tail else ([], added)
        if within or len(old) > head + tail:
            journal.spliced(head, len(old) - head - tail, within)
        _append(journal, log, behind)
        log.end(INTERRUPTED)
        delta = runtime.changes(None, journal.blobs) if runtime is not None else None
        if delta is not None and fold([*restored.runtime, delta]) != fold(restored.runtime):
            journal.runtime(delta)
        journal.flush()
    finally:
        directory.let_go(session.database, position)


def _append(journal: Journal, log: RunLog, steps: Sequence[MemoryStep]) -> None:
    """Steps that were made elsewhere, so that each run can be read as it was at its end."""
    for step in steps:
        if is_task(step):
            journal.end_entry()
        journal.appended([step])
        log.follow(step)


def _common(old: Sequence[MemoryStep], new: Sequence[MemoryStep], scrubber: Scrubber | None) -> int:
    """How many steps are the same from the beginning on."""
    same = 0
    for before, after in zip(old, new, strict=False):
        if before is not after and _content(before, scrubber) != _content(after, scrubber):
            break
        same += 1
    return same


def _content(step: MemoryStep, scrubber: Scrubber | None) -> str:
    fields = {name: value for name, value in attributes(step).items() if name != INPUTS}
    return json.dumps(step_record(step, Blobs(scrubber), fields)[0])
