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
    from smolagents_memory.callbacks.alerts import Alert
    from smolagents_memory.callbacks.budget import FitTokenBudget
    from smolagents_memory.callbacks.context import AddContext
    from smolagents_memory.callbacks.failures import AlertOnFailures
    from smolagents_memory.callbacks.groups import compose, everywhere
    from smolagents_memory.callbacks.images import PruneImages
    from smolagents_memory.callbacks.input_messages import DropInputMessages
    from smolagents_memory.callbacks.loops import AlertOnLoops
    from smolagents_memory.callbacks.pins import is_pinned, pin, unpin
    from smolagents_memory.callbacks.recent import KeepRecentSteps
    from smolagents_memory.callbacks.screenshots import CaptureScreenshot
    from smolagents_memory.callbacks.step_callback import StepCallback
    from smolagents_memory.callbacks.summaries import SummarizeOldSteps
    from smolagents_memory.callbacks.timestamps import TimestampObservations
    from smolagents_memory.callbacks.truncation import TruncateObservations
    from smolagents_memory.insight.executions import ToolExecution, ToolResult, tool_executions
    from smolagents_memory.insight.finding import find_steps
    from smolagents_memory.insight.injection import briefing, inject_history, inject_observation, inject_task
    from smolagents_memory.insight.messages import Message, conversation
    from smolagents_memory.insight.playback import replay
    from smolagents_memory.insight.react import ReactMemory
    from smolagents_memory.insight.report import to_markdown
    from smolagents_memory.insight.statistics import Comparison, MemoryStats, analyze, compare
    from smolagents_memory.insight.telemetry import trace_events
    from smolagents_memory.insight.trace import ReasoningStep, Todo, reasoning, todos
    from smolagents_memory.memory.enhanced import EnhancedAgentMemory
    from smolagents_memory.memory.evaluation import Evaluation, evaluate
    from smolagents_memory.memory.experiences import Reflector
    from smolagents_memory.memory.forgetting import ForgettingCurve
    from smolagents_memory.memory.long_term import Memory
    from smolagents_memory.memory.ranking import Ranker
    from smolagents_memory.sessions.manager import SessionInfo, SessionManager
    from smolagents_memory.sessions.running import Run
    from smolagents_memory.sessions.session import Session
    from smolagents_memory.sessions.stepping import RunSteps, iter_steps
    from smolagents_memory.state import TypedMemory
    from smolagents_memory.steps.codec import UnknownStep, decode_step, encode_step
    from smolagents_memory.steps.files import export_memory, import_memory, load_memory, save_memory
    from smolagents_memory.steps.notes import NoteStep
    from smolagents_memory.steps.observed import ObservedMemory, Origin
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
    from smolagents_memory.tools.state import StateTool
    from smolagents_memory.tools.step import StepTool


__all__ = [
    "AddContext",
    "Alert",
    "AlertOnFailures",
    "AlertOnLoops",
    "CallableEmbedder",
    "CallbackSignatureError",
    "CaptureScreenshot",
    "ChromaEmbedder",
    "Comparison",
    "DamagedFileError",
    "DecodeError",
    "DropInputMessages",
    "Embedder",
    "EmbeddingError",
    "EnhancedAgentMemory",
    "Evaluation",
    "Event",
    "Events",
    "FitTokenBudget",
    "ForeignFileError",
    "ForgetTool",
    "ForgettingCurve",
    "Hit",
    "InMemoryStore",
    "KeepRecentSteps",
    "Memory",
    "MemoryFileError",
    "MemoryLossWarning",
    "MemoryStats",
    "MemoryStore",
    "Message",
    "MiniLMEmbedder",
    "MissingExtraError",
    "NewerFormatError",
    "NewerSchemaError",
    "NotKept",
    "NoteStep",
    "ObservedMemory",
    "OpenAIEmbedder",
    "Origin",
    "PruneImages",
    "Ranker",
    "ReactMemory",
    "ReasoningStep",
    "RecallTool",
    "RedisStore",
    "Reflector",
    "RememberTool",
    "Run",
    "RunSteps",
    "ScriptError",
    "SentenceTransformerEmbedder",
    "Session",
    "SessionConflictError",
    "SessionDamagedError",
    "SessionError",
    "SessionInfo",
    "SessionManager",
    "SessionNotFoundError",
    "SessionStorageError",
    "SmolagentsMemoryError",
    "SqlStore",
    "SqliteStore",
    "StateTool",
    "StepCallback",
    "StepTool",
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreUnavailableError",
    "SummarizeOldSteps",
    "TimestampObservations",
    "Todo",
    "ToolExecution",
    "ToolResult",
    "ToolStateError",
    "TruncateObservations",
    "TypedMemory",
    "Unknown",
    "UnknownStep",
    "UnsupportedValueError",
    "VectorMemoryStore",
    "__version__",
    "analyze",
    "briefing",
    "compare",
    "compose",
    "conversation",
    "decode_step",
    "decode_value",
    "encode_step",
    "encode_value",
    "evaluate",
    "everywhere",
    "export_memory",
    "find_steps",
    "import_memory",
    "inject_history",
    "inject_observation",
    "inject_task",
    "is_pinned",
    "iter_steps",
    "load_memory",
    "open_store",
    "pin",
    "reasoning",
    "register_step",
    "register_value",
    "replay",
    "save_memory",
    "to_markdown",
    "todos",
    "tool_executions",
    "trace_events",
    "unpin",
]

