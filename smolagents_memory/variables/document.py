"""Variables as one graph of JSON: what two of them share is written once, so that aliases come back as aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.graph import TAG, Decoder, Encoder, Later, Node, Write
from smolagents_memory.codec.objects import body_of, read_fields, write_fields
from smolagents_memory.codec.placeholders import type_name
from smolagents_memory.codec.values import READERS, find_writer
from smolagents_memory.variables.definitions import Definition, Definitions, own_attributes


Define = Callable[[Any], Any]
_LOST = "lost"
_HEAPTYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made by a class statement
_BODIES: tuple[Any, ...] = (str, int, float, bytes, tuple, frozenset, list, dict, set)
_FILLED: dict[Any, Callable[[Any, Any], object]] = {list: list.extend, dict: dict.update, set: set.update}


@dataclass
class Part:
    """The node of a variable, or of what several share, and what it needs."""

    node: Node
    refs: set[int] = field(default_factory=set)  # labels of shared parts
    uses: set[int] = field(default_factory=set)  # numbers of definitions
    blobs: set[str] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)  # what in it cannot be kept, and why

    @classmethod
    def of(cls, node: Node, rename: Mapping[int, int] | None = None, shared: dict[int, Part] | None = None) -> Part:
        """Read a node; labelled parts inside it move to `shared`, under the labels that `rename` gives."""
        part = cls(None)
        part.node = part._read(node, {} if rename is None else rename, {} if shared is None else shared)
        return part

    def _read(self, node: Node, rename: Mapping[int, int], shared: dict[int, Part]) -> Node:
        if isinstance(node, list):
            return [self._read(each, rename, shared) for each in node]
        if not isinstance(node, dict):
            return node
        tag = node.get(TAG)
        if tag in ("def", "ref"):
            label = rename.get(node["n"], node["n"])
            self.refs.add(label)
            if tag == "def":
                shared[label] = Part.of(node["v"], rename, shared)
            return {TAG: "ref", "n": label}
        if tag == _LOST:
            self.lost.append(node["why"])
        elif tag in ("own-class", "own-function"):
            self.uses.add(node["d"])
        if isinstance(node.get("at"), str):
            self.blobs.add(node["at"])
        return {key: self._read(each, rename, shared) for key, each in node.items()}


def closure(parts: Iterable[Part], shared: Mapping[int, Part]) -> dict[int, Part]:
    """Every shared part that `parts` need, those first which others need."""
    found: dict[int, Part] = {}
    pending = [(label, False) for part in parts for label in sorted(part.refs)]
    entered: set[int] = set()
    while pending:
        label, done = pending.pop()
        if done:
            found[label] = shared[label]
        elif label not in entered and label in shared:
            entered.add(label)
            pending.append((label, True))
            pending += [(other, False) for other in sorted(shared[label].refs)]
    return found


def why_lost(part: Part, shared: Mapping[int, Part]) -> str:
    """Why a variable cannot be kept as it is; nothing where it can."""
    found = [*part.lost, *(why for each in closure([part], shared).values() for why in each.lost)]
    if not found:
        return ""
    return found[0] if itself(part, shared).get(TAG) == _LOST else f"inside it, {found[0]}"


def itself(part: Part, shared: Mapping[int, Part]) -> dict[str, Node]:
    """The tagged node that a part is, also where it refers to it; empty where it is plain data."""
    node = part.node
    while isinstance(node, dict) and node.get(TAG) == "ref" and node["n"] in shared:
        node = shared[node["n"]].node
    return node if isinstance(node, dict) and TAG in node else {}


# -- writing -------------------------------------------------------------------------------------------------------


class NamespaceEncoder(Encoder):
    """Writes what the codec keeps, and what the agent's own code defined."""

    def __init__(self, definitions: Definitions, blobs: Blobs) -> None:
        super().__init__(self._writer, _lost_node, blobs)
        self._definitions = definitions

    def parts(self, values: list[Any], label_of: Callable[[Any], int]) -> tuple[list[Part], dict[int, Part]]:
        """The parts of these values and what they share; `label_of` gives an object its lasting label."""
        node = self.encode(values)
        rename = {seen[2]: label_of(seen[0]) for seen in self._seen.values() if seen[2] is not None}
        shared: dict[int, Part] = {}
        if isinstance(node, dict):
            node, more = node["root"], node["more"]
            for label, deep in more:
                shared[rename[label]] = Part.of(deep, rename, shared)
        return [Part.of(each, rename, shared) for each in node], shared

    def _writer(self, value: Any) -> tuple[str, Write] | None:
        definition = self._definitions.of(value) if isinstance(value, (type, FunctionType)) else None
        if definition is not None:
            tag = "own-function" if definition.kind == "function" else "own-class"
            return _lost(definition.why) if definition.why else (tag, partial(_write_own, definition))
        kind = self._definitions.of(type(value))
        if kind is not None:
            why = kind.why and f"an object of the class {kind.name}, which cannot be brought back: {kind.why}"
            return _lost(why) if why else ("own-object", partial(_write_object, kind))
        found = find_writer(value)
        return None if found is None else (found[0], partial(_write_whole, found[1]))


