"""Which source of a definition is defined again: an allowlist of syntax, in which nothing is worked out."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from smolagents_memory.upstream import PYTHON_TOOLS


_LONGEST = 500_000  # characters; a definition of more is none that an agent wrote
# calling these with literals does nothing but make a value: nothing that is restored can have the name of one
_MAKERS = {"bool", "complex", "dict", "float", "int", "list", "set", "str", "tuple"} & PYTHON_TOOLS
# methods that Python itself calls when a class is made, built upon or looked at
_RUN_BY_SUBCLASSES = {"__init_subclass__", "__class_getitem__", "__mro_entries__"}
_RUN_BY_PYTHON = {"__subclasshook__"}  # for every isinstance() there is
_NO_METHODS = {"__class__", "__dict__", "__module__", "__qualname__", "__name__", "__bases__", "__mro__"}
_STATED = {"__doc__", "__hash__", "__match_args__", "__slots__"}  # what a class body may say of itself
_NO_VALUES = {"__dict__", "__weakref__"}  # slots that Python itself fills
_NUMBERS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Refused(Exception):
    """A definition that is not run again; says why."""


def bare(source: str, *, keep_values: bool = False) -> str:
    """The definition without decorators and values; Refused where defining it again might call something.

    `keep_values` refuses values that would have to be worked out: an enum is nothing without its values.
    """
    if len(source) > _LONGEST:
        raise Refused("its source is longer than any that an agent writes")
    body = ast.parse(source).body
    if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.ClassDef)):
        raise Refused("it is no definition of a function or class")
    definition = body[0]
    if isinstance(definition, ast.FunctionDef):
        _check_function(definition, "its defaults")
    else:
        _check_class(definition, keep_values=keep_values)
    return ast.unparse(definition)


def without_annotations(source: str) -> tuple[str, dict[str, ast.expr]]:
    """The source of a class, each annotation in its body a mere text, and what these annotations are."""
    definition = ast.parse(source).body[0]
    found: dict[str, ast.expr] = {}
    for each in definition.body if isinstance(definition, ast.ClassDef) else ():
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = each.annotation
            each.annotation = ast.Constant(ast.unparse(each.annotation))
    return ast.unparse(definition), found


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _check_function(function: ast.FunctionDef, what: str) -> None:
    function.decorator_list = []
    if function.name in _NO_METHODS:
        raise Refused(f"it is called {function.name}")
    defaults = [*function.args.defaults, *(each for each in function.args.kw_defaults if each is not None)]
    _refuse_calls(defaults, f"{what} call" if what.endswith("s") else f"{what} calls")
    for each in defaults:
        if not _says_itself(each):
            raise Refused(f"{what} work out {ast.unparse(each)[:80]}")


def _check_class(cls: ast.ClassDef, *, keep_values: bool) -> None:
    cls.decorator_list = []
    _refuse_calls(cls.bases, "its class body calls")
    if cls.keywords:
        raise Refused("it has a metaclass, or gives its base an argument")
    for base in cls.bases:
        if not _is_name(base):
            raise Refused(f"its base {ast.unparse(base)[:80]} would have to be worked out")
    for statement in cls.body:
        if isinstance(statement, ast.FunctionDef):
            if statement.name in _RUN_BY_SUBCLASSES:
                raise Refused(f"its method {statement.name} would run again when its subclasses are defined")
            if statement.name in _RUN_BY_PYTHON:
                raise Refused(f"its method {statement.name} would be run by Python itself")
            _check_function(statement, "its class body")
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            _check_value(statement, keep=keep_values)
        elif not isinstance(statement, ast.Pass) and not _is_text(statement):
            raise Refused(f"its class body holds {type(statement).__name__}")


def _check_value(statement: ast.Assign | ast.AnnAssign, *, keep: bool) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if not all(isinstance(target, ast.Name) for target in targets):
        raise Refused("its class body changes something outside it")
    if statement.value is None:
        return
    _refuse_calls([statement.value], "its class body calls")
    names = [target.id for target in targets if isinstance(target, ast.Name) and is_dunder(target.id)]
    if _is_literal(statement.value):
        odd = next((name for name in names if name not in _STATED), None)
        if odd or ("__hash__" in names and not _is_none(statement.value)):
            raise Refused(f"its class body says what its {odd or '__hash__'} is")
        if "__slots__" in names:
            _check_slots(ast.literal_eval(statement.value))
        return
    if names or keep:
        raise Refused(f"its class body works out a value for {(names or ['a member'])[0]}")
    statement.value = ast.Constant(None)  # the value comes back as data


def _check_slots(named: Any) -> None:
    """A slot of such a name would be asked, and what lies in it called, in the place of a method."""
    odd = [name for name in ([named] if isinstance(named, str) else named) if is_dunder(name)]
    if set(odd) - _NO_VALUES:
        raise Refused(f"its class body has a slot called {min(set(odd) - _NO_VALUES)}")


def _refuse_calls(nodes: Iterable[ast.AST], what: str) -> None:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and not _makes_a_value(inner):
                raise Refused(f"{what} {ast.unparse(inner.func)[:80]}(...)")


def _says_itself(node: ast.AST | None) -> bool:
    """Whether an expression is a constant, a name, or a literal container of such, so that nothing is worked out."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(map(_says_itself, node.elts))
    if isinstance(node, ast.Dict):
        return all(map(_says_itself, [*node.keys, *node.values]))
    if isinstance(node, ast.Call):
        return _makes_a_value(node)
    return isinstance(node, (ast.Constant, ast.Name)) or _is_number(node)


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, _NUMBERS):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)


def _is_name(node: ast.AST) -> bool:
    """A name, or one of a module's."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_name(node.value))


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, or a remark that stands as one."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _makes_a_value(call: ast.Call) -> bool:
    known = isinstance(call.func, ast.Name) and call.func.id in _MAKERS
    return known and not call.keywords and all(map(_is_literal, call.args))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_literal(node: ast.AST) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
