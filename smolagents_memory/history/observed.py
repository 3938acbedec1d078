"""ObservedMemory: a drop-in for smolagents' AgentMemory whose list of steps notices what happens to it."""

from __future__ import annotations

import copy
import functools
import gc
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import compress, count
from operator import is_not
from typing import Any, SupportsIndex

from smolagents.memory import AgentMemory, MemoryStep, SystemPromptStep
from smolagents.models import ChatMessage

from smolagents_memory._errors import AttachError
from smolagents_memory._events import Events, Listener
from smolagents_memory._forks import Lock
from smolagents_memory.codec.python_types import WRITERS, write_items
from smolagents_memory.history.changes import Snapshots
from smolagents_memory.history.guard import Guard
from smolagents_memory.upstream import notice_memories


_holding = Lock()

STEPS_CHANGED = "steps_changed"
STEP_EDITED = "step_edited"
SYSTEM_PROMPT_CHANGED = "system_prompt_changed"
STALE_STEPS_CHANGED = "stale_steps_changed"
_EVENTS = (STEPS_CHANGED, STEP_EDITED, SYSTEM_PROMPT_CHANGED)


class ObservedSteps(list[MemoryStep]):
    """A list that tells its memory of every change to it. Copies and pickles of it are plain lists."""

    _memory: ObservedMemory | None = None
    _guard = Guard(lambda: None)  # of lists that belong to no memory any more; a memory's own list has its memory's

    def _splice(self, start: int, stop: int, new: Iterable[MemoryStep]) -> None:
        added = list(new)
        if self._memory is None:
            list.__setitem__(self, slice(start, stop), added)
        else:
            self._memory._splice(self, start, stop, added)

    def append(self, step: MemoryStep, /) -> None:
        self.extend((step,))

    def extend(self, steps: Iterable[MemoryStep], /) -> None:
        with self._guard:
            self._splice(len(self), len(self), steps)

    def _become(self, after: list[MemoryStep]) -> None:
        """Splice in what is not the same step as before; what is the same at both ends stays untold."""
        head, tail = _same_at_both_ends(self, after)
        self._splice(head, len(self) - tail, after[head : len(after) - tail])

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        return (list, (list(self),))


def _same_at_both_ends(before: list[MemoryStep], after: list[MemoryStep]) -> tuple[int, int]:
    """How many steps are the same at the beginning and at the end of two lists."""
    shorter = min(len(before), len(after))
    head = next(compress(count(), map(is_not, before, after)), shorter)
    return head, next(compress(range(shorter - head), map(is_not, reversed(before), reversed(after))), shorter - head)


def _told(change: Callable[..., Any]) -> Callable[..., Any]:
    """A method of lists, done to a copy first: nobody else may change the list between looking and splicing."""

    @functools.wraps(change)
    def told(self: ObservedSteps, *args: Any, **options: Any) -> Any:
        with self._guard:
            after = list(self)
            given = change(after, *args, **options)
            self._become(after)
            return self if given is after else given

    return told


_CHANGES = "insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"
for _name in _CHANGES.split():
    setattr(ObservedSteps, _name, _told(getattr(list, _name)))
WRITERS[ObservedSteps] = ("list", write_items)


@dataclass
class Origin:
    """Where a loaded memory comes from."""

    agent: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    smolagents: str = ""


