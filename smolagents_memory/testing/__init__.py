"""What ships for tests: a deterministic model, a strict comparison, and what every store and every memory must do.

The suites, `StoreConformance` and `MemoryConformance`, need pytest and are imported when they are asked for;
thousands of memories are in `smolagents_memory.testing.filling`, which needs it too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smolagents_memory.testing.same import explain_difference, same
from smolagents_memory.testing.scripted import ModelCall, ScriptedModel, call, code


if TYPE_CHECKING:
    from smolagents_memory.testing.conformance import StoreConformance
    from smolagents_memory.testing.memory_conformance import MemoryConformance

__all__ = [
    "MemoryConformance",
    "ModelCall",
    "ScriptedModel",
    "StoreConformance",
    "call",
    "code",
    "explain_difference",
    "same",
]

_SUITES = {"MemoryConformance": "memory_conformance", "StoreConformance": "conformance"}


def __getattr__(name: str) -> Any:
    if name in _SUITES:
        return getattr(import_module(f"{__name__}.{_SUITES[name]}"), name)
    raise AttributeError(f"{__name__} has no {name}")
