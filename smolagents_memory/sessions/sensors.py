"""Where a session looks at an agent: its list of steps, its callbacks, and its `run`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any

from smolagents.memory import ActionStep, AgentMemory, CallbackRegistry, MemoryStep, PlanningStep, TaskStep

from smolagents_memory._log import logger
from smolagents_memory.history.observed import (
    STALE_STEPS_CHANGED,
    STEP_EDITED,
    STEPS_CHANGED,
    SYSTEM_PROMPT_CHANGED,
    ObservedMemory,
)
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import FAILED, INTERRUPTED, RunLog


class SensingRegistry(CallbackRegistry):
    """Stands round an agent's callbacks and sees every step whole before one of them runs."""

    def __init__(self, inner: CallbackRegistry, before: Callable[[MemoryStep], None]) -> None:
        self.inner = inner
        self._before = before

    @property
    def _callbacks(self) -> Any:
        return self.inner._callbacks

    def register(self, step_cls: type[MemoryStep], callback: Callable[..., Any]) -> None:
        """Register with the agent's own callbacks."""
        self.inner.register(step_cls, callback)

    def callback(self, memory_step: MemoryStep, **kwargs: Any) -> None:
        """Look at the step, then let the callbacks run."""
        try:
            self._before(memory_step)
        except Exception:
            logger.exception("the original of a step could not be noted; the run goes on")
        self.inner.callback(memory_step, **kwargs)


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


class Sensors:
    """Everything that is put round one agent, and taken off again.

    `journal` and `log` give the journal and the run log for what happens now, or None where nobody keeps it: the
    calls of a managed agent have one each.
    """

    def __init__(
        self,
        agent: Any,
        journal: Callable[[], tuple[Journal, RunLog] | None],
        *,
        begin: Callable[[int | None], Any],
        acted: Callable[[ActionStep | TaskStep], None],
        shared: bool = False,
    ) -> None:
        self._agent, self._journal, self._begin, self._acted = agent, journal, begin, acted
        self._shared = shared  # several calls have their steps in the one list: places in it mean nothing
        memory = self.memory = observed(agent)
        self._off = [
            memory.on(STEPS_CHANGED, self._changed),
            memory.on(STEP_EDITED, self._edited),
            memory.on(SYSTEM_PROMPT_CHANGED, self._prompted),
        ]
        if shared:  # one call's reset replaces the list into which another one is just about to put its task
            self._off.append(memory.on(STALE_STEPS_CHANGED, self._missed))
        self._registry = SensingRegistry(agent.step_callbacks, self._before)
        agent.step_callbacks = self._registry
        self._run_before = agent.__dict__.get("run")
        self._run = agent.__dict__["run"] = self._sensing_run(agent.run)

    def remove(self) -> None:
        """Take everything off; edits that were not told yet are told first."""
        for off in self._off:
            off()
        if self._agent.step_callbacks is self._registry:
            self._agent.step_callbacks = self._registry.inner
        if self._agent.__dict__.get("run") is self._run:
            del self._agent.__dict__["run"]
            if self._run_before is not None:
                self._agent.__dict__["run"] = self._run_before

    # -- the list ----------------------------------------------------------------------------------------------

    def _changed(self, event: Any) -> None:
        kept = self._journal()
        if kept is None:
            return
        journal, log = kept
        appended = not event.removed
        if self._shared:
            journal.removed(event.removed)
            journal.appended(event.added)
        else:
            journal.spliced(event.start, len(event.removed), event.added, reset=event.reset)
            appended &= event.start + len(event.added) == len(journal.live)
        if appended and len(event.added) == 1:
            step = event.added[0]
            log.follow(step)
            if isinstance(step, (ActionStep, TaskStep)):  # a task may have brought arguments
                self._acted(step)
        journal.commit()
        if journal.error is None:
            self.memory.events.emit("saved", self.memory, steps=len(journal.live), session=journal.position.name)

    def _missed(self, event: Any) -> None:
        kept = self._journal()
        if kept is not None:
            kept[0].appended(event.added)
            for step in event.added:
                kept[1].follow(step)
            kept[0].commit()

    def _edited(self, event: Any) -> None:
        kept = self._journal()
        if kept is not None and self._shared:
            kept[0].edited_step(event.step, inputs_edited=event.inputs_edited)
        elif kept is not None:
            kept[0].edited(event.index, inputs_edited=event.inputs_edited)

    def _prompted(self, event: Any) -> None:
        kept = self._journal()
        if kept is not None:
            kept[0].prompted(event.system_prompt)

    # -- the callbacks -----------------------------------------------------------------------------------------

    def _before(self, step: MemoryStep) -> None:
        kept = self._journal()
        if kept is not None and isinstance(step, (ActionStep, PlanningStep, TaskStep)):
            journal, log = kept
            journal.before_callbacks(step)
            log.before_callbacks(step)

    # -- the run -----------------------------------------------------------------------------------------------

    def _sensing_run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def sensing(*args: Any, **options: Any) -> Any:
            given = inspect.signature(run).bind(*args, **options).arguments
            with watched(self._begin, given.get("max_steps") or self._agent.max_steps) as end:
                result = run(*args, **options)
                if not isinstance(result, Generator):
                    return result
                end.later = True
            return _watched_stream(result, end)

        return sensing


class watched:
    """Tells the log of a run how it ended. A stream ends later than the call that made it."""

    def __init__(self, begin: Callable[[int | None], Any], max_steps: int | None) -> None:
        self._begin, self._max_steps = begin, max_steps
        self.later = False
        self._ended: Callable[[str, BaseException | None], None] | None = None

    def __enter__(self) -> watched:
        self._ended = self._begin(self._max_steps)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if not self.later or error is not None:
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """The run is over."""
        if self._ended is None:
            return
        ended, self._ended = self._ended, None
        stopped = error is not None and (not isinstance(error, Exception) or str(error) == "Agent interrupted.")
        ended(INTERRUPTED if stopped or error is None else FAILED, None if isinstance(error, GeneratorExit) else error)


def _watched_stream(stream: Generator[Any, Any, Any], end: watched) -> Generator[Any, Any, Any]:
    try:
        yield from stream
    except BaseException as error:
        end.end(error)
        raise
    else:
        end.end(None)
