"""Steps to plain JSON and back: `encode_step`, `decode_step`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from smolagents.memory import MemoryStep
from smolagents.models import ChatMessage

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError
from smolagents_memory._log import say_once
from smolagents_memory.codec.blobs import Blobs, embed_blobs, extract_blobs
from smolagents_memory.codec.graph import Node
from smolagents_memory.codec.objects import STEP_CLASSES, check_names, defaults
from smolagents_memory.codec.registry import attributes, class_name, registry
from smolagents_memory.codec.unfolding import check_images, check_unfolding
from smolagents_memory.codec.values import new_decoder, new_encoder, warn_of_losses
from smolagents_memory.steps.kinds import kind_of


VERSION = 1
INPUTS = "model_input_messages"


@dataclass
class UnknownStep(MemoryStep):
    """A step whose class is not known here: what it held, and the messages it gave when it was saved.

    It shows the model what the original showed, and goes back to data as it came; see `register_step`.
    """

    type_name: str
    data: dict[str, Any]
    messages: list[ChatMessage] = field(default_factory=list)

    def dict(self) -> dict[str, Any]:
        """The step as a plain dictionary."""
        return {"type": self.type_name, **self.data}

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """The messages of the original."""
        return list(self.messages)


def encode_step(step: MemoryStep, blobs: Blobs | None = None) -> dict[str, Any]:
    """Turn a step of any kind into plain JSON. Never raises; what cannot be kept is replaced by a placeholder.

    Images and large bytes go into `blobs`; without it they are written into the result, which then stands alone.

    >>> from smolagents.memory import TaskStep
    >>> from smolagents_memory import decode_step, encode_step
    >>> encode_step(TaskStep(task="Count to three."))
    {'step': 'TaskStep', 'version': 1, 'fields': {'task': 'Count to three.', 'task_images': None}}
    >>> decode_step(encode_step(TaskStep(task="Count to three.")))
    TaskStep(task='Count to three.', task_images=None)
    """
    own = Blobs() if blobs is None else blobs
    record, losses = step_record(step, own, attributes(step))
    warn_of_losses(losses, "A step")
    return record if blobs is not None or not own.data else {**record, "blobs": embed_blobs(own.data)}


def step_record(step: MemoryStep, blobs: Blobs, fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The record of a step with these of its fields, and what was lost."""
    cls = type(step)
    record: dict[str, Any] = {"step": cls.__name__, "version": VERSION}
    if isinstance(step, UnknownStep):
        record["step"], fields = step.type_name, step.data
        shown: Any = step.messages
    elif STEP_CLASSES.get(cls.__name__) is not cls:
        record["step"] = next((name for name, known in registry.steps.items() if known is cls), class_name(cls))
        registry.meet(cls)
        shown = _shown(step)
    else:
        shown = None
    encoder = new_encoder(blobs)
    # each field by itself, so that a journal can keep what changed of a step without the rest
    record["fields"] = {name: encoder.encode(value) for name, value in fields.items()}
    if shown is not None:  # for a reader that does not know the class
        record["shows"] = encoder.encode(shown)
    return record, encoder.losses


def _shown(step: MemoryStep) -> list[ChatMessage]:
    try:
        return list(step.to_messages())
    except Exception:  # noqa: BLE001 — a user's own code
        return []


def decode_step(record: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> MemoryStep:
    """Turn what `encode_step` gave back into a step. A malformed record raises DecodeError."""
    try:
        if "blobs" in record:
            blobs = extract_blobs(record["blobs"])
        name, version, fields = record["step"], record["version"], record["fields"]
    except (KeyError, TypeError, AttributeError) as error:
        raise DecodeError(f"this is not a step's record: {error!r} (in {brief(record)})") from None
    if not isinstance(version, int) or version > VERSION:
        raise DecodeError(
            f"a step's record of version {brief(version)}; this version of the package reads up to {VERSION}"
        )
    return build_step(str(name), fields, record.get("shows"), {} if blobs is None else blobs)


def build_step(name: str, fields: Node, shown: Node, blobs: Mapping[str, bytes]) -> MemoryStep:
    """The step of that class with the fields that a record holds. None of the class's own code runs."""
    if not isinstance(fields, dict):
        raise DecodeError(f"the fields of a {name} should be an object")
    decoder = new_decoder(blobs)
    values = {
        str(key): decoder.decode(node) if isinstance(node, (list, dict)) else node for key, node in fields.items()
    }
    cls = STEP_CLASSES.get(name) or registry.known_class(name)
    if cls is None or not issubclass(cls, MemoryStep):
        say_once(f"a step of the class {name}, which is not known here, was kept as data; see register_step")
        return UnknownStep(name, values, new_decoder(blobs).decode(shown or []))
    check_names(cls, values)
    known = {**defaults(cls), **values} if dataclasses.is_dataclass(cls) else values
    built: MemoryStep = decoder.fill_attributes(object.__new__(cls), iter(known.items()))
    kind = kind_of(built)
    check_images(values.get(kind.images or ""), decoder.allowance)
    if decoder.refs:
        check_unfolding([values.get(name) for name in kind.shown], decoder.allowance)
    return built
