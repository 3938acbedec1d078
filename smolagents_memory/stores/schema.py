"""The tables of long-term memory. SQL is the truth: texts, metadata, use and vectors; every index is made from it.

Texts are kept as UTF-8 bytes, metadata as ASCII JSON: both take what a database's own text type refuses.
"""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from smolagents_memory._errors import StoreFormatError
from smolagents_memory.search.full_text import full_text_of


SCHEMA_VERSION = 1
metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")

about = Table(  # what this database is: schema version, its own name, the number of the last change
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
    Column("is_text", Boolean, nullable=False),  # else the value is JSON
    Column("meta", Text, nullable=False),
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
gone = Table(  # vectors that every index must drop
    "memory_gone",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("scope_id", _Id, nullable=False),
    Column("vector_id", _Id, nullable=False),
    Index("memory_gone_newer", "scope_id", "id"),
)


def prepare(engine: Engine) -> None:
    """Make the tables that are missing. Safe when several processes open a new database at once."""
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        _alone(connection)
        if inspect(connection).has_table(about.name):
            _check(connection)
            return
        metadata.create_all(connection)
        full_text_of(connection).create(connection)
        connection.execute(
            insert(about),
            [{"name": "schema", "value": str(SCHEMA_VERSION)}, {"name": "bank", "value": secrets.token_hex(8)}],
        )
        connection.execute(insert(changes).values(id=1, last=0))


def _alone(connection: Connection) -> None:
    """SQLite's write transaction keeps others out already; Postgres needs a lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7163841)"))


def _check(connection: Connection) -> None:
    found: Any = connection.execute(select(about.c.value).where(about.c.name == "schema")).scalar()
    if found is None or int(found) > SCHEMA_VERSION:
        raise StoreFormatError(
            f"the memories in {connection.engine.url!r} were written by a newer version of smolagents-memory "
            f"(schema {found}, known here: {SCHEMA_VERSION}); nothing was changed. Upgrade: "
            "pip install -U smolagents-memory"
        )
