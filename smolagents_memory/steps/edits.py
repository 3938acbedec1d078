"""Finding what was edited in place inside a step, by identity, two levels deep, without rendering anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_
from typing import Any

from smolagents.memory import MemoryStep


class _Slots:
    """The values of an object whose attributes are not in a `__dict__`, readable again and again."""

    def __init__(self, owner: Any, names: tuple[str, ...]) -> None:
        self.owner, self.names = owner, names

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self.owner, name, None) for name in self.names)


class Snapshot:
    """How a step was when it was last looked at.

    It keeps live views of the step's containers and the values they held: the same views, read again, must give
    the very same objects. The values are held, not only their ids, so that an id cannot come back in disguise.
    """

    __slots__ = ("_inputs", "_inputs_held", "_inputs_length", "_values", "_views", "inputs_edited", "step")

    def __init__(self, step: MemoryStep) -> None:
        self.step = step
        self.inputs_edited = False
        self._views: list[Iterable[Any]] = []
        self._values: tuple[Any, ...] = ()
        self._inputs: Any = None
        self._inputs_held: tuple[Any, ...] | None = None
        self._inputs_length = 0
        self.take()

    def take(self) -> None:
        """Look at the step anew."""
        self._views = list(_views(self.step))
        self._values = tuple(chain.from_iterable(self._views))
        inputs = getattr(self.step, "model_input_messages", None)
        self._inputs = inputs if isinstance(inputs, list) else None
        self._inputs_length = len(self._inputs or ())
        # a list that was never looked into since loading has no objects yet that anyone could have edited
        idle = getattr(inputs, "untouched", False)
        self._inputs_held = None if self._inputs is None or idle else tuple(self._inputs)

    def differs(self, *, thorough: bool = False) -> bool:
        """Whether the step was edited since; `inputs_edited` then says whether its input messages were.

        `thorough` also reads the members of its input messages where nothing else was edited.
        """
        if self._same_values():
            if self._inputs is None or (len(self._inputs) == self._inputs_length and not thorough):
                return False
            self.inputs_edited = not self._same_inputs()
            return self.inputs_edited
        self.inputs_edited = not self._same_inputs()
        return True

    def _same_values(self) -> bool:
        try:
            now = tuple(chain.from_iterable(self._views))
        except RuntimeError:  # a dict that another thread is changing at this moment
            return False
        return len(now) == len(self._values) and all(map(is_, now, self._values))

    def _same_inputs(self) -> bool:
        inputs = self._inputs
        if getattr(self.step, "model_input_messages", None) is not inputs and inputs is not None:
            return False
        if inputs is None:
            return not isinstance(getattr(self.step, "model_input_messages", None), list)
        if getattr(inputs, "untouched", False):
            return True
        if self._inputs_held is None or len(inputs) != self._inputs_length:
            return False  # looked into since it was loaded: nobody can tell what was done there
        return all(map(is_, inputs, self._inputs_held))


def _views(step: Any) -> Iterator[Iterable[Any]]:
    """The containers of a step: its fields, what they hold, and a call's arguments."""
    fields = _own(step)
    yield fields
    for name, value in list(getattr(step, "__dict__", {}).items()):
        if name != "model_input_messages":
            yield from _inside(value)


def _inside(value: Any) -> Iterator[Iterable[Any]]:
    if value is None or isinstance(value, (str, bytes, int, float)):
        return
    if isinstance(value, dict):
        yield value.keys()
        yield value.values()
    elif isinstance(value, (list, set)):
        yield value
        for member in list(value):
            yield from _member(member)
    elif isinstance(value, tuple):
        for member in value:
            yield from _member(member)
    elif isinstance(value, BaseException):
        yield value.__dict__.values()
        yield _Slots(value, ("args",))
    elif hasattr(value, "__dataclass_fields__"):
        yield _own(value)
        for part in list(getattr(value, "__dict__", {}).values()):
            if isinstance(part, (list, dict)):
                yield from _inside(part)


def _member(member: Any) -> Iterator[Iterable[Any]]:
    """A member of a list: a part of a message, a tool call with its arguments."""
    if isinstance(member, dict):
        yield member.keys()
        yield member.values()
    elif isinstance(member, list):
        yield member
    elif hasattr(member, "__dataclass_fields__"):
        yield _own(member)
        arguments = getattr(member, "arguments", None)
        function = getattr(member, "function", None)
        if function is not None and hasattr(function, "__dict__"):
            yield function.__dict__.values()
            arguments = getattr(function, "arguments", None)
        if isinstance(arguments, dict):
            yield arguments.keys()
            yield arguments.values()
        elif isinstance(arguments, list):
            yield arguments


def _own(value: Any) -> Iterable[Any]:
    attributes = getattr(value, "__dict__", None)
    if attributes is not None:
        values: Iterable[Any] = attributes.values()
        return values
    return _Slots(value, tuple(getattr(value, "__dataclass_fields__", ())))
