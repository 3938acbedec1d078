"""How alembic runs here: on the connection it is given, in the transaction that is already open."""

from __future__ import annotations

from alembic import context

from smolagents_memory.database.tables import VERSION_TABLE, metadata


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,
)
context.run_migrations()
