"""The tool calls inside a CodeAgent's code, read from the code without running it."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


_BUILTINS = frozenset(dir(builtins))
_LEAVES = frozenset((ast.Name, ast.Constant))  # of expressions, nothing of interest is in them
_FAILED_AT = re.compile(r"^Code execution failed at line '(.*?)' due to: ", re.DOTALL)


@dataclass(frozen=True)
class CodeCall:
    """A call as it is written in the code.

    Attributes:
        name: The function called.
        arguments: By parameter name, or by position ("0", "1" …) where the name is not known. Literals as values,
            everything else as `SourceText`.
        statement: The number of the statement, at the top level of the code, that it is written in.
    """

    name: str
    arguments: dict[str, Any]
    statement: int


def calls_in(code: str, tools: Mapping[str, Sequence[str]] | None = None) -> list[CodeCall]:
    """The calls of `tools` (names, with the names of their parameters) in a piece of code, in the order written.

    Without `tools` every call by a plain name counts that is neither a builtin nor made or imported by the code.
    Code that cannot be parsed has none.

    >>> calls_in("for c in cities:\\n    print(weather(c, unit='C'))")
    [CodeCall(name='weather', arguments={'0': <source: c>, 'unit': 'C'}, statement=0)]
    """
    parameters: Mapping[str, Sequence[str]] = tools or {}
    return [
        CodeCall(name, _arguments(node, code, parameters.get(name, ())), number)
        for name, node, number in _written(code, tools)
    ]


def names_called(code: str, tools: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """The name of each of the calls that `calls_in` finds.

    >>> names_called("for c in cities:\\n    print(weather(c, unit='C'))")
    ['weather']
    """
    return [name for name, _, _ in _written(code, tools)]


def _written(code: str, tools: Mapping[str, Sequence[str]] | None) -> list[tuple[str, ast.Call, int]]:
    """Each call: the name, the node, the number of the statement that it is written in."""
    if tools and code.isascii() and not any(name in code for name in tools):
        return []  # parsing is what takes long when a long history is read (other letters may be ways to write these)
    tree = parsed(code)
    if tree is None:
        return []
    own: set[str] = set()
    found: list[tuple[str, ast.Call, int]] = []
    for number, statement in enumerate(tree.body):
        for node in in_order(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found.append((node.func.id, node, number))
            elif not tools:
                own.update(_names_made(node))
    if tools:
        return [each for each in found if each[0] in tools]
    return [each for each in found if each[0] not in own and each[0] not in _BUILTINS]


def is_reached(code: str, name: str) -> bool:
    """Whether code that ran without an error has called this: at the top level, under no condition.

    >>> is_reached("x = 6; final_answer(x * 7)", "final_answer")
    True
    >>> is_reached("if x: final_answer(x)", "final_answer")
    False
    """
    tree = parsed(code) if name in code else None
    return tree is not None and any(
        isinstance(statement, (ast.Expr, ast.Assign))
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == name
        for statement in tree.body
    )


class SourceText(str):
    """An argument that is not a literal: its source text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<source: {self}>"


def failing_statement(code: str, error: object) -> int | None:
    """The number of the top-level statement that an execution error names, if it can be found in the code."""
    named = _FAILED_AT.match(str(error))
    tree = parsed(code)
    if named is None or tree is None:
        return None
    segments = [ast.get_source_segment(code, statement) for statement in tree.body]
    return segments.index(named[1]) if segments.count(named[1]) == 1 else None


def parsed(code: str) -> ast.Module | None:
    """The code as a tree; None where it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's "\d" is not the reader's business
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # whatever a model may write
        return None


def in_order(node: ast.AST) -> list[ast.AST]:
    """The node and all in it, in the order written; a long history is read in one go, so this must be quick."""
    found, waiting = [], [node]  # not by recursion: a model may write an expression a thousand levels deep
    while waiting:
        node = waiting.pop()
        found.append(node)
        if type(node) in _LEAVES:
            continue
        inside: list[ast.AST] = []
        for value in map(node.__dict__.get, node._fields):
            if isinstance(value, list):
                inside += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                inside.append(value)
        inside.reverse()
        waiting += inside
    return found


def _names_made(node: ast.AST) -> Iterator[str]:
    """The names that a piece of code gives to things of its own."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.arg):
        yield node.arg


def _arguments(call: ast.Call, code: str, parameters: Sequence[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for place, node in enumerate(call.args):
        name = parameters[place] if place < len(parameters) else str(place)
        arguments[name] = _value(node, code)
    for keyword in call.keywords:
        arguments[keyword.arg or "**"] = _value(keyword.value, code)
    return arguments


def _value(node: ast.expr, code: str) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return SourceText(ast.get_source_segment(code, node) or ast.unparse(node))
