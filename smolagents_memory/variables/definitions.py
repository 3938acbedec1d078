"""The functions and classes of an agent's code: what each was made from, and what classes hold beside their methods.

smolagents' local executor keeps the source of functions; that of classes is looked up in the code actions. What comes
back is the bare definition: values in a class body and the defaults of dataclasses come back as data, decorators were
never applied (the executor ignores them), so nothing of the agent's is run again.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterable
from enum import Enum
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

from smolagents_memory.codec.scrubbing import WITHHELD
from smolagents_memory.privacy.scrubbers import Scrubber
from smolagents_memory.upstream import is_class_of_code, made_by_code, source_of
from smolagents_memory.variables.allowed import Refused, bare, is_dunder
from smolagents_memory.variables.sources import top_level


NO_SOURCE = "its source could not be found"
# those of `dataclass` that every supported Python has; with slots it makes another class
_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only")


@dataclasses.dataclass
class Definition:
    """One function or class that the agent's code defined."""

    number: int
    kind: str  # function, class, namedtuple
    made: Any
    source: str = ""
    why: str = ""  # it cannot be brought back
    inner: bool = False  # a function made inside another one
    bases: tuple[Any, ...] = ()
    methods: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.made.__name__)

    def take(self, source: str | None, scrubber: Scrubber | None = None) -> None:
        """This is what it was made from."""
        try:
            if source is None:
                raise Refused(NO_SOURCE)
            if scrubber is not None and scrubber.text(source) != source:
                raise Refused(WITHHELD)
            self.source = bare(source, keep_values=self.kind == "class" and issubclass(self.made, Enum))
        except Refused as refused:
            self.why = str(refused)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        record: dict[str, Any] = {"kind": self.kind, "name": self.name}
        if self.kind == "namedtuple":
            return {**record, "fields": list(self.made._fields)}
        options = vars(self.made).get("__dataclass_params__")
        if options is not None:
            record["dataclass"] = {each: getattr(options, each) for each in _OPTIONS if hasattr(options, each)}
        return {**record, "source": self.source}

    def attributes(self) -> dict[str, Any]:
        """What a class holds beside its methods, as it is now."""
        if self.kind == "namedtuple":
            return dict(self.made._field_defaults)
        if self.kind == "function" or issubclass(self.made, Enum):
            return {}
        return {
            name: value
            for name, value in vars(self.made).items()
            if not is_dunder(name)
            and name != "_abc_impl"
            and not isinstance(value, (GetSetDescriptorType, MemberDescriptorType))
            and not (name in self.methods and source_of(value) == self.methods[name])
        }


