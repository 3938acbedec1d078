"""Bringing an older database to the newest schema. alembic is imported here and nowhere else."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from smolagents_memory._files import replacing
from smolagents_memory._log import logger
from smolagents_memory.database import tables
from smolagents_memory.database.direct import opened_directly
from smolagents_memory.database.engine import alone


if TYPE_CHECKING:
    from smolagents_memory.database.engine import Database


def migrate(database: Database, version: str) -> None:
    """Bring a database of an older version to the newest, a SQLite file after a backup copy beside it."""
    from alembic import command
    from alembic.config import Config

    kept = f"{database} is as it was"
    config = Config()
    scripts = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    try:
        with database.immediate() as connection:
            alone(connection, "schema")
            if database.version_in(connection) == tables.HEAD:
                return  # another process was faster
            if database.path is not None:  # nobody else can write now
                copy = backup_path(database.path, version)
                _keep_copy(database.path, copy)
                kept = f"a copy from before is {copy}"
                logger.info("%s is brought from schema %s to %s; %s", database, version or "none", tables.HEAD, kept)
            config.attributes["connection"] = connection
            command.upgrade(config, tables.HEAD)
    except Exception as error:
        raise database.faults.unavailable(
            f"{database} could not be brought from schema {version or 'none'} to {tables.HEAD} ({error}); {kept}"
        ) from error


def _keep_copy(path: Path, copy: Path) -> None:
    """A whole copy or none, in place of an earlier attempt's: nothing is kept of an attempt that failed."""
    copy.with_name(f"{copy.name}.partial").unlink(missing_ok=True)  # as it was called before
    with replacing(copy) as partial:
        copy_sqlite(path, partial)


def backup_path(path: Path, version: str) -> Path:
    """Where the copy of a database goes before it is migrated."""
    path = Path(os.path.realpath(path))
    return path.with_name(f"{path.name}.before-{tables.HEAD}-from-{version or 'none'}")


def backup_paths(path: Path) -> list[Path]:
    """The copies that migrations left beside a database, the unfinished ones too, by whatever name it was opened."""
    names = {path, Path(os.path.realpath(path))}
    return sorted(
        copy
        for each in names
        for hidden in ("", ".")
        for copy in each.parent.glob(f"{hidden}{glob.escape(each.name)}.before-*")
        if copy.is_file()
    )


def copy_sqlite(source: Path, target: Path) -> None:
    """A whole copy of a SQLite database, also while others use it."""
    with opened_directly(source) as origin, opened_directly(target) as copy:
        origin.backup(copy)
