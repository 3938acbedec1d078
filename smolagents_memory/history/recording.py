"""A history, step after step, to records and back: what files and journals share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smolagents.memory import MemoryStep, SystemPromptStep

from smolagents_memory._errors import DecodeError, OversizedError
from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.codec.blobs import Blobs, LoadedBlobs
from smolagents_memory.codec.encoding import INPUTS, decode_step, step_record
from smolagents_memory.codec.registry import attributes
from smolagents_memory.codec.values import decode_shown
from smolagents_memory.history.message_writing import MessageWriter
from smolagents_memory.history.messages import MessageReader


PROMPT = -1  # the place of the system prompt, for references to it


class StepWriter:
    """Writes the steps of one history, in order; what a step repeats of earlier ones is written once."""

    def __init__(self, system_prompt: MemoryStep | None) -> None:
        self.blobs = Blobs()
        self.losses: list[str] = []
        self._messages = MessageWriter(self.blobs)
        self._written: set[str] = set()
        if system_prompt is not None:
            self._messages.show(PROMPT, system_prompt)

    def write(self, index: int, step: MemoryStep) -> dict[str, Any]:
        """The record of the step at this place."""
        fields = attributes(step)
        inputs = fields.get(INPUTS)
        stored = self._messages.write(inputs) if isinstance(inputs, list) and inputs else None
        if stored is not None:
            del fields[INPUTS]
        record, losses = step_record(step, self.blobs, fields)
        self.losses += losses + self._messages.losses
        self._messages.losses.clear()
        self._messages.show(index, step)
        return record if stored is None else {**record, "inputs": stored}

    def new_blobs(self) -> dict[str, bytes]:
        """The blobs that the records since the last call need for the first time."""
        names = self.blobs.data.keys() - self._written
        self._written |= names
        return {name: self.blobs.data[name] for name in sorted(names)}


class StepReader:
    """Reads what StepWriter wrote, in the same order."""

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.blobs = LoadedBlobs(allowance=allowance)
        self._messages = MessageReader(lambda node: decode_shown(node, self.blobs), self.blobs.allowance)

    def read_prompt(self, record: Mapping[str, Any]) -> SystemPromptStep:
        """The system prompt; later records may refer to it."""
        prompt: Any = decode_step(record, self.blobs)
        self._messages.show(PROMPT, prompt)
        return prompt

    def read(self, index: int, record: Mapping[str, Any]) -> MemoryStep:
        """The step at this place. A malformed record raises DecodeError."""
        step = decode_step(record, self.blobs)
        if "inputs" in record:
            try:
                inputs = self._messages.read(record["inputs"])
            except DecodeError:
                raise
            except MemoryError:
                raise OversizedError("these input messages take more memory than there is") from None
            except Exception as error:
                raise DecodeError(f"malformed input messages: {type(error).__name__}: {str(error)[:200]}") from error
            object.__setattr__(step, INPUTS, inputs)
        self._messages.show(index, step)
        return step
