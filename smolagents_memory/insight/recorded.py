"""Where a view reads from: an agent, a memory, a session, a file or a plain list of steps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from smolagents.memory import MemoryStep


Source = Any  # an agent, a memory, a session, a path or a sequence of steps; told apart by what they have


@dataclass(frozen=True)
class Recorded:
    """What there is to look at: the steps, and what is known around them.

    `tools` are the tools and managed agents, each with the names of its parameters, as far as they are known.
    """

    steps: Sequence[MemoryStep]
    system_prompt: str | None = None
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_memory(source: Source) -> Recorded:
    """The steps of an agent, a memory, a session (anything with `memory()`), a memory file, or a list of steps.

    >>> from smolagents.memory import TaskStep
    >>> read_memory([TaskStep("Count.")]).steps
    [TaskStep(task='Count.', task_images=None)]
    """
    if isinstance(source, Recorded):
        return source
    if isinstance(source, (str, os.PathLike)):
        from smolagents_memory.history.files import load_memory

        return read_memory(load_memory(os.fspath(source)))
    memory = getattr(source, "memory", None)
    if callable(memory):  # a session: its journal, also when it is attached to an agent
        return _recorded(memory(), {})
    if hasattr(memory, "steps"):
        callables = {**getattr(source, "tools", {}), **getattr(source, "managed_agents", {})}
        return _recorded(memory, {name: tuple(getattr(tool, "inputs", ())) for name, tool in callables.items()})
    if hasattr(source, "steps"):
        return _recorded(source, {})
    if isinstance(source, Iterable):
        return Recorded(list(source))
    raise TypeError(
        f"a memory can be read from an agent, its memory, a session, a memory file or a list of steps, "
        f"not from a {type(source).__name__}"
    )


def read_all(source: Source) -> Recorded:
    """As `read_memory`; of a session every step that was ever journaled, as it came."""
    recorded = read_memory(source)
    transcript = getattr(source, "transcript", None)
    return replace(recorded, steps=[each.original for each in transcript()]) if callable(transcript) else recorded


def _recorded(memory: Any, tools: Mapping[str, Sequence[str]]) -> Recorded:
    text = getattr(getattr(memory, "system_prompt", None), "system_prompt", None)
    text = text if isinstance(text, str) else None
    return Recorded(list(memory.steps), text, tools or _tools_in(text))


def _tools_in(system_prompt: str | None) -> dict[str, tuple[str, ...]]:
    """The tools that a CodeAgent's system prompt announces, each as `def name(parameter: type, …)`."""
    announced = re.findall(r"^\s*def (\w+)\((.*)\)", system_prompt or "", re.MULTILINE)
    return {name: tuple(re.findall(r"(\w+):", parameters)) for name, parameters in announced}
