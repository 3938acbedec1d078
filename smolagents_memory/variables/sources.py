"""Reading the source of an agent's code: what it imports and deletes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from smolagents_memory.variables.allowed import Refused


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


def imported(statement: str, name: str) -> tuple[str, str | None]:
    """The module that a stored import names, and what of it or None, if it binds this name alone."""
    body = ast.parse(statement).body
    one = body[0] if len(body) == 1 else None
    if not isinstance(one, (ast.Import, ast.ImportFrom)) or len(one.names) != 1:
        raise Refused("it is no import")
    alias = one.names[0]
    if (alias.asname or alias.name) != name:
        raise Refused(f"it binds {alias.asname or alias.name}")
    if isinstance(one, ast.Import):
        return alias.name, None
    if one.level or not one.module:
        raise Refused("it is an import from beside")
    return one.module, alias.name


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
