"""Reading the source of an agent's code: what it imports and deletes, and which definitions may be run again."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any


# calling these with literals does nothing but make a value
_MAKERS = {"bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}
_RUN_BY_SUBCLASSES = {"__init_subclass__", "__class_getitem__", "__mro_entries__"}


class Refused(Exception):
    """A definition that is not run again; says why."""


def top_level(code: str) -> list[ast.stmt]:
    """Every statement that is not inside a function or class; none where the code cannot be parsed."""
    try:
        pending: list[ast.AST] = [ast.parse(code)]
    except (SyntaxError, ValueError):
        return []
    found: list[ast.stmt] = []
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.stmt):
            found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            pending[:0] = list(ast.iter_child_nodes(node))
    return found


def find_imports(code: str) -> dict[str, tuple[str, str, str | None]]:
    """What the imports of a code action bind: name → (the statement, the module, what of it or None)."""
    found: dict[str, tuple[str, str, str | None]] = {}
    for each in top_level(code) if "import" in code else ():
        if isinstance(each, ast.Import):
            for alias in each.names:
                statement = ast.unparse(ast.Import([alias]))
                found[alias.asname or alias.name] = (statement, alias.name, None)
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            for alias in _aliases(each):
                statement = ast.unparse(ast.ImportFrom(each.module, [alias], 0))
                found[alias.asname or alias.name] = (statement, each.module, alias.name)
    return found


def _aliases(statement: ast.ImportFrom) -> Iterator[ast.alias]:
    for alias in statement.names:
        if alias.name != "*":
            yield alias
            continue
        module = sys.modules.get(str(statement.module))
        public = [each for each in getattr(module, "__dict__", {}) if each[:1] != "_"]
        names = getattr(module, "__all__", None) or public
        yield from (ast.alias(str(name)) for name in names)


def is_bound_by(found: tuple[str, str, str | None], value: Any) -> bool:
    """Whether a variable still is what the import bound."""
    _, module_name, name = found
    module = sys.modules.get(module_name)
    wanted = module if name is None else getattr(module, "__dict__", {}).get(name)
    if isinstance(wanted, ModuleType) and isinstance(value, ModuleType):
        return wanted.__name__ == value.__name__  # the executor binds copies of modules
    return module is not None and value is wanted and wanted is not None


def deleted_names(code: str) -> set[str]:
    """The names that `del` statements of a code action name."""
    statements = [each for each in top_level(code) if isinstance(each, ast.Delete)] if "del" in code else []
    return {target.id for each in statements for target in each.targets if isinstance(target, ast.Name)}


# -- what may be run again -----------------------------------------------------------------------------------------


def bare(source: str, *, keep_values: bool = False) -> str:
    """The definition without decorators and values; Refused where defining it again might call something.

    `keep_values` refuses values that would have to be worked out: an enum is nothing without its values.
    """
    body = ast.parse(source).body
    if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.ClassDef)):
        raise Refused("it is no definition of a function or class")
    definition = body[0]
    if isinstance(definition, ast.FunctionDef):
        _check_function(definition, "its defaults call")
    else:
        _check_class(definition, keep_values=keep_values)
    return ast.unparse(definition)


def _check_function(function: ast.FunctionDef, what: str) -> None:
    function.decorator_list = []
    defaults = [*function.args.defaults, *(each for each in function.args.kw_defaults if each is not None)]
    _refuse_calls(defaults, what)


def _check_class(cls: ast.ClassDef, *, keep_values: bool) -> None:
    cls.decorator_list = []
    _refuse_calls([*cls.bases, *(keyword.value for keyword in cls.keywords)], "its class body calls")
    for statement in cls.body:
        if isinstance(statement, ast.FunctionDef):
            if statement.name in _RUN_BY_SUBCLASSES:
                raise Refused(f"its method {statement.name} would run again when its subclasses are defined")
            _check_function(statement, "its class body calls")
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            _check_value(statement, keep=keep_values)
        elif not isinstance(statement, (ast.Pass, ast.Expr)):
            raise Refused(f"its class body holds {type(statement).__name__}")
        else:
            _refuse_calls([statement], "its class body calls")


def names_needed(source: str) -> list[str]:
    """The names that must be there when a class is defined: those in its bases and annotations."""
    definition = ast.parse(source).body[0]
    if not isinstance(definition, ast.ClassDef):
        return []
    asked = [*definition.bases, *(each.annotation for each in definition.body if isinstance(each, ast.AnnAssign))]
    return [inner.id for each in asked for inner in ast.walk(each) if isinstance(inner, ast.Name)]


def _check_value(statement: ast.Assign | ast.AnnAssign, *, keep: bool) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    _refuse_calls([statement], "its class body calls")
    if not all(isinstance(target, ast.Name) for target in targets):
        raise Refused("its class body changes something outside it")
    if statement.value is None or _is_literal(statement.value):
        return
    dunder = [target.id for target in targets if isinstance(target, ast.Name) and is_dunder(target.id)]
    if dunder or keep:
        raise Refused(f"its class body works out a value for {(dunder or ['a member'])[0]}")
    statement.value = ast.Constant(None)  # the value comes back as data


def _refuse_calls(nodes: Iterable[ast.AST], what: str) -> None:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and not _makes_a_value(inner):
                raise Refused(f"{what} {ast.unparse(inner.func)[:80]}(...)")


def _makes_a_value(call: ast.Call) -> bool:
    known = isinstance(call.func, ast.Name) and call.func.id in _MAKERS
    return known and not call.keywords and all(map(_is_literal, call.args))


def _is_literal(node: ast.AST) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
