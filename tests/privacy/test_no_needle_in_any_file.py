"""What was put into a sealed place is in none of its files, nor in Postgres', at any moment; unsealed all of it is."""

from __future__ import annotations

import base64
import logging
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keyrings import RamKeyring
from needle_writing import Needles, Watch, writings
from sealed_story import MASTER
from sqlalchemy import text

from smolagents_memory import (
    KeyManager,
    Place,
    Seal,
    SealError,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    SqlStore,
)
from smolagents_memory.database import envelope
from smolagents_memory.database.engine import Database


OLDER = Path(__file__).parent.parent / "database" / "data" / "schema_0004.db"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of our own for all temporary files; and nothing is compressed, or else needles could not be seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("SQLITE_TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(envelope, "_WORTH", 1 << 40)
    return folder


def written(place: Place, outside: Path, *folders: Path) -> tuple[Needles, Watch]:
    """Everything that can be written; what was found, and where."""
    needles = Needles()
    watch = Watch(needles, *folders)
    with watch.all_the_time():
        write_all(place, needles, outside, watch.look)
    return needles, watch


def write_all(place: Place, needles: Needles, outside: Path, after_each: Callable[[], object] = int) -> None:
    outside.mkdir()
    for _, write in writings(place, needles, outside):
        write()
        after_each()


# what nobody finds in a plain place either: a redacted value is kept under a seal alone
UNSEEN = {"what is redacted"}


def test_in_a_plain_place_every_needle_is_found(tmp_path: Path, temporary: Path) -> None:
    needles, watch = written(Place(tmp_path / "place"), tmp_path / "outside", tmp_path / "place", temporary)
    assert set(needles.told.values()) - set(watch.found) == UNSEEN
    assert len(needles.told) > 40


@pytest.mark.slow
def test_in_a_sealed_place_none_is_found_at_any_moment(tmp_path: Path, temporary: Path) -> None:
    place = Place(tmp_path / "place", seal=Seal(MASTER, tmp_path / "keys"))
    folders = [tmp_path / name for name in ("place", "outside", "keys", "backups")] + [temporary]
    needles, watch = written(place, tmp_path / "outside", *folders)
    assert watch.found == {}
    assert watch.rounds > 50
    again = Watch(needles, *folders)
    (tmp_path / "backups").mkdir()
    manager = SessionManager(place)
    with again.all_the_time():
        manager.backup(tmp_path / "backups" / "copy.db")
        KeyManager(place).reseal(show=False)
        again.look()
        manager.restore_backup(tmp_path / "backups" / "copy.db")
        again.look()
        KeyManager(place).export(tmp_path / "backups" / "keys.json")
        KeyManager(place).shred(session=manager.list_sessions()[0])
        manager.purge()
    assert again.found == {}


def test_what_lay_there_plain_is_in_no_file_once_it_is_sealed(tmp_path: Path, temporary: Path) -> None:
    needles = Needles()
    write_all(Place(tmp_path / "place"), needles, tmp_path / "outside")
    Database(Place(tmp_path / "place")).close()
    place = Place(tmp_path / "place", seal=Seal(MASTER, tmp_path / "keys"))
    before = {path.name for path in (tmp_path / "place").rglob("*")}
    KeyManager(place).seal(show=False)
    watch = Watch(needles, tmp_path / "place", temporary, tmp_path / "keys")
    watch.look()
    assert watch.found == {}
    logs = {"memory.db-wal", "memory.db-shm"}
    assert {path.name for path in (tmp_path / "place").rglob("*")} <= before | logs


def test_sealing_an_older_place_leaves_no_plain_copy_of_it(tmp_path: Path, temporary: Path) -> None:
    """The copy that a migration makes goes, too."""
    path = tmp_path / "place" / "memory.db"
    path.parent.mkdir()
    shutil.copy(OLDER, path)
    needles = Needles()
    needles.told = {b"Remember it.": "a task", b"someone": "a state"}
    watch = Watch(needles, tmp_path / "place", temporary)
    place = Place(path, seal=Seal(MASTER, tmp_path / "keys"))
    KeyManager(place).seal(show=False)
    watch.look()
    assert watch.found == {}
    assert Session("released", place).steps()


def _in_postgres(server: Any, place: Place, seed: int, outside: Path, temporary: Path) -> tuple[Needles, Watch]:
    needles = Needles(seed)
    watch = Watch(needles, Path(server.pgdata), temporary)

    def look() -> None:
        server.psql("CHECKPOINT")
        watch.look()

    write_all(place, needles, outside, look)
    return needles, watch


@pytest.mark.slow
def test_so_it_is_in_the_files_of_postgres(own_postgres: Any, tmp_path: Path, temporary: Path) -> None:
    """Write-ahead log and temporary files included. Plain and sealed after each other, on one server."""
    url = own_postgres.get_uri()
    SqlStore(url)
    with Database.at(url).engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        columns = connection.execute(
            text(
                "SELECT table_name, column_name FROM information_schema.columns WHERE data_type IN ('bytea', 'text') "
                "AND table_schema = 'public'"
            )
        ).all()
        for table, column in columns:  # or else Postgres itself compresses what it moves out of rows
            connection.execute(text(f'ALTER TABLE "{table}" ALTER COLUMN "{column}" SET STORAGE EXTERNAL'))
    needles, watch = _in_postgres(own_postgres, Place(url), 1, tmp_path / "plain", temporary)
    assert set(needles.told.values()) - set(watch.found) == UNSEEN
    Database.at(url).close()
    own_postgres.psql("CREATE DATABASE sealed")
    sealed_url = url.replace("/postgres?", "/sealed?")
    assert sealed_url != url
    place = Place(sealed_url, seal=Seal(MASTER, RamKeyring()))
    needles, watch = _in_postgres(own_postgres, place, 2, tmp_path / "sealed", temporary)
    assert watch.found == {}
    assert len(needles.told) > 40
    Database.at(place).close()


# -- keys ----------------------------------------------------------------------------------------------------------


def spelled(key: bytes) -> list[bytes]:
    """A key as it may stand somewhere."""
    return [key, key.hex().encode(), base64.b64encode(key).rstrip(b"="), repr(key)[2:-1].encode()]


def test_no_key_is_in_any_file_nor_in_what_is_said(
    tmp_path: Path, temporary: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    passphrase = "correct horse battery staple"
    master = os.urandom(32)
    told, secret = [], [*spelled(master), passphrase.encode()]
    for name, seal in (
        ("bytes", Seal(master, tmp_path / "keys-bytes")),
        ("phrase", Seal.from_passphrase(passphrase, tmp_path / "keys-phrase")),
    ):
        place = Place(tmp_path / name, seal=seal)
        write_all(place, Needles(), tmp_path / f"outside-{name}")
        manager = KeyManager(place)
        with manager.database.reading() as connection:
            keys = manager._sealed(connection)
            entries = list(manager._entries(connection, keys))
        for entry in entries:
            for key in (seal.read(entry) or {}).values():
                secret += spelled(key)
        told += [repr(each) for each in (seal, place, manager, keys, keys.place, seal.master, seal.keyring)]
        told += [str(place), str(seal), repr(Session("x", place)), repr(SessionManager(place).database)]
        for wrong in (Seal(os.urandom(32), seal.keyring), Seal.from_passphrase("wrong phrase", tmp_path / "no keys")):
            for read in (
                lambda: Session("x", Place(place, seal=wrong)).steps(),
                lambda: SqlStore(Place(place, seal=wrong)).get("x"),
            ):
                try:
                    read()
                except SmolagentsMemoryError:
                    told.append(traceback.format_exc())
        for broken in (lambda: Seal(passphrase, tmp_path), lambda: Seal(master[:31], tmp_path)):  # type: ignore[arg-type]
            with pytest.raises(SealError) as raised:
                broken()
            told.append("".join(traceback.format_exception(raised.value)).split("seal = ")[0])
    printed = capfd.readouterr()
    said = "\n".join([*told, caplog.text, printed.out, printed.err]).encode()
    assert len(secret) > 40
    for each in [*secret, *spelled(master[:31]), b"wrong phrase"]:
        assert each not in said
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        data = path.read_bytes()
        assert not [each for each in secret if each in data], path
