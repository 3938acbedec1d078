"""What an agent had read when it wrote: the tools that returned it, noted on each step while the run goes on.

What a tool returned is in the prompt of every step after it, and in the variables that code put it into. So each step
is marked with the tools whose text the model had read before it wrote, and with those whose text came back in it.
"""

from __future__ import annotations

import builtins
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._listener import Listener, ToolCall
from smolagents_memory.memory.long_term import Memory
from smolagents_memory.steps.calls import CODE, calls_of
from smolagents_memory.steps.code_calls import names_called, names_in
from smolagents_memory.steps.kinds import is_action, is_final, is_prompt, is_task
from smolagents_memory.steps.marks import mark_of, set_mark
from smolagents_memory.stores.records import UNCONFIRMED
from smolagents_memory.upstream import PYTHON_TOOLS


MEMORY_TOOLS = frozenset({"recall", "remember", "forget", "original_step"})
SOMEBODY = "somebody"  # in the place of a tool's name: nobody saw what was read when it was written
_MARK = "read"
_OWN = frozenset({"final_answer", CODE})
_BUILTINS = frozenset(dir(builtins))
_NAME = 100  # characters of a tool's name: a model may make up any

_here = threading.local()


@dataclass(frozen=True)
class Read:
    """The tools whose text was read `before` a step was written, and those whose text was `returned` in it."""

    before: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()


def read_of(step: MemoryStep) -> Read:
    """What is noted on a step."""
    noted = mark_of(step, _MARK)
    if not isinstance(noted, dict):
        return Read()
    return Read(*(tuple(str(name) for name in noted.get(each) or ()) for each in ("before", "returned")))


def all_read(steps: Iterable[MemoryStep]) -> list[str]:
    """The tools whose text is anywhere in these steps."""
    read = map(read_of, steps)
    return list(dict.fromkeys(name for each in read for name in each.before + each.returned))


class Trail:
    """What was read in one conversation, step by step. Any number of threads may call tools meanwhile."""

    def __init__(self, agents: Callable[[], Iterable[Any]]) -> None:
        self._agents = agents
        self._lock = threading.RLock()
        self._read: dict[str, None] = {}
        self._now: dict[int, dict[str, None]] = {}  # by the id of a step that is being made
        self._held: dict[str, dict[str, None]] = {}  # a variable of the agent's code → the tools whose text it holds
        self._made: set[str] = set()  # by code that another agent may have run
        self._followed: dict[int, weakref.ref[Any]] = {}
        self.memories: dict[str, None] = {}  # keys of what was recalled

    def reset(self) -> None:
        """The prompt is empty again; variables outlive that."""
        with self._lock:
            for each in (self._read, self._now, self.memories):
                each.clear()

    def have_read(self) -> list[str]:
        """The tools whose text is in what is written now."""
        with self._lock:
            return list(dict.fromkeys([*self._read, *(name for names in self._now.values() for name in names)]))

    def came(self, tools: Iterable[str], step: Any = None) -> None:
        """Text of these tools came: into a step that is being made, or into the prompt."""
        with self._lock:
            into = self._read if step is None else self._now.setdefault(id(step), {})
            into.update((name[:_NAME], None) for name in tools)

    def called(self, call: ToolCall, steps: Sequence[MemoryStep]) -> None:
        """A tool has returned, or failed; `steps` are those in memory."""
        if _is_foreign(call.name, call.agent):
            self.came([call.name], call.step)
        elif call.name == "original_step":
            numbers = {str(getattr(step, "step_number", None)) for step in steps}
            asked = call.arguments.get("step") if isinstance(call.arguments, dict) else None
            if str(asked) not in numbers:  # it stands in the journal alone, and may be of another conversation
                self.came([SOMEBODY], call.step)

    def recalled(self, memories: Sequence[Memory]) -> None:
        """Memories were put into the prompt, or given to code: what is not confirmed in them is a tool's text."""
        call = _innermost()
        for memory in memories:
            self.memories[memory.key] = None
            if memory.trust <= UNCONFIRMED:
                self.came(memory.tools or [SOMEBODY], call and call.step)

    def follow(self, step: MemoryStep, agent: Any = None, *, given: bool = False) -> None:
        """Note on a step what was read before it and what came back in it, once; `agent` is making it.

        A task is a person's, unless it was `given` by an agent.
        """
        if is_prompt(step) or is_final(step):
            return
        with self._lock:
            known = self._followed.get(id(step))
            if known is not None and known() is step:
                return
            self._followed[id(step)] = weakref.ref(step, functools.partial(self._gone, id(step)))
            noted, returned = read_of(step), self._returned_in(step, agent)
            if noted == Read():
                before = () if is_task(step) and not given else tuple(self._read)
                noted = Read(before, tuple(returned))
                if noted != Read():
                    set_mark(step, _MARK, {"before": list(noted.before), "returned": list(noted.returned)})
            self._read.update(dict.fromkeys(noted.before + noted.returned))

    def _gone(self, step: int, _: Any) -> None:
        self._followed.pop(step, None)

    def _returned_in(self, step: MemoryStep, agent: Any) -> list[str]:
        heard = self._now.pop(id(step), {})
        if not is_action(step):
            return list(heard)
        if isinstance(step.code_action, str):
            before = self._not_there_any_more(step.code_action) if agent is None else ()
            return self._in_code(step.code_action, heard, before, failed=step.error is not None)
        return list(dict.fromkeys([*heard, *self._in_calls(step, agent)]))

    def _in_calls(self, step: MemoryStep, agent: Any) -> list[str]:
        names = [name for name, _, _ in calls_of(step)]
        if agent is not None:  # the model may ask for tools that there are not
            names = [name for name in names if name in _tools_of(agent)]
            return [name[:_NAME] for name in names if _is_foreign(name, agent)]
        return [name[:_NAME] for name in names if all(_is_foreign(name, each) for each in self._agents() or [None])]

    def _not_there_any_more(self, code: str) -> set[str]:
        """What code that another agent may have run called, and what neither it nor the code before had made."""
        self._made.update(name for names in names_in(code) for name in names.made | names.imported)
        tools = {name for agent in self._agents() for name in _tools_of(agent)}
        return set(names_called(code)) - self._made - tools - PYTHON_TOOLS - MEMORY_TOOLS - _OWN

    def _in_code(self, code: str, heard: dict[str, None], before: Iterable[str], *, failed: bool) -> list[str]:
        """The tools that code names, those whose text is in the variables that it names, and those that were heard."""
        tools = {name: tool for agent in self._agents() for name, tool in _tools_of(agent).items()}
        foreign = {*before, *(name for name, tool in tools.items() if not _is_ours(name, tool))}
        if not self._agents():  # nobody knows which tools there were: whatever the code did not make itself
            every = names_in(code)
            self._made.update(name for names in every for name in names.made | names.imported)
            foreign = {name for names in every for name in names.read} - self._made - _BUILTINS - MEMORY_TOOLS - _OWN
        if not heard and code.isascii() and not any(name in code for name in (*foreign, *self._held)):
            return []  # other letters may be ways to write these
        found = dict(heard)
        for names in names_in(code):
            theirs = dict.fromkeys(sorted(names.read & foreign))
            for name in names.read & self._held.keys():
                theirs.update(self._held[name])
            if theirs:
                for name in ((names.read - _BUILTINS) | names.made) - tools.keys():
                    self._held.setdefault(name, {}).update(theirs)
            elif not failed:
                for name in names.replaced:
                    self._held.pop(name, None)
            found.update(theirs)
        if heard.keys() - foreign:  # what was recalled, or called by another name: any of its variables may hold it
            for names in names_in(code):
                for name in names.made - tools.keys():
                    self._held.setdefault(name, {}).update(heard)
        return list(found)


