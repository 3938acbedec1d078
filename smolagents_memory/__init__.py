"""Memory for HuggingFace smolagents agents: step callbacks, exact save and resume, and recall.

Every public name is here and is loaded when it is first used, so that `import smolagents_memory` costs nothing.
Editors and type checkers read `__init__.pyi`, which is made from the table below: `python tests/stub.py`.
"""

from importlib import import_module
from typing import Any

from smolagents_memory._version import __version__ as __version__


# the one list of public names, by the module that each lives in
_HOMES = {
    "_errors": """
        AttachError CallbackSignatureError DamagedFileError DecodeError DocumentError EmbeddingError
        ForeignFileError MemoryFileError MemoryLossWarning MissingExtraError NewerFormatError NewerSchemaError
        OversizedError OversizedFileError PlaceError ScriptError SealError SessionConflictError
        SessionDamagedError SessionError SessionNotFoundError SessionStorageError SmolagentsMemoryError StoreBusyError
        StoreError StoreFormatError StoreUnavailableError ToolStateError UnsupportedValueError
    """,
    "_events": "Event Events",
    "callbacks.alerts": "Alert",
    "callbacks.budget": "FitTokenBudget",
    "callbacks.context": "AddContext",
    "callbacks.failures": "AlertOnFailures",
    "callbacks.groups": "compose everywhere",
    "callbacks.image_pruning": "PruneImages",
    "callbacks.input_messages": "DropInputMessages",
    "callbacks.loops": "AlertOnLoops",
    "callbacks.prompt_redaction": "RedactPrompt",
    "callbacks.recent": "KeepRecentSteps",
    "callbacks.screenshots": "CaptureScreenshot",
    "callbacks.step_callback": "StepCallback",
    "callbacks.summaries": "SummarizeOldSteps",
    "callbacks.timestamps": "TimestampObservations",
    "callbacks.truncation": "TruncateObservations",
    "codec.encoding": "UnknownStep decode_step encode_step",
    "codec.placeholders": "NotKept Unknown",
    "codec.registry": "register_step register_value",
    "codec.values": "decode_value encode_value",
    "database.places": "Place",
    "history.files": "export_memory import_memory load_memory save_memory",
    "history.observed": "ObservedMemory Origin",
    "history.stepping": "RunSteps iter_steps",
    "insight.conversation": "Message conversation",
    "insight.executions": "ToolExecution ToolResult tool_executions",
    "insight.finding": "find_steps",
    "insight.injection": "briefing inject_history inject_observation inject_task",
    "insight.playback": "replay",
    "insight.react": "ReactMemory",
    "insight.report": "to_markdown",
    "insight.statistics": "Comparison MemoryStats analyze compare",
    "insight.telemetry": "trace_events",
    "insight.trace": "ReasoningStep Todo reasoning todos",
    "memory.enhanced": "EnhancedAgentMemory",
    "memory.evaluation": "Evaluation evaluate",
    "memory.experiences": "Reflector",
    "memory.forgetting": "ForgettingCurve",
    "memory.items": "Memory",
    "memory.ranking": "Ranker",
    "memory.serving": "LongTermStats",
    "people.erasing": "Erasure",
    "people.key_manager": "KeyManager",
    "people.persons": "People",
    "people.whose": "Person",
    "privacy.masters": "Master",
    "privacy.recogniser": "Recogniser",
    "privacy.redaction": "Redactor",
    "privacy.sealing": "Seal",
    "search.embedders": "CallableEmbedder ChromaEmbedder OpenAIEmbedder SentenceTransformerEmbedder",
    "search.embedding": "Embedder",
    "search.minilm": "MiniLMEmbedder",
    "sessions.manager": "SessionInfo SessionManager",
    "sessions.runs": "Run",
    "sessions.session": "Session",
    "sessions.transcript": "JournaledStep Transcript",
    "state": "TypedMemory",
    "steps.notes": "NoteStep",
    "steps.pins": "is_pinned pin unpin",
    "stores.base": "Hit MemoryStore",
    "stores.chroma": "VectorMemoryStore",
    "stores.in_memory": "InMemoryStore",
    "stores.opening": "open_store",
    "stores.records": "ScopeInfo",
    "stores.redis": "RedisStore",
    "stores.sql": "SqlStore SqliteStore",
    "tools.forget": "ForgetTool",
    "tools.recall": "RecallTool",
    "tools.remember": "RememberTool",
    "tools.shared_state": "StateTool",
    "tools.step": "StepTool",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