# where each public name lives, so that importing the package imports none of it
_HOMES = {
    "_errors": (
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
    ),
    "_events": (
        "Event",
        "Events",
    ),
    "callbacks.alerts": ("Alert",),
    "callbacks.budget": ("FitTokenBudget",),
    "callbacks.context": ("AddContext",),
    "callbacks.failures": ("AlertOnFailures",),
    "callbacks.groups": (
        "compose",
        "everywhere",
    ),
    "callbacks.images": ("PruneImages",),
    "callbacks.input_messages": ("DropInputMessages",),
    "callbacks.loops": ("AlertOnLoops",),
    "callbacks.pins": (
        "is_pinned",
        "pin",
        "unpin",
    ),
    "callbacks.recent": ("KeepRecentSteps",),
    "callbacks.screenshots": ("CaptureScreenshot",),
    "callbacks.step_callback": ("StepCallback",),
    "callbacks.summaries": ("SummarizeOldSteps",),
    "callbacks.timestamps": ("TimestampObservations",),
    "callbacks.truncation": ("TruncateObservations",),
    "insight.executions": (
        "ToolExecution",
        "ToolResult",
        "tool_executions",
    ),
    "insight.finding": ("find_steps",),
    "insight.injection": (
        "briefing",
        "inject_history",
        "inject_observation",
        "inject_task",
    ),
    "insight.messages": (
        "Message",
        "conversation",
    ),
    "insight.playback": ("replay",),
    "insight.react": ("ReactMemory",),
    "insight.report": ("to_markdown",),
    "insight.statistics": (
        "Comparison",
        "MemoryStats",
        "analyze",
        "compare",
    ),
    "insight.telemetry": ("trace_events",),
    "insight.trace": (
        "ReasoningStep",
        "Todo",
        "reasoning",
        "todos",
    ),
    "memory.enhanced": ("EnhancedAgentMemory",),
    "memory.evaluation": (
        "Evaluation",
        "evaluate",
    ),
    "memory.experiences": ("Reflector",),
    "memory.forgetting": ("ForgettingCurve",),
    "memory.long_term": ("Memory",),
    "memory.ranking": ("Ranker",),
    "sessions.manager": (
        "SessionInfo",
        "SessionManager",
    ),
    "sessions.running": ("Run",),
    "sessions.session": ("Session",),
    "sessions.stepping": (
        "RunSteps",
        "iter_steps",
    ),
    "state": ("TypedMemory",),
    "steps.codec": (
        "UnknownStep",
        "decode_step",
        "encode_step",
    ),
    "steps.files": (
        "export_memory",
        "import_memory",
        "load_memory",
        "save_memory",
    ),
    "steps.notes": ("NoteStep",),
    "steps.observed": (
        "ObservedMemory",
        "Origin",
    ),
    "steps.registry": (
        "register_step",
        "register_value",
    ),
    "steps.values": (
        "NotKept",
        "Unknown",
        "decode_value",
        "encode_value",
    ),
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
    "tools.state": ("StateTool",),
    "tools.step": ("StepTool",),
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
