"""Each memory carries its origin, a trust, and what it was made of.

What is there has the origin that its kind tells: what runs taught is the agent's, parts of documents are documents',
the rest the user's. Nobody noted which tools were asked, so all of it is trusted as it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


revision = "0003"
down_revision = "0002"

_OF_AGENTS = ("experience", "action", "failure", "outcome", "unsolved", "solution", "lesson")


def upgrade() -> None:
    op.add_column("memory_items", sa.Column("origin", sa.String(16), nullable=False, server_default="user"))
    op.add_column("memory_items", sa.Column("trust", sa.Integer, nullable=False, server_default="1"))
    op.add_column("memory_items", sa.Column("made_of", sa.LargeBinary))
    kinds = ", ".join(f"'{kind}'" for kind in _OF_AGENTS)
    op.execute(f"UPDATE memory_items SET origin = 'agent' WHERE kind IN ({kinds})")
    op.execute("UPDATE memory_items SET origin = 'document' WHERE kind = 'document'")
    op.execute("UPDATE memory_about SET value = '3' WHERE name = 'schema'")
