"""What `where` means, the same in every store: `{"kind": "failure", "year": {"$gte": 2024}}`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError


Check = Callable[[Mapping[str, Any]], bool]
Verdict = Check | bool  # True, False: a filter that says the same of everything, by its form

DEEPEST = 50  # filters within filters

_MISSING = object()
_EMPTY = (str, bytes, list, tuple, set, frozenset, Mapping)


def compiled(where: Mapping[str, Any] | None) -> Check | None:
    """A function that says whether metadata fits; None when everything does. A malformed filter raises here.

    A plain value asks for equality. The operators are `$eq $ne $gt $gte $lt $lte $in $nin $contains $exists`,
    and `$and`, `$or` and `$not` join filters. What is missing or of another type does not fit (`$ne`, `$nin`: does).
    An empty filter fits everything, `$or` over no filter and `$in` over no value fit nothing.

    >>> fits = compiled({"year": {"$gte": 2024}, "$or": [{"kind": "fact"}, {"kind": "failure"}]})
    >>> fits({"year": 2025, "kind": "fact"}), fits({"kind": "fact"})
    (True, False)
    """
    verdict = True if where is None else _Reading(deleting=False).filter(where)
    return None if verdict is True else _as_check(verdict)


def chosen(where: Mapping[str, Any]) -> Check:
    """What fits a filter by which something is to be deleted. One that does not say what is refused.

    That is one which is true of everything by its form, or of every memory that merely lacks what it asks for, and one
    that compares with something empty: this is what a program makes of a choice that nobody made.

    >>> chosen({"$not": {"$or": []}})
    Traceback (most recent call last):
    ...
    smolagents_memory._errors.UnsupportedValueError: the filter {'$not': {'$or': []}} fits everything, ...
    """
    verdict = _Reading(deleting=True).filter(where)
    if verdict is True:
        raise UnsupportedValueError(
            f"the filter {brief(where)} fits everything, and nothing was deleted; name what is to be forgotten, or "
            "say clear()"
        )
    if _fits_lacking(where) == 1:
        raise UnsupportedValueError(
            f"the filter {brief(where)} fits every memory that lacks what it asks for, and nothing was deleted; say "
            "beside it what a memory must have, such as {'kind': 'fact', …} or {'n': {'$exists': True, '$ne': 5}}, or "
            "look what it fits with items(where=…), and forget that by key"
        )
    return _as_check(verdict)


class _Reading:
    """How one filter is read: to search, or to delete by it."""

    def __init__(self, *, deleting: bool) -> None:
        self._deleting = deleting

    def filter(self, where: Any, depth: int = 0) -> Verdict:
        if not isinstance(where, Mapping):
            raise UnsupportedValueError(f"where is a mapping such as {{'kind': 'failure'}}, not {brief(where)}")
        if depth > DEEPEST:
            raise UnsupportedValueError(f"where is at most {DEEPEST} filters deep; this one goes on beyond that")
        return _all([self._clause(name, wanted, depth) for name, wanted in where.items()])

    def _clause(self, name: object, wanted: Any, depth: int) -> Verdict:
        if not isinstance(name, str):
            raise UnsupportedValueError(f"a name in where is a text, not {brief(name)}")
        if name in ("$and", "$or"):
            if not isinstance(wanted, (list, tuple)):
                raise UnsupportedValueError(f"{name} joins a list of filters, not {brief(wanted)}")
            parts = [self.filter(each, depth + 1) for each in wanted]
            return _all(parts) if name == "$and" else _not(_all([_not(part) for part in parts]))
        if name == "$not":
            return _not(self.filter(wanted, depth + 1))
        if name.startswith("$"):
            raise UnsupportedValueError(f"where knows $and, $or and $not between filters, not {name:.80}")
        operators = operators_of(wanted)
        if operators is not wanted and isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted):
            raise UnsupportedValueError(
                f"{brief(name)} is asked for by operators alone, or by a value alone, and not by {brief(wanted)}; "
                "{'$eq': …} asks for a mapping that has such names in it"
            )
        return _all([self._test(name, operator, operand) for operator, operand in operators.items()])

    def _test(self, name: str, operator: str, operand: Any) -> Verdict:
        test = _TESTS.get(operator)
        if test is None:
            raise UnsupportedValueError(f"where knows {', '.join(sorted(_TESTS))}, not {operator:.80}")
        if operator in ("$in", "$nin"):
            if not isinstance(operand, (list, tuple, set, frozenset)):
                raise UnsupportedValueError(f"{operator} takes a list, not {brief(operand)}")
            if not operand:
                return operator == "$nin"
        if self._deleting and _hollow(operand):
            raise UnsupportedValueError(
                f"{brief(name)} is compared with {brief(operand)}, which is empty, and nothing was deleted; look what "
                "that fits with items(where=…), and forget it by key"
            )
        return lambda meta: test(meta.get(name, _MISSING), operand)


def operators_of(wanted: Any) -> Mapping[str, Any]:
    """What is asked of a field, by operators; a plain value asks for equality."""
    if isinstance(wanted, Mapping) and wanted and all(str(key).startswith("$") for key in wanted):
        return wanted
    return {"$eq": wanted}


def _fits_lacking(where: Mapping[str, Any], most: bool = True) -> float:
    """Whether a filter that was read may fit a memory with nothing in any field: 1 yes, 0 no, 0.5 it asks for that.

    Nothing is no value or None, whichever makes it fit: the most that a filter may say, and under a $not the least.
    """
    return min((_clause_fits_lacking(name, wanted, most) for name, wanted in where.items()), default=1.0)


def _clause_fits_lacking(name: str, wanted: Any, most: bool) -> float:
    if name in ("$and", "$or"):
        parts = [_fits_lacking(each, most) for each in wanted]
        return min(parts, default=1.0) if name == "$and" else max(parts, default=0.0)
    if name == "$not":
        return 1 - _fits_lacking(wanted, not most)
    bound = max if most else min
    return min(
        0.5 if operator == "$exists" else float(bound(_TESTS[operator](value, operand) for value in (_MISSING, None)))
        for operator, operand in operators_of(wanted).items()
    )


def _as_check(verdict: Verdict) -> Check:
    return (lambda meta: verdict) if isinstance(verdict, bool) else verdict


def _all(parts: Iterable[Verdict]) -> Verdict:
    checks = [part for part in parts if part is not True]
    if any(check is False for check in checks):
        return False
    tests = [check for check in checks if not isinstance(check, bool)]
    if len(tests) < 2:
        return tests[0] if tests else True
    return lambda meta: all(test(meta) for test in tests)


def _not(part: Verdict) -> Verdict:
    return not part if isinstance(part, bool) else lambda meta: not part(meta)


def _hollow(value: Any, depth: int = 0) -> bool:
    """Whether a value is empty, or holds nothing that is not."""
    if not isinstance(value, _EMPTY) or depth > DEEPEST:
        return False
    return not value or (not isinstance(value, (str, bytes)) and all(_hollow(each, depth + 1) for each in value))


def _equal(value: Any, wanted: Any) -> bool:
    if value is _MISSING or isinstance(value, bool) != isinstance(wanted, bool):
        return False
    try:
        return bool(value == wanted)
    except Exception:  # noqa: BLE001 — an array compares to an array
        return False


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, operand: Any) -> bool:
        if value is _MISSING:
            return False
        try:
            return bool(compare(value, operand))
        except Exception:  # noqa: BLE001 — of another type: it does not fit
            return False

    return test


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda value, operand: not _equal(value, operand),
    "$gt": _ordered(lambda value, operand: value > operand),
    "$gte": _ordered(lambda value, operand: value >= operand),
    "$lt": _ordered(lambda value, operand: value < operand),
    "$lte": _ordered(lambda value, operand: value <= operand),
    "$in": lambda value, operand: any(_equal(value, each) for each in operand),
    "$nin": lambda value, operand: not any(_equal(value, each) for each in operand),
    "$contains": _ordered(lambda value, operand: operand in value),
    "$exists": lambda value, operand: (value is not _MISSING) == bool(operand),
}