class ObservedMemory(AgentMemory):
    """An AgentMemory that can be listened to. Put it in the place of `agent.memory`; everything else stays.

    Events (see `on`):

    - `steps_changed`: `start`, `removed` and `added` (tuples of steps), `reset` (whether the memory was reset).
    - `step_edited`: `step`, its `index`, and `inputs_edited`, whether its input messages were. Edits inside a step
      are found when the next change is told, at `flush()`, and when the last listener leaves; those in the calls of
      a step's output message only at `flush()` and then.
    - `system_prompt_changed`: `system_prompt`, the step.
    - `stale_steps_changed`: `added`, to a list that has been replaced since: they are not in the memory.
    - `saved` and `restored`: `steps`, how many, and where: `path` or `session`.

    A listener that raises is logged and disturbs nobody. Without listeners nothing is looked for and nothing is paid.

    >>> from smolagents.memory import TaskStep
    >>> memory = ObservedMemory("You are helpful.")
    >>> off = memory.on("steps_changed", lambda event: print("added", event.added))
    >>> memory.steps.append(TaskStep(task="Count to three."))
    added (TaskStep(task='Count to three.', task_images=None),)
    """

    origin: Origin | None = None
    """Where the memory comes from, if it was loaded."""
    journaled_in: tuple[str, str] | None = None
    """The database and the session that hold the steps, if a session was attached."""
    kept_in: Any = None
    """The session that was attached or restored last, to be read."""
    journaled: tuple[MemoryStep, ...] = ()
    """The steps that the session held when it was detached."""

    def __init__(self, system_prompt: str) -> None:
        self._prepare()
        super().__init__(system_prompt)

    def _prepare(self) -> None:
        self.events, self._first = Events(), Events()
        self._lock = Guard(self.events.deliver)
        self._steps = self._owned([])
        self._snapshots: Snapshots | None = None
        self._listeners: set[object] = set()
        self._holds: list[weakref.ref[Any]] = []
        notice_memories()

    # -- listening ---------------------------------------------------------------------------------------------

    def on(self, event: str, fn: Listener, *, weak: bool = False) -> Callable[[], None]:
        """Call `fn(event)` whenever `event` happens ("*" for all); returns a function that ends it."""
        return self._listened(functools.partial(self.events.on, event, fn, weak=weak))

    def on_first(self, event: str, fn: Listener) -> Callable[[], None]:
        """For who takes notes: as `on`, but told before all others, and while nobody else can change the memory."""
        return self._listened(functools.partial(self._first.on, event, fn))

    def _listened(self, listen: Callable[[], Callable[[], None]]) -> Callable[[], None]:
        with self._lock:
            if self._snapshots is None:
                self._snapshots = Snapshots(self._steps)
            end = listen()
            self._listeners.add(end)

        def off() -> None:
            with self._lock:
                if end not in self._listeners:
                    return
                self._listeners.discard(end)
            self.flush()
            with self._lock:
                end()
                if not self._listeners:
                    self._snapshots = None

        return off

    def flush(self) -> None:
        """Look for edits inside the steps now, thoroughly, and tell them."""
        with self._lock:
            self._find_edits(thorough=True)
            self._first.deliver()

    def _post(self, event: str, source: Any, **data: Any) -> None:
        self._first.post(event, source, **data)
        self.events.post(event, source, **data)

    def afterwards(self, work: Callable[[], object]) -> None:
        """For who takes notes: do what takes long when others may change the memory, before the others are told."""
        self._lock.afterwards(work)

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    # -- whose it is -------------------------------------------------------------------------------------------

    def hold(self, agent: Any) -> Callable[[], None]:
        """Be this agent's alone, until the function that is returned is called.

        For who keeps what happens to the memory: raises AttachError where it is another living agent's already.
        """
        held = weakref.ref(agent)
        with _holding:
            self._refuse_second(agent)
            self._holds.append(held)

        def off() -> None:
            if held in self._holds:
                self._holds.remove(held)

        return off

    def placed_on(self, agent: Any, before: Any) -> None:
        """It was just put in the place of an agent's memory; what this raises puts the one from before back."""
        self._refuse_second(agent)

    def for_a_copy(self) -> ObservedMemory:
        """The memory of a copy of its agent: as smolagents has it this very one, unless it is one agent's alone."""
        if not any(held() is not None for held in self._holds):
            return self
        own = copy.copy(self)
        own.journaled_in, own.journaled = None, ()
        return own

    def _refuse_second(self, agent: Any) -> None:
        if self._is_of_another(agent):
            gc.collect()  # an agent that nobody refers to any more may still be there
        if self._is_of_another(agent):
            raise AttachError(self._why_not_two())

    def _is_of_another(self, agent: Any) -> bool:
        holders = [held() for held in self._holds]
        return any(each is not agent and getattr(each, "memory", None) is self for each in holders if each is not None)

    def _why_not_two(self) -> str:
        return (
            f"this memory is kept in {self.kept_in or 'a session'} as that of another agent, and the steps of both "
            "would be mixed: nothing was changed. Give each agent a memory of its own (ObservedMemory(…), or leave it "
            "the one it has), and a Session of its own; session.detach() lets go of the other agent's memory"
        )

    # -- what smolagents uses ----------------------------------------------------------------------------------

    @property
    def steps(self) -> list[MemoryStep]:
        """The steps. Assigning a list copies it: the steps are shared, the list is not."""
        return self._steps

    @steps.setter
    def steps(self, steps: Iterable[MemoryStep]) -> None:
        self._rebind(list(steps), reset=False)

    @property
    def system_prompt(self) -> SystemPromptStep:
        """The system prompt; smolagents sets it anew at every run."""
        return self._system_prompt

    @system_prompt.setter
    def system_prompt(self, step: SystemPromptStep) -> None:
        with self._lock:
            before = getattr(self, "_system_prompt", None)
            self._system_prompt = step
            said, says = (getattr(each, "system_prompt", None) for each in (before, step))
            if not (said is says or (isinstance(said, str) and isinstance(says, str) and said == says)):
                self._post(SYSTEM_PROMPT_CHANGED, self, system_prompt=step)
                self._first.deliver()

    def reset(self) -> None:
        """Forget all steps; the system prompt stays."""
        self._rebind([], reset=True)

    def _owned(self, steps: list[MemoryStep]) -> ObservedSteps:
        owned = ObservedSteps(steps)
        owned._memory, owned._guard = self, self._lock
        return owned

    def replay(self, logger: Any, detailed: bool = False) -> None:
        """Print the steps. smolagents' own detailed replay stops at the first image; here its size is printed."""
        shown = AgentMemory("")
        shown.system_prompt, shown.steps = self.system_prompt, [_printable(step) for step in self._steps]
        shown.replay(logger, detailed=detailed)

    # -- noticing ----------------------------------------------------------------------------------------------

    def _rebind(self, steps: list[MemoryStep], *, reset: bool) -> None:
        with self._lock:
            old, new = self._steps, self._owned(steps)
            self._find_edits()
            self._steps = new
            if self._snapshots is not None:
                self._snapshots = Snapshots(new)
            head, tail = (0, 0) if reset else _same_at_both_ends(old, new)
            self._change(head, tuple(old[head : len(old) - tail]), tuple(new[head : len(new) - tail]), reset)

    def _splice(self, steps: ObservedSteps, start: int, stop: int, added: list[MemoryStep]) -> None:
        with self._lock:
            if steps is not self._steps:  # a reference from before the list was replaced: its changes are not ours
                list.__setitem__(steps, slice(start, stop), added)
                self._post(STALE_STEPS_CHANGED, self, added=tuple(added))
                self._first.deliver()
                return
            self._find_edits()
            removed = tuple(steps[start:stop])
            list.__setitem__(steps, slice(start, stop), added)
            if self._snapshots is not None:
                self._snapshots.splice(start, stop, added)
            self._change(start, removed, tuple(added), False)

    def _change(self, start: int, removed: tuple[Any, ...], added: tuple[Any, ...], reset: bool) -> None:
        if removed or added or reset:
            self._post(STEPS_CHANGED, self, start=start, removed=removed, added=added, reset=reset)
        self._first.deliver()

    def _find_edits(self, *, thorough: bool = False) -> None:
        if self._snapshots is None:
            return
        for at, found in self._snapshots.edited(thorough=thorough):
            self._post(STEP_EDITED, self, step=found.step, index=at, inputs_edited=found.inputs_edited)

    # -- copies ------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        hidden = {"events", "_first", "_lock", "_steps", "_snapshots", "_listeners", "_holds", "kept_in"}
        return {"steps": list(self._steps), **{k: v for k, v in self.__dict__.items() if k not in hidden}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._prepare()
        steps = state.pop("steps")
        self.__dict__.update(state)
        self.steps = steps


class _Printed(ChatMessage):
    """A message as smolagents prints it: `message.dict()` today, `dict(message)` up to 1.20, where that fails."""

    def keys(self) -> list[str]:
        return list(self.dict())

    def __getitem__(self, name: str) -> Any:
        return self.dict()[name]


def _printable(step: MemoryStep) -> MemoryStep:
    """The step itself, or a copy whose input messages name their images instead of holding them."""
    messages = getattr(step, "model_input_messages", None)
    if not messages:
        return step
    printable = copy.copy(step)
    printable.model_input_messages = [_printed(message) for message in messages]
    return printable


def _printed(message: ChatMessage) -> ChatMessage:
    content = message.content
    if isinstance(content, list):
        content = [
            part if part.get("type") != "image" else {"type": "text", "text": f"[{part.get('image')!r:.120}]"}
            for part in content
        ]
    return _Printed(role=message.role, content=content, tool_calls=message.tool_calls)
