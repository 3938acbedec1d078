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
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from smolagents_memory.codec.blobs import read_blob
from smolagents_memory.codec.graph import Decoder, Encoder, Node, Read, Write


Define = Callable[[Any], Any]
_BUILTINS = {cls for cls in vars(builtins).values() if isinstance(cls, type)}


def _items(encoder: Encoder, values: Any, depth: int) -> list[Node]:
    return [encoder.node(value, depth + 1) for value in list(values)]


def write_items(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": _items(encoder, value, depth)}


def _write_set(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    # in one order whatever the hashes are, so that the same set gives the same record
    try:
        ordered = sorted(value, key=lambda member: (type(member).__name__, repr(member)))
    except Exception:  # noqa: BLE001 — a repr may do anything
        ordered = list(value)
    return {"v": _items(encoder, ordered, depth)}


def _write_pairs(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": [_items(encoder, pair, depth) for pair in list(value.items())]}


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
    return {"v": offset.total_seconds(), **({"name": name[0]} if name else {})}


def _write_zone(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    if value.key is None:
        raise ValueError("a time zone made from a file has no name")
    return {"v": value.key}


def _write_path(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"c": type(value).__name__, "v": encoder.node(str(value), depth + 1)}


def _write_class(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    if value not in _BUILTINS:
        raise TypeError(f"the class {value.__module__}.{value.__qualname__} itself, not an instance of it")
    return {"v": value.__name__}


def _write_bytes(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return encoder.blobs.node(bytes(value))


def _write_pattern(encoder: Encoder, value: Any, depth: int) -> dict[str, Node]:
    return {"v": encoder.node(value.pattern, depth + 1), "flags": value.flags}


# lists of this package's own add themselves here: they come back as plain lists
WRITERS: dict[type, tuple[str, Write]] = {
    tuple: ("tuple", write_items),
    set: ("set", _write_set),
    frozenset: ("frozenset", _write_set),
    bytes: ("bytes", _write_bytes),
    bytearray: ("bytearray", _write_bytes),
    complex: ("complex", lambda e, v, d: {"v": _items(e, (v.real, v.imag), d)}),
    OrderedDict: ("OrderedDict", _write_pairs),
    Counter: ("Counter", _write_pairs),
    defaultdict: ("defaultdict", _write_defaultdict),
    deque: ("deque", _write_deque),
    dt.datetime: ("datetime", _write_datetime),
    dt.time: ("time", _write_datetime),
    dt.date: ("date", lambda e, v, d: {"v": v.isoformat()}),
    dt.timedelta: ("timedelta", lambda e, v, d: {"v": [v.days, v.seconds, v.microseconds]}),
    dt.timezone: ("timezone", _write_timezone),
    zoneinfo.ZoneInfo: ("zone", _write_zone),
    Decimal: ("Decimal", lambda e, v, d: {"v": str(v)}),
    Fraction: ("Fraction", lambda e, v, d: {"v": _items(e, (v.numerator, v.denominator), d)}),
    uuid.UUID: ("UUID", lambda e, v, d: {"v": str(v)}),
    range: ("range", lambda e, v, d: {"v": _items(e, (v.start, v.stop, v.step), d)}),
    slice: ("slice", lambda e, v, d: {"v": _items(e, (v.start, v.stop, v.step), d)}),
    re.Pattern: ("pattern", _write_pattern),
    type: ("class", _write_class),
    type(...): ("ellipsis", lambda e, v, d: {}),
    **dict.fromkeys((PosixPath, WindowsPath, PurePosixPath, PureWindowsPath), ("path", _write_path)),
}


def _read_str(decoder: Decoder, node: dict[str, Any], define: Define) -> str:
    return read_blob(node, decoder.blobs).decode("utf-8", "surrogatepass")


def _read_set(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    target: set[Any] = define(set())

    def add(parts: list[Any]) -> None:
        target.update(parts)

    later = decoder.frozen(node["v"], add)
    if later is not None:
        decoder.when_built(later, lambda done: None)
    return target


def _pairs(decoder: Decoder, node: dict[str, Any]) -> Any:
    return ((decoder.value(key), item) for key, item in node["v"])


def _read_counter(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    return decoder.fill_dict(define(Counter()), _pairs(decoder, node))


def _read_ordered(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    return decoder.fill_dict(define(OrderedDict()), _pairs(decoder, node))


def _read_defaultdict(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    factory = decoder.value(node["default"])
    target: Any = define(defaultdict(factory if callable(factory) else None))
    return decoder.fill_dict(target, _pairs(decoder, node))


def _read_deque(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    return decoder.fill_list(define(deque(maxlen=node["longest"])), node["v"])


def _read_datetime(decoder: Decoder, node: dict[str, Any], define: Define) -> Any:
    cls: Any = dt.datetime if node["$"] == "datetime" else dt.time
    zone = decoder.value(node["zone"]) if "zone" in node else None
    return cls.fromisoformat(node["v"]).replace(tzinfo=zone, fold=node.get("fold", 0))


def _read_timezone(decoder: Decoder, node: dict[str, Any], define: Define) -> dt.timezone:
    offset = dt.timedelta(seconds=node["v"])
    if "name" in node:
        return dt.timezone(offset, node["name"])
    return dt.timezone.utc if not offset else dt.timezone(offset)


def _read_path(decoder: Decoder, node: dict[str, Any], define: Define) -> PurePath:
    wanted, text = node["c"], decoder.value(node["v"])
    if wanted == type(Path()).__name__:
        return Path(text)
    return PureWindowsPath(text) if "Windows" in wanted else PurePosixPath(text)


def _read_class(decoder: Decoder, node: dict[str, Any], define: Define) -> type:
    found = {cls.__name__: cls for cls in _BUILTINS}.get(node["v"])
    if found is None:
        raise ValueError(f"{node['v']!r} is no class of Python's own")
    return found


def _parts(build: Callable[..., Any]) -> Read:
    return lambda decoder, node, define: build(*(decoder.value(part) for part in node["v"]))


READERS: dict[str, Read] = {
    "str": _read_str,
    "int": lambda decoder, node, define: int(node["v"], 16),
    "float": lambda decoder, node, define: float(node["v"]),
    "list": lambda decoder, node, define: decoder.fill_list(define([]), node["v"]),
    "tuple": lambda decoder, node, define: decoder.frozen(node["v"], tuple),
    "set": _read_set,
    "frozenset": lambda decoder, node, define: decoder.frozen(node["v"], frozenset),
    "bytes": lambda decoder, node, define: read_blob(node, decoder.blobs),
    "bytearray": lambda decoder, node, define: bytearray(read_blob(node, decoder.blobs)),
    "complex": _parts(complex),
    "OrderedDict": _read_ordered,
    "Counter": _read_counter,
    "defaultdict": _read_defaultdict,
    "deque": _read_deque,
    "datetime": _read_datetime,
    "time": _read_datetime,
    "date": lambda decoder, node, define: dt.date.fromisoformat(node["v"]),
    "timedelta": lambda decoder, node, define: dt.timedelta(*node["v"]),
    "timezone": _read_timezone,
    "zone": lambda decoder, node, define: zoneinfo.ZoneInfo(node["v"]),
    "Decimal": lambda decoder, node, define: Decimal(node["v"]),
    "Fraction": _parts(Fraction),
    "UUID": lambda decoder, node, define: uuid.UUID(node["v"]),
    "range": _parts(range),
    "slice": _parts(slice),
    "pattern": lambda decoder, node, define: re.compile(decoder.value(node["v"]), node["flags"]),
    "class": _read_class,
    "ellipsis": lambda decoder, node, define: ...,
    "path": _read_path,
}
