"""Sessions and memories in one schema: the memories of 0.1.0 are taken in with their data; steps can be listed.

What 0.1.0 reads and writes in every transaction has another name from now on (`sessions.writer`, `memory_items.form`):
a process of it that still has the place open fails loudly, and does not take what is new for damaged.
"""

from __future__ import annotations

import json
import secrets
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op


revision = "0002"
down_revision = "0001"

_ROWS = 200  # in one statement
_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    connection = op.get_bind()
    sqlite = connection.dialect.name == "sqlite"
    op.execute("ALTER TABLE sessions RENAME COLUMN owner TO writer")
    op.execute("UPDATE sessions SET writer = substr(writer, 7) WHERE writer IS NOT NULL")  # no envelope any more
    op.add_column("sessions", sa.Column("lease", sa.Float))
    op.create_index("sessions_by_parent", "sessions", ["parent"])
    (_records_in_sqlite if sqlite else _records_in_postgres)(connection)
    if sa.inspect(connection).has_table("memory_about"):
        (_memories_in_sqlite if sqlite else _memories_in_postgres)()
        op.execute("UPDATE memory_about SET value = '2' WHERE name = 'schema'")
    else:
        _make_memories(sqlite)
        op.execute(f"INSERT INTO memory_about VALUES ('schema', '2'), ('bank', '{secrets.token_hex(8)}')")
        op.execute("INSERT INTO memory_changes VALUES (1, 0)")
    op.execute(f"INSERT INTO memory_about VALUES ('place', '{secrets.token_hex(16)}')")


# -- records of steps ----------------------------------------------------------------------------------------------


