"""Reading variables: instances are made by Python's own types, and nothing that the data defines is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import EnumMeta
from functools import partial
from itertools import chain
from typing import Any

from smolagents_memory._errors import DecodeError
from smolagents_memory.codec.graph import TAG, Decoder, Read
from smolagents_memory.codec.later import Later, NotYet, really
from smolagents_memory.codec.objects import is_special, read_fields
from smolagents_memory.codec.registry import registry
from smolagents_memory.codec.values import READERS
from smolagents_memory.upstream import source_of
from smolagents_memory.variables.document import BODIES, Part, closure
from smolagents_memory.variables.vetting import (
    built_in,
    is_callable,
    is_heap_class,
    is_lively,
    member,
    why_no_instance,
)


Define = Callable[[Any], Any]
_FILLED: dict[Any, Callable[[Any, Any], object]] = {list: list.extend, dict: dict.update, set: set.update}
# what is filled here, part by part; the readers of all else hand what they read to others
_CONTAINERS = {"tuple", "set", "frozenset", "OrderedDict", "Counter", "defaultdict", "deque", "list", "slice", "sub"}
_NUMBERS = (int, float, complex)
# what numbers of other kinds ask them for when they are compared
_PARTS_OF_NUMBERS = {name for kind in _NUMBERS for name in dir(kind) if not is_special(name)}
_OPTIONS = {"init", "repr", "eq", "order", "unsafe_hash", "frozen", "match_args", "kw_only"}


class NamespaceDecoder(Decoder):
    """Reads what `NamespaceEncoder` wrote; `made` holds what the definitions gave, by their numbers."""

    def __init__(self, made: Mapping[int, Any], records: Mapping[int, Any], blobs: Mapping[str, bytes]) -> None:
        own = {
            "own-class": self._read_class,
            "own-function": lambda decoder, node, define: made[node["d"]],
            "own-object": self._read_object,
        }
        handing = {tag: self._handing(tag, read) for tag, read in READERS.items() if tag not in _CONTAINERS}
        super().__init__({**READERS, **handing, **own}, blobs)
        self._made, self._records = made, records
        self._own = {id(each): number for number, each in made.items()}
        self._lively = {number for number, each in made.items() if is_lively(each, self._own)}
        self._callable = {number for number, each in made.items() if is_callable(each, self._own)}
        self._shared: dict[int, Part] = {}
        self._told: set[int] = set()  # classes of which it was told what they hold
        self._ready: set[int] = set()  # classes that will not change any more

    def read(self, parts: list[Part], shared: Mapping[int, Part]) -> list[Any]:
        """The values of these parts, as one graph."""
        needed = self._shared = closure(parts, shared)
        more = [[label, part.node] for label, part in reversed(needed.items())]
        values = self.decode({TAG: "graph", "root": [part.node for part in parts], "more": more})
        return list(values)

    def _handing(self, tag: str, read: Read) -> Read:
        """What a reader hands to a library or to a function of the program's runs nothing that the data defines."""

        def checked(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
            if lively := self._runs_of(node):
                shared = dict(self._shared)
                part = Part.of(node, shared=shared)
                used = part.uses.union(*(each.uses for each in closure([part], shared).values()))
                if found := used & lively:
                    name = self._records[min(found)]["name"]
                    raise DecodeError(f"a value of kind {tag} that holds {name}, which defines how it is looked at")
            return read(decoder, node, define)

        return checked

    def _runs_of(self, node: Mapping[str, Any]) -> set[int]:
        """The definitions of which something might be run by who gets what this node holds."""
        registered = registry.value_named(str(node.get("c"))) if node[TAG] == "value" else None
        return self._lively if registered is None or registered.by_attributes else self._callable

    def _part(self, node: Any) -> Any:
        raise DecodeError("a graph within the graph, in which nothing could be told of what it shares")

    def _parts_of_key(self, value: Any) -> Any:
        """What the hash of a key is made of; one that is looked at by anything but Python's own code is refused."""
        cls: Any = type(value)
        own = [base for base in type.mro(cls) if id(base) in self._own]
        if issubclass(cls, _NUMBERS) and (hidden := _PARTS_OF_NUMBERS.intersection(chain(*map(vars, own)))):
            raise DecodeError(f"a key of the class {cls.__name__}, whose {min(hidden)} would be asked")
        if not own or type(cls) is EnumMeta:
            return super()._parts_of_key(value)
        if any("dataclass" in self._records[self._own[id(base)]] for base in own):
            self._check_ready(cls, own)
        names = [each for of in map(partial(_giver, cls), ("__hash__", "__eq__")) for each in self._hashed(cls, of)]
        return self.fields_of_key(value, names) if names else super()._parts_of_key(value)

    def _check_ready(self, cls: Any, own: list[Any]) -> None:
        if not self._ready.issuperset(self._own[id(base)] for base in own):
            raise NotYet(f"a key of the class {cls.__name__}, which is not built yet")

    def _hashed(self, cls: Any, giver: tuple[str, Any]) -> list[str]:
        """The fields that a method looks at; none where it is Python's own, which looks at what its type holds."""
        name, of = giver
        if not is_heap_class(of):
            return []
        if id(of) not in self._own or "__dataclass_fields__" not in vars(of) or source_of(vars(of)[name]) is not None:
            raise DecodeError(f"a key of the class {cls.__name__}, whose {name} would run")
        return list(vars(of)["__dataclass_fields__"])

    def _read_class(self, decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        cls: Any = define(self._made[node["d"]])
        number, record = node["d"], self._records[node["d"]]
        if node.get("v") and number in self._told:
            raise DecodeError(f"what the class {record['name']} holds, told after it was used")
        self._told.add(number)
        for base in node.get("bases", ()):
            decoder.value(base)
        held = {name: decoder.value(each) for name, each in node.get("v", {}).items()}
        if not isinstance(cls, type) or (held and type(cls) is EnumMeta):
            raise DecodeError(f"{record['name']} is no class on which anything could hang")
        if record["kind"] == "namedtuple":
            cls._field_defaults = held  # type: ignore[attr-defined]
            cls.__new__.__defaults__ = tuple(held.values())
        else:
            self._hang(cls, held)
            if "dataclass" in record and "__dataclass_fields__" not in vars(cls):
                _make_dataclass(cls, record["dataclass"])
        self._ready.add(number)
        return cls

    def _hang(self, cls: Any, held: Mapping[str, Any]) -> None:
        for name, value in held.items():
            if name[:2] == "__" or name == "_abc_impl" or not name.isidentifier():
                raise DecodeError(f"something called {name[:40]!r} that should hang on the class {cls.__name__}")
            type.__setattr__(cls, name, value)
            if isinstance(value, Later):
                self.when_built(value, partial(type.__setattr__, cls, name))

    def _read_object(self, decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        cls: Any = self._made[node["d"]]
        decoder.value(node["c"])  # what the class itself holds
        if why := why_no_instance(cls, self._own):
            raise DecodeError(why)
        if type(cls) is EnumMeta:
            return member(cls, decoder.value(node["value"]))
        if "value" in node:
            raise DecodeError(f"a value of the class {cls.__name__}, which is no enum")
        own = built_in(cls)
        if issubclass(own, BaseException):
            target = define(own.__new__(cls))
            args = decoder.value(node["args"])
            decoder.when_built(Later(lambda: args), partial(_set_args, target))
        elif own in BODIES:
            target = _read_body(decoder, node, cls, define)
        else:
            target = define(object.__new__(cls))
        if isinstance(target, Later):
            return target
        return read_fields(decoder, target, node["v"]) if "v" in node else target


def _giver(cls: Any, name: str) -> tuple[str, Any]:
    """From which class of its bases a class has a method."""
    return name, next(base for base in type.mro(cls) if name in vars(base))


def _make_dataclass(cls: Any, options: Mapping[str, bool]) -> None:
    if not set(options) <= _OPTIONS or not all(type(each) is bool for each in options.values()):
        raise DecodeError(f"a dataclass with the options {str(options)[:80]}")
    if not vars(cls).get("__doc__"):  # or `dataclass` would show every default in it
        fields = ", ".join(vars(cls).get("__annotations__", ()))
        type.__setattr__(cls, "__doc__", f"{cls.__name__}({fields})")
    dataclass(**options)(cls)


def _set_args(target: BaseException, args: Any) -> None:
    if type(args) is not list:
        raise DecodeError("the arguments of an error that are no list")
    BaseException.__setattr__(target, "args", args)


def _read_body(decoder: Decoder, node: dict[str, Any], cls: Any, define: Define) -> Any:
    base = next(each for each in BODIES if each.__name__ == node["base"])
    target = define(base.__new__(cls)) if base in _FILLED else None
    plain = decoder.value(node["body"])

    def body() -> Any:
        found = decoder.check_filled(really(plain))
        if type(found) is not base:
            raise DecodeError(f"the body of a {base.__name__} that is none")
        return found

    if target is None:
        return Later(lambda: base.__new__(cls, body())) if isinstance(plain, Later) else base.__new__(cls, body())
    # when everything in it is built; never by a method of the agent's own class
    decoder.when_built(Later(lambda: None), lambda _: _FILLED[base](target, body()))
    return target
