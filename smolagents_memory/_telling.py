"""Telling listeners of one agent: who hears what, when a run begins and ends, and calls that they may answer.

Where in smolagents these things happen is written in `upstream`.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    agglomerate_stream_deltas,
)

from smolagents_memory._forks import Lock
from smolagents_memory._listener import ANSWERED, FAILED, INTERRUPTED, Call, Listener, ModelCall, Run, ToolCall
from smolagents_memory._log import logger


RUNS = {"run_announced", "run_begins", "run_overtaken", "run_ends"}
MODEL_CALLS = {"model_call_begins", "model_call_ends"}
TOOL_CALLS = {"tool_call_begins", "tool_call_ends"}
CALLBACKS = {"before_callbacks", "after_callbacks"}
_EVENTS = {*RUNS, *MODEL_CALLS, *TOOL_CALLS, *CALLBACKS, "action_begins", "memory_replaced"}


@dataclass(eq=False)
class Action:
    """A step that is being made: what its model asked for, which of it was called, how many calls code made."""

    step: Any
    asked: list[Any] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    count: Iterator[int] = field(default_factory=itertools.count)


class Telling:
    """Tells of one agent, and puts on it what is needed for that; taken off, the agent is as it was.

    What somebody else has put round ours stays: ours is then left where it is, and passes everything through.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.stepped: Run | None = None  # the open run whose steps no loop of smolagents' makes
        self.heard: dict[str, list[Listener]] = {}
        self._listeners: list[Listener] = []
        self._failed: set[tuple[int, str]] = set()
        self._put: dict[str, tuple[Any, Any]] = {}  # by attribute: ours, and what the agent itself had there
        self._here = threading.local()
        self._actions: list[Action] = []
        self._busy: list[tuple[int, int]] = []  # who is within a run now: processes, forked ones too, and threads
        self._line: list[weakref.ref[Run]] = []  # runs of which none is within another, in the order of their coming
        self._places, self._reset_by = itertools.count(1), 0  # in that line; the last that took all steps off
        self._lock = Lock()

    def listen(self, listener: Listener) -> None:
        """Tell this one, too."""
        self._listeners.append(listener)
        self._sort()

    def leave(self, listener: Listener) -> bool:
        """Tell this one no more; whether it was the last, and everything was taken off."""
        if listener not in self._listeners:
            return False
        self._listeners.remove(listener)
        self._sort()
        if not self._listeners:
            bare = self.taken_off(vars(self.agent))
            for name in self._put.keys() - bare.keys():
                vars(self.agent).pop(name, None)
            vars(self.agent).update({name: bare[name] for name in self._put.keys() & bare.keys()})
        return not self._listeners

    def taken_off(self, held: dict[str, Any]) -> dict[str, Any]:
        """The attributes of the agent without what was put there, in its stead what the agent itself had."""
        ours = {name: before for name, (ours, before) in self._put.items() if held.get(name) is ours}
        bare = {name: value for name, value in held.items() if name not in ours}
        return {**bare, **{name: before for name, before in ours.items() if before is not None}}

    def _sort(self) -> None:
        def hears(listener: Listener, event: str) -> bool:
            return getattr(type(listener), event) is not getattr(Listener, event)

        heard = {event: [each for each in self._listeners if hears(each, event)] for event in _EVENTS}
        self.heard = {event: listeners for event, listeners in heard.items() if listeners}

    @property
    def listeners(self) -> list[Listener]:
        """Who is told."""
        return list(self._listeners)

    def hears(self, *kinds: set[str]) -> bool:
        """Whether anybody hears one of these."""
        return any(self.heard.keys() & kind for kind in kinds)

    def put(self, name: str, ours: Any) -> None:
        """Put something in the place of an attribute of the agent."""
        if name not in self._put:
            self._put[name] = (ours, vars(self.agent).get(name))
            vars(self.agent)[name] = ours

    def wrap(self, name: str, wrapper: Callable[..., Any]) -> None:
        """Put `wrapper(method, …)` in the place of the agent's method, if it has one."""
        if name not in self._put and hasattr(self.agent, name):
            method = getattr(self.agent, name)
            self.put(name, functools.wraps(method)(functools.partial(wrapper, method)))

    def tell(self, event: str, *what: Any) -> None:
        """Tell an event to all who hear it."""
        for listener in self.heard.get(event, ()):
            self._tell(listener, event, *what)

    def _tell(self, listener: Listener, event: str, *what: Any) -> None:
        try:
            getattr(listener, event)(*what)
        except Exception:
            if (id(listener), event) not in self._failed:
                self._failed.add((id(listener), event))
                logger.exception("%s failed at %s; the run goes on", type(listener).__name__, event)

    def tell_open_run(self, listener: Listener) -> None:
        """Tell one who comes late of the run that goes on, if any does."""
        runs = [run for each in self._line if (run := each()) is not None and run.begun and run.outcome is None]
        if runs and not self.is_overtaken(runs[-1]):
            self._tell(listener, "run_begins", runs[-1])

    # -- what happens now --------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, **here: Any) -> Iterator[None]:
        """What this thread does meanwhile belongs to a run, or to a step of it."""
        before = vars(self._here).copy()
        vars(self._here).update(here)
        try:
            yield
        finally:
            vars(self._here).clear()
            vars(self._here).update(before)

    def now(self, what: str) -> Any:
        """To which one it belongs, if to any."""
        return vars(self._here).get(what)

    def note(self, what: str, value: Any) -> None:
        """Keep something in mind as long as this goes on."""
        vars(self._here)[what] = value

    def announce(self, run: Run) -> None:
        """A run is about to begin; raises where a listener refuses it."""
        if run.announced or not self._listeners:
            return
        if self.stepped is not None and self.stepped is not run and not self._is_busy_elsewhere():
            self.end(self.stepped)  # it was left in the middle
        with self._lock:
            run.beside = self._is_busy_elsewhere()
            if not any(
                process == os.getpid() for process, _ in self._busy
            ):  # else it is within that, or let beside it
                open_ones = [each for each in self._line if (known := each()) is not None and known.outcome is None]
                self._line, run.place = [*open_ones, weakref.ref(run)], next(self._places)
        run.announced = True
        self.tell("run_announced", run)
        if run.refusal is not None:
            self.end(run, run.refusal)
            raise run.refusal
        if run.reset and not run.goes_on:
            self._reset_by = max(self._reset_by, run.place)

    def _is_busy_elsewhere(self) -> bool:
        here = os.getpid(), threading.get_ident()
        return any(there[0] == here[0] and there != here for there in self._busy)

    def is_overtaken(self, run: Run) -> bool:
        """Whether another one has begun since, between two of its steps, and is not over or took all steps off."""
        newer = [known for each in self._line if (known := each()) is not None and known.place > run.place]
        return run.place > 0 and (self._reset_by > run.place or any(each.outcome is None for each in newer))

    def still_its_turn(self, run: Run) -> None:
        """It is about to go on; raises where another one has overtaken it and a listener does not want both."""
        if self.is_overtaken(run):
            self.tell("run_overtaken", run)
            if run.refusal is not None:
                raise run.refusal

    @contextmanager
    def busy(self, run: Run | None = None) -> Iterator[None]:
        """This thread is within a run meanwhile; within this one, if it is still its turn."""
        here = os.getpid(), threading.get_ident()
        with self._lock:
            self._busy.append(here)  # from now on nobody can overtake it
        try:
            if run is not None:
                self.still_its_turn(run)
            yield
        finally:
            self._busy.remove(here)

    def begin(self, run: Run, task: Any) -> None:
        """Its task is in memory."""
        if run.begun or not self._listeners:
            return
        self.announce(run)
        run.begun, run.begun_with = True, task
        self.stepped = run if run.stepwise else self.stepped
        self.tell("run_begins", run)

    def answer(self, run: Run, answer: Any) -> None:
        """It has its answer, unless it is over already."""
        if run.outcome is None:
            run.outcome, run.answer = ANSWERED, answer
            self._over(run)

    def end(self, run: Run, error: BaseException | None = None) -> None:
        """It has none, unless it is over already."""
        if run.outcome is None:
            run.outcome = INTERRUPTED if error is None or self.is_interrupt(error) else FAILED
            run.error = None if isinstance(error, GeneratorExit) else error
            self._over(run)

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether this is somebody's wish to stop."""
        return not isinstance(error, Exception)

    def _over(self, run: Run) -> None:
        self.stepped = None if self.stepped is run else self.stepped
        run.overtaken = self.is_overtaken(run)
        if run.announced:
            self.tell("run_ends", run)

    # -- a step and its calls ----------------------------------------------------------------------------------

    @contextmanager
    def acting(self, step: Any) -> Iterator[Action]:
        """A step is made meanwhile."""
        action = Action(step)
        self._actions.append(action)
        try:
            yield action
        finally:
            self._actions.remove(action)

    def asked(self, action: Action, call: Any) -> None:
        """The step's model has asked for a call, or for code to be run; all that it asks for is known before any."""
        action.asked.append(call)
        if len(action.asked) == 1:
            self.tell("action_begins", self.agent, action.step)

    def asked_call(self, name: str, arguments: Any, do: Callable[[], Any]) -> Any:
        """A tool is called as the model asked for."""
        call = ToolCall(self.agent, None, name=name, arguments=arguments)
        with self._lock:  # calls are made in parallel, and only what they were asked with tells which is which
            self._find_place(call)
        return self.carried_out("tool_call", call, do)

    def _find_place(self, call: ToolCall) -> None:
        for action in self._actions:
            for at, asked in enumerate(action.asked):
                same = asked.arguments is call.arguments or not (asked.arguments or call.arguments)
                if same and asked.name == call.name and at not in action.taken:
                    action.taken.add(at)
                    call.step, call.position, call.id = action.step, at, asked.id
                    return

    def code_call(self, name: str, tool: Any, *args: Any, **options: Any) -> Any:
        """Code calls a tool."""
        names = dict(enumerate(getattr(tool, "inputs", ())))
        given = {names.get(at, str(at)): argument for at, argument in enumerate(args)}
        call = ToolCall(self.agent, None, name=name, arguments={**given, **options})
        if self._actions:  # code runs in a thread of its own: the newest step is as near as one gets
            call.step, call.position = self._actions[-1].step, next(self._actions[-1].count)
        return self.carried_out("tool_call", call, lambda: tool(*args, **options))

    def generate(self, model: Any, messages: list[Any], *args: Any, **options: Any) -> Any:
        """The model is asked."""
        call = self._model_call(messages, options)
        return self.carried_out("model_call", call, lambda: model.generate(call.messages, *args, **options))

    def generate_stream(self, model: Any, messages: list[Any], *args: Any, **options: Any) -> Iterator[Any]:
        """The model is asked and answers piece by piece."""
        call = self._model_call(messages, options)
        return self.streamed(call, lambda: model.generate_stream(call.messages, *args, **options))

    def _model_call(self, messages: list[Any], options: dict[str, Any]) -> ModelCall:
        written = self.now("written")
        self.note("written", None)
        step = getattr(self.now("action"), "step", None)
        return ModelCall(self.agent, step, messages=messages, options=options, written=written)

    def carried_out(self, kind: str, call: Call, do: Callable[[], Any]) -> Any:
        """Tell of a call, and make it unless a listener answers it."""
        with self._telling_of(kind, call):
            if not call.answered:
                call.result = do()
        return call.result

    def streamed(self, call: ModelCall, do: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """The same for a model that answers piece by piece."""
        with self._telling_of("model_call", call):
            if not call.answered:
                pieces = []
                for piece in do():
                    pieces.append(piece)
                    yield piece
                call.result = agglomerate_stream_deltas(pieces)
        if call.answered:
            yield _as_one_piece(call.result)

    @contextmanager
    def _telling_of(self, kind: str, call: Call) -> Iterator[None]:
        call.started = time.time()
        self.tell(f"{kind}_begins", call)
        try:
            yield
        except BaseException as error:  # noqa: BLE001 — raised at the end, unless somebody has an answer
            call.error = error
        call.ended = time.time()
        self.tell(f"{kind}_ends", call)
        if call.error is not None:
            raise call.error


def _as_one_piece(message: ChatMessage) -> ChatMessageStreamDelta:
    calls = [
        ChatMessageToolCallStreamDelta(index=at, id=call.id, type=call.type, function=_written(call.function))
        for at, call in enumerate(message.tool_calls or ())
    ]
    return ChatMessageStreamDelta(content=message.content, tool_calls=calls or None, token_usage=message.token_usage)


def _written(function: ChatMessageToolCallFunction) -> ChatMessageToolCallFunction:
    """As it is streamed: with its arguments as JSON."""
    arguments = function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ChatMessageToolCallFunction(name=function.name, arguments=text)


def standing_in(thing: Any, methods: Mapping[str, Callable[..., Any]]) -> Any:
    """Somebody who is the thing itself, in class and attributes, but for these methods: they get the thing first."""
    cls = type(thing)
    if stood_for(thing) is not thing or any(vars(base).get("__slots__") for base in cls.__mro__):
        return thing
    own = {name: staticmethod(functools.partial(method, thing)) for name, method in methods.items()}
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    made: Any = object.__new__(type(cls.__name__, (cls,), {**names, **own, "_stands_for": thing}))
    made.__dict__ = vars(thing)
    return made


def stood_for(thing: Any) -> Any:
    """Whom such a one stands for; anybody else stands for himself."""
    return vars(type(thing)).get("_stands_for", thing)
