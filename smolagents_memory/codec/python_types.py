"""Values of the standard library: how each is written and read."""

from __future__ import annotations

import builtins
import datetime as dt
import re
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from smolagents_memory.codec.blobs import read_blob
from smolagents_memory.codec.graph import Decoder, Encoder, Node, Read, Write
from smolagents_memory.codec.measures import division, size_of
from smolagents_memory.codec.ordering import order_of


Define = Callable[[Any], Any]
_ZONE = re.compile(r"[A-Za-z0-9_+\-]{1,32}(/[A-Za-z0-9_+\-]{1,32}){0,3}")
_PARTS_OF_PATH = 16  # bytes of lists of names that are made of a letter
_BUILTINS = {cls.__name__: cls for cls in vars(builtins).values() if isinstance(cls, type)}


def _items(encoder: Encoder, values: Any, depth: int) -> list[Node]:
    return [encoder.node(value, depth + 1) for value in list(values)]


def write_items(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": _items(encoder, value, depth)}


def _write_set(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    # in one order whatever the hashes are, so that the same set gives the same record
    try:
        ordered = sorted(value, key=order_of)
    except Exception:  # noqa: BLE001 — a number of more digits than Python writes, or what a library does
        ordered = list(value)
    return {"v": _items(encoder, ordered, depth)}


def _write_pairs(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": [[encoder.key(key, depth), encoder.entry(key, item, depth)] for key, item in list(value.items())]}


def _write_defaultdict(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"default": encoder.node(value.default_factory, depth + 1), **_write_pairs(encoder, value, depth)}


def _write_deque(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"longest": value.maxlen, "v": _items(encoder, value, depth)}


def _write_datetime(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    node = {"v": value.replace(tzinfo=None).isoformat()}
    if value.tzinfo is not None:
        zone = value.tzinfo
        if type(zone) not in WRITERS:
            if isinstance(value, dt.time):
                raise TypeError(f"a time in a zone of the kind {type(zone).__name__}")
            zone = dt.timezone(value.utcoffset(), value.tzname())  # a zone of another library: kept as it was then
            encoder.losses.append(f"the rules of the time zone {value.tzinfo}")
        node["zone"] = encoder.node(zone, depth + 1)
    return {**node, "fold": 1} if value.fold else node


def _write_timezone(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    offset, name = value.__getinitargs__()[0], value.__getinitargs__()[1:]
    return {"v": offset.total_seconds(), **({"name": encoder.node(name[0], depth + 1)} if name else {})}


def _zone_name(zone: zoneinfo.ZoneInfo) -> str:
    if zone.key is None:
        raise ValueError("a time zone made from a file has no name")
    return zone.key


def _write_path(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"c": type(value).__name__, "v": encoder.node(str(value), depth + 1)}


def _class_name(cls: type) -> str:
    if _BUILTINS.get(cls.__name__) is not cls:
        raise TypeError(f"the class {cls.__module__}.{cls.__qualname__} itself, not an instance of it")
    return cls.__name__


def _write_bytes(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return encoder.blobs.node(bytes(value))


def copied(decoder: Decoder, node: Node, times: int = 1) -> Any:
    """The value of a node, of which something so many times as large is made: again and again where it is shared."""
    value = decoder.value(node)
    if is_shared(node):
        take_copy(decoder, value, times)
    return value


def take_copy(decoder: Decoder, value: Any, times: int = 1) -> None:
    """Something as large as this is made of what may have been used before."""
    decoder.allowance.take(times * size_of(value), f"a copy of the same {type(value).__name__} again and again")


def is_shared(node: Node) -> bool:
    """Whether the value of a node may be that of others too; of whatever else is made of it, the bytes are here."""
    return isinstance(node, dict) and (node.get("$") in ("ref", "def") or (node.get("$") == "bytes" and "at" in node))


def read_copied(decoder: Decoder, node: dict[str, Any]) -> bytes:
    """Bytes of which a copy is made: of the same ones as often as they are named."""
    data = read_blob(node, decoder.blobs)
    decoder.allowance.take(len(data) if "at" in node else 0, "a copy of the same content again and again")
    return data


def _read_bytes(decoder: Decoder, node: dict[str, Any], define: Define) -> bytes:
    decoder.refs += "at" in node  # shared with whatever else names this content
    return read_blob(node, decoder.blobs)


def _write_pattern(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": encoder.node(value.pattern, depth + 1), "flags": value.flags}


def _read_set(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    target: set[Any] = define(set())
    members = [decoder.value(each) for each in node["v"]]
    decoder.when_hashable(target, lambda: target.update(decoder.keys(members)))
    return target


def _read_frozenset(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    return decoder.frozen(node["v"], lambda members: frozenset(decoder.keys(members)))


def _read_mapping(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    factory = decoder.value(node.get("default"))
    empty: dict[str, Callable[[], Any]] = {"Counter": Counter, "OrderedDict": OrderedDict}
    made = empty.get(node["$"], partial(defaultdict, factory if callable(factory) else None))
    return decoder.fill_keyed(define(made()), node["v"])


def _read_deque(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    return decoder.fill_list(define(deque(maxlen=node["longest"])), node["v"])


def of_kind(value: Any, *kinds: type) -> Any:
    """The value, if it is of one of these very classes: of no other is anything asked."""
    if type(value) not in kinds:
        raise ValueError(f"a {type(value).__name__} where there should be a {kinds[0].__name__}")
    return value


def _read_datetime(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    cls: Any = dt.datetime if node["$"] == "datetime" else dt.time
    zone = of_kind(decoder.value(node["zone"]), dt.timezone, zoneinfo.ZoneInfo) if "zone" in node else None
    return cls.fromisoformat(node["v"]).replace(tzinfo=zone, fold=node.get("fold", 0))


def _read_timezone(decoder: Decoder, node: dict[str, Any], define: Define) -> dt.timezone:
    offset = dt.timedelta(seconds=node["v"])
    if "name" in node:
        return dt.timezone(offset, of_kind(decoder.value(node["name"]), str))
    return dt.timezone.utc if not offset else dt.timezone(offset)


def _read_path(decoder: Decoder, node: dict[str, Any], define: Define) -> PurePath:
    wanted, text = node["c"], of_kind(copied(decoder, node["v"], _PARTS_OF_PATH), str)
    if wanted == type(Path()).__name__:
        return Path(text)
    return PureWindowsPath(text) if "Windows" in wanted else PurePosixPath(text)


def _class_named(name: Any) -> type:
    if name not in _BUILTINS:
        raise ValueError(f"{name!r} is no class of Python's own")
    return _BUILTINS[name]


def zone_name(name: Any) -> str:
    """A name of the tables of time zones: never a path, which some would open."""
    if not isinstance(name, str) or not _ZONE.fullmatch(name) or name.startswith("dateutil"):
        raise ValueError(f"{str(name)[:40]!r} names no time zone")
    return name


def _fraction(decoder: Decoder, numerator: int, denominator: int) -> Fraction:
    decoder.allowance.take(division(numerator, denominator), "a fraction of so many digits, which is shortened")
    return Fraction(numerator, denominator)


def _range(decoder: Decoder, start: int, stop: int, step: int) -> range:
    decoder.allowance.take(division(stop - start, step), "a range of so many digits, which is divided into steps")
    return range(start, stop, step)


def _read_pattern(decoder: Decoder, node: dict[str, Any], define: Define) -> re.Pattern[Any]:
    pattern, flags = of_kind(decoder.value(node["v"]), str, bytes), of_kind(node["flags"], int)
    if flags & re.DEBUG:
        raise ValueError("a pattern that prints itself")
    sets = pattern.count("[" if isinstance(pattern, str) else b"[") + pattern.count(
        "\\" if isinstance(pattern, str) else b"\\"
    )
    decoder.allowance.take(2_000 * len(pattern) + 1_000_000 * sets, f"a pattern of {len(pattern)} characters")
    return re.compile(pattern, flags)


def _text(write: Callable[[Any], Node], read: Callable[[Any], Any]) -> tuple[Write, Read]:
    """How a value is written and read that a plain node says all of."""
    return lambda encoder, value, depth: {"v": write(value)}, lambda decoder, node, define: read(node["v"])


def _of(parts: Callable[[Any], tuple[Any, ...]], build: Callable[..., Any], *kinds: type) -> tuple[Write, Read]:
    """How a value is written and read that is made from its parts, all of them of these very classes."""
    return _measured(parts, lambda decoder, *found: build(*found), *kinds)


def _measured(parts: Callable[[Any], tuple[Any, ...]], build: Callable[..., Any], *kinds: type) -> tuple[Write, Read]:
    """The same for what takes more the larger its parts are: what builds it is given the decoder too."""

    def read(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
        return build(decoder, *(of_kind(decoder.value(part), *kinds) for part in node["v"]))

    return lambda encoder, value, depth: {"v": _items(encoder, parts(value), depth)}, read


def _frozen(build: Callable[[list[Any]], Any]) -> Read:
    return lambda decoder, node, define: decoder.frozen(node["v"], build)


# each type: its tag, how it is written and how it is read
_FORMS: dict[type, tuple[str, Write, Read]] = {
    tuple: ("tuple", write_items, _frozen(tuple)),
    set: ("set", _write_set, _read_set),
    frozenset: ("frozenset", _write_set, _read_frozenset),
    bytes: ("bytes", _write_bytes, _read_bytes),
    bytearray: ("bytearray", _write_bytes, lambda decoder, node, define: bytearray(read_copied(decoder, node))),
    complex: ("complex", *_of(lambda value: (value.real, value.imag), complex, float, int)),
    OrderedDict: ("OrderedDict", _write_pairs, _read_mapping),
    Counter: ("Counter", _write_pairs, _read_mapping),
    defaultdict: ("defaultdict", _write_defaultdict, _read_mapping),
    deque: ("deque", _write_deque, _read_deque),
    dt.datetime: ("datetime", _write_datetime, _read_datetime),
    dt.time: ("time", _write_datetime, _read_datetime),
    dt.date: ("date", *_text(dt.date.isoformat, dt.date.fromisoformat)),
    dt.timedelta: (
        "timedelta",
        *_of(lambda value: (value.days, value.seconds, value.microseconds), dt.timedelta, int),
    ),
    dt.timezone: ("timezone", _write_timezone, _read_timezone),
    zoneinfo.ZoneInfo: ("zone", *_text(_zone_name, lambda name: zoneinfo.ZoneInfo(zone_name(name)))),
    Decimal: ("Decimal", *_text(str, Decimal)),
    Fraction: ("Fraction", *_measured(lambda value: (value.numerator, value.denominator), _fraction, int)),
    uuid.UUID: ("UUID", *_text(str, uuid.UUID)),
    range: ("range", *_measured(lambda value: (value.start, value.stop, value.step), _range, int)),
    slice: (
        "slice",
        lambda encoder, value, depth: {"v": _items(encoder, (value.start, value.stop, value.step), depth)},
        _frozen(lambda parts: slice(*parts)),
    ),
    re.Pattern: ("pattern", _write_pattern, _read_pattern),
    type: ("class", *_text(_class_name, _class_named)),
    type(...): ("ellipsis", lambda encoder, value, depth: {}, lambda decoder, node, define: ...),
    **dict.fromkeys((PosixPath, WindowsPath, PurePosixPath, PureWindowsPath), ("path", _write_path, _read_path)),
}
# lists of this package's own add themselves here: they come back as plain lists
WRITERS: dict[type, tuple[str, Write]] = {cls: (tag, write) for cls, (tag, write, _) in _FORMS.items()}
READERS: dict[str, Read] = {
    **{tag: read for tag, _, read in _FORMS.values()},
    "str": lambda decoder, node, define: read_copied(decoder, node).decode("utf-8", "surrogatepass"),
    "int": lambda decoder, node, define: int(of_kind(node["v"], str), 16),
    "float": lambda decoder, node, define: float(of_kind(node["v"], str)),
    "list": lambda decoder, node, define: decoder.fill_list(define([]), node["v"]),
}
