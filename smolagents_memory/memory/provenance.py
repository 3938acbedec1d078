"""What an agent had read when it wrote: the tools that returned it, noted on each step while the run goes on.

What a tool returned is in the prompt of every step after it, and in the variables that code put it into. So each step
is marked with the tools whose text the model had read before it wrote, and with those whose text came back in it; a
mark with none says that somebody looked.
"""

from __future__ import annotations

import builtins
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from smolagents import FinalAnswerTool, PythonInterpreterTool
from smolagents.memory import MemoryStep

from smolagents_memory._listener import Listener, ToolCall
from smolagents_memory.memory.holding import Holding
from smolagents_memory.memory.items import Memory
from smolagents_memory.steps.calls import CODE, calls_of
from smolagents_memory.steps.code_names import names_in
from smolagents_memory.steps.kinds import is_action, is_final, is_prompt, is_task
from smolagents_memory.steps.marks import mark_of, set_mark
from smolagents_memory.stores.records import UNCONFIRMED
from smolagents_memory.upstream import PYTHON_TOOLS, namespace_of


MEMORY_TOOLS = frozenset({"recall", "remember", "forget", "original_step"})
SOMEBODY = "somebody"  # in the place of a tool's name: nobody saw what was read when it was written
_MARK = "read"
_ANSWER = "final_answer"
_REACHING = {"eval", "exec", "globals", "locals", "vars"}  # what reads variables that it does not name
_OURS = frozenset({*dir(builtins), *PYTHON_TOOLS, *MEMORY_TOOLS, _ANSWER, CODE} - _REACHING)
_VALUES = (str, int, float, bool, type(None))
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
        self._names = Holding()
        self._sent: dict[str, dict[str, None]] = {}  # what runs are given as variables → the tools whose text it holds
        self._number = 0  # of the newest action of the last task
        self._followed: dict[int, weakref.ref[Any]] = {}
        self.memories: dict[str, None] = {}  # keys of what was recalled

    def reset(self) -> None:
        """The prompt is empty again; variables outlive that."""
        with self._lock:
            for each in (self._read, self._now, self.memories):
                each.clear()

    def have_read(self, during: ToolCall | None = None) -> list[str]:
        """The tools whose text is in what is written now; `during` a call, also in what its code names."""
        with self._lock:
            named = self._named_by(during) if during is not None else []
            return list(
                dict.fromkeys([*self._read, *(name for names in self._now.values() for name in names), *named])
            )

    def _named_by(self, call: ToolCall) -> list[str]:
        if call.step is None:
            return self._names.tools
        if isinstance(getattr(call.step, "code_action", None), str):
            return self._in_code(self._names.copy(), call.step.code_action, (), here=True, surely=False)
        return self._names.held_by(_texts(call.arguments))

    def sends(self, agent: Any, tools: Iterable[str] = (), *, anew: bool = False) -> None:
        """Runs give an agent's code what is in its state, with text of these tools; `anew` one that begins does so."""
        with self._lock:
            for name, value in dict(getattr(agent, "state", None) or {}).items():
                whose = self._sent.setdefault(name, {})
                whose.update(dict.fromkeys(tools))
                self._names.sent(name, whose, is_a_value=anew and isinstance(value, _VALUES))

    def take_stock(self, agent: Any) -> None:
        """What an agent's code finds, and no run has sent and no step here has told of, is somebody's."""
        with self._lock:
            strangers = self._names.unknown(_bound_in(agent))
            if strangers:
                self._names.came([SOMEBODY], strangers)

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
            if known is None or known() is not step:
                self._mark(step, agent, given=given)  # what fails there is not learnt from
                self._followed[id(step)] = weakref.ref(step, functools.partial(self._gone, id(step)))
            noted = read_of(step)
            self._read.update(dict.fromkeys(noted.before + noted.returned))

    def _gone(self, step: int, _: Any) -> None:
        self._followed.pop(step, None)

    def _mark(self, step: MemoryStep, agent: Any, *, given: bool) -> None:
        noted, looked_at = read_of(step), mark_of(step, _MARK) is not None
        returned = tuple(dict.fromkeys([*noted.returned, *self._returned_in(step, agent, looked_at=looked_at)]))
        before = noted.before if looked_at else () if is_task(step) and not given else tuple(self._read)
        if Read(before, returned) != noted or (is_action(step) and not looked_at):
            set_mark(step, _MARK, {"before": list(before), "returned": list(returned)})

    def _returned_in(self, step: MemoryStep, agent: Any, *, looked_at: bool) -> list[str]:
        heard = self._now.pop(id(step), {})
        if is_task(step):
            self._number = 0
        if not is_action(step):
            return list(heard)
        before, self._number = self._number, step.step_number
        if agent is None and step.step_number > before + 1:  # steps are gone
            self._names.lost_sight([SOMEBODY])
        if isinstance(step.code_action, str):
            heard = dict.fromkeys([*heard, *read_of(step).returned])
            ended = step.error is None and not step.is_final_answer and step.observations is not None
            here = agent is not None or looked_at
            surely = ended and agent is not None
            if agent is not None:
                self._note_stars(step.code_action, agent)
            return self._in_code(self._names, step.code_action, heard, here=here, surely=surely)
        return list(dict.fromkeys([*heard, *self._in_calls(step, agent)]))

    def _in_calls(self, step: MemoryStep, agent: Any) -> list[str]:
        calls = list(calls_of(step))
        held = self._names.held_by(text for _, given, _ in calls for text in _texts(given))
        names = [name for name, _, _ in calls]
        if agent is not None:  # the model may ask for tools that there are not
            names = [name for name in names if name in _tools_of(agent) and _is_foreign(name, agent)]
        else:
            names = [name for name in names if all(_is_foreign(name, each) for each in self._agents() or [None])]
        return [name[:_NAME] for name in names] + held

    def _note_stars(self, code: str, agent: Any) -> None:
        """`from … import *` does not say what it binds."""
        every = names_in(code)
        if any("*" in names.imported for names in every):
            said = {name for names in every for name in names.made}
            self._names.imports([name for name in self._names.unknown(_bound_in(agent)) if name not in said])

    def _in_code(self, names: Holding, code: str, heard: Iterable[str], *, here: bool, surely: bool) -> list[str]:
        """The tools that code names, those whose text is in the variables that it names, and those that were heard."""
        tools = {name: tool for agent in self._agents() for name, tool in _tools_of(agent).items()}
        foreign = {name for name, tool in tools.items() if not _is_ours(name, tool)}
        found = names.ran(names_in(code), foreign, _OURS | tools.keys(), heard, here=here, surely=surely)
        return [name[:_NAME] for name in found]


