"""What `where` means, the same in every store: `{"kind": "failure", "year": {"$gte": 2024}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smolagents_memory._errors import UnsupportedValueError


Check = Callable[[Mapping[str, Any]], bool]

_MISSING = object()


def compiled(where: Mapping[str, Any] | None) -> Check | None:
    """A function that says whether metadata fits; None when everything does. A malformed filter raises here.

    A plain value asks for equality. The operators are `$eq $ne $gt $gte $lt $lte $in $nin $contains $exists`,
    and `$and`, `$or` and `$not` join filters. What is missing or of another type does not fit (`$ne`, `$nin`: does).

    >>> fits = compiled({"year": {"$gte": 2024}, "$or": [{"kind": "fact"}, {"kind": "failure"}]})
    >>> fits({"year": 2025, "kind": "fact"}), fits({"kind": "fact"})
    (True, False)
    """
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise UnsupportedValueError(f"where is a mapping such as {{'kind': 'failure'}}, not {where!r:.80}")
    checks = [_clause(name, wanted) for name, wanted in where.items()]
    if not checks:
        return None
    return lambda meta: all(check(meta) for check in checks)


def _clause(name: object, wanted: Any) -> Check:
    if not isinstance(name, str):
        raise UnsupportedValueError(f"a name in where is a text, not {name!r:.80}")
    if name in ("$and", "$or"):
        if not isinstance(wanted, (list, tuple)):
            raise UnsupportedValueError(f"{name} joins a list of filters, not {wanted!r:.80}")
        checks = [compiled(each) or _anything for each in wanted]
        join = all if name == "$and" else any
        return lambda meta: join(check(meta) for check in checks)
    if name == "$not":
        check = compiled(wanted) or _anything
        return lambda meta: not check(meta)
    if name.startswith("$"):
        raise UnsupportedValueError(f"where knows $and, $or and $not between filters, not {name}")
    if isinstance(wanted, Mapping) and wanted and all(str(key).startswith("$") for key in wanted):
        tests = [_test(operator, operand) for operator, operand in wanted.items()]
        return lambda meta: all(test(meta.get(name, _MISSING)) for test in tests)
    return lambda meta: _equal(meta.get(name, _MISSING), wanted)


def _anything(meta: Mapping[str, Any]) -> bool:
    return True


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


def _test(operator: str, operand: Any) -> Callable[[Any], bool]:
    test = _TESTS.get(operator)
    if test is None:
        raise UnsupportedValueError(f"where knows {', '.join(sorted(_TESTS))}, not {operator}")
    if operator in ("$in", "$nin") and not isinstance(operand, (list, tuple, set, frozenset)):
        raise UnsupportedValueError(f"{operator} takes a list, not {operand!r:.80}")
    return lambda value: test(value, operand)
