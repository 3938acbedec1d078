"""A strict comparison: the same types, the same content, NaN equal to itself, arrays and pixels one by one."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Any

from PIL import Image
from smolagents.agent_types import AgentImage
from smolagents.models import ChatMessage
from smolagents.monitoring import AgentLogger


def same(left: Any, right: Any) -> bool:
    """Whether two values, steps or memories are structurally the same.

    Where `==` raises (arrays), lies (1 and True) or gives up (errors, NaN, images), this looks inside. A message's
    `raw` and an error's logger and cause do not count: they are a provider's or a process's own.

    >>> same(1, True), same(float("nan"), float("nan")), same([1, (2,)], [1, (2,)])
    (False, True, True)
    """
    return explain_difference(left, right) is None


def explain_difference(left: Any, right: Any) -> str | None:
    """Where two values first differ, as a path and what was found there, or None where they are the same.

    >>> explain_difference({"a": [1, 2]}, {"a": [1, 3]})
    "['a'][1]: 2 is not 3"
    """
    seen: set[tuple[int, int]] = set()
    pending = deque([("", left, right)])
    while pending:
        path, a, b = pending.popleft()
        if a is b:
            continue
        if _kind(a) is not _kind(b):
            return f"{path}: {_kind(a).__name__} is not {_kind(b).__name__}"
        if isinstance(a, (str, bytes, int, float, complex, Enum)) and not getattr(a, "__dict__", None):
            if not _same_atom(a, b):
                return f"{path}: {a!r:.80} is not {b!r:.80}"
            continue
        if (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        parts_a, parts_b = list(_parts(a)), list(_parts(b))
        if not parts_a and not parts_b:
            if not _same_atom(a, b):
                return f"{path}: {a!r:.80} is not {b!r:.80}"
        elif len(parts_a) != len(parts_b):
            return f"{path}: {len(parts_a)} parts are not {len(parts_b)}"
        for (name, part), (other_name, other) in zip(parts_a, parts_b, strict=True):
            if name != other_name:
                return f"{path}: {name} is not {other_name}"
            pending.append((f"{path}{name}", part, other))
    return None


def _kind(value: Any) -> Any:
    if isinstance(value, AgentImage):
        return AgentImage
    if isinstance(value, Image.Image):
        return Image.Image
    kind: type[Any] = type(value)
    return list if issubclass(kind, list) and kind.__module__.startswith("smolagents_memory.") else kind


def _same_atom(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return _same_atom(a.real, b.real) and _same_atom(a.imag, b.imag)
    try:
        return bool(a == b) or repr(a) == repr(b)
    except Exception:  # noqa: BLE001 — a foreign __eq__ may do anything
        return repr(a) == repr(b)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, named; nothing for what has none."""
    if isinstance(value, AgentImage):
        yield ".raw", value.to_raw()
        return
    if isinstance(value, Image.Image):
        yield from _image_parts(value)
        return
    foreign = list(_foreign_parts(value))
    if foreign:
        yield from foreign
        return
    if isinstance(value, dict):
        for at, (key, item) in enumerate(value.items()):
            if isinstance(key, str):
                yield f"[{key!r}]", item
            else:
                yield f"(key {at})", key
                yield f"(value {at})", item
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{at}]", item) for at, item in enumerate(value))
        if _kind(value) is list:
            return
    elif isinstance(value, (set, frozenset)):
        yield from ((f"(member {at})", item) for at, item in enumerate(sorted(value, key=repr)))
    elif isinstance(value, (str, bytes, int, float)):
        yield "(content)", value[:] if isinstance(value, (str, bytes)) else +value
    elif isinstance(value, BaseException):
        yield ".args", value.args
    hidden = {"raw"} if isinstance(value, ChatMessage) else set()
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "__dict__", {})
    names = [*fields, *(name for name in getattr(value, "__dict__", {}) if name not in fields)]
    for name in sorted(names) if not isinstance(value, Enum) else ():
        item = getattr(value, name, None)
        if name not in hidden and not isinstance(item, AgentLogger):
            yield f".{name}", item


def _image_parts(image: Image.Image) -> Iterator[tuple[str, Any]]:
    yield ".mode", image.mode
    yield ".size", image.size
    yield ".pixels", image.tobytes()
    yield ".palette", tuple(image.getpalette("RGBA") or ()) if image.mode in ("P", "PA") else None
    yield ".transparency", image.info.get("transparency")


def _foreign_parts(value: Any) -> Iterator[tuple[str, Any]]:
    np, pd = sys.modules.get("numpy"), sys.modules.get("pandas")
    if np is not None and isinstance(value, np.ma.MaskedArray):
        yield ".data", value.data
        yield ".mask", np.ma.getmaskarray(value)
    elif np is not None and isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        yield ".dtype", repr(array.dtype)
        yield ".shape", array.shape
        yield ".items", array.ravel().tolist() if array.dtype.hasobject else array.tobytes()
    elif pd is not None and isinstance(value, (pd.Timestamp, pd.Timedelta)):  # printing one leaves marks on it
        yield ".value", (value.value, value.unit, str(getattr(value, "tzinfo", None)))
    elif pd is not None and isinstance(value, pd.DataFrame):
        yield ".columns", value.columns
        yield ".index", value.index
        for at in range(value.shape[1]):
            yield f"[column {at}]", value.iloc[:, at]
    elif pd is not None and isinstance(value, (pd.Series, pd.Index)):
        yield ".dtype", repr(value.dtype)
        yield ".name", value.name
        yield ".kind", type(value).__name__
        if isinstance(value, pd.Series):
            yield ".index", value.index
        yield ".items", [None if missing is True else item for item, missing in _cells(value)]


def _cells(column: Any) -> Iterator[tuple[Any, bool]]:
    missing = column.isna() if column.__class__.__name__ != "MultiIndex" else [False] * len(column)
    return zip(column.tolist(), (bool(each) for each in missing), strict=True)