# -- whose call this is --------------------------------------------------------------------------------------------


def begin(listener: Listener, call: ToolCall) -> None:
    """What this thread does from now on is done by a tool that an agent called."""
    _stack().append((listener, call))


def end(listener: Listener, call: ToolCall) -> None:
    """It is no more."""
    _here.stack = [each for each in _stack() if each[0] is not listener or each[1] is not call]


def calling(place: Any) -> Listener | None:
    """Who listens to the agent that is just calling the tool of ours that is bound to this; None: nobody does."""
    if not _stack():
        return None
    listener, call = _stack()[-1]
    return listener if getattr(_tools_of(call.agent).get(call.name), "place", None) is place else None


def listening_outside(listener: Listener) -> Listener | None:
    """Who listens to the agent that has called the one that this listener hears, if another one does."""
    return next((each for each, _ in reversed(_stack()) if each is not listener), None)


def asks(listener: Listener | None, agent: Any) -> bool:
    """Whether an agent that this one listens to calls `agent` itself, or a tool that does; not by way of another."""
    call = next((call for each, call in reversed(_stack()) if each is listener), None)
    if call is None:
        return False
    called = _tools_of(call.agent).get(call.name)
    return called is agent or not hasattr(called, "memory")


def _stack() -> list[tuple[Listener, ToolCall]]:
    stack: list[tuple[Listener, ToolCall]] = vars(_here).setdefault("stack", [])
    return stack


def _innermost() -> ToolCall | None:
    return _stack()[-1][1] if _stack() else None


def _tools_of(agent: Any) -> dict[str, Any]:
    return {**(getattr(agent, "tools", None) or {}), **(getattr(agent, "managed_agents", None) or {})}


def _is_foreign(name: str, agent: Any) -> bool:
    return not _is_ours(name, _tools_of(agent).get(name))


def _is_ours(name: str, tool: Any) -> bool:
    """Whether a tool returns nobody's text; one of ours that is not known as an object goes by its name."""
    if name in _OWN:
        return True
    made_of = (tool, getattr(tool, "place", None))  # a tool that was saved and loaded is of another module
    ours = tool is None or any(type(each).__module__.startswith("smolagents_memory.") for each in made_of)
    return name in MEMORY_TOOLS and ours
