"""The tables of sessions and of memories. What a person or a model wrote stands in binary columns: see `envelope`.

SQL is the truth: texts, metadata, use and vectors; the full text here, and every index elsewhere, is made from it.
"""

from __future__ import annotations

import sqlalchemy as sa

from smolagents_memory.database.columns import Binary, Large, Real, Text, Whole


HEAD = "0007"  # the newest revision in migrations/versions
VERSION_TABLE = "smolagents_memory_version"
MEMORY_SCHEMA = 7  # what `memory_about` says beside it, so that 0.1.0 knows that this is newer

metadata = sa.MetaData()
_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows by itself only in an INTEGER

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("revision", sa.BigInteger, nullable=False),  # of the last transaction
    sa.Column("checkpoint", sa.BigInteger, nullable=False),  # the revision from which the journal need be read
    sa.Column("writer", sa.LargeBinary),  # who may write: see leases
    sa.Column("lease", sa.Float),  # until when, in Postgres, by the server's clock
    sa.Column("parent", _Id),  # for a call of a managed agent: the session of its manager …
    sa.Column("parent_record", sa.BigInteger),  # … and the first record of the step that called it
    sa.Column("agent", sa.LargeBinary, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("updated", sa.Float, nullable=False),
    sa.Column("person", sa.LargeBinary),  # whose session it is
    sa.Column("labels", sa.LargeBinary),  # its title and its tags, in an envelope
    sa.Column("seal_key", sa.BigInteger),  # under a seal: the number of its data key …
    sa.Column("head", sa.LargeBinary),  # … what the chain of its entries ends with: see `chain` …
    sa.Column("mark", sa.LargeBinary),  # … and what says that this row is as it was written: see `owners`
    sa.Index("sessions_by_parent", "parent"),
    sa.Index("sessions_by_person", "person"),
)

