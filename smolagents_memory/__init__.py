"""Memory for HuggingFace smolagents agents: step callbacks, exact save and resume, and recall.

Every public name is here and is loaded when it is first used, so that `import smolagents_memory` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smolagents_memory._version import __version__


if TYPE_CHECKING:
    from smolagents_memory._errors import (
        CallbackSignatureError,
        DamagedFileError,
        DecodeError,
        ForeignFileError,
        MemoryFileError,
        MemoryLossWarning,
        MissingExtraError,
        NewerFormatError,
        NewerSchemaError,
        ScriptError,
        SessionConflictError,
        SessionDamagedError,
        SessionError,
        SessionNotFoundError,
        SessionStorageError,
        SmolagentsMemoryError,
    )
    from smolagents_memory._events import Event, Events
    from smolagents_memory.steps.codec import UnknownStep, decode_step, encode_step
    from smolagents_memory.steps.files import export_memory, import_memory, load_memory, save_memory
    from smolagents_memory.steps.notes import NoteStep
    from smolagents_memory.steps.observed import ObservedMemory, Origin
    from smolagents_memory.steps.registry import register_step, register_value
    from smolagents_memory.steps.values import NotKept, Unknown, decode_value, encode_value


__all__ = [
    "CallbackSignatureError",
    "DamagedFileError",
    "DecodeError",
    "Event",
    "Events",
    "ForeignFileError",
    "MemoryFileError",
    "MemoryLossWarning",
    "MissingExtraError",
    "NewerFormatError",
    "NewerSchemaError",
    "NotKept",
    "NoteStep",
    "ObservedMemory",
    "Origin",
    "ScriptError",
    "SessionConflictError",
    "SessionDamagedError",
    "SessionError",
    "SessionNotFoundError",
    "SessionStorageError",
    "SmolagentsMemoryError",
    "Unknown",
    "UnknownStep",
    "__version__",
    "decode_step",
    "decode_value",
    "encode_step",
    "encode_value",
    "export_memory",
    "import_memory",
    "load_memory",
    "register_step",
    "register_value",
    "save_memory",
]

# where each public name lives, so that importing the package imports none of it
_HOMES = {
    "_errors": (
        "CallbackSignatureError",
        "DamagedFileError",
        "DecodeError",
        "ForeignFileError",
        "MemoryFileError",
        "MemoryLossWarning",
        "MissingExtraError",
        "NewerFormatError",
        "NewerSchemaError",
        "ScriptError",
        "SessionConflictError",
        "SessionDamagedError",
        "SessionError",
        "SessionNotFoundError",
        "SessionStorageError",
        "SmolagentsMemoryError",
    ),
    "_events": ("Event", "Events"),
    "steps.codec": ("UnknownStep", "decode_step", "encode_step"),
    "steps.files": ("export_memory", "import_memory", "load_memory", "save_memory"),
    "steps.notes": ("NoteStep",),
    "steps.observed": ("ObservedMemory", "Origin"),
    "steps.registry": ("register_step", "register_value"),
    "steps.values": ("NotKept", "Unknown", "decode_value", "encode_value"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
