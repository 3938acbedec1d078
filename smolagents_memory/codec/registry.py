"""Which classes may come back from data: a list that only living code can add to, never a file."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._brief import brief


@dataclass(frozen=True)
class Registered:
    """A class that a user made known, and how its instances become data and come back."""

    cls: type
    name: str
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]
    by_attributes: bool = False  # nothing looks at what it is brought back from


def class_name(cls: type) -> str:
    """The name under which a class is kept in a record."""
    return f"{cls.__module__}:{cls.__qualname__}"


class Registry:
    """The classes known in this process.

    `values` and `steps` are what users registered. `met` holds classes of which an instance was encoded here: they
    may come back in this process; in another one they come back only when they are registered there.
    """

    def __init__(self) -> None:
        self.values: dict[type, Registered] = {}
        self.steps: dict[str, type[MemoryStep]] = {}
        self._by_name: dict[str, Registered] = {}
        self._met: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def add_value(self, registered: Registered) -> None:
        with self._lock:
            other = self._by_name.get(registered.name)
            if other is not None and class_name(other.cls) != class_name(registered.cls):
                raise ValueError(f"{registered.name!r} is already the name of {class_name(other.cls)}")
            self.values[registered.cls] = registered
            self._by_name[registered.name] = registered

    def value_named(self, name: str) -> Registered | None:
        return self._by_name.get(name)

    def meet(self, cls: type) -> str:
        """The name of a class whose instance is being encoded; it is remembered as long as the class lives."""
        name = class_name(cls)
        self._met[name] = cls
        return name

    def known_class(self, name: str) -> type | None:
        """The class of that name, if living code has made it known."""
        registered = self._by_name.get(name)
        return registered.cls if registered else self.steps.get(name) or self._met.get(name)


registry = Registry()


def register_value(
    cls: type,
    to_data: Callable[[Any], Any] | None = None,
    from_data: Callable[[Any], Any] | None = None,
    *,
    name: str | None = None,
) -> type:
    """Let instances of `cls` be kept in steps, state and sessions, and come back as instances of `cls`.

    Without functions, dataclasses, enums and pydantic models are kept by their fields, other classes by their
    attributes; `__init__` does not run when they come back. `name` is what records call the class: give one if it
    may move to another module. Can be used as a decorator.

    >>> from smolagents_memory import decode_value, encode_value, register_value
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> _ = register_value(Celsius, lambda value: value.degrees, Celsius, name="Celsius")
    >>> decode_value(encode_value(Celsius(21.5))).degrees
    21.5
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_value takes a class, not {brief(cls)}")
    if (to_data is None) != (from_data is None):
        raise TypeError("give both to_data and from_data, or neither")
    if to_data is None or from_data is None:
        to_data, from_data = _default_functions(cls)
    registry.add_value(Registered(cls, name or class_name(cls), to_data, from_data, to_data is attributes))
    return cls


def register_step(cls: type[MemoryStep], *, name: str | None = None) -> type[MemoryStep]:
    """Let steps of a class of your own come back as that class. Can be used as a decorator.

    >>> from dataclasses import dataclass
    >>> from smolagents.memory import TaskStep
    >>> from smolagents_memory import register_step
    >>> @register_step
    ... @dataclass
    ... class TicketStep(TaskStep):
    ...     ticket: int = 0
    """
    if not (isinstance(cls, type) and issubclass(cls, MemoryStep)):
        raise TypeError(f"register_step takes a subclass of smolagents' MemoryStep, not {brief(cls)}")
    registry.steps[name or class_name(cls)] = cls
    return cls


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds: its dataclass fields, in order, then whatever else was set on it."""
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    return {name: getattr(value, name) for name in names if hasattr(value, name)} | getattr(value, "__dict__", {})


def _default_functions(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if issubclass(cls, Enum):
        return (lambda value: value.name), (lambda data: cls[data])
    if hasattr(cls, "model_dump") and hasattr(cls, "model_validate"):  # pydantic
        return (lambda value: value.model_dump()), cls.model_validate

    def rebuild(data: Any) -> Any:
        if type(data) is not dict:  # of nothing else is anything asked
            raise TypeError(f"the attributes of a {cls.__name__} are a dict, not a {type(data).__name__}")
        value = cls.__new__(cls)
        for key, item in data.items():
            object.__setattr__(value, key, item)
        return value

    return attributes, rebuild
