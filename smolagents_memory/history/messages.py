"""Input messages: every step holds all messages before it, so they are stored as references, content and ranges.

Each distinct message has a number. A message that equals what a known step shows is a reference to it, any other one
is stored once by its content. A step's list of messages is stored as ranges of the list before it and numbers.
`message_writing` writes them.
"""

from __future__ import annotations

import copy
import itertools
from array import array
from collections.abc import Callable
from typing import Any, SupportsIndex

from smolagents.memory import MemoryStep
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction

from smolagents_memory._errors import DecodeError, OversizedError
from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.codec.graph import Node
from smolagents_memory.codec.python_types import WRITERS, write_items
from smolagents_memory.steps.kinds import render


Range = list[int]  # [start, count] in the list before, or the messages [first, count, 0] by their numbers
_KEYFRAME = 64
_SHORT, _REPEATED = 1_000, 8  # a list is never longer than so much, and so many times what it is told of
_COPIED = 8  # numbers that are copied in the time in which a byte is made something of


class Messages:
    """The distinct messages of one history, by number, and each list of them."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.originals: list[ChatMessage] = []
        self._allowance = allowance
        self._told = 0  # ranges
        self._ranges: list[list[Range]] = []
        self._keyframes: dict[int, array[int]] = {}
        self._last: array[int] = array("I")

    def add_list(self, ranges: list[Range]) -> InputMessages:
        """The list that these ranges of the list before make."""
        if not all(type(number) is int and number >= 0 for each in ranges for number in each):
            raise DecodeError("a list of messages takes what is no number of messages")
        for first, count, _ in (each for each in ranges if len(each) == 3):
            if not 0 <= first <= first + count <= len(self.originals):
                raise DecodeError(f"a list refers to message {first + count - 1} of {len(self.originals)}")
        self._check(ranges)
        numbers = _resolve(ranges, self._last)
        at = len(self._ranges)
        self._ranges.append(ranges)
        if at % _KEYFRAME == 0:
            self._keyframes[at] = numbers
        self._last = numbers
        return InputMessages._of(self, at, len(numbers))

    def _check(self, ranges: list[Range]) -> None:
        """Ranges that are told again and again make a list of any length: one is as long as what was told allows."""
        length = sum(each[1] for each in ranges)
        self._told += len(ranges)
        if length > _SHORT + _REPEATED * (len(self.originals) + self._told):
            raise OversizedError(f"a list of {length} messages, of which there are {len(self.originals)}")
        if self._allowance is not None:
            self._allowance.take(length // _COPIED, f"so many lists of {length} messages")

    def totals(self, measure: Callable[[ChatMessage], int]) -> list[int]:
        """The sum of a measure over each list, without making any: what a list shares with the beginning of the one
        before is not looked at again, so that this takes as long as the history, not as its square."""
        measured = [measure(message) for message in self.originals]
        totals: list[int] = []
        upto = [0]  # of the list before: the sum of its first message, of its first two …
        for ranges in self._ranges:
            shared = ranges[0][1] if ranges and ranges[0][0] == 0 and len(ranges[0]) == 2 else 0
            added: list[int] = []
            for each in ranges[1:] if shared else ranges:
                if len(each) == 3:
                    added += measured[each[0] : each[0] + each[1]]
                else:
                    sums = upto[each[0] : each[0] + each[1] + 1]
                    added += [after - before for before, after in itertools.pairwise(sums)]
            del upto[shared + 1 :]
            for size in added:
                upto.append(upto[-1] + size)
            totals.append(upto[-1])
        return totals

    def numbers(self, at: int) -> array[int]:
        """The numbers of the messages in a list."""
        start = at - at % _KEYFRAME
        numbers = self._keyframes[start]
        for ranges in self._ranges[start + 1 : at + 1]:
            numbers = _resolve(ranges, numbers)
        return numbers


def _resolve(ranges: list[Range], before: array[int]) -> array[int]:
    numbers = array("I")
    for each in ranges:
        if len(each) == 3:
            numbers.extend(range(each[0], each[0] + each[1]))
        else:
            start, count = each
            if not 0 <= start <= start + count <= len(before):
                raise DecodeError(f"a list of messages takes {count} from {start} of a list of {len(before)}")
            numbers.extend(before[start : start + count])
    return numbers


class InputMessages(list[ChatMessage]):
    """A loaded step's input messages, made when they are first looked at, so that a long history stays small.

    It behaves as the list it is. Its messages are its own; their strings and images are shared with other steps.
    """

    _source: tuple[Messages, int, int] | None = None

    @classmethod
    def _of(cls, messages: Messages, at: int, length: int) -> InputMessages:
        made = cls()
        made._source = (messages, at, length)
        return made

    @property
    def untouched(self) -> bool:
        """Whether nobody has looked at the messages yet."""
        return self._source is not None

    @property
    def place(self) -> tuple[Messages, int] | None:
        """Which of a history's lists this is, as long as nobody has looked at the messages."""
        return None if self._source is None else self._source[:2]

    def again(self) -> InputMessages:
        """Another list of the same messages, also made when it is first looked at."""
        if self._source is None:
            return InputMessages(map(fresh, self))
        return InputMessages._of(*self._source)

    def originals(self) -> tuple[Messages, array[int]] | None:
        """Where the messages come from, as long as nobody has looked at them."""
        if self._source is None:
            return None
        messages, at, _ = self._source
        return messages, messages.numbers(at)

    def _make(self) -> None:
        source = self.originals()
        if source is not None:
            self._source = None
            list.extend(self, [fresh(source[0].originals[number]) for number in source[1]])

    def __len__(self) -> int:
        return self._source[2] if self._source is not None else list.__len__(self)

    def __radd__(self, other: list[ChatMessage], /) -> list[ChatMessage]:
        self._make()
        return list.__add__(other, self)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        return (list, (list(self),))


