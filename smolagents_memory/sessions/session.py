"""Session: a durable journal of one agent's steps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from smolagents.memory import MemoryStep
from sqlalchemy import select

from smolagents_memory._brief import brief
from smolagents_memory._errors import AttachError, SessionConflictError, SessionError, SessionNotFoundError
from smolagents_memory._files import named_file
from smolagents_memory.database import tables
from smolagents_memory.database.copies import refuse_own_files
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.owners import check_sessions
from smolagents_memory.database.places import Durability, Place
from smolagents_memory.database.redacting import Redaction, session_redaction
from smolagents_memory.history.files import load_memory, save_memory
from smolagents_memory.history.observed import ObservedMemory, Origin
from smolagents_memory.history.sealed_files import is_sealed
from smolagents_memory.sessions import directory, leases
from smolagents_memory.sessions.attachment import Attachment, describe_agent, put_into, store
from smolagents_memory.sessions.labels import Labelled, Labels
from smolagents_memory.sessions.reading import Restored, read_outline, restore
from smolagents_memory.sessions.resume import resume
from smolagents_memory.sessions.runs import Run, described, end_of_run, sound_runs
from smolagents_memory.sessions.transcript import Transcript, fork, original_at
from smolagents_memory.sessions.waiting import free_for, when_free
from smolagents_memory.variables.runtime import VARIABLES_BUDGET, Runtime, decoded_state


if TYPE_CHECKING:
    from smolagents_memory.privacy.sealing import Seal


class Session(Labelled):
    """What happened to one agent, kept in SQL: every step is on disk before the next begins.

    Args:
        session_id: Any string.
        url: The place: a folder, a file, a database URL, or a `Place`.
        durability: "power": a step that was journaled survives a power cut. "process": it survives the death of the
            process; faster where the disk is slow. A `Place` says it itself.
        variables_budget: How many bytes of a CodeAgent's Python variables, and of `agent.state`, are kept.
        concurrent_calls: Let calls of one managed agent run at the same time, in the one memory that it has: then
            what each did stays readable. Else they wait for each other, and each call's memory can be restored.
        user: Whose session it is: written when it is made, or attached for the first time with a person. One that
            belongs to somebody else is neither read nor written (SessionConflictError). See `People`.
        title: What it is called; another one replaces it when it is attached.
        tags: Words by which sessions are chosen (see `SessionManager.list_sessions`); likewise.

    Nothing is opened before it is needed.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory import Session
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> def agent(*script):
    ...     return CodeAgent(tools=[], model=ScriptedModel(map(code, script)), verbosity_level=0)
    >>> first = agent("x = 6", "final_answer(x * 7)")
    >>> with Session("user-42").attach(first):
    ...     first.run("What is six times seven?", reset=False)
    42
    >>> later = agent("final_answer(x)")               # in another process, tomorrow
    >>> with Session("user-42").attach(later):
    ...     later.run("And what was x?", reset=False)
    6
    """

    def __init__(
        self,
        session_id: str,
        url: str | os.PathLike[str] | Place = "agent_memory",
        *,
        durability: Durability | None = None,
        variables_budget: int = VARIABLES_BUDGET,
        concurrent_calls: bool = False,
        user: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        if not isinstance(session_id, str):
            raise TypeError(f"a session's id is a string, not {type(session_id).__name__}")
        self.session_id, self._given = session_id, Labels.of(user, title, tags)
        self.database = Database.at(url, durability)
        self.variables_budget, self.concurrent_calls = variables_budget, concurrent_calls
        self._attachment: Attachment | None = None

    @property
    def redaction(self) -> Redaction | None:
        """What takes things out of what is told of the session, where its place redacts."""
        return session_redaction(self.database, self.session_id)

    def __repr__(self) -> str:
        return f"Session({self.session_id!r}, {str(self.database)!r})"

    # -- journaling --------------------------------------------------------------------------------------------

    def attach(self, agent: Any, *, take_over: bool = False, wait: float = 0) -> Session:
        """Restore what is there into the agent, then journal all that happens to it, until `detach`.

        Best used as a context: `with session.attach(agent): …`. A plain AgentMemory is replaced by its drop-in
        ObservedMemory. An agent that already has steps begins the session with them if the session is new; if it is
        not, they must be of this session, or nothing is attached. Raises SessionConflictError while somebody else is
        attached; `wait` is how many seconds to wait for that to end, in this process first come first served;
        `take_over` shuts the other one out.
        """
        if not hasattr(agent, "memory"):
            raise AttachError(f"a session is attached to an agent, not to {brief(agent)}; nothing was changed")
        if self._attachment is not None:
            raise SessionError(f"session {self.session_id!r} is attached to an agent already; detach it first")
        self._refuse_another_person()  # for which nobody need wait
        given, keep = self._as_written(self._given)
        claim = partial(directory.claim, take_over=take_over, given=given)
        position = when_free(
            (self.database.place.key, self.session_id),
            lambda: claim(self.database, self.session_id, describe_agent(agent)),
            0 if take_over else wait,
        )
        try:
            keep()
            restored = self._read()
            with free_for(agent, self):
                self._attachment = Attachment(self, agent, position, restored)
        except BaseException:
            directory.let_go(self.database, position)
            raise
        return self

    def is_attached_to(self, agent: Any) -> bool:
        """Whether it keeps what happens to this agent."""
        return self._attachment is not None and self._attachment.agent is agent

    def run(self, task: str, **options: Any) -> Any:
        """`agent.run(task, reset=False)` of the attached agent: it goes on with the conversation.

        >>> from smolagents import CodeAgent
        >>> from smolagents_memory import Session
        >>> from smolagents_memory.testing import ScriptedModel, code
        >>> agent = CodeAgent([], ScriptedModel([code("final_answer(1)"), code("final_answer(2)")]), verbosity_level=0)
        >>> with Session("ann").attach(agent) as session:
        ...     session.run("Say one."), session.run("And the next?")
        (1, 2)
        >>> len(agent.memory.steps)
        4
        """
        if self._attachment is None:
            raise SessionError(
                f"session {self.session_id!r} is not attached to an agent: with session.attach(agent): session.run(…)"
            )
        return self._attachment.agent.run(task, **{"reset": False, **options})

    def detach(self) -> None:
        """Write what is still to be written, raise what prevents it, let go of the agent; it keeps its memory."""
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.end()

    def keep(self, state: Any) -> None:
        """Keep a TypedMemory with the attached session: it gets what the session holds, and each change is kept.

        >>> from smolagents import CodeAgent
        >>> from smolagents_memory import Session, TypedMemory
        >>> from smolagents_memory.testing import ScriptedModel
        >>> for _ in range(2):                       # the second time it is another process, say
        ...     visits = TypedMemory(0, name="visits")
        ...     with Session("shop").attach(CodeAgent(tools=[], model=ScriptedModel([]))) as session:
        ...         session.keep(visits)
        ...         visits.update(lambda count: count + 1)
        1
        2
        """
        if self._attachment is None:
            raise SessionError(
                f"session {self.session_id!r} is not attached to an agent: attach it, then keep a state"
            )
        self._attachment.keep(state)

    def flush(self) -> None:
        """Find edits inside the steps now, write all that is still to be written, and raise what prevents it."""
        if self._attachment is not None:
            self._attachment.flush()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.detach()
        except SessionError as own:
            if error is None:
                raise
            error.__context__ = own  # the error that came first is the one to see; it was logged when it happened

    def restore(self, agent: Any) -> bool:
        """Put what is there into the agent, without journaling. Returns whether there was anything.

        Raises SessionError while a session is attached to the agent, whose journal it would go into.
        """
        if not self.exists():
            return False
        with free_for(agent, self):
            put_into(agent, self._told(), (str(self.database), self.session_id))
            agent.memory.kept_in = self
        return True

    def resume(
        self,
        agent: Any,
        *,
        answers: Mapping[str, Any] | None = None,
        max_steps: int | None = None,
        take_over: bool = False,
        wait: float = 0,
    ) -> Any:
        """Go on with the task that was interrupted, and return its answer, as `agent.run` would have.

        No step that is in the journal is taken again: numbers, plans and the rest of `max_steps` go on, and so do
        `agent.state` and a CodeAgent's variables; what of them could not be brought back is told to the agent. A
        task that has its answer gives that answer. A call that never got its result is closed with a note, or with
        the result given in `answers` by its call id. Attaches for as long as it takes if the session is not attached.
        """
        if self._attachment is None:
            if not self.exists():
                raise SessionNotFoundError(f"there is no session {self.session_id!r} to resume in {self.database}")
            with self.attach(agent, take_over=take_over, wait=wait):
                return self.resume(agent, answers=answers, max_steps=max_steps)
        return resume(self._attachment, answers or {}, max_steps)

    # -- reading -----------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether there is a session of this id."""
        with self.database.reading() as connection:
            return directory.find(connection, self.session_id) is not None

    def steps(self, run: int | None = None) -> list[MemoryStep]:
        """The steps as they are in the agent's memory; of an earlier run (see `runs`) as they were at its end."""
        if run is None:
            return self._told().steps
        with self.database.reading() as connection:
            until = end_of_run(connection, self._row(connection), run)
        return self._told(until).steps

    def memory(self) -> ObservedMemory:
        """Steps and system prompt as a memory that belongs to no agent: what everything that looks at one takes."""
        return self._told().as_memory()

    @property
    def system_prompt(self) -> str | None:
        """The system prompt as it was last."""
        prompt = self._read().prompt
        return None if prompt is None else prompt.step.system_prompt

    def runs(self) -> list[Run]:
        """Every run of the session, oldest first: its task, state, times, steps and tokens."""
        table = tables.runs
        with self.database.reading() as connection:
            row, name = self._row(connection), self.session_id
            alive = leases.is_alive(self.database, connection, row)
            mine = select(table).where(table.c.session == row.id).order_by(table.c.number)
            rows = connection.execute(mine).all()
            directory.trusted(connection, row, name, rows)
            found, envelope = sound_runs(rows, name), envelope_of(connection)
            last = found[-1].number if found else None
            return [described(run, envelope, name, alive=alive and run.number == last) for run in found]

    def transcript(self) -> Transcript:
        """Every step that was ever journaled, in the order in which they came: each as it came and as it was left.

        Steps that callbacks, you or `run(reset=True)` dropped are there as well. What cannot be read is left out, and
        named in a MemoryLossWarning.

        >>> from smolagents import CodeAgent
        >>> from smolagents_memory import KeepRecentSteps, Session
        >>> from smolagents_memory.testing import ScriptedModel, code
        >>> model = ScriptedModel([code("print('a page')"), code("print('a form')"), code("final_answer('done')")])
        >>> agent = CodeAgent(tools=[], model=model, step_callbacks=[KeepRecentSteps(1)], verbosity_level=0)
        >>> with Session("reader").attach(agent) as session:
        ...     agent.run("Read.")
        'done'
        >>> for each in session.transcript():
        ...     print(type(each.original).__name__, each.left)
        TaskStep as it came
        ActionStep dropped
        ActionStep dropped
        ActionStep as it came
        """
        self._refuse_another_person()
        return Transcript(self.database, self.session_id)

    def original(self, step: MemoryStep | int) -> MemoryStep:
        """A step as it was before any callback cut it: a step of the attached agent, or a place in `steps()`.

        The images that callbacks added to it are there as well. See `transcript` for those that were dropped.
        """
        number = self._attachment.original_of(step) if self._attachment is not None else None
        if number is None:
            if not isinstance(step, int):
                raise SessionError("this step is not one of the attached agent's; give its place in steps()")
            with self.database.reading() as connection:
                number = original_at(connection, self._row(connection), step)
        return self.transcript().original(number)

    def children(self) -> list[str]:
        """The sessions of the calls of managed agents, oldest first. They are there to be read."""
        with self.database.reading() as connection:
            row = self._row(connection)
            check_sessions(connection)
            return [directory.name_of(connection, child) for child in directory.children(connection, row.id)]

    def _read(self, until: int | None = None) -> Restored:
        with self.database.reading() as connection:
            row = self._row(connection)
            start = row.checkpoint if until is None or row.checkpoint <= until else 0
            return restore(connection, row, read_outline(connection, row, start, until))

    def _told(self, until: int | None = None) -> Restored:
        restored = self._read(until)
        restored.warn(self.session_id)
        return restored

    # -- copies ------------------------------------------------------------------------------------------------

    def fork(self, new_id: str, at: int | None = None) -> Session:
        """A new session that goes on from here, or from the moment at which the step at place `at` was journaled.

        What both share is not copied twice where it is large; each may be deleted without the other.
        """
        self.flush()
        with self.database.writing() as connection:
            row = self._row(connection)
            fork(connection, row, new_id, None if at is None else original_at(connection, row, at))
        return self._named(new_id)

    def export(
        self, path: str | os.PathLike[str], *, all_steps: bool = False, seal: Seal | Literal[False] | None = None
    ) -> Path:
        """Write the memory as a portable file; `load_memory` and `import_` read it.

        `all_steps` writes the whole transcript instead: every step as it came, those that were dropped included.
        What comes out of a sealed place is sealed with the place's own seal, unless another one is given, or False for
        a plain file.
        """
        refuse_own_files(self.database.place, named_file(path))
        restored = self._told()
        memory = restored.as_memory()
        if all_steps:
            memory.steps = [each.original for each in self.transcript()]
        with self.database.reading() as connection:
            row = self._row(connection)
            agent = directory.described_agent(envelope_of(connection), row)
        memory.origin = Origin(agent, decoded_state(restored.runtime, restored.blobs), "", "")
        own = cast("Seal | None", self.database.place.seal)
        return save_memory(memory, path, seal=(own if seal is None else seal) or None)

    def import_(self, path: str | os.PathLike[str], *, recover: bool = False, seal: Seal | None = None) -> Session:
        """Begin this session with the memory of a portable file. Raises SessionConflictError if it has begun.

        A sealed file is opened with the place's own seal, unless another one is given.
        """
        if seal is None and (file := named_file(path)).is_file() and is_sealed(file):
            seal = cast("Seal | None", self.database.place.seal)
        memory = load_memory(path, recover=recover, seal=seal)
        if self.exists():
            raise SessionConflictError(f"there is a session {self.session_id!r} already; import under another id")
        store(self, memory, memory.origin.agent, Runtime(memory.origin, self.variables_budget))
        return self

    def delete(self) -> bool:
        """Delete the session and those of its managed agents' calls; see `SessionManager.purge` for the last byte.

        Returns whether there was one. Raises SessionConflictError while somebody else is attached to it.
        """
        if self._attachment is not None:
            self._attachment.abandon()
            self._attachment = None
        with self.database.writing() as connection:
            row = directory.find_to_write(connection, self.session_id)
            if row is None:
                return False
            self._given.refuse_another(envelope_of(connection), row, self.session_id)
            if leases.is_alive(self.database, connection, row):
                raise SessionConflictError(f"session {self.session_id!r} is being written; it was not deleted")
            directory.remove(connection, row.id)
            return True

    def _named(self, session_id: str) -> Session:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.session_id, made._attachment = session_id, None
        return made
