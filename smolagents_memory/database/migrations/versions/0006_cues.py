"""Room for what the form of a memory tells. It is told when the words of all memories are made anew, which is next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("memory_items", sa.Column("cues", sa.LargeBinary))
    op.execute("UPDATE memory_about SET value = '6' WHERE name = 'schema'")
