"""What is noted of a run: its task, how far it came, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep
from smolagents.utils import AgentMaxStepsError
from sqlalchemy import Connection, select, update

from smolagents_memory._errors import SessionError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.values import decode_value, encode_value
from smolagents_memory.database import tables
from smolagents_memory.database.columns import whole
from smolagents_memory.database.envelope import Envelope, envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.sessions.entries import OF_RUN, run_spot
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.reading import unpacked_changes
from smolagents_memory.steps.answers import Answer, answer_of
from smolagents_memory.steps.kinds import is_action, is_models, is_task


RUNNING, FINISHED, FAILED, INTERRUPTED, MAX_STEPS = "running", "finished", "failed", "interrupted", "max_steps"


@dataclass(frozen=True)
class Run:
    """One run of a session.

    `state` is "finished", "failed" (an exception), "interrupted" (stopped or killed), "max_steps" or "running".
    """

    number: int
    state: str
    task: str
    started: float
    ended: float | None
    steps: int
    input_tokens: int
    output_tokens: int
    max_steps: int | None = None
    answer: Any = None
    error: str | None = None


class RunLog:
    """Follows the runs of one agent from what happens to its memory, and notes them in its journal.

    A `last` run that has no answer yet goes on with the next step that is not a task: steps may be appended by hand.
    """

    def __init__(self, journal: Journal, last: dict[str, Any] | None = None) -> None:
        self._journal = journal
        self._run: dict[str, Any] | None = None
        if last is not None and last["state"] == RUNNING:  # whoever ran it died, and this writer does not yet
            last = {**last, "state": INTERRUPTED}
            journal.run_changed(last)
        self._last = last
        self.announced: int | None = None  # the max_steps of a run that is about to begin
        self._whole: tuple[MemoryStep, Answer | None] | None = None

    def before_callbacks(self, step: MemoryStep) -> None:
        """A step is about to be shaped: its answer is what it says now."""
        self._whole = (step, answer_of([step]))

    def follow(self, step: MemoryStep) -> None:
        """A step was appended."""
        if is_task(step):
            self._begin(step)
        elif is_models(step):
            if self._run is None and self._last is not None and self._last["state"] != MAX_STEPS:
                self.go_on()
            if self._run is not None:
                self._count(step)

    def go_on(self) -> None:
        """Go on with the newest run, if it is not finished."""
        run = self._run or self._last
        if run is not None and run["state"] != FINISHED:
            self._run = {**run, "state": RUNNING, "ended": None, "details": {**run["details"], "error": None}}
            self._journal.run_changed(self._run)

    @property
    def is_open(self) -> bool:
        """Whether a run goes on that has no answer yet."""
        return self._run is not None and self._run["state"] == RUNNING

    def end(self, state: str, error: BaseException | None = None, answer: Answer | None = None) -> None:
        """The run ended otherwise than by a step that came with its answer: by an exception, by being left, by an
        answer in a step that was in memory before."""
        if self._run is None or not self.is_open:
            return
        if answer is not None:
            self._run["details"] = {**self._run["details"], "answer": self._answer_node(answer)}
        if error is not None:
            told = self._journal.told(str(error))[:2_000]
            self._run["details"] = {**self._run["details"], "error": f"{type(error).__name__}: {told}"}
        self._finish(state)

    def _begin(self, step: TaskStep) -> None:
        self.end(INTERRUPTED)  # the one before was left in the middle
        self._journal.position.run += 1
        begun = {"number": self._journal.position.run, "state": RUNNING, "started": time.time(), "ended": None}
        details = {"task": encode_value(self._journal.told(str(step.task))), "max_steps": self.announced}
        self._run = {**begun, "steps": 0, "input_tokens": 0, "output_tokens": 0, "details": details}
        self._journal.run_changed(self._run)

    def _count(self, step: ActionStep | PlanningStep) -> None:
        assert self._run is not None
        usage = getattr(step, "token_usage", None)
        for tokens in ("input_tokens", "output_tokens"):
            counted = getattr(usage, tokens, 0)
            self._run[tokens] += counted if isinstance(counted, int) else 0
        if is_action(step):
            self._run["steps"] += 1
            whole, self._whole = self._whole, None
            answer = whole[1] if whole is not None and whole[0] is step else answer_of([step])
            if answer is not None:
                self._run["details"] = {**self._run["details"], "answer": self._answer_node(answer)}
                self._finish(MAX_STEPS if isinstance(step.error, AgentMaxStepsError) else FINISHED)
                return
        self._journal.run_changed(self._run)

    def _answer_node(self, answer: Answer) -> Any:
        return _answer_node(self._journal.told(answer.value))

    def _finish(self, state: str) -> None:
        assert self._run is not None
        self._run = {**self._run, "state": state, "ended": time.time()}
        self._journal.run_changed(self._run)


def last_run(journal: Journal) -> dict[str, Any] | None:
    """The row of the newest run, its details read."""
    table, position = tables.runs, journal.position
    with journal.database.reading() as connection:
        row = connection.execute(
            select(table).where(table.c.session == position.id, table.c.number == position.run)
        ).one_or_none()
        if row is None or not sound_runs([row], position.name):
            return None
        return _read(row, envelope_of(connection), position.name)


def take_back_end(
    connection: Connection,
    session: int,
    name: str,
    came: Mapping[int, int],
    answered: Callable[[int], tuple[MemoryStep, Answer] | None],
) -> None:
    """Of a copy that ends earlier than what it was copied from: its last run stands where it stood then.

    `came` says with which revision each record came into the list, `answered` gives the answer that there was since a
    revision, and the step that gave it.
    """
    mine, records = tables.runs.c.session == session, tables.records.c
    row = connection.execute(select(tables.runs).where(mine).order_by(tables.runs.c.number.desc())).first()
    if row is None:
        return
    envelope, found = envelope_of(connection), answered(row.revision)
    run = _read(row, envelope, name)
    details = {key: value for key, value in run["details"].items() if key not in ("answer", "error")}
    if found is None:
        run.update(state=INTERRUPTED, ended=None)
    else:
        step, answer = found
        run["state"] = MAX_STEPS if isinstance(getattr(step, "error", None), AgentMaxStepsError) else FINISHED
        details["answer"] = _answer_node(answer.value)
    listed = select(records.step_number, records.input_tokens, records.output_tokens).where(records.session == session)
    numbers = [number for number, revision in came.items() if revision >= row.revision]
    of_run = [row for some in chunks(numbers) for row in connection.execute(listed.where(records.number.in_(some)))]
    run["steps"] = sum(each.step_number is not None for each in of_run)
    for tokens in ("input_tokens", "output_tokens"):
        run[tokens] = sum(max(0, whole(getattr(each, tokens))) for each in of_run)
    values = {key: run[key] for key in OF_RUN}
    values["details"] = envelope.pack(details, run_spot(name, row.number))
    connection.execute(update(tables.runs).where(mine, tables.runs.c.number == row.number).values(values))


def end_of_run(connection: Connection, session: Any, run: int) -> int | None:
    """The revision before the next run began; None for the newest run."""
    c = tables.runs.c
    begun = connection.execute(select(c.number, c.revision).where(c.session == session.id))
    numbers = {each.number: each.revision for each in begun}
    if run not in numbers:
        name = envelope_of(connection).read_name(session.name)
        raise SessionError(f"session {name!r} has no run {run}; it has {sorted(numbers)}")
    if run + 1 not in numbers:
        return None
    return _before_reset(connection, session, numbers[run + 1] - 1)


def _before_reset(connection: Connection, session: Any, revision: int) -> int:
    """`run(reset=True)` resets first and then adds the task: what the run before left stands before both."""
    c = tables.journal.c
    wanted = select(c.changes).where(c.session == session.id, c.revision == revision)
    changes = connection.execute(wanted).scalar()
    noted = [] if changes is None else unpacked_changes(connection, session, revision, changes)
    reset = any(change[0] == "checkpoint" and not change[1]["live"] for change in noted)
    return revision - 1 if reset else revision


def _answer_node(answer: Any) -> Any:
    """The answer if it is short; a long one stands in the step itself."""
    short = isinstance(answer, (int, float, bool, type(None))) or (isinstance(answer, str) and len(answer) <= 2_000)
    return encode_value(answer if short else f"[a {type(answer).__name__}; see the last step]")


def _read(row: Any, envelope: Envelope, session: str) -> dict[str, Any]:
    details = envelope.unpack_if_whole(
        row.details, run_spot(session, row.number), f"what is noted of run {row.number}"
    )
    return {"number": row.number, **{name: getattr(row, name) for name in OF_RUN}, "details": details}


def sound_runs(rows: Iterable[Any], session: str) -> list[Any]:
    """The rows of runs whose figures can be; the others are left out, and said."""
    sound = []
    for row in rows:
        figures = all(type(each) is int for each in (row.number, row.steps, row.input_tokens, row.output_tokens))
        times = all(isinstance(each, (int, float)) for each in (row.started, row.ended or 0))
        if figures and times and isinstance(row.state, str):
            sound.append(row)
        else:
            warn_of_loss(f"what is noted of a run of session {session!r} is damaged; it is left out")
    return sound


def described(row: Any, envelope: Envelope, session: str, *, alive: bool) -> Run:
    """A row of the table of runs, for people."""
    run = _read(row, envelope, session)
    details = run.pop("details")
    task, answer = decode_value(details.get("task", "")), decode_value(details.get("answer"))
    if row.state == RUNNING and not alive:
        run["state"] = INTERRUPTED
    return Run(**run, task=task, answer=answer, max_steps=details.get("max_steps"), error=details.get("error"))
