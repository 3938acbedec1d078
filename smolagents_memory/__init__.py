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
        EmbeddingError,
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
        StoreBusyError,
        StoreError,
        StoreFormatError,
        StoreUnavailableError,
        ToolStateError,
        UnsupportedValueError,
    )
    from smolagents_memory._events import Event, Events
    from smolagents_memory.steps.codec import UnknownStep, decode_step, encode_step
    from smolagents_memory.steps.files import Origin, export_memory, import_memory, load_memory, save_memory
    from smolagents_memory.steps.notes import NoteStep
    from smolagents_memory.steps.observed import ObservedMemory
    from smolagents_memory.steps.registry import register_step, register_value
    from smolagents_memory.steps.values import NotKept, Unknown, decode_value, encode_value


_ERRORS = (
    "CallbackSignatureError",
    "DamagedFileError",
    "DecodeError",
    "EmbeddingError",
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
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreUnavailableError",
    "ToolStateError",
    "UnsupportedValueError",
)
_HOMES = {
    "_errors": _ERRORS,
    "_events": ("Event", "Events"),
    "steps.codec": ("UnknownStep", "decode_step", "encode_step"),
    "steps.files": ("Origin", "export_memory", "import_memory", "load_memory", "save_memory"),
    "steps.notes": ("NoteStep",),
    "steps.observed": ("ObservedMemory",),
    "steps.registry": ("register_step", "register_value"),
    "steps.values": ("NotKept", "Unknown", "decode_value", "encode_value"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: PLE0604
    "__version__",
    *sorted(_HOME_OF),
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
