"""What happens to an agent's memory goes into a journal, and how its runs end into a run log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import is_not
from types import SimpleNamespace
from typing import Any

from smolagents.memory import ActionStep, AgentMemory, MemoryStep, TaskStep

from smolagents_memory._errors import AttachError, SessionError
from smolagents_memory._listener import ANSWERED, FAILED, INTERRUPTED, Listener, Run
from smolagents_memory._log import logger
from smolagents_memory.history.observed import (
    STALE_STEPS_CHANGED,
    STEP_EDITED,
    STEPS_CHANGED,
    SYSTEM_PROMPT_CHANGED,
    ObservedMemory,
)
from smolagents_memory.sessions import runs
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import RunLog
from smolagents_memory.steps.answers import Answer
from smolagents_memory.steps.kinds import is_action, is_task
from smolagents_memory.upstream import watch


_STATES = {ANSWERED: runs.FINISHED, FAILED: runs.FAILED, INTERRUPTED: runs.INTERRUPTED}


def observed(agent: Any) -> ObservedMemory:
    """The agent's memory as one that can be listened to; a plain one is replaced by its drop-in."""
    if isinstance(agent.memory, ObservedMemory):
        return agent.memory
    if type(agent.memory) is not AgentMemory:
        raise TypeError(
            f"the agent's memory is a {type(agent.memory).__name__}; a session needs smolagents' AgentMemory or an "
            "ObservedMemory (subclass ObservedMemory instead of AgentMemory)"
        )
    memory = ObservedMemory("")
    memory.system_prompt, memory.steps = agent.memory.system_prompt, agent.memory.steps
    agent.memory = memory
    return memory


def introduce(agent: Any, session: Any) -> None:
    """Tell the agent's tools that read what was journaled where that is: they may have been built before."""
    for tool in (getattr(agent, "tools", None) or {}).values():
        if hasattr(type(tool), "attached"):
            tool.attached(agent, session)


