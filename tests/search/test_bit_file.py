"""The file of a bit index: whole or of no use, never of another time or place, and nothing forgotten stays in it."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from large_scopes import COUNT, early, files, filled, found, held, index_of, opened, settled  # noqa: F401
from numbered_texts import ByNumber
from test_chroma_damaged import HERE

from smolagents_memory import KeyManager, Place, PlaceError, Seal, SessionManager
from smolagents_memory.search import bit_index
from smolagents_memory.search.bit_file import bit_file, read_bits


pytestmark = pytest.mark.usefixtures("early")


def saved(path: Path, **options: Any) -> Path:
    """The file of a place's index."""
    with filled(path, **options) as memory:
        found(memory, 7)
        settled(memory)
    [file] = files(path)
    return file


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many vectors are read out of SQL, each time."""
    counted: list[int] = []
    newer = bit_index.newer

    def counting(*arguments: Any) -> Any:
        rows = newer(*arguments)
        counted.append(len(rows))
        return rows

    monkeypatch.setattr(bit_index, "newer", counting)
    return counted


def test_an_index_is_read_from_its_file_and_brought_up_to_date(tmp_path: Path, read: list[int]) -> None:
    """What was written, forgotten, archived and restored since included."""
    saved(tmp_path)
    with filled(tmp_path, [98, 99]) as memory:
        memory.forget("8")
        memory.archive("9")
        memory.archive("10")
        memory.restore("10")
        read.clear()
        assert [found(memory, n) for n in (7, 98, 99, 10)] == ["7", "98", "99", "10"]
        assert sum(read) <= 3
        assert [found(memory, n) == str(n) for n in (8, 9)] == [False, False]
        assert len(settled(memory)) == COUNT


def test_it_is_written_again_when_much_has_changed_and_not_before(tmp_path: Path) -> None:
    file = saved(tmp_path)
    before = file.read_bytes()
    with filled(tmp_path, [90, 91]) as memory:
        found(memory, 7)
        settled(memory)
        assert file.read_bytes() == before
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(100, 110))
        found(memory, 7)
        settled(memory)
        assert len(held(tmp_path)) == COUNT + 12


def test_what_was_begun_is_kept_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    """A process that lives for one recall does its share: the next goes on."""
    filled(tmp_path).close()
    monkeypatch.setattr(bit_index, "BATCH", 10)
    with monkeypatch.context() as patched:
        patched.setattr(bit_index, "PATIENCE", 0.0)
        begin = bit_index.BitIndex._begin_behind
        patched.setattr(bit_index.BitIndex, "_begin_behind", lambda self: (begin(self), self._ends.set()))
        with opened(tmp_path) as memory:
            found(memory, 7)
            settled(memory)
    assert 0 < len(held(tmp_path)) < COUNT
    read.clear()
    with opened(tmp_path) as memory:
        assert found(memory, 50) == "50"
        assert 0 < sum(read) < COUNT


# -- damage ----------------------------------------------------------------------------------------------------------


def test_no_damage_is_taken_for_an_index(tmp_path: Path, chance: random.Random) -> None:
    """Any byte another one, cut anywhere, or longer."""
    file = saved(tmp_path)
    whole = file.read_bytes()
    assert read_bits(file) is not None
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << chance.randrange(8))]) + whole[at + 1 :])
        assert read_bits(file) is None, at
    for length in {*range(0, len(whole), 7), len(whole) - 1}:
        file.write_bytes(whole[:length])
        assert read_bits(file) is None, length
    file.write_bytes(whole + b"\0")
    assert read_bits(file) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"[" * 100_000),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), os.mkfifo(file) if hasattr(os, "mkfifo") else None),
    ],
    ids=["cut", "empty", "nonsense", "a folder", "a pipe"],
)
def test_a_file_of_no_use_costs_nothing_but_the_making(
    tmp_path: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    file = saved(tmp_path)
    damage(file)
    with opened(tmp_path) as memory:
        assert [found(memory, n) for n in (0, 7, 59)] == ["0", "7", "59"]
        settled(memory)
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
    assert file.is_dir() or len(held(tmp_path)) == COUNT


def test_a_file_of_another_place_is_thrown_away(tmp_path: Path, read: list[int]) -> None:
    theirs = saved(tmp_path / "theirs")
    mine = saved(tmp_path / "mine")
    assert theirs.name == mine.name
    shutil.copyfile(theirs, mine)
    read.clear()
    with opened(tmp_path / "mine") as memory:
        assert found(memory, 7) == "7"
        settled(memory)
    assert sum(read) >= COUNT


@pytest.mark.parametrize("newer", [True, False], ids=["of a later time", "of another course of things"])
def test_so_is_one_of_another_time_of_the_same_place(tmp_path: Path, newer: bool) -> None:
    """Somebody has put an older copy of the database back, by hand, and went on from there."""
    place, database = tmp_path / "place", tmp_path / "place" / "memory.db"
    saved(place)
    shutil.copyfile(database, tmp_path / "older.db")
    with filled(place, range(100, 130)) as memory:
        found(memory, 7)
        settled(memory)
    file = files(place)[0].read_bytes()
    for each in place.glob("memory.db*"):
        each.unlink()
    shutil.rmtree(place / "chroma", ignore_errors=True)
    shutil.copyfile(tmp_path / "older.db", database)
    if not newer:
        filled(place, range(200, 240)).close()
    with opened(place) as memory:
        index = index_of(memory)
        bit_file(database, index.scope, index.embedder).write_bytes(file)
        assert found(memory, 7) == "7"
        assert newer or found(memory, 239) == "239"
        assert len(settled(memory)) == COUNT + (0 if newer else 40)


WRITING = """
    import sys
    sys.path[:0], path = VALUES
    from large_scopes import *
    from smolagents_memory.search.bit_file import write_bits
    indexes.MOST_EXACT = indexes.MOST_IN_CHROMA = LARGE
    with opened(path) as memory:
        found(memory, 7)
        index = settled(memory)
        print("now", flush=True)
        while True:
            write_bits(index._file, index.whose, index._taken)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_file_or_none(
    tmp_path: Path, chance: random.Random
) -> None:
    """And what it left unfinished goes with the next purge."""
    saved(tmp_path)
    here = [os.path.dirname(__file__), *HERE]
    source = f"VALUES = {(here, str(tmp_path))!r}\n" + textwrap.dedent(WRITING)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        time.sleep(chance.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert len(held(tmp_path)) == COUNT
    left = tmp_path / f".{files(tmp_path)[0].name}.999999999.0a1b2c3d.tmp"
    left.write_bytes(b"of a process that is no more")
    with opened(tmp_path) as memory:
        assert memory.purge() == []
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".tmp")] == []