def _bound_in(agent: Any) -> list[str]:
    """The names that an agent's code finds, but for those of modules."""
    namespace = namespace_of(agent)
    bound = {} if namespace is None else {**namespace.bound(), **namespace.functions}
    return [name for name, value in bound.items() if not isinstance(value, ModuleType)]


def _texts(arguments: Any) -> list[str]:
    """What an agent that calls tools looks up among its variables."""
    given = arguments.values() if isinstance(arguments, dict) else [arguments]
    return [each for each in given if isinstance(each, str)]


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


def call_by(listener: Listener | None) -> ToolCall | None:
    """The call that the agent to which this one listens is just making in this thread."""
    return next((call for each, call in reversed(_stack()) if each is listener), None)


def listening_outside(listener: Listener) -> Listener | None:
    """Who listens to the agent that has called the one that this listener hears, if another one does."""
    return next((each for each, _ in reversed(_stack()) if each is not listener), None)


def asks(listener: Listener | None, agent: Any) -> bool:
    """Whether an agent that this one listens to calls `agent` itself, or a tool that does; not by way of another."""
    call = call_by(listener)
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
    if name == _ANSWER:  # smolagents' own, loaded from a file perhaps: it returns what it is given
        return tool is None or _code_of(tool) == FinalAnswerTool.forward.__code__.co_code
    if name == CODE:
        return tool is None or isinstance(tool, PythonInterpreterTool)
    made_of = (tool, getattr(tool, "place", None))  # a tool that was saved and loaded is of another module
    ours = tool is None or any(type(each).__module__.startswith("smolagents_memory.") for each in made_of)
    return name in MEMORY_TOOLS and ours


def _code_of(tool: Any) -> bytes | None:
    forward = getattr(type(tool), "forward", None)
    return getattr(getattr(forward, "__code__", None), "co_code", None)
