"""Values to plain JSON and back as a graph: shared, cyclic and very deep values come back as they were.

Plain JSON stands for itself: None, bool, str, ints that every JSON reader takes, finite floats, lists, and dicts whose
keys are strings without a leading "$". Everything else is a dict with a tag under "$". A value met twice is labelled
where it is first met and referred to afterwards; what is nested deeper than a JSON reader likes is written beside.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

from smolagents_memory._errors import DecodeError, OversizedError
from smolagents_memory.codec.allowance import allowance_of
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.keys import Weights, check_hashes, compared, is_simple
from smolagents_memory.codec.later import Later, NotYet, really
from smolagents_memory.codec.scrubbing import WITHHELD, without_texts
from smolagents_memory.codec.slots import put
from smolagents_memory.privacy.randomness import tells_of_secrets


Node = Any  # plain JSON
TAG = "$"
_DEEP = 48
_JSON_INT = 2**53
_NAMES = 64  # characters of names
_KEY: Any = object()
_LIGHT = 64  # parts of a key that are hashed in no time

Written = TypeVar("Written")
Write = Callable[["Encoder", Any, int], dict[str, Node]]
Read = Callable[["Decoder", dict[str, Any], Callable[[Any], Any]], Any]


class Encoder:
    """Turns values into JSON nodes. One encoder is used for as long as values may share parts.

    `writers(value)` gives a tag and a function that writes the rest of the node, or None; `not_kept(value, why)` gives
    the node that stands for what cannot be kept. Where the blobs have a scrubber, texts are written without what it
    takes out of them, and are counted in `scrubbed`.
    """

    whole = False  # whether a text is kept as it is, or not at all

    def __init__(
        self,
        writers: Callable[[Any], tuple[str, Write] | None],
        not_kept: Callable[[Any, str], dict[str, Node]],
        blobs: Blobs,
    ) -> None:
        self.blobs = blobs
        self.losses: list[str] = []
        self.scrubbed = 0
        self._scrubber = blobs.scrubber
        self._writers = writers
        self._not_kept = not_kept
        self._seen: dict[int, list[Any]] = {}  # id of a value → [the value (kept alive), its node, its label]
        self._labels = 0
        self._deep: deque[tuple[Any, list[Any], str]] = deque()
        self._name = ""  # under which a value stands, behind those around it

    def encode(self, value: Any) -> Node:
        """The node for `value`."""
        self._seen.clear()
        self._labels, self._name = 0, ""
        root = self.node(value, 0)
        if not self._labels:
            return root
        more: list[Any] = []
        while self._deep:
            deep, seen, self._name = self._deep.popleft()
            more.append([seen[2], self._fresh(deep, 0, seen)])
        labelled = {id(node): label for _, node, label in self._seen.values() if label is not None}
        for entry in more:
            labelled.pop(id(entry[1]), None)  # the table's own entries carry their label beside them
        graph = {"root": _labelled(root, labelled), "more": [[n, _labelled(node, labelled)] for n, node in more]}
        return {TAG: "graph", **graph}

    def node(self, value: Any, depth: int) -> Node:
        """The node for a value inside another; writers call it with `depth + 1`."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return self._text(value)
        if kind is int:
            return value if -_JSON_INT < value < _JSON_INT else {TAG: "int", "v": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {TAG: "float", "v": str(value)}
        seen = self._seen.get(id(value))
        if seen is not None:
            if seen[2] is None:
                seen[2] = self._labels = self._labels + 1
            return {TAG: "ref", "n": seen[2]}
        seen = self._seen[id(value)] = [value, None, None]
        if depth >= _DEEP and not isinstance(value, (bytes, bytearray)):
            seen[2] = self._labels = self._labels + 1
            self._deep.append((value, seen, self._name))
            return {TAG: "ref", "n": seen[2]}
        return self._fresh(value, depth, seen)

    def entry(self, name: Any, value: Any, depth: int) -> Node:
        """The node for a value that stands under a name, which may say what it and all in it is."""
        plain = self._scrubber is None or type(name) is not str
        return self.node(value, depth + 1) if plain else self.under(name, lambda: self.node(value, depth + 1))

    def key(self, key: Any, depth: int) -> Node:
        """The node for the key of an entry; names around it may say that it is a secret itself."""
        plain = self._scrubber is None
        return self.node(key, depth + 1) if plain else self.under(_KEY, lambda: self.node(key, depth + 1))

    def under(self, name: Any, write: Callable[[], Written]) -> Written:
        """What is written under a name, or is one itself."""
        around = self._name
        if name is _KEY:
            self._name = f"{around} of" if tells_of_secrets(around) else ""
        elif type(name) is str:
            self._name = f"{around} {name}"[-_NAMES:].lstrip()
        try:
            return write()
        finally:
            self._name = around

    def _scrub(self, text: str) -> str:
        if self._scrubber is None:
            return text
        return self._scrubber.under(self._name, text) if self._name else self._scrubber.text(text)

    def _text(self, text: str) -> Node:
        scrubbed = self._scrub(text)
        if scrubbed != text:
            self.scrubbed += 1
            if self.whole:
                return self._not_kept(text, WITHHELD)
            text = scrubbed
        odd = None if is_plain(text) else text.encode("utf-8", "surrogatepass")
        return text if odd is None else {TAG: "str", **self.blobs.node(odd)}

    def _is_plain(self, key: str) -> bool:
        return is_plain(key) and (self._scrubber is None or self.under(_KEY, lambda: self._scrub(key)) == key)

    def _fresh(self, value: Any, depth: int, seen: list[Any]) -> Node:
        kind = type(value)
        if kind is list:
            items: list[Node] = []
            seen[1] = items
            items.extend([self.node(item, depth + 1) for item in list(value)])
            return items
        node: dict[str, Node] = {}
        seen[1] = node
        if kind is dict:
            entries = list(value.items())
            if all(type(key) is str and key[:1] != TAG and self._is_plain(key) for key, _ in entries):
                for key, item in entries:
                    node[key] = self.entry(key, item, depth)
            else:
                node[TAG] = "dict"
                node["v"] = [[self.key(key, depth), self.entry(key, item, depth)] for key, item in entries]
            return node
        self._tagged(value, depth, node)
        if seen[2] is None and not self._can_be_shared(value):
            del self._seen[id(value)]
            self._seen[id(seen)] = seen  # keeps the value alive, so that its id does not come back for another
        return node

    @staticmethod
    def _can_be_shared(value: Any) -> bool:
        """Whether it matters that two places hold the very same object."""
        empty = isinstance(value, tuple) and not tuple.__len__(value)
        return not (empty or isinstance(value, (bytes, str, int, float)))

    def _tagged(self, value: Any, depth: int, node: dict[str, Node]) -> None:
        before = len(self._seen)
        try:
            written = value if self._scrubber is None else self._scrubbed(value)
            found = self._writers(written)
            if found is None:
                node.update(self._not_kept(value, ""))
            else:
                tag, write = found
                node[TAG] = tag
                node.update(write(self, written, depth))
                return
        except Exception as error:  # noqa: BLE001 — whatever a value's own code raises: the run goes on
            for part in list(self._seen)[before:]:  # their nodes went with this one: nothing may refer to them
                del self._seen[part]
            node.clear()
            node.update(self._not_kept(value, f"{type(error).__name__}: {str(error)[:120]}"))
        if self._scrubber is not None and "detail" in node:
            node["detail"] = ""  # it shows what is in the value, cut short
        self.losses.append(str(node.get("type", type(value).__name__)))

    def _scrubbed(self, value: Any) -> Any:
        scrubbed = without_texts(value, self._scrub)
        if scrubbed is not value:
            self.scrubbed += 1
            if self.whole:
                raise ValueError(WITHHELD)
        return scrubbed


def _labelled(node: Node, labels: dict[int, int]) -> Node:
    if not isinstance(node, (list, dict)):
        return node
    label = labels.get(id(node))
    if isinstance(node, list):
        copy: Node = [_labelled(item, labels) for item in node]
    else:
        copy = {key: _labelled(item, labels) for key, item in node.items()}
    return copy if label is None else {TAG: "def", "n": label, "v": copy}


def is_plain(text: str) -> bool:
    """Whether a text is valid Unicode: no half of a surrogate pair, which JSON would silently join or refuse."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Decoder:
    """Turns nodes back into values. `readers` maps a tag to the function that reads the node."""

    def __init__(self, readers: Mapping[str, Read], blobs: Mapping[str, bytes]) -> None:
        self.blobs = blobs
        self.allowance = allowance_of(blobs)
        self.unknown: list[str] = []
        self.refs = 0  # to what is shared
        self._weights = Weights(self._parts_of_key)
        self._compared = Weights(self._parts_of_key, compared)
        self._readers = readers
        self._known: dict[int, Any] = {}
        self._open: set[int] = set()  # ids of what others can refer to already, while parts of it are missing
        self._fixes: deque[Callable[[], object]] = deque()
        self._last: deque[Callable[[], object]] = deque()  # what found that something was not built yet

    def decode(self, node: Node) -> Any:
        """The value of a node; a malformed one raises DecodeError."""
        self._known, self._open, self._fixes, self._last = {}, set(), deque(), deque()
        try:
            if isinstance(node, dict) and node.get(TAG) == "graph":
                for label, deep in reversed(node["more"]):
                    self._known[label] = self.value(deep, int(label))
                node = node["root"]
            value = self.value(node)
            self._finish()
            return really(value)
        except DecodeError:
            raise
        except RecursionError:
            raise DecodeError("this record is nested deeper than anything that this package writes") from None
        except MemoryError:
            raise OversizedError("this record takes more memory than there is") from None
        except Exception as error:
            raise DecodeError(f"a malformed record: {type(error).__name__}: {str(error)[:200]}") from error

    def _finish(self) -> None:
        """Do what had to wait until everything was read."""
        while waiting := self._fixes or self._last:
            fix = waiting.popleft()
            try:
                fix()
            except NotYet:
                if waiting is self._last:
                    raise
                self._last.append(fix)

    def value(self, node: Node, label: int | None = None) -> Any:
        """The value of a node inside another."""
        if not isinstance(node, (list, dict)):
            return node
        if label is None:
            return self._read(node, lambda value: value)
        opened: list[int] = []

        def define(value: Any) -> Any:
            self._known[label] = value
            opened.append(id(value))
            self._open.add(id(value))
            return value

        value = self._read(node, define)
        self._open.difference_update(opened)
        return value

    def _read(self, node: Any, define: Callable[[Any], Any]) -> Any:
        if isinstance(node, list):
            return self.fill_list(define([]), node)
        tag = node.get(TAG)
        if tag is None:
            return self.fill_dict(define({}), node.items())
        if tag == "ref":
            self.refs += 1
            return self._known[node["n"]] if node["n"] in self._known else Later(partial(self._labelled, node["n"]))
        if tag == "def":
            return self.value(node["v"], int(node["n"]))
        if tag == "graph":  # one of several values that were encoded each by itself
            return define(self._part(node))
        if tag == "dict":
            return self.fill_keyed(define({}), node["v"])
        return define(self._readers.get(tag, self._readers[""])(self, node, define))

    def _labelled(self, label: int) -> Any:
        if label not in self._known:
            raise NotYet(f"nothing is labelled {label!r:.20}")
        return self._known[label]

    def _part(self, node: Node) -> Any:
        part = Decoder(self._readers, self.blobs)
        value = part.decode(node)
        self.unknown += part.unknown
        self.refs += part.refs
        return value

    def fill_list(self, target: list[Any], nodes: list[Node]) -> list[Any]:
        """Append the values of `nodes`, also those that are not built yet."""
        for index, node in enumerate(nodes):
            value = self.value(node)
            target.append(value)
            if isinstance(value, Later):
                self.when_built(value, partial(target.__setitem__, index))
        return target

    def fill_dict(self, target: dict[Any, Any], entries: Iterable[tuple[str, Node]]) -> dict[Any, Any]:
        """Set the entries, whose values are nodes, also those that are not built yet."""
        for key, node in entries:
            value = self.value(node)
            target[key] = value
            if isinstance(value, Later):
                self.when_built(value, partial(target.__setitem__, key))
        return target

    def fill_keyed(self, target: dict[Any, Any], pairs: Iterable[Any]) -> dict[Any, Any]:
        """Set the entries, whose keys are nodes too."""
        read = [(self.value(key), self.value(item)) for key, item in pairs]

        def fill() -> None:
            for key, (_, value) in zip(self.keys(key for key, _ in read), read, strict=True):
                target[key] = value
                if isinstance(value, Later):
                    self.when_built(value, partial(target.__setitem__, key))

        self.when_hashable(target, fill)
        return target

    def when_hashable(self, target: Any, fill: Callable[[], object]) -> None:
        """Fill a container now, or at the very end where the hash of a key is not yet what it will be."""
        try:
            fill()
        except NotYet:
            self._open.add(id(target))
            self._last += [fill, lambda: self._open.discard(id(target))]

    def keys(self, values: Iterable[Any]) -> list[Any]:
        """Keys or members that take no longer to hash than their number says; NotYet for one that may change."""
        found = list(map(self.key, values))
        check_hashes(found, self._meet)
        return found

    def key(self, value: Any) -> Any:
        """A key or a member, which takes no longer to hash than what it was read from allows."""
        value = really(value)
        if not is_simple(value):
            weight = self._weights.of(value)
            if weight > _LIGHT:
                self.allowance.take(16 * weight, f"a key of {weight} parts")
        return value

    def _meet(self, key: Any, alike: list[Any]) -> None:
        """A key is compared with those that have the same hash."""
        weight = sum(map(self._compared.of, alike)) + len(alike) * self._compared.of(key)
        if weight > _LIGHT * len(alike):
            self.allowance.take(16 * weight, "so many keys of the same hash")

    def _parts_of_key(self, value: Any) -> Any:
        """What the hash of a key is made of; NotYet where that is not all there, for it must never change again."""
        kind = tuple if isinstance(value, tuple) else frozenset if isinstance(value, frozenset) else None
        if kind is not None:
            return list(map(really, kind.__iter__(value)))
        if is_dataclass(type(value)):  # its hash is that of its fields
            return self.fields_of_key(value, [each.name for each in fields(value)])
        return ()

    def fields_of_key(self, value: Any, names: Iterable[str]) -> list[Any]:
        """What these attributes of a key hold, none of which may change any more."""
        self.check_filled(value)
        held = [object.__getattribute__(value, name) for name in names]
        if any(isinstance(each, Later) for each in held):
            raise NotYet(f"a key of the class {type(value).__name__} that is not built yet")
        return held

    def check_filled(self, value: Any) -> Any:
        """The value, if what it holds is all there; NotYet before."""
        if id(value) in self._open:
            raise NotYet(f"a {type(value).__name__} that holds itself where it must be there before")
        return value

    def fill_attributes(self, target: Any, entries: Iterator[tuple[str, Any]]) -> Any:
        """Set attributes, without running any code of the object's class."""
        for name, value in entries:
            put(target, name, value)
            if isinstance(value, Later):
                self.when_built(value, partial(put, target, name))
        return target

    def when_built(self, value: Later, use: Callable[[Any], object]) -> None:
        """Call `use` with the real thing as soon as everything is there."""
        self._fixes.append(lambda: use(value.value))

    def frozen(self, nodes: list[Node], build: Callable[[list[Any]], Any]) -> Any:
        """Something that must have all its parts when it is built; it comes later if one of them does."""
        parts = [self.value(node) for node in nodes]
        later = Later(lambda: build(list(map(really, parts))))
        if any(isinstance(part, Later) for part in parts):
            return later
        try:
            return later.value
        except NotYet:
            return later
