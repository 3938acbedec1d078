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
    from smolagents_memory.memory.enhanced import EnhancedAgentMemory
    from smolagents_memory.memory.evaluation import Evaluation, evaluate
    from smolagents_memory.memory.experiences import Reflector
    from smolagents_memory.memory.forgetting import ForgettingCurve
    from smolagents_memory.memory.long_term import Memory
    from smolagents_memory.memory.ranking import Ranker
    from smolagents_memory.steps.codec import UnknownStep, decode_step, encode_step
    from smolagents_memory.steps.files import Origin, export_memory, import_memory, load_memory, save_memory
    from smolagents_memory.steps.notes import NoteStep
    from smolagents_memory.steps.observed import ObservedMemory
    from smolagents_memory.steps.registry import register_step, register_value
    from smolagents_memory.steps.values import NotKept, Unknown, decode_value, encode_value
    from smolagents_memory.stores.base import Hit, MemoryStore
    from smolagents_memory.stores.chroma import VectorMemoryStore
    from smolagents_memory.stores.embedders import (
        CallableEmbedder,
        ChromaEmbedder,
        OpenAIEmbedder,
        SentenceTransformerEmbedder,
    )
    from smolagents_memory.stores.embedding import Embedder
    from smolagents_memory.stores.in_memory import InMemoryStore
    from smolagents_memory.stores.minilm import MiniLMEmbedder
    from smolagents_memory.stores.opening import open_store
    from smolagents_memory.stores.redis import RedisStore
    from smolagents_memory.stores.sql import SqliteStore, SqlStore
    from smolagents_memory.tools.forget import ForgetTool
    from smolagents_memory.tools.recall import RecallTool
    from smolagents_memory.tools.remember import RememberTool
    from smolagents_memory.tools.step import StepTool


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
    "memory.enhanced": ("EnhancedAgentMemory",),
    "memory.evaluation": (
        "Evaluation",
        "evaluate",
    ),
    "memory.experiences": ("Reflector",),
    "memory.forgetting": ("ForgettingCurve",),
    "memory.long_term": ("Memory",),
    "memory.ranking": ("Ranker",),
    "stores.base": (
        "Hit",
        "MemoryStore",
    ),
    "stores.chroma": ("VectorMemoryStore",),
    "stores.embedders": (
        "CallableEmbedder",
        "ChromaEmbedder",
        "OpenAIEmbedder",
        "SentenceTransformerEmbedder",
    ),
    "stores.embedding": ("Embedder",),
    "stores.in_memory": ("InMemoryStore",),
    "stores.minilm": ("MiniLMEmbedder",),
    "stores.opening": ("open_store",),
    "stores.redis": ("RedisStore",),
    "stores.sql": (
        "SqlStore",
        "SqliteStore",
    ),
    "tools.forget": ("ForgetTool",),
    "tools.recall": ("RecallTool",),
    "tools.remember": ("RememberTool",),
    "tools.step": ("StepTool",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
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
