"""Every error this package raises on its own account, in one tree.

    SmolagentsMemoryError
    ├── AttachError                   a memory that is another agent's, or an agent that has such a memory already
    ├── CallbackSignatureError        a callback that smolagents would call wrongly
    ├── DecodeError                   a record that cannot be turned back into a step or value
    │   └── OversizedError            it would take memory or time beyond all proportion to its bytes
    ├── DocumentError                 a document's file cannot be read; also an OSError
    ├── EmbeddingError                a text cannot be turned into a vector, or the model is not what it should be
    ├── MemoryFileError               a memory file that cannot be read; `.recoverable` says how many steps could be
    │   ├── DamagedFileError          cut short, bits flipped, empty
    │   ├── ForeignFileError          not a memory file at all
    │   ├── NewerFormatError          written by a newer version of this package, as is a value in a database
    │   └── OversizedFileError        it would take memory or time beyond all proportion to its bytes; see max_bytes
    ├── MissingExtraError             an optional dependency is not installed; names the command that installs it
    ├── PlaceError                    what was given names no place, or not how things lie there
    │   └── SealError                 a wrong or missing key, or what lies under a seal was changed; see `Seal`
    ├── StoreError                    a store of memories
    │   ├── StoreBusyError            another process has the folder; names the remedy
    │   ├── StoreFormatError          the storage was made by something else, or by a newer version
    │   ├── StoreUnavailableError     the storage cannot be read or written; nothing was half-written
    │   └── UnsupportedValueError     a key, value, metadata or filter that cannot be kept faithfully
    ├── ToolStateError                a tool that holds something which cannot be saved
    ├── ScriptError                   a ScriptedModel whose script ran out or holds something it cannot play
    └── SessionError                  a session's journal
        ├── SessionConflictError      somebody else has written to the session since
        ├── SessionNotFoundError      no session of that name
        ├── SessionStorageError       the database cannot be read or written; nothing in memory is lost
        ├── SessionDamagedError       rows that cannot be read; says which, and what was kept
        └── NewerSchemaError          the database was made by a newer version of this package; also a StoreFormatError

    MemoryLossWarning                 (a warning) something could not be kept, and what stands in its place

Each message names what was wrong, what was kept, and what to do next.
"""

from __future__ import annotations


class SmolagentsMemoryError(Exception):
    """The root of the tree: catch this to catch all of them."""


class AttachError(SmolagentsMemoryError):
    """A memory that is another agent's, or an agent that has such a memory already. Nothing was changed."""


class CallbackSignatureError(SmolagentsMemoryError, TypeError):
    """A callback whose signature smolagents would call wrongly."""


class DecodeError(SmolagentsMemoryError, ValueError):
    """A record that cannot be turned back into a step or a value."""


class OversizedError(DecodeError):
    """A record that would take memory or time beyond all proportion to its bytes. Nothing was made of it."""


class DocumentError(SmolagentsMemoryError, OSError):
    """A document's file cannot be read. What was kept of it before is as it was."""


class EmbeddingError(SmolagentsMemoryError):
    """A text cannot be turned into a vector, or the model is not what it should be."""


class MemoryFileError(SmolagentsMemoryError, ValueError):
    """A memory file that cannot be read.

    `recoverable` is the number of intact steps that `load_memory(path, recover=True)` would return.
    """

    def __init__(self, message: str, *, recoverable: int = 0) -> None:
        super().__init__(message)
        self.recoverable = recoverable


class DamagedFileError(MemoryFileError):
    """The file is cut short, empty, or its bytes were changed."""


class ForeignFileError(MemoryFileError):
    """The file is something else than a memory file."""


class NewerFormatError(MemoryFileError):
    """The file, or a value in a database, was written by a newer version of this package."""


class OversizedFileError(MemoryFileError):
    """The file would take memory or time beyond all proportion to its bytes: `max_bytes=` allows more."""


class MissingExtraError(SmolagentsMemoryError, ImportError):
    """An optional dependency is not installed.

    >>> raise MissingExtraError("RedisStore", "redis")
    Traceback (most recent call last):
    ...
    smolagents_memory._errors.MissingExtraError: RedisStore needs more: pip install 'smolagents-memory[redis]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more: pip install 'smolagents-memory[{extra}]'")
        self.extra = extra


class PlaceError(SmolagentsMemoryError, ValueError):
    """What was given names no place, or contradicts how things lie there. Nothing was opened or changed."""


class SealError(PlaceError):
    """A wrong or missing key, or what lies under a seal was changed, moved or taken away. Nothing was written."""


class StoreError(SmolagentsMemoryError):
    """The root of what can go wrong with a store of memories."""


class StoreBusyError(StoreError):
    """Another process holds the folder; the message names the remedy."""


class StoreFormatError(StoreError):
    """The storage was made by something else, by another embedder, or by a newer version of this package."""


class StoreUnavailableError(StoreError):
    """The storage cannot be read or written. Nothing was half-written."""


class UnsupportedValueError(StoreError, ValueError):
    """A key, value, metadata or filter that cannot be kept or understood faithfully. Nothing was written."""


class ToolStateError(SmolagentsMemoryError, ValueError):
    """A tool that holds something which cannot be saved."""


class ScriptError(SmolagentsMemoryError):
    """A ScriptedModel whose script ran out, or holds something it cannot play."""


class SessionError(SmolagentsMemoryError):
    """The root of what can go wrong with a session's journal."""


class SessionConflictError(SessionError):
    """Somebody else writes to the session, or has since it was read here, or it is another person's.

    Nothing in memory is lost.
    """


class SessionNotFoundError(SessionError, KeyError):
    """There is no session of that name."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class SessionStorageError(SessionError):
    """The database cannot be read or written. What is in memory is untouched and is written when it can be."""


class SessionDamagedError(SessionError):
    """Rows of a session that cannot be read."""


class NewerSchemaError(SessionError, StoreFormatError):
    """The database, of sessions and of memories, was made by a newer version of this package."""


class MemoryLossWarning(UserWarning):
    """Something could not be kept; the message names it and what stands in its place."""