class Follower(Listener):
    """Follows one agent from `follow` to `leave`.

    With `shared` several calls have their steps in the one list, at the same time: places in it mean nothing.
    """

    shared = False
    runner: int | None = None  # the thread that runs the agent
    memory: ObservedMemory
    _strange: Any = ()  # a memory that cannot be followed
    _moving = False
    replaced: SessionError | None = None  # what there is to say of a memory that somebody put in the place of it

    def kept(self) -> tuple[Journal, RunLog] | None:
        """The journal and the run log for what happens now, or None where nobody keeps it."""
        raise NotImplementedError

    def acted(self, step: ActionStep | TaskStep) -> None:
        """The agent has acted, or was given a task, and maybe arguments with it."""

    def follow(self, agent: Any) -> None:
        """Listen to an agent and its memory."""
        memory = observed(agent)
        hold = memory.hold(agent)
        try:
            self._off = watch(agent, self)
        except BaseException:
            hold()
            raise
        self._listen(memory, hold)

    def _listen(self, memory: ObservedMemory, hold: Callable[[], None]) -> None:
        self.memory = memory
        self._heard = [
            hold,
            memory.on_first(STEPS_CHANGED, self._changed),
            memory.on_first(STEP_EDITED, self._edited),
            memory.on_first(SYSTEM_PROMPT_CHANGED, self._prompted),
            memory.events.on("pruning", self._before_cut),
        ]
        if self.shared:  # one call's reset replaces the list into which another one is just about to put its task
            self._heard.append(memory.on_first(STALE_STEPS_CHANGED, self._missed))

    def leave(self) -> None:
        """Listen no more; edits that were not told yet are told first."""
        self._off()
        self._hear_no_more()

    def _hear_no_more(self) -> None:
        for off in self._heard:
            off()
        self._heard = []

    def memory_replaced(self, agent: Any, before: Any) -> None:
        """Go on with what the agent has now, if that can be; only a memory that takes over needs no word."""
        given, old = agent.memory, self.memory
        if given is old or given is self._strange or self._moving:
            return
        self._moving = True
        try:
            self._hear_no_more()
            memory = observed(agent)  # which puts one in the place of a plain one
            memory.kept_in = old.kept_in
            self._listen(memory, memory.hold(agent))
        except (AttachError, TypeError) as error:
            self._strange = given
            self._complain(f"{error}. What happens from now on is not journaled")
            return
        finally:
            self._moving = False
        if self.kept() is None:
            return
        if not getattr(given, "takes_over", False):
            self._complain("What it holds is journaled in the place of what was there")
        steps = SimpleNamespace(start=0, removed=tuple(old.steps), added=tuple(memory.steps), reset=False)
        if len(steps.removed) != len(steps.added) or any(map(is_not, steps.removed, steps.added)):
            self._changed(steps)
        if old.system_prompt.system_prompt != memory.system_prompt.system_prompt:
            self._prompted(memory)
        self._save()

    def _complain(self, what: str) -> None:
        if self.replaced is None:
            self.replaced = SessionError(
                f"agent.memory was replaced while a session was attached. {what}; set its steps instead "
                "(agent.memory.steps = …), attach an EnhancedAgentMemory, or attach the session afterwards"
            )
            logger.error("%s", self.replaced)

    def look_at_memory(self, agent: Any) -> None:
        """Where nobody told of it: whether the agent has the memory that is followed."""
        if agent.memory is not self.memory:
            self.memory_replaced(agent, self.memory)

    def run_ended(self, run: Run, journal: Journal, log: RunLog) -> None:
        """Note how a run ended."""
        answered = run.outcome == ANSWERED and log.is_open
        if answered:
            self.memory.flush()  # the step with the answer was in memory before it had it
        log.end(_STATES[run.outcome or INTERRUPTED], run.error, Answer(run.answer) if answered else None)
        self.memory.afterwards(journal.commit)

    def before_callbacks(self, agent: Any, step: MemoryStep) -> None:
        """Keep a step as it is before any callback cuts it."""
        self.look_at_memory(agent)
        kept, self.runner = self.kept(), threading.get_ident()
        if kept is not None and hasattr(step, "timing"):  # a final answer is no step of the journal's
            kept[0].before_callbacks(step)
            kept[1].before_callbacks(step)

    def _before_cut(self, event: Any) -> None:
        kept = self.kept()
        if kept is not None:
            kept[0].before_cut(event.step)

    def _changed(self, event: Any) -> None:
        kept = self.kept()
        if kept is None:
            return
        journal, log = kept
        appended = not event.removed
        if self.shared:
            journal.removed(event.removed)
            journal.appended(event.added)
        else:
            journal.spliced(event.start, len(event.removed), event.added, reset=event.reset)
            appended &= event.start + len(event.added) == len(journal.live)
        if appended and len(event.added) == 1:
            step = event.added[0]
            log.follow(step)
            if is_action(step) or is_task(step):
                self.acted(step)
        journal.end_entry()
        self.memory.afterwards(self._save)

    def _save(self) -> None:
        """Write what was noted. Who runs the agent waits until it is on disk: only then the next step begins."""
        kept = self.kept()
        if kept is not None and kept[0].commit(wait=self.shared or self.runner == threading.get_ident()):
            journal = kept[0]
            self.memory.events.emit("saved", self.memory, steps=len(journal.live), session=journal.position.name)

    def _missed(self, event: Any) -> None:
        kept = self.kept()
        if kept is not None:
            kept[0].appended(event.added)
            for step in event.added:
                kept[1].follow(step)
            kept[0].end_entry()
            self.memory.afterwards(kept[0].commit)

    def _edited(self, event: Any) -> None:
        kept = self.kept()
        if kept is not None and self.shared:
            kept[0].edited_step(event.step, inputs_edited=event.inputs_edited)
        elif kept is not None:
            kept[0].edited(event.index, inputs_edited=event.inputs_edited)

    def _prompted(self, event: Any) -> None:
        kept = self.kept()
        if kept is not None:
            kept[0].prompted(event.system_prompt)