# one row for each step and each later version of it
records = sa.Table(
    "session_records",
    metadata,
    sa.Column("session", _Id, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("segment", sa.BigInteger, nullable=False),  # the record with which this chain of input messages begins
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("kind", sa.String(255), nullable=False),  # what a list of steps shows, so that it need not read them
    sa.Column("step_number", sa.BigInteger),
    sa.Column("began", sa.Float),
    sa.Column("ended", sa.Float),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("error", sa.String(255)),  # its class
    sa.Column("mark", sa.LargeBinary),  # under a seal: of all that stands here, see `chain`
    sa.Column("inputs", sa.LargeBinary),
    sa.Column(
        "fields", sa.LargeBinary, nullable=False
    ),  # large, and so the last: what stands behind it is slow to reach
    sa.PrimaryKeyConstraint("session", "number"),
)

# one row for each transaction: what happened to the list of steps
journal = sa.Table(
    "session_journal",
    metadata,
    sa.Column("session", _Id, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("changes", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("session", "revision"),
)

runs = sa.Table(
    "session_runs",
    metadata,
    sa.Column("session", _Id, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),  # with which it began
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("started", sa.Float, nullable=False),
    sa.Column("ended", sa.Float),
    sa.Column("steps", sa.Integer, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("details", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("session", "number"),
)

# images and large bytes, once for equal content
blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
session_blobs = sa.Table(
    "session_blobs",
    metadata,
    sa.Column("session", _Id, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("blob", _Id, sa.ForeignKey("blobs.id"), nullable=False),
    sa.PrimaryKeyConstraint("session", "blob"),
    sa.Index("session_blobs_by_blob", "blob"),
)


# -- memories ------------------------------------------------------------------------------------------------------

_RARE = sa.text("importance <> 1.0")  # other than the ordinary one
TEXT, ENVELOPED = 1, 2  # the value is a text, not JSON; value and metadata lie in envelopes, not bare

about = sa.Table(  # what this place is: its random id, and what older packages look for
    "memory_about",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
changes = sa.Table(  # one row: the last number given; every id is one, taken inside the transaction that uses it
    "memory_changes",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("last", _Id, nullable=False),
)
scopes = sa.Table(
    "memory_scopes",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("live", Whole(), nullable=False, default=0),  # memories that can be found
    sa.Column("words", Large(), nullable=False, default=0),  # and the words in them
    sa.Column("decayed", Real(), nullable=False, default=0.0),  # when forgetting last ran
    sa.Column("recalls", Large(), nullable=False, server_default="0"),  # those that have no row of their own …
    sa.Column("hits", Large(), nullable=False, server_default="0"),  # … how many of them found something …
    sa.Column("helped", Large(), nullable=False, server_default="0"),  # … and were of use
    sa.Column("ahead", Real(nullable=True)),  # since when it is known that some times lie ahead of the clock
    sa.Column("seal_key", sa.BigInteger),  # under a seal: the number of its data key …
    sa.Column("mark", sa.LargeBinary),  # … and what says that it holds what it should, and no less
)
sources = sa.Table(  # where memories come from: a run, a session, a document
    "memory_sources",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("name", Binary(nullable=True), nullable=False),
    sa.Column("next", Whole(), nullable=False),  # the position that its next memory gets
    sa.UniqueConstraint("scope_id", "name", name="memory_sources_name"),
)
items = sa.Table(
    "memory_items",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("key", Binary(), nullable=False),
    sa.Column("value", Binary(), nullable=False),
    sa.Column("form", Whole(), nullable=False),  # TEXT, ENVELOPED, both or neither
    sa.Column("meta", Binary(), nullable=False),
    sa.Column("kind", Text(), nullable=False),
    sa.Column("source_id", _Id),
    sa.Column("place", _Id, index=True),  # source and position in one number: neighbours are one apart
    sa.Column("importance", Real(), nullable=False),
    sa.Column("created", Real(), nullable=False),
    sa.Column("touched", Real(), nullable=False),  # when it was last recalled or reinforced
    sa.Column("uses", Real(), nullable=False),  # how often
    sa.Column("useful", Real(), nullable=False),  # how often it turned out to help, less how often it did not
    sa.Column("pinned", sa.Boolean, nullable=False),
    sa.Column("archived", Real(nullable=True)),  # when it was put away
    sa.Column("embedder_id", Whole(nullable=True)),  # whose vectors it has; None: none yet
    sa.Column("words", Text(), nullable=False),
    sa.Column("word_count", Whole(), nullable=False),
    sa.Column("cues", Binary(nullable=True)),  # what its form tells; None: not told yet
    sa.Column("origin", sa.String(16), nullable=False, server_default="user"),  # who wrote it: see `stores.records`
    sa.Column("trust", Whole(), nullable=False, server_default="1"),  # from 1 on it may be brought back unasked
    sa.Column("made_of", Binary(nullable=True)),  # tools, memories and sources, in an envelope; None: of nothing else
    sa.Column("mark", sa.LargeBinary),  # under a seal: of all that stands here
    sa.UniqueConstraint("scope_id", "key", name="memory_items_key"),
    sa.Index("memory_items_embedder", "scope_id", "embedder_id"),
    sa.Index("memory_items_in_order", "scope_id", "id"),
    sa.Index("memory_items_created", "scope_id", "created"),
    sa.Index("memory_items_importance", "scope_id", "importance", sqlite_where=_RARE, postgresql_where=_RARE),
)
labels = sa.Table(  # what SQL finds memories by for a filter: see `stores.field_labels`; nothing under a seal
    "memory_labels",
    metadata,
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("label", sa.Integer, nullable=False),
    sa.Column("item_id", _Id, nullable=False),
    sa.PrimaryKeyConstraint("scope_id", "label", "item_id"),
    sqlite_with_rowid=False,
)
embedders = sa.Table(
    "memory_embedders",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
)
vectors = sa.Table(  # a vector's id is the number of the change that brought it: an index asks for what is newer
    "memory_vectors",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("item_id", _Id, nullable=False, index=True),
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("embedder_id", sa.Integer, nullable=False),
    sa.Column("part", Whole(), nullable=False),
    sa.Column("parts", Whole(), nullable=False),
    sa.Column("live", sa.Boolean, nullable=False),  # False while its memory is archived
    sa.Column("vector", Binary(), nullable=False),
    sa.Index("memory_vectors_newer", "scope_id", "id"),
)
LEFT_OUT = 0  # stands for the rows up to there, which are not kept any more
gone = sa.Table(  # vectors that every index must drop
    "memory_gone",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("vector_id", _Id, nullable=False),  # or LEFT_OUT
    sa.Index("memory_gone_newer", "scope_id", "id"),
)
recalls = sa.Table(  # the newest of each scope; see `stores.recalls`
    "memory_recalls",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("scope_id", _Id, nullable=False),
    sa.Column("created", Real(), nullable=False),
    sa.Column("given", Binary(), nullable=False),  # the numbers of the memories that it gave, eight bytes each
    sa.Column("helped", sa.Boolean, nullable=False),
    sa.Index("memory_recalls_newer", "scope_id", "id"),
)

# what was taken out of texts, by its placeholder: under a seal alone, and only where it may be given back
redacted = sa.Table(
    "redacted",
    metadata,
    sa.Column("owner", sa.LargeBinary, nullable=False),  # the name of a scope, as it is looked up
    sa.Column("placeholder", sa.String(64), nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("owner", "placeholder"),
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
        _made = sa.DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]
        sa.event.listen(items, "after_create", _made)
for _table in ("memory_word_counts", "memory_words"):
    _dropped = sa.DDL(f"DROP TABLE IF EXISTS {_table}")  # type: ignore[no-untyped-call]
    sa.event.listen(items, "before_drop", _dropped)
