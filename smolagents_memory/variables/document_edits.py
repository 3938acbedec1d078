"""The difference between two JSON documents, as edits that turn the one into the other."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

from smolagents_memory._errors import DecodeError


Edit = list[Any]
_FEW = 8  # so many edits inside a list are never worse than writing its changed part anew


def difference(old: Any, new: Any) -> list[Edit]:
    """The edits that turn `old` into `new`. Parts that are the same object in both cost nothing.

    1, 1.0 and True are not the same, and below the top the order of a dict's keys counts.

    >>> difference({"a": [1, 2], "b": 0}, {"a": [1, 2, 3], "c": True})
    [['-', ['b']], ['~', ['a'], 2, 0, [3]], ['=', ['c'], True]]
    """
    edits: list[Edit] = []
    _compare(old, new, [], edits)
    return edits


def apply(document: Any, edits: Iterable[Edit]) -> None:
    """Edit `document` in place; edits that do not fit it raise DecodeError.

    >>> document = {"a": [1, 2], "b": 0}
    >>> apply(document, [["-", ["b"]], ["~", ["a"], 2, 0, [3]], ["=", ["c"], True]])
    >>> document
    {'a': [1, 2, 3], 'c': True}
    """
    for edit in edits:
        try:
            _apply(document, copy.deepcopy(edit))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise DecodeError(f"an edit that does not fit what it edits: {str(edit)[:80]} ({error!r})") from error


def _apply(document: Any, edit: Edit) -> None:
    kind, path, *rest = edit
    *way, last = path
    for key in way:
        document = document[key]
    if kind == "=":
        document[last] = rest[0]
    elif kind == "-":
        del document[last]
    elif kind == "~":
        start, removed, items = rest
        document[last][start : start + removed] = items
    else:
        raise ValueError(f"the kind {kind!r}")


def _compare(old: Any, new: Any, path: list[Any], edits: list[Edit]) -> None:
    if old is new:
        return
    if type(old) is dict and type(new) is dict:
        _compare_dicts(old, new, path, edits)
    elif type(old) is list and type(new) is list:
        _compare_lists(old, new, path, edits)
    elif not _same(old, new):
        edits.append(["=", path, new])


def _compare_dicts(old: dict[str, Any], new: dict[str, Any], path: list[Any], edits: list[Edit]) -> None:
    added = [key for key in new if key not in old]
    if path and [key for key in old if key in new] + added != list(new):
        edits.append(["=", path, new])  # the keys were put into another order
        return
    edits += [["-", [*path, key]] for key in old if key not in new]
    for key, value in new.items():
        if key in old:
            _compare(old[key], value, [*path, key], edits)
        else:
            edits.append(["=", [*path, key], value])


def _compare_lists(old: list[Any], new: list[Any], path: list[Any], edits: list[Edit]) -> None:
    start, old_end, new_end = 0, len(old), len(new)
    while start < min(old_end, new_end) and _same(old[start], new[start]):
        start += 1
    while min(old_end, new_end) > start and _same(old[old_end - 1], new[new_end - 1]):
        old_end, new_end = old_end - 1, new_end - 1
    if start == old_end == new_end:
        return
    anew: Edit = ["~", path, start, old_end - start, new[start:new_end]]
    if old_end != new_end:
        edits.append(anew)
        return
    inside: list[Edit] = []
    for at in range(start, new_end):
        _compare(old[at], new[at], [*path, at], inside)
    shorter = len(inside) <= _FEW or len(json.dumps(inside)) < len(json.dumps(anew))
    edits.extend(inside if shorter else [anew])


def _same(old: Any, new: Any) -> bool:
    if old is new:
        return True
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is list:
        return len(old) == len(new) and all(map(_same, old, new))
    if kind is dict:
        return list(old) == list(new) and all(map(_same, old.values(), new.values()))
    return bool(old == new) and (kind is not float or repr(old) == repr(new))
