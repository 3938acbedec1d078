"""A step as a row: whole the first time, afterwards only what changed of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._errors import DecodeError
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.encoding import INPUTS, step_record
from smolagents_memory.codec.graph import TAG, Node
from smolagents_memory.codec.prebuilt import parse_prebuilt
from smolagents_memory.codec.registry import attributes
from smolagents_memory.codec.values import new_encoder
from smolagents_memory.history.message_writing import MessageWriter
from smolagents_memory.privacy.scrubbers import Scrubber


_WORTH = 64  # shorter texts are written whole


@dataclass
class Kept:
    """What the journal remembers of a step, to find what changes of it."""

    step: MemoryStep
    original: int
    """The record in which the step was first kept, as it was before any callback."""
    number: int
    """The record of its newest version."""
    texts: dict[str, str] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    inputs: bool = False
    """Whether that version, or one it is based on, has a list of input messages."""
    restored: bool = False
    """Whether it was read from the database: its texts are not remembered, its next version is written whole."""


@dataclass
class Row:
    """A row for the table of records."""

    number: int
    segment: int
    fields: bytes
    inputs: str | None
    listed: dict[str, Any]
    """What a list of steps shows of it, without reading it."""


class RecordWriter:
    """Writes steps as rows. Input messages refer to other records; a chain of them begins anew from time to time."""

    def __init__(
        self,
        first: int,
        live: Callable[[], Iterable[int]],
        length: Callable[[], int],
        scrubber: Scrubber | None = None,
    ) -> None:
        self.blobs = Blobs(scrubber)
        self.losses: list[str] = []
        self.next = first
        self._live, self._length = live, length
        self._segment = first
        self._messages = MessageWriter(self.blobs)

    def adopt(self, number: int, step: MemoryStep) -> None:
        """A step that is as this record has it: messages may refer to it."""
        self._messages.show(number, step)

    def write(self, step: MemoryStep, before: Kept | None = None, *, inputs_edited: bool = True) -> tuple[Row, Kept]:
        """The row for a step, or for what changed of it since it was written before."""
        number = self.next
        if self._messages.stale(self._length()):
            self._segment, self._messages = number, self._messages.successor(set(self._live()))
        messages = self._messages
        fields = attributes(step)
        inputs = fields.get(INPUTS)
        same = before is not None and before.inputs and not inputs_edited
        stored = messages.write(inputs) if not same and isinstance(inputs, list) and inputs else None
        has_inputs = same or stored is not None
        if has_inputs:
            del fields[INPUTS]
        record, losses = step_record(step, self.blobs, fields)
        self.losses += losses + messages.losses
        messages.losses.clear()
        kept = Kept(step, number if before is None else before.original, number, inputs=has_inputs)
        row = Row(
            number,
            self._segment,
            _changes(record, kept, before),
            json.dumps(stored, separators=(",", ":")) if stored else None,
            _listed(step, record["step"]),
        )
        messages.show(number, step)
        self.next += 1
        return row, kept

    def differs(self, kept: Kept, names: Iterable[str]) -> bool:
        """Whether the content of some fields is another than when it was kept, by all that can be seen of it."""
        changed = False
        for name in names:
            node = new_encoder(self.blobs).encode(getattr(kept.step, name))
            digest = _digest(json.dumps(node, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
            changed |= kept.digests.setdefault(name, digest) != digest
        return changed


def _listed(step: MemoryStep, kind: str) -> dict[str, Any]:
    timing, usage, error = (getattr(step, name, None) for name in ("timing", "token_usage", "error"))
    return {
        "kind": _name(kind),
        "step_number": _number(getattr(step, "step_number", None)),
        "began": _time(getattr(timing, "start_time", None)),
        "ended": _time(getattr(timing, "end_time", None)),
        "input_tokens": _number(getattr(usage, "input_tokens", None)),
        "output_tokens": _number(getattr(usage, "output_tokens", None)),
        "error": None if error is None else _name(type(error).__name__),
    }


def _name(given: str) -> str:
    """A name as every database takes it."""
    return given.encode("ascii", "backslashreplace").decode().replace("\0", "?")[:255]


def _number(given: Any) -> int | None:
    return given if type(given) is int and abs(given) < 2**63 else None


def _time(given: Any) -> float | None:
    return float(given) if type(given) in (int, float) else None


def _changes(record: dict[str, Any], kept: Kept, before: Kept | None) -> bytes:
    """The record as JSON; of an earlier version only what changed. Fills in what `kept` remembers.

    Long texts stand after the JSON as they are: they are most of all that there is, and are read in no time there.
    """
    fields, texts = [], []
    for name, node in record.pop("fields").items():
        known = before.texts.get(name) if before is not None else None
        if isinstance(node, str):
            kept.texts[name] = node
            if known is node or known == node:
                continue
            node = node if known is None else _text_change(known, node)
            if isinstance(node, str) and len(node) > _WORTH:
                texts.append(node.encode())
                node = {TAG: "text", "bytes": len(texts[-1])}
        text = json.dumps(node, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        if name not in kept.texts:
            digest = kept.digests[name] = _digest(text)
            if before is not None and before.digests.get(name) == digest:
                continue
        fields.append(f"{json.dumps(name)}:{text}")
    if before is not None:
        record["base"] = before.number
        if before.restored:
            record["whole"] = True
        gone = (before.texts.keys() | before.digests.keys()) - kept.texts.keys() - kept.digests.keys()
        if gone - {INPUTS}:
            record["gone"] = sorted(gone - {INPUTS})
    head = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return b"".join((f'{head[:-1]},"fields":{{{",".join(fields)}}}}}\n'.encode(), *texts))


def read_record(payload: bytes) -> dict[str, Any]:
    """The record that was written; what of it is simple is built already. A malformed one raises DecodeError."""
    at = payload.find(b"\n") + 1
    record: dict[str, Any] = parse_prebuilt(payload[: at - 1])
    texts = memoryview(payload)
    try:
        for name, node in record["fields"].items():
            if type(node) is dict and node.get(TAG) == "text":
                record["fields"][name] = str(texts[at : at + node["bytes"]], "utf-8")
                at += node["bytes"]
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise DecodeError(f"a malformed record: {error!r}") from error
    return record


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _text_change(old: str, new: str) -> Node:
    """A text as what it shares with the one before at its beginning and at its end, and what is new between."""
    shorter = min(len(old), len(new))
    head = _common(shorter, lambda n: old[:n] == new[:n])
    tail = _common(shorter - head, lambda n: old[len(old) - n :] == new[len(new) - n :])
    if head + tail < _WORTH:
        return new
    return {TAG: "edit", "head": head, "tail": tail, "text": new[head : len(new) - tail]}


def _common(longest: int, holds: Callable[[int], bool]) -> int:
    """The greatest n up to `longest` for which it holds, when it holds for all smaller ones."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def with_base(record: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The whole record of a version: what the version before held, and what changed."""
    fields = {} if record.get("whole") else dict(base["fields"])
    for name in record.get("gone", ()):
        fields.pop(name, None)
    for name, node in record["fields"].items():
        if isinstance(node, dict) and node.get(TAG) == "edit":
            old = fields.get(name)
            if not isinstance(old, str):
                raise DecodeError(f"the text {name!r} builds on one that is not there")
            node = old[: node["head"]] + node["text"] + (old[len(old) - node["tail"] :] if node["tail"] else "")
        fields[name] = node
    return {**record, "fields": fields}