# -- what may not stay -----------------------------------------------------------------------------------------------


def test_a_purge_leaves_no_file_with_signs_of_what_was_forgotten(tmp_path: Path) -> None:
    saved(tmp_path)
    with opened(tmp_path) as memory:
        memory.forget("8")
        memory.purge()
        assert files(tmp_path) == []
        assert (found(memory, 7), found(memory, 8) == "8") == ("7", False)
    with opened(tmp_path) as memory:
        assert found(memory, 7) == "7"
        settled(memory)
        assert len(held(tmp_path)) == COUNT - 1


def test_nor_one_that_a_process_writes_that_has_the_place_open(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        assert found(memory, 8) == "8"
        index = settled(memory)
        with opened(tmp_path) as other:
            other.forget("8")
            other.purge()
        index._unwritten = COUNT
        index._begin_behind()
        assert len(settled(memory)) == COUNT - 1
        assert len(held(tmp_path)) == COUNT - 1


def test_a_purge_with_nothing_deleted_lets_it_be(tmp_path: Path) -> None:
    before = saved(tmp_path).read_bytes()
    with opened(tmp_path) as memory:
        memory.purge()
    assert files(tmp_path)[0].read_bytes() == before


@pytest.mark.parametrize("how", ["clear", "embedder", "by sessions"])
def test_however_vectors_went_the_next_purge_takes_the_file(tmp_path: Path, how: str) -> None:
    class Another(ByNumber):
        name = "by number, otherwise"

    saved(tmp_path, scope={"user": "u"})
    with opened(tmp_path, scope={"user": "u"}, embedder=Another() if how == "embedder" else ByNumber()) as memory:
        if how == "clear":
            memory.clear()
        elif how == "by sessions":
            memory.forget("3")
    SessionManager(tmp_path).purge()
    assert files(tmp_path) == []


def test_sealing_a_place_takes_its_files(tmp_path: Path) -> None:
    saved(tmp_path / "place")
    place = Place(tmp_path / "place", seal=Seal(bytes(32), keyring=tmp_path / "keys"))
    KeyManager(place).seal()
    assert files(tmp_path / "place") == []
    with opened(place) as memory:
        assert found(memory, 7) == "7"
        settled(memory)
    assert files(tmp_path / "place") == []


def test_nothing_is_written_onto_it(tmp_path: Path) -> None:
    file = saved(tmp_path)
    before = file.read_bytes()
    with pytest.raises(PlaceError):
        SessionManager(tmp_path).backup(file)
    with pytest.raises(PlaceError):
        SessionManager(tmp_path / "another").backup(file)
    assert file.read_bytes() == before
    if os.name != "nt":
        assert file.stat().st_mode & 0o777 == 0o600