def _lost(why: str) -> tuple[str, Write]:
    return _LOST, lambda encoder, value, depth: {"why": why}


def _write_whole(write: Write, encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    """What the codec keeps only in part (a foreign time zone, the frames of an image) is no variable as it was."""
    before = len(encoder.losses)
    node = write(encoder, value, depth)
    if type(value).__module__.partition(".")[0] in ("datetime", "PIL") and len(encoder.losses) > before:
        raise ValueError(f"{encoder.losses[-1]} cannot be kept")
    return node


def _lost_node(value: Any, why: str) -> dict[str, Node]:
    name = type_name(value)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    if isinstance(value, ModuleType):
        name, article = f"module {value.__name__}", "the"
    elif isinstance(value, type):
        name, article = f"class {value.__qualname__} itself", "the"
    return {TAG: _LOST, "why": f"{article} {name} cannot be kept" + (f" ({why[:200]})" if why else "")}


def _write_own(definition: Definition, encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    node: dict[str, Node] = {"d": definition.number}
    if definition.bases:
        node["bases"] = [encoder.node(base, depth + 1) for base in definition.bases]
    held = definition.attributes()  # a function has neither
    return {**node, "v": write_fields(encoder, held.items(), depth)} if held else node


def _write_object(definition: Definition, encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    cls = type(value)
    node: dict[str, Node] = {"d": definition.number, "c": encoder.node(cls, depth + 1)}
    if isinstance(value, Enum):
        return {**node, "value": encoder.node(value.value, depth + 1)}
    built_in = _built_in(cls)
    if not isinstance(value, BaseException) and built_in not in (object, *_BODIES):
        raise TypeError(f"it is built on {built_in.__module__}.{built_in.__qualname__}")
    if any(vars(base).get("__slots__") for base in cls.__mro__ if base.__flags__ & _HEAPTYPE):
        raise TypeError("its class has __slots__")
    if isinstance(value, BaseException):
        node["args"] = [encoder.node(each, depth + 1) for each in value.args]
    elif built_in in _BODIES:
        node.update({"base": built_in.__name__, "body": encoder.node(body_of(built_in, value), depth + 1)})
    held = own_attributes(value)
    return {**node, "v": write_fields(encoder, held.items(), depth)} if held else node


def _built_in(cls: type) -> Any:
    """The class of Python's own, written in C, that a class is built on."""
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAPTYPE)


# -- reading -------------------------------------------------------------------------------------------------------


class NamespaceDecoder(Decoder):
    """Reads what `NamespaceEncoder` wrote; `made` holds what the definitions gave, by their numbers."""

    def __init__(self, made: Mapping[int, Any], records: Mapping[int, Any], blobs: Mapping[str, bytes]) -> None:
        own = {
            "own-class": self._read_class,
            "own-function": lambda decoder, node, define: made[node["d"]],
            "own-object": self._read_object,
        }
        super().__init__({**READERS, **own}, blobs)
        self._made, self._records = made, records

    def read(self, parts: list[Part], shared: Mapping[int, Part]) -> list[Any]:
        """The values of these parts, as one graph."""
        needed = closure(parts, shared)
        more = [[label, part.node] for label, part in reversed(needed.items())]
        values = self.decode({TAG: "graph", "root": [part.node for part in parts], "more": more})
        return list(values)

    def _read_class(self, decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        cls, record = define(self._made[node["d"]]), self._records[node["d"]]
        for base in node.get("bases", ()):
            decoder.value(base)
        held = {name: decoder.value(each) for name, each in node.get("v", {}).items()}
        if record["kind"] == "namedtuple":
            cls._field_defaults = held
            cls.__new__.__defaults__ = tuple(held.values())
            return cls
        for name, value in held.items():
            type.__setattr__(cls, name, value)
            if isinstance(value, Later):
                decoder.when_built(value, partial(type.__setattr__, cls, name))
        if "dataclass" in record and "__dataclass_fields__" not in vars(cls):
            dataclass(**record["dataclass"])(cls)
        return cls

    def _read_object(self, decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        cls: Any = self._made[node["d"]]
        decoder.value(node["c"])  # what the class itself holds
        if "value" in node:
            return cls(decoder.value(node["value"]))
        if "base" in node:
            target = _read_body(decoder, node, cls, define)
        elif "args" in node:
            target = define(_built_in(cls).__new__(cls))
            args = decoder.value(node["args"])
            decoder.when_built(Later(lambda: args), partial(BaseException.__setattr__, target, "args"))
        else:
            target = define(object.__new__(cls))
        return target if isinstance(target, Later) else read_fields(decoder, target, node.get("v", {}))


def _read_body(decoder: Decoder, node: dict[str, Any], cls: Any, define: Define) -> Any:
    base = next(each for each in _BODIES if each.__name__ == node["base"])
    target = define(base.__new__(cls)) if base in _FILLED else None
    plain = decoder.value(node["body"])
    if target is None:
        return Later(lambda: base.__new__(cls, plain.value)) if isinstance(plain, Later) else base.__new__(cls, plain)
    # when everything in it is built; never by a method of the agent's own class
    decoder.when_built(Later(lambda: plain), partial(_FILLED[base], target))
    return target
