"""TypedMemory: one value of your own type that threads, agents and sessions share."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin

from smolagents_memory._events import Events, Listener


if TYPE_CHECKING:
    from pydantic import TypeAdapter


T = TypeVar("T")

STATE_CHANGED = "state_changed"


class TypedMemory(Generic[T]):
    """A dataclass, dict, list, pydantic model or plain value that many may read and change at once.

    What `get` hands out and `set` takes in are copies: nobody can change the value behind the lock's back.
    `update` is atomic: whatever its function reads and writes, no other change comes in between.

    Event (see `on`): `state_changed` with `value` (a snapshot, shared by the listeners) and `revision`. It is told
    after the change, outside the lock, in the order of the changes. A listener that fails is logged and stops
    nobody; one that changes the memory does not hear of its own change, the others do.

    Args:
        initial: The value to begin with. Its type is the type of the memory; for more exact checks when data is
            restored or written by an agent, name it: `TypedMemory[list[str]]([])`.
        name: How a session and the agent's tool call it.

    >>> counts: TypedMemory[dict[str, int]] = TypedMemory({"visits": 0})
    >>> off = counts.on("state_changed", lambda event: print(event.revision, event.value))
    >>> counts.update(lambda c: c.update(visits=c["visits"] + 1))
    1 {'visits': 1}
    {'visits': 1}
    >>> counts.get()
    {'visits': 1}
    """

    def __init__(self, initial: T, *, name: str = "state") -> None:
        self.name = name
        self.events = Events(echo=False)
        self._lock = threading.RLock()
        self._updating = False
        self._value = copy.deepcopy(initial)
        self._revision = 0
        self._initial_type: type[Any] = type(initial)

    # -- reading and writing -----------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """How many changes there have been."""
        return self._revision

    def get(self) -> T:
        """A snapshot: changing it changes nothing here."""
        value = self._value  # it is only ever replaced, never changed, so it can be copied without the lock
        return copy.deepcopy(value)

    def set(self, value: T) -> None:
        """Put a copy of `value` in the place of what is there."""
        self.update(lambda _: value)

    def update(self, change: Callable[[T], T | None]) -> T:
        """Change the value in one piece, and return a snapshot of the new one.

        `change` gets a copy that it may alter in place, returning None, or it returns the new value. If it raises,
        or if what it returns is of another type, nothing has changed.
        """
        with self._lock:
            if self._updating:
                raise RuntimeError(
                    f"update() of {self.name!r} was called inside update() of the same memory; the outer one would "
                    "undo it. Make both changes in one function, or the second one afterwards."
                )
            self._updating = True
            try:
                working = copy.deepcopy(self._value)
                returned = change(working)
            finally:
                self._updating = False
            new = working if returned is None else returned
            self._check(new)
            self._value = copy.deepcopy(new)
            self._revision += 1
            if self.events.has_listeners(STATE_CHANGED):
                self.events.post(STATE_CHANGED, self, value=copy.deepcopy(new), revision=self._revision)
        self.events.deliver()
        return new

    get_memory = get
    set_memory = set

    def _check(self, value: object) -> None:
        named = get_origin(self._type) or self._type
        expected = named if isinstance(named, type) else self._initial_type  # of `list[str]` it is lists
        structured = hasattr(expected, "__dataclass_fields__") or hasattr(expected, "model_fields")
        if (structured or issubclass(expected, (dict, list, set, tuple))) and not isinstance(value, expected):
            raise TypeError(
                f"{self.name!r} holds a {expected.__name__}, not a {type(value).__name__}; it was left as it was. "
                "A function given to update() returns the new value, or None when it altered its argument."
            )

    # -- listening ---------------------------------------------------------------------------------------------

    def on(self, event: str, fn: Listener, *, weak: bool = False) -> Callable[[], None]:
        """Call `fn(event)` whenever `event` happens ("*" for all); returns a function that ends it."""
        return self.events.on(event, fn, weak=weak)

    def add_memory_hook(self, hook: Callable[[TypedMemory[T], T], object]) -> Callable[[], None]:
        """Call `hook(memory, value)` after every change; returns a function that ends it."""

        return self.on(STATE_CHANGED, lambda event: hook(self, copy.deepcopy(event.value)))

    # -- as data -----------------------------------------------------------------------------------------------

    def dump(self) -> Any:
        """The value as plain data: dataclasses and pydantic models become dicts, what is in them stays as it is."""
        return self._adapter().dump_python(self.get(), mode="python")

    def restore(self, data: Any) -> T:
        """Put back what `dump` gave. Raises ValueError, and changes nothing, when it does not fit the type."""
        self.set(self.fitted(data))
        return self.get()

    def fitted(self, data: Any) -> T:
        """What `restore` would make of data. Raises ValueError when it does not fit the type."""
        return self._adapter().validate_python(data)

    def merge(self, changes: Mapping[str, Any]) -> T:
        """Set some fields, checked against the type; one that the type does not have is an error."""

        def merged(value: T) -> T:
            adapter = self._adapter()
            before = adapter.dump_python(value, mode="python")
            if not isinstance(before, dict):
                raise TypeError(f"{self.name!r} holds a {type(value).__name__}, which has no fields; use set()")
            unknown = set(changes) - set(before)
            if unknown and not isinstance(value, dict):
                raise ValueError(f"{self.name!r} has no {sorted(unknown)}; its fields are {sorted(before)}")
            return adapter.validate_python({**before, **changes})

        return self.update(merged)

    @property
    def _type(self) -> Any:
        """The type that was named (`TypedMemory[list[str]](…)`, or by a subclass), else that of the first value."""
        for named in (getattr(self, "__orig_class__", None), *getattr(type(self), "__orig_bases__", ())):
            origin = get_origin(named)
            if isinstance(origin, type) and issubclass(origin, TypedMemory):
                (argument,) = get_args(named)
                if not isinstance(argument, TypeVar):
                    return argument
        return self._initial_type

    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import TypeAdapter

        return TypeAdapter(self._type)

    def __repr__(self) -> str:
        return f"TypedMemory({self.get()!r}, name={self.name!r}, revision={self.revision})"
