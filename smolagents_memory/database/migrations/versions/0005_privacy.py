"""Room for what a seal needs to know, for what was taken out of texts, and for whose a session is.

A place gets a seal, or loses it, by `seal` and `unseal`, not by a migration: all of this is empty at first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for name in ("person", "labels", "head"):
        op.add_column("sessions", sa.Column(name, sa.LargeBinary))
    op.create_index("sessions_by_person", "sessions", ["person"])
    for table in ("sessions", "memory_scopes"):
        op.add_column(table, sa.Column("seal_key", sa.BigInteger))
    for table in ("sessions", "session_records", "memory_scopes", "memory_items"):
        op.add_column(table, sa.Column("mark", sa.LargeBinary))
    op.create_table(
        "redacted",
        sa.Column("owner", sa.LargeBinary, nullable=False),
        sa.Column("placeholder", sa.String(64), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("owner", "placeholder"),
    )
    op.execute("UPDATE memory_about SET value = '5' WHERE name = 'schema'")