def _listed() -> list[sa.Column[Any]]:
    return [
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("step_number", sa.BigInteger),
        sa.Column("began", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("error", sa.String(255)),
    ]


def _records_in_sqlite(connection: sa.Connection) -> None:
    """Made anew: a column behind the large one would be slow to reach."""
    made = op.create_table(
        "session_records_new",
        sa.Column("session", _id, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        *_listed(),
        sa.Column("inputs", sa.LargeBinary),
        sa.Column("fields", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session", "number"),
    )
    for some in _old_records(connection, "session, number, segment, created, inputs, fields"):
        connection.execute(sa.insert(made), some)
    op.drop_table("session_records")
    op.rename_table("session_records_new", "session_records")


def _records_in_postgres(connection: sa.Connection) -> None:
    for column in _listed():
        column.nullable = True
        op.add_column("session_records", column)
    names = [column.name for column in _listed()]
    table = sa.table("session_records", *map(sa.column, ("session", "number", *names)))
    change = sa.update(table).where(
        table.c.session == sa.bindparam("session_"), table.c.number == sa.bindparam("number_")
    )
    for some in _old_records(connection, "session, number, fields"):
        rows = [{"session_": row.pop("session"), "number_": row.pop("number"), **row} for row in some]
        for row in rows:
            del row["fields"]
        connection.execute(change.values({name: sa.bindparam(name) for name in names}), rows)
    op.alter_column("session_records", "kind", nullable=False)


def _old_records(connection: sa.Connection, columns: str) -> Any:
    """The rows in parts, with what their fields tell. A version tells what it changes, and the rest as its base."""
    known: dict[int, dict[str, Any]] = {}
    after = (-1, -1)
    statement = sa.text(
        f"SELECT {columns} FROM session_records WHERE session > :session OR (session = :session AND number > :number) "
        "ORDER BY session, number LIMIT :rows"
    )
    while True:
        values = {"session": after[0], "number": after[1], "rows": _ROWS}
        some = [dict(row) for row in connection.execute(statement, values).mappings()]
        if not some:
            return
        for row in some:
            if row["session"] != after[0]:
                known = {}
            after = (row["session"], row["number"])
            record = _record(bytes(row["fields"]))
            base = known.get(record.get("base", -1), {})
            known[row["number"]] = told = {**base, **_told(record)}
            row.update(dict.fromkeys((column.name for column in _listed()), None) | {"kind": "", **told})
        yield some


def _record(data: bytes) -> dict[str, Any]:
    """A record in its envelope; a damaged one tells nothing."""
    version, key, checksum, payload = data[:1], data[1:2], data[2:6], data[6:]
    if version != b"\1" or key != b"\0" or zlib.crc32(payload) != int.from_bytes(checksum, "big"):
        return {}
    try:
        record = json.loads(payload[: payload.find(b"\n")])
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("fields"), dict) else {}


def _told(record: dict[str, Any]) -> dict[str, Any]:
    fields = record.get("fields", {})
    told: dict[str, Any] = {"kind": _name(record["step"])} if "step" in record else {}
    if "step_number" in fields:
        told["step_number"] = _whole(fields["step_number"])
    if isinstance(timing := fields.get("timing"), dict):
        told |= {"began": _time(timing.get("start_time")), "ended": _time(timing.get("end_time"))}
    if isinstance(usage := fields.get("token_usage"), dict):
        told |= {name: _whole(usage.get(name)) for name in ("input_tokens", "output_tokens")}
    if "error" in fields:
        error = fields["error"]
        names = error.get("c") if isinstance(error, dict) else None
        told["error"] = _name(names[0].rpartition(":")[2]) if names and isinstance(names[0], str) else None
    return told


def _name(given: Any) -> str:
    return str(given).encode("ascii", "backslashreplace").decode().replace("\0", "?")[:255]


def _whole(given: Any) -> int | None:
    return given if type(given) is int and abs(given) < 2**63 else None


def _time(given: Any) -> float | None:
    return float(given) if type(given) in (int, float) else None


# -- memories ------------------------------------------------------------------------------------------------------


def _items() -> list[Any]:
    return [
        sa.Column("id", _id, primary_key=True),
        sa.Column("scope_id", _id, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("form", sa.Integer, nullable=False),
        sa.Column("meta", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("source_id", _id),
        sa.Column("place", _id),
        sa.Column("importance", sa.Float, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("touched", sa.Float, nullable=False),
        sa.Column("uses", sa.Float, nullable=False),
        sa.Column("useful", sa.Float, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("archived", sa.Float),
        sa.Column("embedder_id", sa.Integer),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("word_count", sa.Integer, nullable=False),
        sa.UniqueConstraint("scope_id", "key", name="memory_items_key"),
    ]


def _index_items() -> None:
    op.create_index("ix_memory_items_place", "memory_items", ["place"])
    op.create_index("memory_items_embedder", "memory_items", ["scope_id", "embedder_id"])
    op.create_index("memory_items_in_order", "memory_items", ["scope_id", "id"])


def _memories_in_sqlite() -> None:
    """Made anew, for SQLite changes no column's type. The full text knows the rows by their numbers, which stay."""
    made = op.create_table("memory_items_new", *_items())
    names = [column.name for column in made.columns]
    old = {"form": "is_text", "meta": "CAST(meta AS BLOB)"}
    taken = ", ".join(old.get(name, name) for name in names)
    op.execute(f"INSERT INTO memory_items_new ({', '.join(names)}) SELECT {taken} FROM memory_items ORDER BY id")
    op.drop_table("memory_items")
    op.rename_table("memory_items_new", "memory_items")
    _index_items()


def _memories_in_postgres() -> None:
    op.execute("ALTER TABLE memory_items RENAME COLUMN is_text TO form")
    op.execute("ALTER TABLE memory_items ALTER COLUMN form TYPE INTEGER USING form::int")
    op.execute("ALTER TABLE memory_items ALTER COLUMN meta TYPE BYTEA USING convert_to(meta, 'UTF8')")
    op.create_index("memory_items_in_order", "memory_items", ["scope_id", "id"])


def _make_memories(sqlite: bool) -> None:
    op.create_table(
        "memory_about", sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "memory_changes", sa.Column("id", sa.Integer, primary_key=True), sa.Column("last", _id, nullable=False)
    )
    op.create_table(
        "memory_scopes",
        sa.Column("id", _id, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("live", sa.Integer, nullable=False),
        sa.Column("words", sa.BigInteger, nullable=False),
        sa.Column("decayed", sa.Float, nullable=False),
    )
    op.create_table(
        "memory_sources",
        sa.Column("id", _id, primary_key=True),
        sa.Column("scope_id", _id, nullable=False),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("next", sa.Integer, nullable=False),
        sa.UniqueConstraint("scope_id", "name", name="memory_sources_name"),
    )
    op.create_table("memory_items", *_items())
    _index_items()
    op.create_table(
        "memory_embedders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "memory_vectors",
        sa.Column("id", _id, primary_key=True),
        sa.Column("item_id", _id, nullable=False, index=True),
        sa.Column("scope_id", _id, nullable=False),
        sa.Column("embedder_id", sa.Integer, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("parts", sa.Integer, nullable=False),
        sa.Column("live", sa.Boolean, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Index("memory_vectors_newer", "scope_id", "id"),
    )
    op.create_table(
        "memory_gone",
        sa.Column("id", _id, primary_key=True),
        sa.Column("scope_id", _id, nullable=False),
        sa.Column("vector_id", _id, nullable=False),
        sa.Index("memory_gone_newer", "scope_id", "id"),
    )
    if sqlite:
        op.execute("CREATE VIRTUAL TABLE memory_words USING fts5(words, tokenize='ascii', content='')")
        op.execute("CREATE VIRTUAL TABLE memory_word_counts USING fts5vocab(memory_words, 'row')")
    else:
        op.execute("CREATE TABLE memory_words (item_id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute("CREATE INDEX memory_words_gin ON memory_words USING GIN (words)")
