"""Objects: smolagents' own, registered ones, dataclasses, enums, errors, and subclasses of Python's own types."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Iterable
from enum import Enum, Flag
from types import FunctionType
from typing import Any

from PIL import Image
from smolagents import agent_types, memory, models, monitoring
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory._errors import DecodeError
from smolagents_memory._log import say_once
from smolagents_memory.codec.graph import TAG, Decoder, Encoder, Node, Read, Write
from smolagents_memory.codec.placeholders import NotKept, Unknown
from smolagents_memory.codec.python_types import copied, is_shared, of_kind, take_copy
from smolagents_memory.codec.registry import attributes, class_name, registry
from smolagents_memory.steps.kinds import OWN_KINDS
from smolagents_memory.upstream import AGENT_ERRORS


Define = Callable[[Any], Any]

# smolagents' own dataclasses, under their own names
STEP_CLASSES: dict[str, type] = {kind.cls.__name__: kind.cls for kind in OWN_KINDS}
_MESSAGES = (ChatMessage, models.ChatMessageToolCall, models.ChatMessageToolCallFunction)
_PARTS = (memory.ToolCall, *_MESSAGES, monitoring.TokenUsage, monitoring.Timing)
PARTS: dict[str, type] = {cls.__name__: cls for cls in _PARTS}
_UPSTREAM: dict[str, type] = {**STEP_CLASSES, **PARTS}
_ALWAYS_KNOWN: dict[str, type] = {
    class_name(cls): cls for cls in (monitoring.LogLevel, agent_types.AgentAudio, agent_types.AgentText)
}
_BASES: dict[str, type] = {
    cls.__name__: cls for cls in (str, int, float, bytes, bytearray, tuple, frozenset, list, dict, set)
}


def _class(name: str) -> type | None:
    return _ALWAYS_KNOWN.get(name) or registry.known_class(name)


def defaults(cls: type) -> dict[str, Any]:
    """The fields of a dataclass with their defaults: what an older record does not say yet."""
    always, factories = _defaults(cls)
    return {**always, **{name: factory() for name, factory in factories.items()}}


@functools.lru_cache(maxsize=256)
def _defaults(cls: type) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    fields, missing = dataclasses.fields(cls), dataclasses.MISSING
    always = {each.name: None if each.default is missing else each.default for each in fields}
    return always, {each.name: each.default_factory for each in fields if each.default_factory is not missing}


def check_names(cls: type, names: Iterable[str]) -> None:
    """DecodeError where one of these attributes would stand in the place of a method of the class."""
    hidden = _methods(cls).intersection(names)
    if hidden:
        raise DecodeError(f"a {cls.__name__} in which {min(hidden)} is no method")


@functools.lru_cache(maxsize=256)
def _methods(cls: Any) -> frozenset[str]:
    named = {name: each for base in reversed(type.mro(cls)) for name, each in vars(base).items()}
    fields = vars(cls).get("__dataclass_fields__", {})
    return frozenset(name for name, each in named.items() if name not in fields and _is_method(name, each))


def _is_method(name: str, value: Any) -> bool:
    return is_special(name) or isinstance(value, (FunctionType, property, classmethod, staticmethod))


def is_special(name: str) -> bool:
    """Whether only Python itself gives such a name a meaning."""
    return name[:2] == "__" == name[-2:]


def write_fields(encoder: Encoder, fields: Iterable[tuple[str, Any]], depth: int) -> dict[str, Node]:
    """Attributes as a node's entries."""
    node = {}
    for name, value in fields:
        if name[:1] == TAG:
            raise ValueError(f"an attribute called {name!r}")
        node[name] = encoder.entry(name, value, depth)
    return node


def read_fields(decoder: Decoder, target: Any, node: dict[str, Any]) -> Any:
    """Set the attributes that `write_fields` wrote."""
    return decoder.fill_attributes(target, ((k, decoder.value(v)) for k, v in node.items() if k[:1] != TAG))


