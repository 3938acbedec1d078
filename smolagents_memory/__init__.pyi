# made by tests/stub.py from the table in __init__.py
from smolagents_memory._errors import (
    AttachError as AttachError,
    CallbackSignatureError as CallbackSignatureError,
    DamagedFileError as DamagedFileError,
    DecodeError as DecodeError,
    DocumentError as DocumentError,
    EmbeddingError as EmbeddingError,
    ForeignFileError as ForeignFileError,
    MemoryFileError as MemoryFileError,
    MemoryLossWarning as MemoryLossWarning,
    MissingExtraError as MissingExtraError,
    NewerFormatError as NewerFormatError,
    NewerSchemaError as NewerSchemaError,
    OversizedError as OversizedError,
    OversizedFileError as OversizedFileError,
    PlaceError as PlaceError,
    ScriptError as ScriptError,
    SealError as SealError,
    SessionConflictError as SessionConflictError,
    SessionDamagedError as SessionDamagedError,
    SessionError as SessionError,
    SessionNotFoundError as SessionNotFoundError,
    SessionStorageError as SessionStorageError,
    SmolagentsMemoryError as SmolagentsMemoryError,
    StoreBusyError as StoreBusyError,
    StoreError as StoreError,
    StoreFormatError as StoreFormatError,
    StoreUnavailableError as StoreUnavailableError,
    ToolStateError as ToolStateError,
    UnsupportedValueError as UnsupportedValueError,
)
from smolagents_memory._events import (
    Event as Event,
    Events as Events,
)
from smolagents_memory._version import (
    __version__ as __version__,
)
from smolagents_memory.callbacks.alerts import (
    Alert as Alert,
)
from smolagents_memory.callbacks.budget import (
    FitTokenBudget as FitTokenBudget,
)
from smolagents_memory.callbacks.context import (
    AddContext as AddContext,
)
from smolagents_memory.callbacks.failures import (
    AlertOnFailures as AlertOnFailures,
)
from smolagents_memory.callbacks.groups import (
    compose as compose,
    everywhere as everywhere,
)
from smolagents_memory.callbacks.image_pruning import (
    PruneImages as PruneImages,
)
from smolagents_memory.callbacks.input_messages import (
    DropInputMessages as DropInputMessages,
)
from smolagents_memory.callbacks.loops import (
    AlertOnLoops as AlertOnLoops,
)
from smolagents_memory.callbacks.prompt_redaction import (
    RedactPrompt as RedactPrompt,
)
from smolagents_memory.callbacks.recent import (
    KeepRecentSteps as KeepRecentSteps,
)
from smolagents_memory.callbacks.screenshots import (
    CaptureScreenshot as CaptureScreenshot,
)
from smolagents_memory.callbacks.step_callback import (
    StepCallback as StepCallback,
)
from smolagents_memory.callbacks.summaries import (
    SummarizeOldSteps as SummarizeOldSteps,
)
from smolagents_memory.callbacks.timestamps import (
    TimestampObservations as TimestampObservations,
)
from smolagents_memory.callbacks.truncation import (
    TruncateObservations as TruncateObservations,
)
from smolagents_memory.codec.encoding import (
    UnknownStep as UnknownStep,
    decode_step as decode_step,
    encode_step as encode_step,
)
from smolagents_memory.codec.placeholders import (
    NotKept as NotKept,
    Unknown as Unknown,
)
from smolagents_memory.codec.registry import (
    register_step as register_step,
    register_value as register_value,
)
from smolagents_memory.codec.values import (
    decode_value as decode_value,
    encode_value as encode_value,
)
from smolagents_memory.database.places import (
    Place as Place,
)
from smolagents_memory.history.files import (
    export_memory as export_memory,
    import_memory as import_memory,
    load_memory as load_memory,
    save_memory as save_memory,
)
from smolagents_memory.history.observed import (
    ObservedMemory as ObservedMemory,
    Origin as Origin,
)
from smolagents_memory.history.stepping import (
    RunSteps as RunSteps,
    iter_steps as iter_steps,
)
from smolagents_memory.insight.conversation import (
    Message as Message,
    conversation as conversation,
)
from smolagents_memory.insight.executions import (
    ToolExecution as ToolExecution,
    ToolResult as ToolResult,
    tool_executions as tool_executions,
)
from smolagents_memory.insight.finding import (
    find_steps as find_steps,
)
from smolagents_memory.insight.injection import (
    briefing as briefing,
    inject_history as inject_history,
    inject_observation as inject_observation,
    inject_task as inject_task,
)
from smolagents_memory.insight.playback import (
    replay as replay,
)
from smolagents_memory.insight.react import (
    ReactMemory as ReactMemory,
)
from smolagents_memory.insight.report import (
    to_markdown as to_markdown,
)
from smolagents_memory.insight.statistics import (
    Comparison as Comparison,
    MemoryStats as MemoryStats,
    analyze as analyze,
    compare as compare,
)
from smolagents_memory.insight.telemetry import (
    trace_events as trace_events,
)
from smolagents_memory.insight.trace import (
    ReasoningStep as ReasoningStep,
    Todo as Todo,
    reasoning as reasoning,
    todos as todos,
)
from smolagents_memory.memory.enhanced import (
    EnhancedAgentMemory as EnhancedAgentMemory,
)
from smolagents_memory.memory.evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
)
from smolagents_memory.memory.experiences import (
    Reflector as Reflector,
)
from smolagents_memory.memory.forgetting import (
    ForgettingCurve as ForgettingCurve,
)
from smolagents_memory.memory.items import (
    Memory as Memory,
)
from smolagents_memory.memory.ranking import (
    Ranker as Ranker,
)
from smolagents_memory.memory.serving import (
    LongTermStats as LongTermStats,
)
from smolagents_memory.people.erasing import (
    Erasure as Erasure,
)
from smolagents_memory.people.key_manager import (
    KeyManager as KeyManager,
)
from smolagents_memory.people.persons import (
    People as People,
)
from smolagents_memory.people.whose import (
    Person as Person,
)
from smolagents_memory.privacy.masters import (
    Master as Master,
)
from smolagents_memory.privacy.recogniser import (
    Recogniser as Recogniser,
)
from smolagents_memory.privacy.redaction import (
    Redactor as Redactor,
)
from smolagents_memory.privacy.sealing import (
    Seal as Seal,
)
from smolagents_memory.search.embedders import (
    CallableEmbedder as CallableEmbedder,
    ChromaEmbedder as ChromaEmbedder,
    OpenAIEmbedder as OpenAIEmbedder,
    SentenceTransformerEmbedder as SentenceTransformerEmbedder,
)
from smolagents_memory.search.embedding import (
    Embedder as Embedder,
)
from smolagents_memory.search.minilm import (
    MiniLMEmbedder as MiniLMEmbedder,
)
from smolagents_memory.sessions.manager import (
    SessionInfo as SessionInfo,
    SessionManager as SessionManager,
)
from smolagents_memory.sessions.runs import (
    Run as Run,
)
from smolagents_memory.sessions.session import (
    Session as Session,
)
from smolagents_memory.sessions.transcript import (
    JournaledStep as JournaledStep,
    Transcript as Transcript,
)
from smolagents_memory.state import (
    TypedMemory as TypedMemory,
)
from smolagents_memory.steps.notes import (
    NoteStep as NoteStep,
)
from smolagents_memory.steps.pins import (
    is_pinned as is_pinned,
    pin as pin,
    unpin as unpin,
)
from smolagents_memory.stores.base import (
    Hit as Hit,
    MemoryStore as MemoryStore,
)
from smolagents_memory.stores.chroma import (
    VectorMemoryStore as VectorMemoryStore,
)
from smolagents_memory.stores.in_memory import (
    InMemoryStore as InMemoryStore,
)
from smolagents_memory.stores.opening import (
    open_store as open_store,
)
from smolagents_memory.stores.records import (
    ScopeInfo as ScopeInfo,
)
from smolagents_memory.stores.redis import (
    RedisStore as RedisStore,
)
from smolagents_memory.stores.sql import (
    SqlStore as SqlStore,
    SqliteStore as SqliteStore,
)
from smolagents_memory.tools.forget import (
    ForgetTool as ForgetTool,
)
from smolagents_memory.tools.recall import (
    RecallTool as RecallTool,
)
from smolagents_memory.tools.remember import (
    RememberTool as RememberTool,
)
from smolagents_memory.tools.shared_state import (
    StateTool as StateTool,
)
from smolagents_memory.tools.step import (
    StepTool as StepTool,
)

__all__: list[str]
