"""What Python would call by itself: bases, annotations, keys and instances are looked at before anything is made."""

from __future__ import annotations

import ast
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import Any

from smolagents_memory.upstream import made_by_code, source_of
from smolagents_memory.variables.allowed import Refused, is_dunder


_HEAPTYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made by a class statement
_METACLASSES = (type, ABCMeta, EnumMeta)
_HARMLESS_TO_SUBCLASSES = {"abc", "builtins", "collections", "collections.abc", "enum", "typing"}
_OF_ENUMS = {object, str, int, float}  # what a member of an enum may be built on: made of a literal by C alone
_SHOWN = {"__str__", "__repr__", "__format__", "__doc__", "__module__", "__qualname__"}
_UNASKED = ("__del__", "__getattribute__", "__getattr__", "__get__", "__set__", "__delete__", "__set_name__")
_QUIET = {"__init__", "__post_init__", "__call__", "__enter__", "__exit__"}
_NEVER_CALLED = {"__init__", "__post_init__"}
_GENERIC: tuple[Any, ...] = (list, dict, tuple, set, frozenset, type)
_WITHIN = 40  # annotations are not nested deeper


def is_heap_class(cls: Any) -> bool:
    """Whether a class statement made this class."""
    return bool(cls.__flags__ & _HEAPTYPE)


def heap_classes(cls: Any) -> Iterator[Any]:
    """The classes among its bases, itself included, that a class statement made."""
    return filter(is_heap_class, type.mro(cls))


def built_in(cls: Any) -> Any:
    """The class of Python's own, written in C, that a class is built on."""
    return next(base for base in type.mro(cls) if not is_heap_class(base))


def why_no_instance(cls: Any, own: Collection[int]) -> str:
    """Why an instance of a class cannot be brought back: Python would run something of it unasked. Else nothing.

    `own` are the ids of all that the data defined.
    """
    for base in heap_classes(cls):
        for name in _UNASKED if id(base) in own else ("__del__",):
            if name in vars(base):
                return f"its class {base.__name__} has {name}, which Python itself would run"
    return ""


def is_lively(made: Any, own: Collection[int]) -> bool:
    """Whether code that is only given such a class's instance, or such a function, might run something of it.

    `own` are the ids of all that the data defined.
    """
    return any(is_dunder(name) and name not in _QUIET for name in _methods(made, own))


def is_callable(made: Any, own: Collection[int]) -> bool:
    """Whether code that calls methods of such a class's instance, or such a function, might run something of it."""
    return any(name not in _NEVER_CALLED for name in _methods(made, own))


def _methods(made: Any, own: Collection[int]) -> Iterator[str]:
    if not isinstance(made, type):
        return iter(("__call__", "__get__"))
    bases = [base for base in type.mro(made) if id(base) in own]
    return (name for base in bases for name, each in vars(base).items() if is_method(each) and is_of_code(each))


def is_method(value: Any) -> bool:
    """Whether this is a function in a class body: some of them Python wraps on its own."""
    return isinstance(value, (FunctionType, staticmethod, classmethod))


def is_of_code(method: Any) -> bool:
    """Whether an agent's code made a method: not `dataclass` or `namedtuple`, from the fields alone."""
    function = getattr(method, "__func__", method)
    return source_of(function) is not None or made_by_code(function) is not None


# -- bases ---------------------------------------------------------------------------------------------------------


def check_bases(definition: ast.ClassDef, find: Callable[[str], Any], own: Collection[int]) -> None:
    """Refused where making a class upon these bases would run anything but Python's own code.

    `find` gives what a name stands for, or raises KeyError.
    """
    bases = [_base(each, find) for each in definition.bases]
    for base in bases:
        if not issubclass(type(base), type):
            raise Refused("one of its bases is no class")
        if type(base) not in _METACLASSES or type in type.mro(base):
            raise Refused(f"its base {base.__name__} has a metaclass of its own")
        for each in type.mro(base):
            if id(each) in own or each is object:
                continue
            if "__init_subclass__" in vars(each) and each.__module__ not in _HARMLESS_TO_SUBCLASSES:
                raise Refused(f"its base {base.__name__} runs something when a class is built on it")
    if any(type(base) is EnumMeta for base in bases):
        _check_enum(definition, bases, own)


