"""Finding what was edited in place inside a step, by identity, two levels deep, without rendering anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_
from typing import Any

from smolagents.memory import MemoryStep
from smolagents.models import ChatMessage


_BLOCK = 32  # steps that are looked at together
_MARK = object()


class _Slots:
    """The values of an object whose attributes are not in a `__dict__`, readable again and again."""

    def __init__(self, owner: Any, names: tuple[str, ...]) -> None:
        self.owner, self.names = owner, names

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self.owner, name, None) for name in self.names)


class _Held:
    """What some containers held when they were looked at.

    It keeps live views of them: the same views, read again, must give the very same objects. The objects are held,
    not only their ids, so that an id cannot come back in disguise.
    """

    __slots__ = ("values", "views")

    def __init__(self, containers: Iterable[Any] = ()) -> None:
        self.views = [view for container in containers for view in _read(container)]
        # the mark at the end stands beside something else as soon as there is more or less before it
        self.values = [*chain.from_iterable(self.views), _MARK]

    def extend(self, more: _Held) -> None:
        """Take in what others held."""
        self.views += more.views
        self.values[-1:] = more.values

    def same(self) -> bool:
        """Whether they hold the very same still."""
        try:
            return all(map(is_, chain.from_iterable(chain(self.views, ((_MARK,),))), self.values))
        except RuntimeError:  # a dict that another thread is changing at this moment
            return False


class Snapshot:
    """How a step was when it was last looked at."""

    __slots__ = ("_far", "_inputs_held", "inputs", "inputs_edited", "inputs_length", "near", "step")

    def __init__(self, step: MemoryStep) -> None:
        self.step = step
        self.inputs_edited = False
        self.take()

    def take(self) -> None:
        """Look at the step anew."""
        near = {id(container): container for container in (self.step, *_containers(self.step))}
        self.near = _Held(near.values())
        self._far = _Held(container for container in _far_containers(self.step) if id(container) not in near)
        inputs = getattr(self.step, "model_input_messages", None)
        self.inputs: list[Any] | None = inputs if isinstance(inputs, list) else None
        self.inputs_length = len(self.inputs or ())
        # a list that was never looked into since loading has no objects yet that anyone could have edited
        idle = getattr(inputs, "untouched", False)
        self._inputs_held = None if self.inputs is None or idle else tuple(self.inputs)

    def differs(self, *, thorough: bool = False) -> bool:
        """Whether the step was edited since; `inputs_edited` then says whether its input messages were.

        `thorough` also reads the members of its input messages where nothing else was edited, and looks into the
        calls of its output message.
        """
        same = self.near.same() and (not thorough or self._far.same())
        if same and (self.inputs is None or (len(self.inputs) == self.inputs_length and not thorough)):
            return False
        self.inputs_edited = not self._same_inputs()
        return self.inputs_edited or not same

    def _same_inputs(self) -> bool:
        now: Any = getattr(self.step, "model_input_messages", None)
        inputs = self.inputs
        if inputs is None:
            return not isinstance(now, list)
        if now is not inputs:
            return False
        if getattr(inputs, "untouched", False):
            return True
        if self._inputs_held is None or len(inputs) != self.inputs_length:
            return False  # looked into since it was loaded: nobody can tell what was done there
        return all(map(is_, inputs, self._inputs_held))


class _Block:
    """Some steps that follow each other, looked at in one go."""

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self.snapshots: list[Snapshot] = []
        self._held = _Held()
        self._inputs: list[list[Any]] = []
        self._lengths: list[int] = []
        for snapshot in snapshots:
            self.add(snapshot)

    def add(self, snapshot: Snapshot) -> None:
        """One more at the end."""
        self.snapshots.append(snapshot)
        self._held.extend(snapshot.near)
        if snapshot.inputs is not None:
            self._inputs.append(snapshot.inputs)
            self._lengths.append(snapshot.inputs_length)

    def same(self) -> bool:
        """Whether nothing at all changed in these steps."""
        return self._held.same() and list(map(len, self._inputs)) == self._lengths


class Snapshots:
    """The snapshots of a list of steps, in blocks: most of the time nothing changed in any of them."""

    def __init__(self, steps: Iterable[MemoryStep]) -> None:
        self._blocks: list[_Block] = []
        self.splice(0, 0, steps)

    def splice(self, start: int, stop: int, steps: Iterable[MemoryStep]) -> None:
        """Steps were removed and added at a place in the list."""
        added = [Snapshot(step) for step in steps]
        first, begin = 0, 0
        while first < len(self._blocks) - 1 and begin + len(self._blocks[first].snapshots) < start:
            begin += len(self._blocks[first].snapshots)
            first += 1
        last, found = first, list[Snapshot]()
        while last < len(self._blocks) and (last == first or begin + len(found) < stop):
            found += self._blocks[last].snapshots
            last += 1
        if start - begin == len(found) and 0 < len(found) <= _BLOCK - len(added):
            for snapshot in added:
                self._blocks[first].add(snapshot)
            return
        found[start - begin : stop - begin] = added
        self._blocks[first:last] = [_Block(found[at : at + _BLOCK]) for at in range(0, len(found), _BLOCK)]

    def edited(self, *, thorough: bool) -> Iterator[tuple[int, Snapshot]]:
        """Those that were edited since they were last looked at, with their places."""
        begin = 0
        for at, block in enumerate(self._blocks):
            if thorough or not block.same():
                for place, snapshot in enumerate(block.snapshots, begin):
                    if snapshot.differs(thorough=thorough):
                        snapshot.take()
                        yield place, snapshot
                self._blocks[at] = _Block(block.snapshots)
            begin += len(block.snapshots)


def _read(container: Any) -> tuple[Iterable[Any], ...]:
    if isinstance(container, dict):
        return container, container.values()  # itself gives its keys
    if isinstance(container, (list, set)):
        return (container,)
    if isinstance(container, BaseException):
        return container.__dict__.values(), _Slots(container, ("args",))
    return (_own(container),)


def _containers(step: Any) -> Iterator[Any]:
    """What a step holds in its fields, two levels deep, and a call's arguments."""
    for name, value in list(getattr(step, "__dict__", {}).items()):
        if name != "model_input_messages":
            yield from _inside(value)


