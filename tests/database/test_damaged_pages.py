"""Whatever lies in a damaged page: memories are left out, or an error of ours says so; nothing hangs."""

from __future__ import annotations

import random
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from smolagents_memory import EnhancedAgentMemory, MemoryLossWarning, RecallTool, SqlStore
from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.database import tables
from smolagents_memory.database.opened import Opened


NO_SUCH_THING = ["NULL", "'text'", "x'ff00fe'", "9e999", "CAST(x'ff80' AS TEXT)"]
TABLES = [tables.items, tables.scopes, tables.sources, tables.changes, tables.about, tables.recalls]
COLUMNS = [
    (table.name, column.name) for table in TABLES for column in table.columns if column.name not in ("id", "item_id")
]
FAR = 4e9


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with EnhancedAgentMemory(folder, vector=False) as memory:
        memory.remember_many(
            {"text": f"note {n} on pumps", "key": f"k{n}", "source": "s" if n % 2 else None, "meta": {"n": n}}
            for n in range(30)
        )
        memory.recall("pumps", 5)
        memory.feedback("k1")
        memory.archive("k11")
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")
        connection.commit()
    return folder / "memory.db"


def uses(folder: Path) -> Iterator[Callable[[], Any]]:
    def used(use: Callable[[EnhancedAgentMemory], Any]) -> Callable[[], Any]:
        def run() -> None:
            with EnhancedAgentMemory(folder, vector=False) as memory:
                use(memory)

        return run

    yield lambda: EnhancedAgentMemory(folder, vector=False, clock=lambda: FAR)
    yield used(lambda memory: memory.recall("note 3 pumps", 5, explain=True, where={"source": "s"}))
    yield used(lambda memory: RecallTool(memory)("pumps", since="1 day"))
    yield used(lambda memory: memory.decay())
    yield used(lambda memory: memory.stats())
    yield used(lambda memory: memory.scopes())
    yield used(lambda memory: list(memory.items(archived=None)))
    yield used(lambda memory: memory.feedback("k3"))
    yield used(lambda memory: memory.reindex())
    yield lambda: (SqlStore(folder).search("pumps", 9), list(SqlStore(folder).items()), len(SqlStore(folder)))
    yield used(lambda memory: memory.remember("a new text", key="k3", source="s"))
    yield used(lambda memory: memory.remember_many(["note 3 on pumps", "note 4 on pumps"]))
    yield used(lambda memory: memory.update("k5", text="other", meta={"n": 5}))
    yield used(lambda memory: memory.archive("k4") and memory.restore("k11"))
    yield used(lambda memory: memory.forget_where({"n": 5}))
    yield used(lambda memory: memory.purge())
    yield used(lambda memory: memory.clear())


def use_all(folder: Path) -> None:
    Opened.forget_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLossWarning)
        for use in uses(folder):
            try:
                use()
            except SmolagentsMemoryError as error:
                assert len(str(error)) > 20


def put(made: Path, folder: Path, table: str, column: str, value: str) -> None:
    shutil.copy(made, folder / "memory.db")
    where = "key = x'6b33'" if table == "memory_items" else f"rowid = (SELECT max(rowid) FROM {table})"
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}")
        connection.commit()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("memory_items", "created", "'text'"),
        ("memory_items", "key", "x'ff00fe'"),
        ("memory_items", "value", "'text'"),
        ("memory_scopes", "decayed", "NULL"),
        ("memory_scopes", "live", "'text'"),
        ("memory_changes", "last", "x'ff00fe'"),
    ],
)
def test_whatever_lies_in_a_column_no_foreign_error_comes_of_it(
    made: Path, tmp_path: Path, table: str, column: str, value: str
) -> None:
    put(made, tmp_path, table, column, value)
    use_all(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_so_it_is_in_every_column(made: Path, tmp_path: Path, table: str, column: str) -> None:
    for number, value in enumerate(NO_SUCH_THING):
        (tmp_path / str(number)).mkdir()
        put(made, tmp_path / str(number), table, column, value)
        use_all(tmp_path / str(number))


def test_one_damaged_memory_costs_the_others_nothing(made: Path, tmp_path: Path) -> None:
    put(made, tmp_path, "memory_items", "importance", "'text'")
    memory = EnhancedAgentMemory(tmp_path, vector=False)
    assert len(memory.recall("pumps", 50)) == 28
    with pytest.warns(MemoryLossWarning, match="'k3' .* is damaged"):
        assert memory.get("k3") is None
    with pytest.warns(MemoryLossWarning):
        memory.remember("note 3 anew", key="k3")
    memory.close()
    found = EnhancedAgentMemory(tmp_path, vector=False).get("k3")
    assert found is not None
    assert found.created > 1e9


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_damage_anywhere_in_the_file_gives_answers_or_our_errors(made: Path, tmp_path: Path, count: int) -> None:
    chance, whole = random.Random(count), made.read_bytes()
    for number in range(count):
        data = bytearray(whole)
        at = chance.randrange(len(data))
        if number % 3 == 0:
            for _ in range(20):
                data[chance.randrange(len(data))] = chance.randrange(256)
        elif number % 3 == 1:
            data[at : at + 300] = chance.randbytes(len(data[at : at + 300]))
        else:  # another page in the place of one
            page, other = (each // 4096 * 4096 for each in (at, chance.randrange(len(data))))
            data[page : page + 4096] = whole[other : other + 4096]
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "memory.db").write_bytes(data)
        use_all(folder)
