"""Noticing cheaply that a variable was changed in place, and how large it is, before anything is encoded."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import sys
import types
import uuid
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from operator import is_
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

from PIL import Image

from smolagents_memory.codec.graph import Encoder
from smolagents_memory.codec.lazily import np
from smolagents_memory.codec.registry import attributes, registry


# what never changes and holds nothing that could: to see that it is the same object is enough
_ATOMS = frozenset(
    (type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, dt.datetime, dt.date, dt.time, dt.timedelta)
    + (dt.timezone, uuid.UUID, range, slice, type(...), PosixPath, WindowsPath, PurePosixPath, PureWindowsPath)
    + (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
)
_OVERHEAD = 20  # what CPython spends on an object beyond its content, roughly
_CONTAINERS: tuple[Any, ...] = (list, dict, set, deque, tuple, frozenset)


def is_atom(value: Any) -> bool:
    """Whether a value can neither change nor hold anything that can."""
    return type(value) in _ATOMS


class Watch:
    """What a variable held when it was last looked at.

    It holds the members of every mutable part: read again, they must be the very same objects. Of what has no
    members (arrays, frames, images) it holds a fingerprint.

    Args:
        value: What the variable is bound to.
        limit: The walk ends where the estimated size passes this; `too_large` is then true.
        own_members: The members of an object of a class that smolagents' executor made, or of such a class; None
            for everything else.
        fingerprint: Bytes that change when an object without members does.
    """

    __slots__ = ("_fingerprint", "_held", "_length", "_marks", "_own_members", "ids", "size", "too_large", "value")

    def __init__(
        self, value: Any, limit: int, own_members: Callable[[Any], Any], fingerprint: Callable[[Any], bytes]
    ) -> None:
        self.value = value
        self.size = 0
        self.too_large = False
        self.ids: set[int] = set()  # of the mutable parts
        self._held: list[tuple[Any, list[Any]]] = []
        self._marks: list[tuple[Any, bytes]] = []
        self._own_members, self._fingerprint = own_members, fingerprint
        self._length = _length(value)
        self._walk(limit)

    @property
    def mutable(self) -> bool:
        """Whether the value can change while it stays the same object."""
        return bool(self._held or self._marks or self.too_large)

    def unchanged(self) -> bool:
        """Whether everything is as it was. What is too large is only measured by its length."""
        if self.too_large:
            return _length(self.value) == self._length
        try:
            for item, members in self._held:
                now = item if type(item) is list else self._members(item) or []
                if len(now) != len(members) or not all(map(is_, now, members)):
                    return False
            return all(self._fingerprint(item) == mark for item, mark in self._marks)
        except Exception:  # noqa: BLE001 — an object that fails when it is read is not what it was
            return False

    def _walk(self, limit: int) -> None:
        pending, seen = [self.value], set()
        while pending:
            item = pending.pop()
            if type(item) in _ATOMS:
                self.size += sys.getsizeof(item) - _OVERHEAD
            elif id(item) not in seen:
                seen.add(id(item))
                self._enter(item, pending, limit)
            if self.size > limit:
                self.too_large = True
                for known in (self.ids, self._held, self._marks):
                    known.clear()
                return

    def _enter(self, item: Any, pending: list[Any], limit: int) -> None:
        least = 8 * _length(item)
        members = None if self.size + least > limit else self._members(item)
        if members is None:
            self.size += least or content_size(item)
            self.ids.add(id(item))
            if self.size <= limit and not _never_changes(item):
                self._marks.append((item, self._fingerprint(item)))
            return
        self.size += _OVERHEAD
        if type(item) not in (tuple, frozenset):
            self.ids.add(id(item))
            self._held.append((item, members))
        if _ATOMS.issuperset(map(type, members)):
            self.size += sum(map(sys.getsizeof, members)) - _OVERHEAD * len(members)
        else:
            pending.extend(members)

    def _members(self, item: Any) -> list[Any] | None:
        """What a container or an object with attributes holds; None for what has no members."""
        kind = type(item)
        if kind is dict:
            return [*item.keys(), *item.values()]
        if kind in _CONTAINERS:
            return list(item)
        members = self._own_members(item)
        if members is None:
            members = _attributes(item)
        for base in _CONTAINERS:
            if isinstance(item, base):  # never by a method of the agent's own class
                return [*(members or ()), *base.__iter__(item), *(dict.values(item) if base is dict else ())]
        return list(item.ravel().tolist()) if members is None and _is_object_array(item) else members


def _attributes(item: Any) -> list[Any] | None:
    """What hangs on a dataclass, an error or an instance of a subclass of Python's own containers."""
    if type(item) in registry.values or isinstance(item, type):
        return None
    if isinstance(item, BaseException):
        return [*item.args, *item.__dict__.values()]
    if dataclasses.is_dataclass(item):
        return list(attributes(item).values())
    return list(getattr(item, "__dict__", {}).values()) if isinstance(item, _CONTAINERS) else None


def content_size(value: Any) -> int:
    """How many bytes an object without members holds, at a glance."""
    if type(value).__module__.partition(".")[0] == "pandas":
        return _frame_size(value)
    size = getattr(value, "nbytes", None)  # arrays
    if isinstance(size, int):
        return size
    if _is_picture(value):
        return int(value.width * value.height * len(value.getbands()))
    return sys.getsizeof(value)


def _frame_size(value: Any) -> int:
    usage = getattr(value, "memory_usage", None)
    if usage is None:
        return sys.getsizeof(value)
    columns = [value] if getattr(value, "ndim", 1) == 1 else [value.iloc[:, at] for at in range(value.shape[1])]
    texts = sum(1 for column in columns if str(column.dtype) in ("object", "string", "str"))
    total = usage(deep=False)
    return int(total if isinstance(total, int) else total.sum()) + 40 * texts * len(value)


def _length(value: Any) -> int:
    for base in _CONTAINERS:
        if isinstance(value, base):
            return int(base.__len__(value))
    return int(getattr(value, "size", 0)) if _is_object_array(value) else 0


def _is_object_array(value: Any) -> bool:
    return _is_array(value) and value.dtype.kind == "O"


def _is_array(value: Any) -> bool:
    return sys.modules.get("numpy") is not None and type(value) is np.ndarray


def _is_picture(value: Any) -> bool:
    return isinstance(value, Image.Image) and type(value).__module__.startswith("PIL.")  # smolagents' own is a shell


def _never_changes(value: Any) -> bool:
    scalars = (np.generic, np.dtype) if sys.modules.get("numpy") is not None else ()
    return isinstance(value, (type, *scalars))


def fingerprint(value: Any, encoder: Encoder) -> bytes:
    """What changes when a value without members does: of its bytes and shape, or of what the encoder makes of it."""
    data: bytes = b""
    if _is_array(value) and not value.dtype.hasobject:
        head, data = repr((value.dtype, value.shape, value.flags.f_contiguous)), value.tobytes()
    elif type(value) is bytearray:
        head, data = "", bytes(value)
    elif _is_picture(value):
        head, data = repr((value.mode, value.size)), value.tobytes()
    else:
        head = json.dumps([encoder.encode(value), sorted(encoder.blobs.data)])
    return hashlib.sha256(head.encode() + data).digest()