def _far_containers(step: Any) -> Iterator[Any]:
    """The calls in a step's output message: the model is shown the step's own calls, not these."""
    calls = getattr(getattr(step, "model_output_message", None), "tool_calls", None)
    if isinstance(calls, list):
        yield from _inside(calls)


def _inside(value: Any) -> Iterator[Any]:
    if value is None or isinstance(value, (str, bytes, int, float)):
        return
    if isinstance(value, (dict, BaseException)):
        yield value
    elif isinstance(value, (list, set, tuple)):
        if not isinstance(value, tuple):
            yield value
        for member in list(value):
            yield from _member(member)
    elif hasattr(value, "__dataclass_fields__"):
        yield value
        for name, part in list(getattr(value, "__dict__", {}).items()):
            if isinstance(part, (list, dict)) and not (name == "tool_calls" and isinstance(value, ChatMessage)):
                yield from _inside(part)


def _member(member: Any) -> Iterator[Any]:
    """A member of a list: a part of a message, a tool call with its arguments."""
    if isinstance(member, (dict, list)):
        yield member
    elif hasattr(member, "__dataclass_fields__"):
        yield member
        function = getattr(member, "function", None)
        if function is not None and hasattr(function, "__dict__"):
            yield function
        arguments = getattr(function or member, "arguments", None)
        if isinstance(arguments, (dict, list)):
            yield arguments


def _own(value: Any) -> Iterable[Any]:
    attributes = getattr(value, "__dict__", None)
    if attributes is not None:
        values: Iterable[Any] = attributes.values()
        return values
    return _Slots(value, tuple(getattr(value, "__dataclass_fields__", ())))
