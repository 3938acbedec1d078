"""Room for what SQL finds memories by. It is filled when the words of all memories are made anew, which is next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0007"
down_revision = "0006"

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_RARE = sa.text("importance <> 1.0")


def upgrade() -> None:
    op.create_table(
        "memory_labels",
        sa.Column("scope_id", _Id, nullable=False),
        sa.Column("label", sa.Integer, nullable=False),
        sa.Column("item_id", _Id, nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "label", "item_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("memory_items_created", "memory_items", ["scope_id", "created"])
    columns = ["scope_id", "importance"]
    op.create_index("memory_items_importance", "memory_items", columns, sqlite_where=_RARE, postgresql_where=_RARE)
    op.execute("UPDATE memory_about SET value = '7' WHERE name = 'schema'")
