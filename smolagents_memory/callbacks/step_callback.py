"""StepCallback: the base of every callback here. It never breaks a run."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from traceback import extract_tb
from typing import Any, ClassVar

from rich.text import Text
from smolagents.agents import MultiStepAgent
from smolagents.memory import ActionStep, MemoryStep
from smolagents.monitoring import LogLevel

from smolagents_memory._forks import Lock
from smolagents_memory._log import logger
from smolagents_memory.callbacks.working_history import History


_telling = Lock()


class StepCallback(ABC):
    """A callback that cannot break a run: what it raises is logged once, with the step's number, and the run goes on.

    Subclass it for a callback of your own. `history` is the memory as it will be with the current step in it.
    A callback keeps nothing about an agent, so one object serves many agents and threads.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> class CountSteps(StepCallback):
    ...     def on_step(self, step, history):
    ...         print(type(step).__name__, "is number", len(history.steps), "in memory")
    >>> model = ScriptedModel([code("final_answer(42)")])
    >>> CodeAgent(tools=[], model=model, step_callbacks=[CountSteps()], verbosity_level=0).run("Answer.")
    ActionStep is number 2 in memory
    42
    """

    acts_on: ClassVar[tuple[type[MemoryStep], ...]] = (ActionStep,)
    """The classes of step it does something for; it may be registered for any."""

    @abstractmethod
    def on_step(self, step: MemoryStep, history: History) -> None:
        """What the callback does. May raise."""

    def __call__(self, memory_step: MemoryStep, agent: Any = None) -> None:
        """What smolagents calls after each step. Never raises."""
        if not isinstance(memory_step, self.acts_on):
            return
        try:
            self.on_step(memory_step, History(memory_step, agent))
        except Exception as defect:  # noqa: BLE001 - logged below; raised, it would abort the agent's run
            self.report(defect, memory_step, agent)

    def report(self, defect: Exception, step: MemoryStep, agent: Any = None, doing: str = "") -> None:
        """Log a defect, once for each agent and place in the code."""
        place = (type(defect), *((frame.filename, frame.lineno) for frame in extract_tb(defect.__traceback__)[-1:]))
        what = f"{type(self).__name__} {doing or 'failed'} at {name_of(step)}: {type(defect).__name__}: {defect}"
        self.tell_once(place, f"{what}. The run goes on; this is not logged again.", agent, defect)

    def tell_once(self, key: Any, message: str, agent: Any = None, defect: Exception | None = None) -> None:
        """Log a message through the agent's own logger where there is one; once for each agent and key."""
        with _telling:  # not in __init__: a subclass need not call it
            agents = self.__dict__.setdefault("_told", weakref.WeakKeyDictionary())
            told = agents.setdefault(agent if isinstance(agent, MultiStepAgent) else type(self), set())
            if key in told:
                return
            told.add(key)
        try:
            agent.logger.log(Text(message, style="bold red"), level=LogLevel.ERROR)
            logger.debug(message, exc_info=defect)
        except Exception:  # no agent, or a logger that fails itself: the message must not be lost
            logger.error(message, exc_info=defect)


def name_of(step: MemoryStep) -> str:
    """The step in words: its number, or its class where it has none."""
    number = getattr(step, "step_number", None)
    return f"a {type(step).__name__}" if number is None else f"step {number}"