def _making(method: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: InputMessages, *args: Any, **options: Any) -> Any:
        self._make()
        return method(self, *args, **options)

    return made


for _name in (
    *("__iter__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__reversed__", "__repr__", "__eq__"),
    *("__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__iadd__", "__mul__", "__rmul__", "__imul__"),
    *("append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
):
    setattr(InputMessages, _name, _making(getattr(list, _name)))
InputMessages.__hash__ = None
WRITERS[InputMessages] = ("list", write_items)


def fresh(message: ChatMessage) -> ChatMessage:
    """A message of one's own with the same strings and images."""
    made = object.__new__(type(message))
    made.__dict__.update(message.__dict__)
    if type(message.content) is list:
        made.content = [dict(part) if type(part) is dict else part for part in message.content]
    if message.tool_calls:
        made.tool_calls = [_fresh_call(call) for call in message.tool_calls]
    if message.token_usage is not None:
        made.token_usage = copy.copy(message.token_usage)
    return made


def _fresh_call(call: ChatMessageToolCall) -> ChatMessageToolCall:
    made = copy.copy(call)
    if isinstance(call.function, ChatMessageToolCallFunction):
        made.function = copy.copy(call.function)
        made.function.arguments = _fresh_value(call.function.arguments, {})
    return made


def _fresh_value(value: Any, made: dict[int, Any]) -> Any:
    """A copy of lists and dicts, which may hold themselves."""
    if type(value) not in (list, dict) or id(value) in made:
        return made.get(id(value), value)
    if type(value) is dict:
        fields = made[id(value)] = {}
        fields.update((key, _fresh_value(item, made)) for key, item in value.items())
        return fields
    items = made[id(value)] = []
    items.extend(_fresh_value(item, made) for item in value)
    return items


class MessageReader:
    """Rebuilds the messages of a history while it is read."""

    def __init__(self, decode: Callable[[Node], Any], allowance: Allowance | None = None) -> None:
        self.messages = Messages(allowance)
        self._allowance = allowance
        self._decode = decode
        self._shown: dict[Any, list[ChatMessage | None]] = {}

    def show(self, reference: Node, step: MemoryStep) -> None:
        """Tell what a step shows; later lists may refer to it."""
        try:
            self._shown[reference] = render(step)
        except MemoryError:
            raise OversizedError("the messages of this step take more memory than there is") from None
        except Exception:  # noqa: BLE001 — the writer could not render it either, and refers to none of it
            return

    def read(self, stored: dict[str, Any]) -> InputMessages:
        """The list that `MessageWriter.write` stored."""
        for node in stored["new"]:
            self.messages.originals.extend(self._read(node))
        return self.messages.add_list(stored["list"])

    def _read(self, node: Node) -> list[ChatMessage]:
        if isinstance(node, list):
            return [self._referred(*node)]
        if "all" not in node:
            return [self._own(node)]
        first, last, stride = node["all"]
        if (last - first) // stride > len(self._shown):
            raise DecodeError(f"messages of the steps {first} to {last}, of which there are {len(self._shown)}")
        steps = (self._shown.get(step, []) for step in range(first, last + 1, stride))
        found = [message for shown in steps for message in shown if message is not None]
        if self._allowance is not None:
            self._allowance.take(16 * len(found), f"{len(found)} messages told of at once, again and again")
        return found

    def _referred(self, reference: Node, index: int) -> ChatMessage:
        shown = self._shown.get(reference, [])
        message = shown[index] if 0 <= index < len(shown) else None
        if message is None:
            raise DecodeError(f"a message refers to message {index} of step {reference}, which shows no such message")
        return message

    def _own(self, node: Node) -> ChatMessage:
        message = self._decode(node)
        if not isinstance(message, ChatMessage):
            raise DecodeError(f"this should be a message: {str(node)[:60]}")
        return message
