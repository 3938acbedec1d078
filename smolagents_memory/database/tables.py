"""The tables of sessions. Whatever a person or a model wrote stands in binary columns: see `envelope`."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
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
)


HEAD = "0001"  # the newest revision in migrations/versions
VERSION_TABLE = "smolagents_memory_version"

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only in an INTEGER

sessions = Table(
    "sessions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", LargeBinary, nullable=False, unique=True),
    Column("revision", BigInteger, nullable=False),  # of the last transaction
    Column("checkpoint", BigInteger, nullable=False),  # the revision from which the journal need be read
    Column("owner", LargeBinary),  # who may write: see ownership
    Column("parent", _Id),  # for a call of a managed agent: the session of its manager …
    Column("parent_record", BigInteger),  # … and the first record of the step that called it
    Column("agent", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
)

# one row for each step and each later version of it
records = Table(
    "session_records",
    metadata,
    Column("session", _Id, ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("segment", BigInteger, nullable=False),  # the record with which this chain of input messages begins
    Column("created", Float, nullable=False),
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