def _write_upstream(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    fields = attributes(value)
    if isinstance(value, ChatMessage):
        fields.pop("raw", None)  # the provider's own object: nothing of ours, and often nothing that could be kept
    return write_fields(encoder, fields.items(), depth)


def _reader_of(cls: type) -> Read:
    def read(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        check_names(cls, node)
        target = define(object.__new__(cls))
        decoder.fill_attributes(target, iter(defaults(cls).items()))
        return read_fields(decoder, target, node)

    return read


# -- registered, and classes met here ------------------------------------------------------------------------------


def write_registered(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    registered = registry.values[type(value)]
    return {"c": registered.name, "v": encoder.node(registered.to_data(value), depth + 1)}


def _read_registered(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    registered = registry.value_named(node["c"])
    return decoder.frozen(
        [node["v"]],
        lambda data: _unknown(decoder, node, *data) if registered is None else registered.from_data(*data),
    )


def _write_dataclass(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    name = registry.meet(type(value))
    return {"c": name, "v": write_fields(encoder, attributes(value).items(), depth)}


def _read_dataclass(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    cls = _class(node["c"])
    if cls is None or not dataclasses.is_dataclass(cls):
        return _unknown(decoder, node, {key: decoder.value(item) for key, item in node["v"].items()})
    check_names(cls, node["v"])
    return read_fields(decoder, define(object.__new__(cls)), node["v"])


def _write_enum(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    name = registry.meet(type(value))
    if isinstance(value, Flag):
        return {"c": name, "value": encoder.node(value.value, depth + 1)}
    return {"c": name, "v": value.name}


def _read_enum(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    cls: Any = _class(node["c"])
    if cls is None or not issubclass(cls, Enum):
        return _unknown(decoder, node, decoder.value(node.get("v", node.get("value"))))
    return cls(of_kind(decoder.value(node["value"]), int)) if "value" in node else cls[of_kind(node["v"], str)]


def _unknown(decoder: Decoder, node: dict[str, Any], data: Any) -> Unknown:
    name = str(node["c"])
    decoder.unknown.append(name)
    say_once(f"a value of the class {name}, which is not known here, was kept as data; see register_value")
    return Unknown(name, node[TAG], data)


def _read_unknown(decoder: Decoder, node: dict[str, Any], define: Define) -> Unknown:
    """A node with a tag that this version does not know."""
    data = {key: decoder.value(item) for key, item in node.items() if key != TAG}
    return _unknown(decoder, {"c": f"a value of kind {node[TAG]!r}", **node}, data)


def _write_unknown(encoder: Encoder, value: Unknown, depth: int) -> dict[str, Node]:
    named = {TAG: value.tag, "c": value.type_name}
    if value.tag == "object":
        return {**named, "v": write_fields(encoder, value.data.items(), depth)}
    if value.tag in ("value", "sub", "enum"):
        key = "value" if value.tag == "enum" and not isinstance(value.data, str) else "v"
        return {**named, key: encoder.node(value.data, depth + 1)}
    return {TAG: value.tag, **write_fields(encoder, value.data.items(), depth)}


# -- subclasses of Python's own types ------------------------------------------------------------------------------


def _write_subclass(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    name = registry.meet(type(value))
    base = next(base for base in _BASES.values() if isinstance(value, base))
    held = dict(getattr(value, "__dict__", {}))
    data = {"base": base.__name__, "body": body_of(base, value), "attributes": held}
    return {"c": name, "v": encoder.node(data, depth + 1)}


def body_of(base: Any, value: Any) -> Any:
    """What an instance of a subclass of one of Python's own types holds, without any method of the subclass."""
    if base in (str, bytes, bytearray, tuple, list):
        return base.__getitem__(value, slice(None))
    if base in (int, float):
        return base.__pos__(value)
    return dict(dict.items(value)) if base is dict else base(base.__iter__(value))


def _read_subclass(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    cls: Any = _class(node["c"])
    data = of_kind(decoder.value(node["v"]), dict)
    base: Any = _BASES[of_kind(data["base"], str)]
    if cls is None or not issubclass(cls, base):
        return _unknown(decoder, node, data)
    body = of_kind(data["body"], base)
    if is_shared(node["v"]) or TAG in node["v"] or is_shared(node["v"]["body"]):
        take_copy(decoder, body)
        decoder.keys(body if base in (set, frozenset, dict) else ())  # which are compared once more
    if base in (list, dict, set, bytearray):
        value = define(base.__new__(cls))
        getattr(base, "extend" if base in (list, bytearray) else "update")(value, body)
    else:
        value = base.__new__(cls, body)
    held = of_kind(data["attributes"], dict)
    check_names(cls, held)
    if cls is agent_types.AgentAudio and held.get("_path") is not None:
        held = {**held, "_path": None}  # which smolagents would open, also an address on the network
        say_once("an AgentAudio came back without its sound: the path of a file is not opened")
    return decoder.fill_attributes(value, iter(held.items()))


def _agent_image(value: Any) -> Any:
    """Of decoded pixels only: of a text smolagents would make the path of a file that it opens."""
    return agent_types.AgentImage(of_kind(value, Image.Image))


# -- errors --------------------------------------------------------------------------------------------------------


# errors that go through their second argument, and what that may be: not a range, which is longer than what says so
_TAKING_APART: tuple[type, ...] = (
    SyntaxError,
    UnicodeError,
    *filter(None, [vars(builtins).get("BaseExceptionGroup")]),
)
_WHOLE = (str, bytes, bytearray, list, tuple)


def _error_name(cls: type) -> str:
    return cls.__name__ if AGENT_ERRORS.get(cls.__name__) is cls else class_name(cls)


def _write_error(encoder: Encoder, value: BaseException, depth: int) -> dict[str, Node]:
    kind = type(value)
    arguments = value.__reduce__()[1] if kind.__module__ == "builtins" else value.args
    names = [_error_name(cls) for cls in kind.__mro__ if issubclass(cls, BaseException)]
    registry.meet(kind)
    held = {key: item for key, item in value.__dict__.items() if not isinstance(item, monitoring.AgentLogger)}
    return {
        "c": names[: names.index("builtins:BaseException") or None],
        "args": [encoder.node(item, depth + 1) for item in arguments],
        "attributes": write_fields(encoder, held.items(), depth),
    }


def _read_error(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    names = [*node["c"], "builtins:BaseException"]
    known = ((name, _error_class(name)) for name in names)
    name, cls = next((name, cls) for name, cls in known if cls is not None)
    if name != names[0]:
        decoder.unknown.append(names[0])
        say_once(f"an error of the class {names[0]}, which is not known here, came back as {name}")
    arguments = [copied(decoder, item) for item in node["args"]]
    if issubclass(cls, _TAKING_APART) and not all(isinstance(each, _WHOLE) for each in arguments[1:2]):
        raise ValueError(f"a {cls.__name__} of a {type(arguments[1]).__name__}")
    value = define(cls(*arguments) if cls.__module__ == "builtins" else cls.__new__(cls, *arguments))
    check_names(type(value), node["attributes"])
    return read_fields(decoder, value, node["attributes"])


def _error_class(name: str) -> type[BaseException] | None:
    module, _, plain = name.rpartition(":")
    cls: Any = vars(builtins).get(plain) if module == "builtins" else AGENT_ERRORS.get(name) or _class(name)
    return cls if isinstance(cls, type) and issubclass(cls, BaseException) else None


# -- the classes of which every instance is written alike ----------------------------------------------------------


WRITERS: dict[type, tuple[str, Write]] = {
    **{cls: (name, _write_upstream) for name, cls in _UPSTREAM.items()},
    MessageRole: ("role", lambda encoder, value, depth: {"v": value.value}),
    NotKept: ("not-kept", lambda encoder, value, depth: {"type": value.type_name, "detail": value.detail}),
    Unknown: ("unknown", _write_unknown),
    agent_types.AgentText: ("AgentText", lambda encoder, value, depth: {"v": encoder.node(value.to_raw(), depth + 1)}),
    agent_types.AgentImage: ("AgentImage", lambda encoder, value, depth: {"v": encoder.node(value.to_raw(), depth)}),
}

READERS: dict[str, Read] = {
    **{name: _reader_of(cls) for name, cls in _UPSTREAM.items()},
    "role": lambda decoder, node, define: MessageRole(node["v"]),
    "not-kept": lambda decoder, node, define: NotKept(str(node["type"]), str(node.get("detail", ""))),
    "AgentText": lambda decoder, node, define: agent_types.AgentText(of_kind(copied(decoder, node["v"]), str)),
    "AgentImage": lambda decoder, node, define: _agent_image(decoder.value(node["v"])),
    "value": _read_registered,
    "object": _read_dataclass,
    "enum": _read_enum,
    "sub": _read_subclass,
    "error": _read_error,
    "": _read_unknown,
}


def find_writer(value: Any) -> tuple[str, Write] | None:
    """The writer for an object of a class that has none of its own."""
    if isinstance(value, Enum):
        return "enum", _write_enum
    if isinstance(value, BaseException):
        return "error", _write_error
    if isinstance(value, tuple(_BASES.values())):
        return "sub", _write_subclass
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "object", _write_dataclass
    return None
