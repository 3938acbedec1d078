"""The names in a CodeAgent's code: which it reads and makes, and what it binds them to, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from smolagents_memory.steps.code_calls import in_order, parsed


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_ALWAYS_A_VALUE = frozenset({"bool", "chr", "float", "format", "int", "len", "ord", "repr", "str"})  # of whatever
_VALUE_OF_VALUES = frozenset({"abs", "divmod", "max", "min", "pow", "round", "sum"})
_Local = frozenset[str]


@dataclass(frozen=True)
class Names:
    """The names in one statement.

    Attributes:
        read: Those that it reads, or deletes.
        made: Those to which it may give something.
        imported: Those that it imports.
        own: Those that functions in it give to things of their own, beside their parameters.
        bound: Those that have something else once it ran: by a plain assignment or a definition.
        value: What a plain assignment binds them to.
        function: Whether it defines a function that holds nothing but its code.
    """

    read: frozenset[str]
    made: frozenset[str]
    imported: frozenset[str]
    own: frozenset[str]
    bound: frozenset[str] = frozenset()
    value: ast.expr | None = None
    function: bool = False


def names_in(code: str) -> list[Names]:
    """The names in each statement at the top level of a piece of code; of code that cannot be parsed none.

    >>> names_in("page = search(word)")[0].read == {"search", "word"}
    True
    >>> names_in("def shout(text):\\n    return text + mark")[0].read
    frozenset({'mark'})
    """
    tree = parsed(code)
    return [] if tree is None else [_names(statement) for statement in tree.body]


def is_value(node: ast.expr, values: Iterable[str], known: Iterable[str] = ()) -> bool:
    """Whether an expression gives a number, a text, or the like: something that nobody can change later.

    `values` are names of such things, `known` those that mean something else than Python's own.

    >>> is_value(ast.parse("6 * n", mode="eval").body, ["n"]), is_value(ast.parse("[n]", mode="eval").body, ["n"])
    (True, False)
    """
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name):
            if each.id not in values:
                return False
        elif isinstance(each, ast.Call):
            called = each.func.id if isinstance(each.func, ast.Name) and each.func.id not in known else ""
            if called in _ALWAYS_A_VALUE:
                continue
            if called not in _VALUE_OF_VALUES or each.keywords:
                return False
            waiting += each.args
        elif isinstance(each, (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple)):
            waiting += [part for part in ast.iter_child_nodes(each) if isinstance(part, ast.expr)]
        elif not isinstance(each, (ast.Constant, ast.JoinedStr)):
            return False
    return True


def _names(statement: ast.stmt) -> Names:
    read, made, imported, own = set[str](), set[str](), set[str](), set[str]()
    waiting: list[tuple[ast.AST, _Local]] = [(statement, frozenset())]
    while waiting:
        node, local = waiting.pop()
        if isinstance(node, ast.Name):
            if node.id not in local:
                (made if isinstance(node.ctx, ast.Store) else read).add(node.id)
        elif isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            inside = _bound_inside(node)
            own |= inside
            made.update([] if isinstance(node, ast.Lambda) else [node.name])
            waiting += _within_function(node, local, local | inside | {each.arg for each in _parameters(node.args)})
        elif isinstance(node, _COMPREHENSIONS):
            waiting += _within_comprehension(node, local)
        else:
            (imported if isinstance(node, (ast.Import, ast.ImportFrom)) else made).update(_given(node) - local)
            waiting += [(each, local) for each in ast.iter_child_nodes(node)]
    bound, value = _bound_by(statement)
    return Names(
        frozenset(read), frozenset(made), frozenset(imported), frozenset(own), bound, value, _is_code_alone(statement)
    )


def _given(node: ast.AST) -> set[str]:
    """The names that a part of code which is no name itself gives to something."""
    if isinstance(node, ast.ClassDef):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return set(node.names)
    name = getattr(node, "name", getattr(node, "rest", None))  # `except … as name`, and what `match` has
    return {name} if isinstance(name, str) and not isinstance(node, ast.alias) else set()


def _parameters(given: ast.arguments) -> list[ast.arg]:
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]


def _bound_inside(function: ast.AST) -> _Local:
    """What a function, or one within it, calls its own."""
    bound, shared = set[str](), set[str]()
    for node in in_order(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            shared.update(node.names)
        elif isinstance(node, ast.Name):
            bound.update([node.id] if isinstance(node.ctx, ast.Store) else [])
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            bound.update(_given(node))
    return frozenset(bound - shared)


def _within_function(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, outside: _Local, inside: _Local
) -> Iterator[tuple[ast.AST, _Local]]:
    given = function.args
    yield from ((each, outside) for each in (*given.defaults, *given.kw_defaults) if each is not None)
    if isinstance(function, ast.Lambda):
        yield function.body, inside
        return
    yield from ((each, outside) for each in function.decorator_list)
    yield from ((each, inside) for each in function.body)


def _within_comprehension(node: ast.AST, outside: _Local) -> Iterator[tuple[ast.AST, _Local]]:
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    targets = (each for generator in generators for each in in_order(generator.target))
    inside = outside | {each.id for each in targets if isinstance(each, ast.Name)}
    yield generators[0].iter, outside
    yield from ((generator.iter, inside) for generator in generators[1:])
    yield from ((each, inside) for generator in generators for each in (generator.target, *generator.ifs))
    yield from ((each, inside) for each in ast.iter_child_nodes(node) if not isinstance(each, ast.comprehension))


def _bound_by(statement: ast.stmt) -> tuple[_Local, ast.expr | None]:
    """The names that a statement surely binds anew, and to what value where it is one for each."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return frozenset({statement.name}), None
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        before = ast.Name(statement.target.id, ast.Load())
        return frozenset(), ast.BinOp(before, statement.op, statement.value)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return frozenset(), None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    unpacked = [part for target in targets for part in _unpacked(target)] if statement.value is not None else []
    plain = all(isinstance(target, ast.Name) for target in targets)
    return frozenset(each.id for each in unpacked if isinstance(each, ast.Name)), statement.value if plain else None


def _unpacked(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for each in target.elts for part in _unpacked(each)]
    return [target.value if isinstance(target, ast.Starred) else target]


def _is_code_alone(statement: ast.stmt) -> bool:
    """A function that keeps nothing between its calls: no decorator, and no default that can be changed."""
    if not isinstance(statement, _FUNCTIONS) or statement.decorator_list:
        return False
    defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
    return all(is_value(each, ()) for each in defaults)
