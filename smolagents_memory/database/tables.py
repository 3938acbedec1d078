"""The tables of sessions and of memories. What a person or a model wrote stands in binary columns: see `envelope`.

SQL is the truth: texts, metadata, use and vectors; the full text here, and every index elsewhere, is made from it.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
)


HEAD = "0002"  # the newest revision in migrations/versions
VERSION_TABLE = "smolagents_memory_version"
MEMORY_SCHEMA = 2  # what `memory_about` says beside it, so that 0.1.0 knows that this is newer

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only in an INTEGER

sessions = Table(
    "sessions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", LargeBinary, nullable=False, unique=True),
    Column("revision", BigInteger, nullable=False),  # of the last transaction
    Column("checkpoint", BigInteger, nullable=False),  # the revision from which the journal need be read
    Column("writer", LargeBinary),  # who may write: see leases
    Column("parent", _Id),  # for a call of a managed agent: the session of its manager …
    Column("parent_record", BigInteger),  # … and the first record of the step that called it
    Column("agent", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
    Index("sessions_by_parent", "parent"),
)

# one row for each step and each later version of it
records = Table(
    "session_records",
    metadata,
    Column("session", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("segment", BigInteger, nullable=False),  # the record with which this chain of input messages begins
    Column("created", Float, nullable=False),
    Column("kind", String(255), nullable=False),  # what a list of steps shows, so that it need not read them
    Column("step_number", BigInteger),
    Column("began", Float),
    Column("ended", Float),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("error", String(255)),  # its class
    Column("inputs", LargeBinary),
    Column("fields", LargeBinary, nullable=False),  # large, and so the last: what stands behind it is slow to reach
    PrimaryKeyConstraint("session", "number"),
)

# one row for each transaction: what happened to the list of steps
journal = Table(
    "session_journal",
    metadata,
    Column("session", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("changes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session", "revision"),
)

runs = Table(
    "session_runs",
    metadata,
    Column("session", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("revision", BigInteger, nullable=False),  # with which it began
    Column("state", String(16), nullable=False),
    Column("started", Float, nullable=False),
    Column("ended", Float),
    Column("steps", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("details", LargeBinary, nullable=False),
    PrimaryKeyConstraint("session", "number"),
)

# images and large bytes, once for equal content
blobs = Table(
    "blobs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", LargeBinary, nullable=False, unique=True),
    Column("data", LargeBinary, nullable=False),
)
session_blobs = Table(
    "session_blobs",
    metadata,
    Column("session", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("blob", _Id, ForeignKey("blobs.id"), nullable=False),
    PrimaryKeyConstraint("session", "blob"),
    Index("session_blobs_by_blob", "blob"),
)


# -- memories ------------------------------------------------------------------------------------------------------

TEXT, ENVELOPED = 1, 2  # the value is a text, not JSON; value and metadata lie in envelopes, not bare

about = Table(  # what this place is: its random id, and what older packages look for
    "memory_about",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
changes = Table(  # one row: the last number given; every id is one, taken inside the transaction that uses it
    "memory_changes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("last", _Id, nullable=False),
)
scopes = Table(
    "memory_scopes",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("live", Integer, nullable=False, default=0),  # memories that can be found
    Column("words", BigInteger, nullable=False, default=0),  # and the words in them
    Column("decayed", Float, nullable=False, default=0.0),  # when forgetting last ran
)
sources = Table(  # where memories come from: a run, a session, a document
    "memory_sources",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("scope_id", _Id, nullable=False),
    Column("name", LargeBinary, nullable=False),
    Column("next", Integer, nullable=False),  # the position that its next memory gets
    UniqueConstraint("scope_id", "name", name="memory_sources_name"),
)
items = Table(
    "memory_items",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("scope_id", _Id, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("form", Integer, nullable=False),  # TEXT, ENVELOPED, both or neither
    Column("meta", LargeBinary, nullable=False),
    Column("kind", Text, nullable=False),
    Column("source_id", _Id),
    Column("place", _Id, index=True),  # source and position in one number: neighbours are one apart
    Column("importance", Float, nullable=False),
    Column("created", Float, nullable=False),
    Column("touched", Float, nullable=False),  # when it was last recalled or reinforced
    Column("uses", Float, nullable=False),  # how often
    Column("useful", Float, nullable=False),  # how often it turned out to help, less how often it did not
    Column("pinned", Boolean, nullable=False),
    Column("archived", Float),  # when it was put away
    Column("embedder_id", Integer),  # whose vectors it has; None: none yet
    Column("words", Text, nullable=False),
    Column("word_count", Integer, nullable=False),
    UniqueConstraint("scope_id", "key", name="memory_items_key"),
    Index("memory_items_embedder", "scope_id", "embedder_id"),
    Index("memory_items_in_order", "scope_id", "id"),
)
embedders = Table(
    "memory_embedders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)
vectors = Table(  # a vector's id is the number of the change that brought it: an index asks for what is newer
    "memory_vectors",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("item_id", _Id, nullable=False, index=True),
    Column("scope_id", _Id, nullable=False),
    Column("embedder_id", Integer, nullable=False),
    Column("part", Integer, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("live", Boolean, nullable=False),  # False while its memory is archived
    Column("vector", LargeBinary, nullable=False),
    Index("memory_vectors_newer", "scope_id", "id"),
)
LEFT_OUT = 0  # stands for the rows up to there, which are not kept any more
gone = Table(  # vectors that every index must drop
    "memory_gone",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("scope_id", _Id, nullable=False),
    Column("vector_id", _Id, nullable=False),  # or LEFT_OUT
    Index("memory_gone_newer", "scope_id", "id"),
)

# the full text: FTS5, which keeps no text of its own, and how often each word occurs; on Postgres vectors of words
for _dialect, _statements in {
    "sqlite": (
        "CREATE VIRTUAL TABLE memory_words USING fts5(words, tokenize='ascii', content='')",
        "CREATE VIRTUAL TABLE memory_word_counts USING fts5vocab(memory_words, 'row')",
    ),
    "postgresql": (
        "CREATE TABLE memory_words (item_id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
        "CREATE INDEX memory_words_gin ON memory_words USING GIN (words)",
    ),
}.items():
    for _statement in _statements:
        _made = DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]
        event.listen(items, "after_create", _made)
for _table in ("memory_word_counts", "memory_words"):
    _dropped = DDL(f"DROP TABLE IF EXISTS {_table}")  # type: ignore[no-untyped-call]
    event.listen(items, "before_drop", _dropped)