class Definitions:
    """Everything that one agent's code defined, as long as something still uses it."""

    scrubber: Scrubber | None = None  # a source in which it finds something is not kept

    def __init__(self) -> None:
        self._known: dict[int, Definition] = {}
        self._methods: dict[int, Any] = {}  # the executor lists them among the functions for ever
        self._numbers = itertools.count(1)
        self._home: Any = None
        self._codes: Iterable[str] = ()
        self._classes: list[ast.ClassDef] | None = None  # in the codes, newest first

    def look_at(self, home: dict[str, Any], codes: Iterable[str]) -> None:
        """From now on `home` are the variables, and `codes` the code actions that may hold sources, newest first."""
        self._home, self._codes, self._classes = home, codes, None
        for value in list(home.values()):
            # classes with a metaclass bear its module's name: only their source tells that they are the agent's
            kind = type(value)  # never `isinstance`: it asks the object, and an object may do anything
            if kind is not type and issubclass(kind, type) and value.__module__ in ("abc", "enum"):
                self._of_class(value, certainly_own=False)

    def of(self, value: Any) -> Definition | None:
        """The definition of a function or class, or None where the agent's code did not make it."""
        known = self._known.get(id(value))
        if known is not None:
            return known
        if isinstance(value, type):
            return self._of_class(value, certainly_own=True) if is_class_of_code(value) else None
        return self._of_function(value) if isinstance(value, FunctionType) else None

    def members(self, value: Any) -> list[Any] | None:
        """What an instance of the agent's classes, or such a class, holds; None for everything else."""
        if isinstance(value, type):
            own = self.of(value)
            return None if own is None else [*own.attributes().values(), *own.bases]
        cls = type(value)
        if self.of(cls) is None:
            return None
        held = own_attributes(value) or {}
        return [*held.keys(), *held.values(), cls]

    def is_method(self, function: Any) -> bool:
        """Whether a function that the executor lists is only there because a class body defined it."""
        return id(function) in self._methods

    def needed(self, numbers: set[int]) -> list[Definition]:
        """These definitions and the bases they need, in the order in which they were made; others are forgotten.

        What is bound to a name stays known, also where it cannot be brought back.
        """
        by_number = {known.number: known for known in self._known.values()}
        pending, found = sorted(numbers), dict[int, Definition]()
        while pending:
            known = by_number[pending.pop()]
            found[known.number] = known
            pending += [base.number for base in map(self.of, known.bases) if base is not None]
        bound = set(map(id, self._home.values()))
        self._known = {place: known for place, known in self._known.items() if known.number in found or place in bound}
        return [found[number] for number in sorted(found)]

    def _add(self, kind: str, made: Any, **details: Any) -> Definition:
        known = self._known[id(made)] = Definition(next(self._numbers), kind, made, **details)
        return known

    def _of_function(self, function: Any) -> Definition | None:
        made = made_by_code(function)
        if made is None:
            return None
        known = self._add("function", function)
        if made.is_lambda:
            known.why = "a lambda cannot be brought back"
        elif made.home is not self._home:
            why = "it keeps what was around it"
            known.why = f"a function made inside another one (a closure) cannot be brought back: {why}"
            known.inner = True
        else:
            known.take(source_of(function), self.scrubber)
        return known

    def _of_class(self, cls: type, *, certainly_own: bool) -> Definition | None:
        if id(cls) in self._known:
            return self._known[id(cls)]
        if cls.__bases__ == (tuple,) and hasattr(cls, "_field_defaults"):
            return self._add("namedtuple", cls)
        text = source_of(cls) or self._class_source(cls)
        if text is None:
            return self._add("class", cls, why=NO_SOURCE) if certainly_own else None
        body = ast.parse(text).body[0].body  # type: ignore[attr-defined]
        methods = {each.name: ast.unparse(each) for each in body if isinstance(each, ast.FunctionDef)}
        made = [_unwrapped(vars(cls).get(name)) for name in methods]
        self._methods.update((id(each), each) for each in made if source_of(each) is not None)
        bases = tuple(base for base in cls.__bases__ if self.of(base) is not None)
        known = self._add("class", cls, bases=bases, methods=methods)
        known.take(text, self.scrubber)
        for base in map(self.of, bases):
            if base is not None and base.why:
                known.why = known.why or f"its base {base.name} cannot be brought back: {base.why}"
        return known

    def _class_source(self, cls: type) -> str | None:
        if self._classes is None:
            found = (each for code in self._codes for each in reversed(top_level(code)))
            self._classes = [each for each in found if isinstance(each, ast.ClassDef)]
        of_that_name = (each for each in self._classes if each.name == cls.__name__)
        return next((ast.unparse(each) for each in of_that_name if _may_have_made(each, cls)), None)


def own_attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an instance, read without running any code of its class; None where it has slots."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None


def _unwrapped(method: Any) -> Any:
    """The function itself: Python wraps some special methods on its own."""
    return getattr(method, "__func__", method)


def _may_have_made(source: ast.ClassDef, cls: type) -> bool:
    """Whether a class may have been made from this source: its methods and attributes are all there."""
    inside = vars(cls)
    for each in source.body:
        if isinstance(each, ast.FunctionDef):
            if source_of(_unwrapped(inside.get(each.name))) != ast.unparse(each):
                return False
        elif isinstance(each, ast.Assign):
            known = {*inside, *getattr(cls, "__members__", ())}
            if not all(target.id in known for target in each.targets if isinstance(target, ast.Name)):
                return False
        elif isinstance(each, ast.AnnAssign) and ast.unparse(each.target) not in inside.get("__annotations__", {}):
            return False
    return True
