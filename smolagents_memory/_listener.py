"""What there is to hear of an agent: its runs, its steps, what its model is asked, and what it calls.

A journal, learning, a timeline, a replay: each is a `Listener`. `upstream.watch` tells them.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from operator import is_
from typing import Any


ANSWERED, FAILED, INTERRUPTED = "answered", "failed", "interrupted"


def stopping() -> bool:
    """Whether somebody's wish to stop is on its way through this thread (Ctrl-C, an exit): no model is asked then."""
    error = sys.exc_info()[1]
    return error is not None and not isinstance(error, Exception)


@dataclass(eq=False)
class Run:
    """One run of an agent, however it is made: by `run`, a stream, step by step, resumed, or a loop by hand.

    `goes_on` says that its task was begun before and is taken up again; `stepwise` that no loop of smolagents'
    makes its steps. Once it is over `outcome` is "answered", "failed" or "interrupted" (left in the middle, too), and
    `answer` or `error` says more.
    """

    agent: Any
    task: str | None = None
    images: list[Any] | None = None
    reset: bool = False
    max_steps: int | None = None
    goes_on: bool = False
    stepwise: bool = False
    outcome: str | None = None
    answer: Any = None
    error: BaseException | None = None
    refusal: Exception | None = None
    reset_unasked: bool = False  # nobody said so: `run` does it unless it is told not to
    beside: bool = False  # another thread runs the agent at this moment
    place: int = 0  # among the runs of its agent that may take turns; 0 for one within another
    overtaken: bool = False  # when it ended, the steps in memory were another one's
    announced: bool = False
    begun: bool = False
    begun_with: Any = None  # the step that holds its task

    def take_up(self) -> None:
        """It is about to go on, and is told of anew."""
        self.outcome = self.error = self.refusal = None
        self.goes_on, self.announced, self.begun = True, False, False

    def refuse(self, error: Exception) -> None:
        """Have whoever begins this run, or goes on with it, get an error instead; for `run_announced`, before anything
        has changed, and for `run_overtaken`."""
        self.refusal = self.refusal or error


@dataclass(eq=False)
class Call:
    """Something that an agent asks of somebody else. A listener may answer in their place.

    Answered when it begins, it is not carried out; answered when it has ended, the answer takes the place of what
    came of it. `started` and `ended` are seconds since the epoch.
    """

    agent: Any
    step: Any  # the step that is being made; None for a plan, a forced answer, a call from outside a step
    result: Any = None
    error: BaseException | None = None
    answered: bool = False  # by a listener
    started: float = field(default_factory=time.time)
    ended: float | None = None

    def answer(self, result: Any) -> None:
        """This is the result."""
        self.result, self.error, self.answered = result, None, True

    def fail(self, error: BaseException) -> None:
        """This is the error that comes of it."""
        self.result, self.error, self.answered = None, error, True


@dataclass(eq=False)
class ToolCall(Call):
    """A call of a tool or of a managed agent, by a ToolCallingAgent or from within a CodeAgent's code.

    `position` counts the step's calls from 0: the n-th that the model asked for, or that the code made; None outside
    a step. `arguments` are named as the tool names its inputs; `id` is the model's own, which may repeat.
    """

    name: str = ""
    arguments: Any = None
    position: int | None = None
    id: str | None = None


@dataclass(eq=False)
class ModelCall(Call):
    """The agent's model is asked; the result is a ChatMessage, also where it is streamed.

    Other `messages` may be put in the place of these when it begins. `written` is what `write_memory_to_messages`
    gave for it, if that was asked.
    """

    messages: list[Any] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    written: list[Any] | None = None

    @property
    def unedited(self) -> bool:
        """Whether the messages are those of the agent's memory, each the very object, and no others."""
        written = self.written
        return written is not None and len(written) == len(self.messages) and all(map(is_, written, self.messages))


class Listener:
    """Hears of the agents that it watches; write the methods that you want, the others cost nothing.

    An exception in one is logged once and disturbs nobody. What must leave the run, through an agent's code too, is
    a BaseException that is no Exception.
    """

    def memory_replaced(self, agent: Any, before: Any) -> None:
        """Somebody gave the agent another memory."""

    def run_announced(self, run: Run) -> None:
        """A run is about to begin, and nothing has changed yet; `run.refuse` keeps it from it."""

    def run_begins(self, run: Run) -> None:
        """Its task is in memory, and its model was asked nothing yet, unless it began before this one listened."""

    def run_overtaken(self, run: Run) -> None:
        """A stream is taken up though another run has begun since, which is not over or took all steps off.

        With `run.refuse` it ends here, and what it had of a step comes no more into memory.
        """

    def run_ends(self, run: Run) -> None:
        """It is over, or was left; see `run.outcome`."""

    def model_call_begins(self, call: ModelCall) -> None:
        """The model is about to be asked."""

    def model_call_ends(self, call: ModelCall) -> None:
        """It has answered, or failed."""

    def action_begins(self, agent: Any, step: Any) -> None:
        """The model's output is on the step, and what it says is about to be done: code, or tool calls."""

    def tool_call_begins(self, call: ToolCall) -> None:
        """A tool is about to be called, maybe in another thread."""

    def tool_call_ends(self, call: ToolCall) -> None:
        """It has returned, or failed."""

    def before_callbacks(self, agent: Any, step: Any) -> None:
        """A step is made, and no callback has cut it yet."""

    def after_callbacks(self, agent: Any, step: Any) -> None:
        """Its callbacks have run; it is not in memory yet."""
