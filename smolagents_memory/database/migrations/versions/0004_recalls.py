"""How well recall serves is counted in the database, over all processes; and since when times are known to lie ahead.

Of the newest recalls of a scope there is a row each; the older ones are numbers in the scope's row.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0004"
down_revision = "0003"

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    for name in ("recalls", "hits", "helped"):
        op.add_column("memory_scopes", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("memory_scopes", sa.Column("ahead", sa.Float))
    op.create_table(
        "memory_recalls",
        sa.Column("id", _Id, primary_key=True),
        sa.Column("scope_id", _Id, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("given", sa.LargeBinary, nullable=False),
        sa.Column("helped", sa.Boolean, nullable=False),
        sa.Index("memory_recalls_newer", "scope_id", "id"),
    )
    op.execute("UPDATE memory_about SET value = '4' WHERE name = 'schema'")
