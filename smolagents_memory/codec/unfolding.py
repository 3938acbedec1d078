"""What shares its parts is small as data, and may be endless as text: it is measured before it is shown."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.codec.lazily import np, pd
from smolagents_memory.codec.measures import count_of


_SEQUENCES = (list, tuple, set, frozenset, deque)
_VISIT = 64  # what a part costs each time it is shown
_ESCAPED = 4  # letters for a byte
_LEAVES = frozenset((int, float, bool, type(None)))
_AT_ONCE = 1_000
_IMAGE = 256  # what a message holds of each image, besides the image


def check_images(images: Any, allowance: Allowance) -> None:
    """OversizedError where a message of these holds more than the allowance: a range is an image for each number."""
    allowance.take(_IMAGE * count_of(images), "a step of so many images")


def check_unfolding(values: Iterable[Any], allowance: Allowance) -> None:
    """OversizedError where showing these takes longer than the allowance: what is shared is shown again and again."""
    path: set[int] = set()
    pending: list[Any] = [iter(values)]
    entered: list[int] = []
    visits = 0
    while pending:
        value = next(pending[-1], pending)
        if value is pending:
            pending.pop()
            if entered:
                path.discard(entered.pop())
            continue
        visits += 1
        if isinstance(value, (str, bytes)):
            visits += len(value) * (1 if isinstance(value, str) else _ESCAPED) // _VISIT
        elif type(value) not in _LEAVES and id(value) not in path and (parts := _parts(value)):
            path.add(id(value))
            entered.append(id(value))
            pending.append(iter(parts))
        if visits >= _AT_ONCE:
            allowance.take(_VISIT * visits, "what shares its parts")
            visits = 0


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    if isinstance(value, _SEQUENCES):
        return list(value)
    if isinstance(value, BaseException):
        return [*value.args, *value.__dict__.values()]
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    return _cells(value) or list(getattr(value, "__dict__", {}).values())


def _cells(value: Any) -> list[Any]:
    """The objects in an array, a column or a frame."""
    if hasattr(sys.modules.get("numpy"), "ndarray") and isinstance(value, np.ndarray):
        return list(value.ravel().tolist()) if value.dtype.kind == "O" else []
    if not hasattr(sys.modules.get("pandas"), "DataFrame"):
        return []
    if isinstance(value, pd.DataFrame):
        return [value.iloc[:, at] for at in range(value.shape[1])]
    return value.tolist() if isinstance(value, (pd.Series, pd.Index)) and value.dtype.kind == "O" else []
