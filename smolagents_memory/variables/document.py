"""Variables as one graph of JSON: what two of them share is written once, so that aliases come back as aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.graph import TAG, Encoder, Node, Write
from smolagents_memory.codec.objects import body_of, write_fields
from smolagents_memory.codec.placeholders import type_name
from smolagents_memory.codec.values import find_writer
from smolagents_memory.variables.definitions import Definition, Definitions, own_attributes
from smolagents_memory.variables.vetting import built_in, heap_classes


_LOST = "lost"
BODIES: tuple[Any, ...] = (str, int, float, bytes, tuple, frozenset, list, dict, set)


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
        elif tag in ("own-class", "own-function", "own-object"):
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
    node, seen = part.node, set()
    while isinstance(node, dict) and node.get(TAG) == "ref" and node["n"] in shared and node["n"] not in seen:
        seen.add(node["n"])
        node = shared[node["n"]].node
    return node if isinstance(node, dict) and TAG in node else {}


# -- writing -------------------------------------------------------------------------------------------------------


class NamespaceEncoder(Encoder):
    """Writes what the codec keeps, and what the agent's own code defined."""

    whole = True  # a variable with a placeholder in it is not what the code would go on with

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
    base = built_in(cls)
    if not isinstance(value, BaseException) and base not in (object, *BODIES):
        raise TypeError(f"it is built on {base.__module__}.{base.__qualname__}")
    if any(vars(base).get("__slots__") for base in heap_classes(cls)):
        raise TypeError("its class has __slots__")
    if any("__del__" in vars(base) for base in heap_classes(cls)):
        raise TypeError("its class has __del__, which Python itself would run")
    if isinstance(value, BaseException):
        node["args"] = [encoder.node(each, depth + 1) for each in value.args]
    elif base in BODIES:
        node.update({"base": base.__name__, "body": encoder.node(body_of(base, value), depth + 1)})
    held = own_attributes(value)
    return {**node, "v": write_fields(encoder, held.items(), depth)} if held else node
