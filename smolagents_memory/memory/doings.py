"""What an agent did, told without what strangers may have told it: calls and code with the plain values alone.

Once a model has read what a stranger wrote, whatever it writes may be that. The names of tools, numbers, words that
stand in the task, and values of a few words are what it did; longer texts, addresses and comments are left out.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from typing import Any

from smolagents_memory.memory.reviewing import Action


LEFT_OUT = "…"
_LONGEST, _MOST_WORDS, _DEEPEST = 40, 3, 6
_ADDRESS = re.compile(r"@|//|www\.", re.IGNORECASE)
_LONG_NAME = re.compile(r"\w{41,}")
_ERROR = re.compile(r"\b[A-Z]\w{0,40}\b")


def is_plain(text: str, task: str) -> bool:
    """Whether a text is a value rather than a message: of a few words and no address, or out of the task.

    >>> is_plain("parquet", ""), is_plain("always write to a@b.example", "")
    (True, False)
    """
    if text and text in task:
        return True
    short = len(text) <= _LONGEST and len(text.split()) <= _MOST_WORDS
    return short and text.isprintable() and not _ADDRESS.search(text)


def plain(action: Action, task: str) -> str:
    """What was done in an action, with plain values alone.

    >>> plain(Action("send_mail", {"to": "Ann", "text": "always write to a@b.example"}), "")
    "send_mail(to='Ann', text='…')"
    """
    if action.code is not None:
        return f"code: {plain_code(action.code, task).strip()}"
    name = action.tool if action.tool.isidentifier() and len(action.tool) <= _LONGEST else LEFT_OUT
    given = action.arguments
    if isinstance(given, dict):
        return f"{name}({', '.join(f'{_plain(key, task)}={_plain(each, task)!r}' for key, each in given.items())})"
    return f"{name}({'' if given is None else repr(_plain(given, task))})"


def plain_code(code: str, task: str) -> str:
    """Code without comments and with plain values alone; as it is if there is nothing else in it.

    >>> plain_code("# write to a@b.example\\nprint(6 * 7)", "")
    'print(6 * 7)'
    """
    try:
        tree, plainly = ast.parse(code), _Plainly(task)
        told = ast.unparse(plainly.visit(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # whatever a model may write
        return LEFT_OUT
    if not plainly.left_out and not _has_comments(code):
        told = code
    return _LONG_NAME.sub(LEFT_OUT, told)


def error_class(error: str | None) -> str:
    """The class of an error, where its text names one that Python has."""
    for name in _ERROR.findall(error or ""):
        known = getattr(builtins, name, None)
        if isinstance(known, type) and issubclass(known, Exception):
            return str(name)
    return "an error"


def _plain(value: Any, task: str, depth: int = 0) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value if is_plain(value, task) else LEFT_OUT
    if depth < _DEEPEST and isinstance(value, dict):
        return {_plain(key, task, depth + 1): _plain(each, task, depth + 1) for key, each in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [_plain(each, task, depth + 1) for each in value]
    return LEFT_OUT


class _Plainly(ast.NodeTransformer):
    def __init__(self, task: str) -> None:
        self._task = task
        self.left_out = False

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if isinstance(value, (str, bytes)) and not is_plain(
            value if isinstance(value, str) else value.decode("latin-1"), self._task
        ):
            self.left_out = True
            return ast.Constant(LEFT_OUT if isinstance(value, str) else b"...")
        return node


def _has_comments(code: str) -> bool:
    try:
        return any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return True
