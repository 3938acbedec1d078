"""Writing input messages: what is new in each list, and ranges of the list before it; see `messages`."""

from __future__ import annotations

import itertools
import json
import weakref
from collections.abc import Callable, Container
from operator import itemgetter
from typing import Any

from smolagents.memory import MemoryStep
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.graph import Node
from smolagents_memory.codec.values import new_encoder
from smolagents_memory.history.messages import InputMessages, Messages, Range
from smolagents_memory.steps.kinds import render


Signature = tuple[MessageRole, str, str | int]  # the role, the kind of content, the text or the image's number
_STANDARD = ("role", "content", "tool_calls", "token_usage", "raw")
_COLUMNS, _KIND = itemgetter(*_STANDARD), itemgetter("type")
_STRIDE = 256


class MessageWriter:
    """Numbers the messages of a history while it is written, and says what is new in each list."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self.losses: list[str] = []
        self._signatures: list[Signature | None] = []  # by number
        self._numbers: dict[Any, int] = {}
        self._shown: dict[Any, Node] = {}  # key → [step, index]: what the steps show, until it has a number
        self._shows: dict[int, list[int]] = {}  # step → the places of all messages that it shows
        self._before: list[int] = []
        self._translations: weakref.WeakKeyDictionary[Messages, dict[int, int]] = weakref.WeakKeyDictionary()
        self._new: list[Node] = []

    def stale(self, live: int) -> bool:
        """Whether most of what is remembered here has left the lists, or the memory: time to begin anew."""
        return len(self._signatures) > 4 * len(self._before) + 512 or len(self._shows) > 4 * live + 512

    def successor(self, live: Container[int]) -> MessageWriter:
        """A writer that begins anew, with what the live steps showed here: they may have been edited since."""
        successor = MessageWriter(self.blobs)
        successor._shown = {key: place for key, place in self._shown.items() if place[0] in live}
        successor._shows = {reference: places for reference, places in self._shows.items() if reference in live}
        return successor

    def show(self, reference: int, step: MemoryStep) -> None:
        """From now on, messages equal to what `step` shows are references to `reference`."""
        try:
            shown = render(step)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 — a step of odd content; its messages are stored by content
            return
        self._shows[reference] = [index for index, message in enumerate(shown) if message is not None]
        for index in self._shows[reference]:
            self._shown[self._key(shown[index])] = [reference, index]

    def write(self, messages: list[Any]) -> dict[str, Node] | None:
        """What to store for a list of messages, or None if it is no such list: {"new": …, "list": …}."""
        self._new = []
        source = messages.originals() if isinstance(messages, InputMessages) else None
        if source is not None:
            numbers = [self._translated(source[0], number) for number in source[1]]
            ranges = self._ranges(numbers, list.__eq__, lambda number: number)
        elif all(type(message) is ChatMessage for message in messages):
            ranges = self._ranges(messages, self._are, self._number)
        else:
            return None
        return {"new": self._folded(self._new), "list": ranges}

    def _folded(self, new: list[Node]) -> list[Node]:
        """References to all that neighbouring steps show, as one: {"all": [first, last, stride]}."""
        folded: list[Node] = []
        at = 0
        while at < len(new):
            step: int | None = new[at][0] if isinstance(new[at], list) else None
            shows = [[step, index] for index in (self._shows.get(step, ()) if step is not None else ())]
            if step is None or not shows or new[at : at + len(shows)] != shows:
                folded.append(new[at])
                at += 1
                continue
            at += len(shows)
            last = folded[-1].get("all") if folded and isinstance(folded[-1], dict) else None
            if last is not None and step > last[1] and (last[0] == last[1] or step - last[1] == last[2]):
                last[1:] = [step, step - last[1]]
            else:
                folded.append({"all": [step, step, 1]})
        return folded

    def _ranges(
        self, items: list[Any], are: Callable[[list[Any], list[int]], bool], number_of: Callable[[Any], int]
    ) -> list[Range]:
        """A list as ranges of the list before it. What goes on as that list did is compared, as much as possible at
        once; only what does not is looked up."""
        before, known = self._before, len(self._signatures)
        places: dict[int, int] | None = None
        numbers: list[int] = []
        ranges: list[Range] = []
        expected, stride = 0, _STRIDE
        while len(numbers) < len(items):
            at = len(numbers)
            count = min(stride, len(items) - at, len(before) - expected)
            if count > 0 and are(items[at : at + count], before[expected : expected + count]):
                place, stride = expected, min(2 * stride, _STRIDE)
            elif count > 1:
                stride = count // 2
                continue
            else:
                number, count = number_of(items[at]), 1
                if number < known and places is None:
                    places = {each: at for at, each in enumerate(before)}
                place = (places or {}).get(number, -1) if number < known else -1
                if place < 0:
                    numbers.append(number)
                    if ranges and len(ranges[-1]) == 3 and ranges[-1][0] + ranges[-1][1] == number:
                        ranges[-1][1] += 1
                    else:
                        ranges.append([number, 1, 0])
                    continue
            numbers += before[place : place + count]
            if ranges and len(ranges[-1]) == 2 and sum(ranges[-1]) == place:
                ranges[-1][1] += count
            else:
                ranges.append([place, count])
            expected = place + count
        self._before = numbers
        return ranges

    def _are(self, messages: list[ChatMessage], numbers: list[int]) -> bool:
        """Whether messages are these originals, by looks alone: False means only that nobody can tell at a glance."""
        found = _signatures(messages)
        return found is not None and found == [self._signatures[number] for number in numbers]

    def _number(self, message: ChatMessage) -> int:
        key = self._key(message)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._signatures)
            self._signatures.append((_signatures([message]) or (None,))[0])
            self._new.append(self._shown.get(key) or self._content(message))
        return number

    def _content(self, message: ChatMessage) -> Node:
        encoder = new_encoder(self.blobs)
        node = encoder.encode(message)
        self.losses.extend(encoder.losses)
        return node

    def _translated(self, source: Messages, number: int) -> int:
        known = self._translations.setdefault(source, {})
        if number not in known:
            known[number] = self._number(source.originals[number])
        return known[number]

    def _key(self, message: ChatMessage) -> Any:
        signature = _signatures([message])
        if signature is not None and type(signature[0][-1]) is str:
            return signature[0]
        return json.dumps(new_encoder(self.blobs).encode(message))


def _signatures(messages: list[ChatMessage]) -> list[Signature] | None:
    """What tells messages apart that hold nothing but one text or one image each; None if one of them is otherwise.

    They are taken apart column by column: a list has thousands of messages, and every step has another such list.
    """
    try:
        columns = [message.__dict__ for message in messages]
        roles, contents, calls, usages, _ = zip(*map(_COLUMNS, columns), strict=True)
        parts = [part for (part,) in contents]
        kinds = list(map(_KIND, parts))
        values = [part["text"] if "text" in part else _number_of(part["image"]) for part in parts]
    except Exception:  # noqa: BLE001 — a part may be anything, an array too: then it is no plain one
        return None
    plain = (
        {*map(len, columns)} == {len(_STANDARD)}
        and {*map(type, roles)} == {MessageRole}
        and {*map(type, contents)} == {list}
        and {*map(type, parts)} == {dict}
        and {*map(len, parts)} == {2}
        and {*map(type, calls), *map(type, usages)} == {type(None)}
        and {*map(type, kinds)} == {str}
        and {*map(type, values)} <= {str, int}
    )
    return list(zip(roles, kinds, values, strict=True)) if plain else None


_images: dict[int, tuple[weakref.ref[Any], int]] = {}
_numbers = itertools.count()


def _number_of(image: Any) -> int:
    """A number that is this image's alone, also when it is gone: nothing here keeps it alive."""
    place = id(image)
    known = _images.get(place)
    if known is None or known[0]() is not image:
        known = _images[place] = (weakref.ref(image, lambda _: _images.pop(place, None)), next(_numbers))
    return known[1]
