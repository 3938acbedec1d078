"""What happens to an agent's memory goes into a journal, and how its runs end into a run log."""

from __future__ import annotations

import threading
from typing import Any

from smolagents.memory import ActionStep, AgentMemory, MemoryStep, TaskStep

from smolagents_memory._listener import ANSWERED, FAILED, INTERRUPTED, Listener, Run
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

    def kept(self) -> tuple[Journal, RunLog] | None:
        """The journal and the run log for what happens now, or None where nobody keeps it."""
        raise NotImplementedError

    def acted(self, step: ActionStep | TaskStep) -> None:
        """The agent has acted, or was given a task, and maybe arguments with it."""

    def follow(self, agent: Any) -> None:
        """Listen to an agent and its memory."""
        memory = self.memory = observed(agent)
        self._off = [
            watch(agent, self),  # the only one that may fail
            memory.on_first(STEPS_CHANGED, self._changed),
            memory.on_first(STEP_EDITED, self._edited),
            memory.on_first(SYSTEM_PROMPT_CHANGED, self._prompted),
            memory.events.on("pruning", self._before_cut),
        ]
        if self.shared:  # one call's reset replaces the list into which another one is just about to put its task
            self._off.append(memory.on_first(STALE_STEPS_CHANGED, self._missed))

    def leave(self) -> None:
        """Listen no more; edits that were not told yet are told first."""
        for off in self._off:
            off()

    def run_ended(self, run: Run, journal: Journal, log: RunLog) -> None:
        """Note how a run ended."""
        answered = run.outcome == ANSWERED and log.is_open
        if answered:
            self.memory.flush()  # the step with the answer was in memory before it had it
        log.end(_STATES[run.outcome or INTERRUPTED], run.error, Answer(run.answer) if answered else None)
        self.memory.afterwards(journal.commit)

    def before_callbacks(self, agent: Any, step: MemoryStep) -> None:
        """Keep a step as it is before any callback cuts it."""
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
