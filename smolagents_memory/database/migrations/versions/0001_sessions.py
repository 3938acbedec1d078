"""The tables of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0001"
down_revision = None


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")

    def owner() -> sa.Column[int]:
        return sa.Column("session", number, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False)

    op.create_table(
        "sessions",
        sa.Column("id", number, primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.LargeBinary),
        sa.Column("parent", number),
        sa.Column("parent_record", sa.BigInteger),
        sa.Column("agent", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
    )
    op.create_table(
        "session_records",
        owner(),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("inputs", sa.LargeBinary),
        sa.Column("fields", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session", "number"),
    )
    op.create_table(
        "session_journal",
        owner(),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("changes", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session", "revision"),
    )
    op.create_table(
        "session_runs",
        owner(),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("started", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("details", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session", "number"),
    )
    op.create_table(
        "blobs",
        sa.Column("id", number, primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "session_blobs",
        owner(),
        sa.Column("blob", number, sa.ForeignKey("blobs.id"), nullable=False),
        sa.PrimaryKeyConstraint("session", "blob"),
    )
    op.create_index("session_blobs_by_blob", "session_blobs", ["blob"])