def _check_enum(definition: ast.ClassDef, bases: Iterable[Any], own: Collection[int]) -> None:
    """Making an enum makes its members: by Python's own code alone."""
    odd = [each.name for each in definition.body if isinstance(each, ast.FunctionDef) and _is_special(each.name)]
    for each in definition.body:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        odd += [one.id for one in targets if isinstance(one, ast.Name) and _is_special(one.id)]
    for cls in {cls: None for base in bases for cls in type.mro(base)}:
        if id(cls) in own:
            odd += [name for name, value in vars(cls).items() if is_method(value) and _is_special(name)]
        elif cls not in _OF_ENUMS and cls.__module__ != "enum":
            raise Refused(f"it is an enum built on {cls.__name__}")
    if odd:
        raise Refused(f"its {odd[0]} would run when the enum is made")


def _is_special(name: str) -> bool:
    return name[:1] == "_" and name[-1:] == "_" and name not in _SHOWN


def _base(node: ast.AST, find: Callable[[str], Any]) -> Any:
    try:
        return _named(node, find)
    except KeyError as error:
        raise Refused(f"{error.args[0]} is not defined") from None


def _named(node: ast.AST, find: Callable[[str], Any]) -> Any:
    """What a name stands for, or one of a module's names; nothing is asked for it."""
    if isinstance(node, ast.Name):
        return find(node.id)
    if not isinstance(node, ast.Attribute):
        raise KeyError(ast.unparse(node)[:80])
    module = _named(node.value, find)
    if type(module) is not ModuleType or node.attr not in vars(module):
        raise KeyError(ast.unparse(node)[:80])
    return vars(module)[node.attr]


# -- annotations ---------------------------------------------------------------------------------------------------


def annotation(node: ast.expr, find: Callable[[str], Any]) -> Any:
    """What an annotation means where that can be told without asking anybody; else its text."""
    try:
        return _meaning(node, find, 0)
    except Exception:  # noqa: BLE001 — whatever `typing` has against it
        return ast.unparse(node)


def _meaning(node: ast.expr, find: Callable[[str], Any], depth: int) -> Any:
    if depth > _WITHIN:
        raise KeyError("it is nested too deeply")
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _a_type(_named(node, find))
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = [_meaning(each, find, depth + 1) for each in node.elts]
        return tuple(parts) if isinstance(node, ast.Tuple) else parts
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _a_type(_meaning(node.left, find, depth + 1)) | _a_type(_meaning(node.right, find, depth + 1))
    if isinstance(node, ast.Subscript):
        generic, inner = _meaning(node.value, find, depth + 1), _meaning(node.slice, find, depth + 1)
        if generic in _GENERIC or _is_of_typing(generic):
            return generic[inner]
    raise KeyError(ast.unparse(node)[:80])


def _a_type(value: Any) -> Any:
    if value is None or type(value) in _METACLASSES or _is_of_typing(value):
        return value
    raise KeyError("no type")


def _is_of_typing(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "typing" or (kind.__module__, kind.__name__) in {
        ("types", "GenericAlias"),
        ("types", "UnionType"),
        ("dataclasses", "_KW_ONLY_TYPE"),
        ("dataclasses", "InitVar"),
    }


# -- members of enums ----------------------------------------------------------------------------------------------


def member(cls: Any, value: Any) -> Any:
    """The member of an enum that has a value; it is looked up, by comparing what literals make."""
    for each in cls.__members__.values():
        if same_literal(each._value_, value):
            return each
    if type(value) is int and issubclass(cls, int) and value >= 0:  # several flags together
        return cls(value)
    if type(value) is int and any(base.__name__ == "Flag" for base in type.mro(cls) if base.__module__ == "enum"):
        return cls(value)
    raise ValueError(f"the enum {cls.__name__} has no such member")


def same_literal(one: Any, other: Any) -> bool:
    """Whether two values are the same that a literal can make; of others no method is called."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in (tuple, list):
        return len(one) == len(other) and all(map(same_literal, one, other))
    if kind is dict:
        return same_literal(list(one.items()), list(other.items()))
    if kind in (set, frozenset):
        return all(type(each) in _CONSTANT for each in [*one, *other]) and bool(one == other)
    return kind in _CONSTANT and bool(one == other)


_CONSTANT: tuple[Any, ...] = (type(None), bool, int, float, complex, str, bytes, type(...))
