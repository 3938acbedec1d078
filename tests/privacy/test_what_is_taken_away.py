"""What was taken away, hidden or put back is no empty answer: whoever asks for it, or for all there is, is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from keyrings import RamKeyring
from quick_embedder import Hashed
from sealed_story import ANN, BEN, MASTER, NOW, beginning, changed, memory_of, restored
from sqlalchemy import text

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    People,
    Place,
    Seal,
    SealError,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    SqlStore,
)
from smolagents_memory.cli.doctor import examine
from smolagents_memory.database.engine import Database
from smolagents_memory.testing import explain_difference


@pytest.fixture(params=["seal", pytest.param("sign", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, url: str, told: Callable[..., tuple[Path, dict[str, bytes]]]) -> Place:
    place = Place(url, seal=Seal(MASTER, RamKeyring(), mode=request.param))
    if place.path is None:
        beginning(place)
        changed(place)
    else:
        folder, keys = told(request.param)
        shutil.copytree(folder, place.path.parent, dirs_exist_ok=True)
        place.seal.keyring.kept.update(keys)
    return place


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, dict[str, bytes]]]:
    """The folder and the keys of a place of which the story was told: it is told once."""

    @cache
    def of_mode(mode: str) -> tuple[Path, dict[str, bytes]]:
        folder, keyring = tmp_path_factory.mktemp("told"), RamKeyring()
        place = Place(folder / "memory.db", seal=Seal(MASTER, keyring, mode=mode))
        beginning(place)
        changed(place)
        return folder, keyring.kept

    return of_mode


def fresh(place: Place) -> Place:
    """The same for somebody who has read nothing before."""
    assert isinstance(place.seal, Seal)
    return Place(place, seal=Seal(MASTER, place.seal.keyring, mode=place.seal.mode))


def change(place: Place, *statements: str) -> None:
    with Database(place, as_it_lies=True).writing() as connection:
        assert [connection.execute(text(each)).rowcount for each in statements] != [0] * len(statements)


def of(scope: dict[str, str], read: Callable[[Any], Any], *, vector: bool = True) -> Callable[[Place], Any]:
    def reading(place: Place) -> Any:
        with memory_of(place, scope, vector=vector) as memory:
            return read(memory)

    return reading


FIRST = "(SELECT min(id) FROM memory_items WHERE archived IS NULL)"
GONE: dict[str, tuple[str, list[Callable[[Place], Any]]]] = {
    "the input messages of a step": (
        "UPDATE session_records SET inputs = NULL WHERE inputs IS NOT NULL",
        [lambda place: Session("first", place).steps(), lambda place: list(Session("first", place).transcript())],
    ),
    "large variables and images": (
        "DELETE FROM session_blobs; DELETE FROM blobs",
        [lambda place: restored(Session("first", place)), lambda place: Session("first", place).steps()],
    ),
    "a session's name": (
        "UPDATE sessions SET name = 'oops' WHERE id = (SELECT min(id) FROM sessions)",
        [
            lambda place: Session("first", place).exists(),
            lambda place: Session("another", place).exists(),
            lambda place: SessionManager(place).list_sessions(),
        ],
    ),
    "whose call a session is": (
        "UPDATE sessions SET parent = NULL WHERE parent IS NOT NULL",
        [
            lambda place: SessionManager(place).list_sessions(),
            lambda place: SessionManager(place).sessions(),
            lambda place: Session("managed", place).children(),
        ],
    ),
    "whose a session is": (
        "UPDATE sessions SET person = NULL, labels = NULL",
        [
            lambda place: SessionManager(place).list_sessions(user="ann"),
            lambda place: People(place).list(),
            lambda place: People(place).erase("ann"),
            lambda place: Session("first", place).title,
        ],
    ),
    "when a session was used last": (
        "UPDATE sessions SET updated = 7",
        [lambda place: SessionManager(place).sessions(), lambda place: People(place).list()],
    ),
    "a scope's name": (
        "UPDATE memory_scopes SET name = 'oops' WHERE id = (SELECT min(id) FROM memory_scopes)",
        [of(ANN, lambda memory: memory.recall("tea"), vector=False), of(ANN, lambda memory: memory.get("likes-0"))],
    ),
    "a memory": (
        f"DELETE FROM memory_items WHERE id = {FIRST}",
        [
            of(ANN, lambda memory: memory.get("likes-0")),
            of(ANN, lambda memory: memory.recall("rain"), vector=False),
            of(ANN, lambda memory: list(memory.items())),
            of(BEN, lambda memory: memory.scopes()),
            lambda place: People(place).list(),
        ],
    ),
    "that a memory is not put away": (
        f"UPDATE memory_items SET archived = 1 WHERE id = {FIRST}",
        [of(ANN, lambda memory: memory.count()), of(ANN, lambda memory: memory.recall("rain"), vector=False)],
    ),
    "a memory's key": (
        f"UPDATE memory_items SET key = 'oops' WHERE id = {FIRST}",
        [of(ANN, lambda memory: memory.get("likes-0")), of(ANN, lambda memory: memory.forget("likes-0"))],
    ),
    "whose a memory is": (
        f"UPDATE memory_items SET scope_id = 9999 WHERE id = {FIRST}",
        [of(ANN, lambda memory: memory.stats()), of(ANN, lambda memory: list(memory.items()))],
    ),
    "that a memory is not pinned": (
        f"UPDATE memory_items SET pinned = (1 = 1) WHERE id = {FIRST}",
        [of(ANN, lambda memory: memory.decay())],
    ),
    "by what a memory was embedded": (
        f"UPDATE memory_items SET embedder_id = NULL WHERE id = {FIRST}",
        [of(BEN, lambda memory: memory.stats()), of(BEN, lambda memory: memory.recall("tea"))],
    ),
    "the count of changes": (
        "DELETE FROM memory_changes",
        [
            of(ANN, lambda memory: memory.recall("tea")),
            lambda place: SqlStore(place).search("plain words"),
        ],
    ),
    "the last of the changes": (
        "UPDATE memory_changes SET last = 1",
        [of(ANN, lambda memory: memory.recall("tea"))],
    ),
    "the name of the embedder": (
        "UPDATE memory_embedders SET name = 'x' || name",
        [lambda place: _with_another_name(place)],
    ),
}


def _with_another_name(place: Place) -> Any:
    with EnhancedAgentMemory(place, scope=ANN, embedder=Hashed("xhashed"), clock=lambda: NOW) as memory:
        return memory.recall("tea")


@pytest.mark.parametrize("what", GONE)
def test_what_is_missing_is_an_error(place: Place, what: str) -> None:
    statement, readings = GONE[what]
    change(place, *statement.split("; "))
    told = []
    for read in readings:
        try:
            told.append(read(fresh(place)))
        except SmolagentsMemoryError as error:
            assert str(place) in str(error) or not isinstance(error, SealError)
    assert told == []


def test_no_variable_goes_missing(tmp_path: Path) -> None:
    """Whichever of a session's large values is gone."""
    place = Place(tmp_path / "mem", seal=Seal(MASTER, RamKeyring()))
    beginning(place)
    whole, told = restored(Session("first", place)), 0
    with Database(place, as_it_lies=True).reading() as connection:
        rows = connection.execute(text("SELECT id, name, data FROM blobs")).mappings().all()
    for row in rows:
        with Database(place, as_it_lies=True).writing() as connection:
            connection.execute(text("UPDATE blobs SET name = :new WHERE id = :id"), {"new": b"away", "id": row["id"]})
        try:
            assert explain_difference(restored(Session("first", fresh(place))), whole) is None
        except SealError:
            told += 1
        with Database(place, as_it_lies=True).writing() as connection:
            connection.execute(
                text("UPDATE blobs SET name = :name WHERE id = :id"), {k: row[k] for k in ("name", "id")}
            )
    assert told == 2  # its picture, and its variable


@pytest.mark.parametrize(
    ("what", "read"),
    [
        ("UPDATE sessions SET updated = 'odd'", lambda place: SessionManager(place).sessions()),
        ("UPDATE session_records SET fields = -1", lambda place: Session("first", place).steps()),
    ],
)
@pytest.mark.parametrize("mode", ["seal", "sign"])
def test_a_value_of_another_type_is_an_error(tmp_path: Path, mode: str, what: str, read: Callable[..., Any]) -> None:
    """SQLite keeps any kind of value anywhere."""
    place = Place(tmp_path / "mem", seal=Seal(MASTER, RamKeyring(), mode=mode))
    beginning(place)
    change(place, what)
    with pytest.raises(SealError):
        read(fresh(place))


@pytest.mark.parametrize(
    "what",
    [
        "DELETE FROM memory_vectors WHERE id = (SELECT min(id) FROM memory_vectors)",
        "UPDATE memory_vectors SET live = (1 = 0) WHERE id = (SELECT max(id) FROM memory_vectors)",
        "UPDATE memory_vectors SET id = 0 WHERE id = (SELECT max(id) FROM memory_vectors)",
        f"DELETE FROM memory_items WHERE id = {FIRST}",
        "UPDATE session_records SET fields = mark WHERE number = 1",
        "UPDATE sessions SET agent = labels WHERE labels IS NOT NULL",
        "DELETE FROM session_runs WHERE session = (SELECT max(id) FROM sessions)",
    ],
)
def test_doctor_names_whose_rows_are_damaged(place: Place, what: str) -> None:
    assert [each.what for each in examine(fresh(place)) if "chains" in each.what]
    change(place, what)
    found = [
        each for each in examine(fresh(place)) if not each.well and each.what.startswith(("session '", "scope '"))
    ]
    assert found
    assert all("backup" in each.remedy for each in found)


def test_an_older_word_on_how_the_place_is_sealed_is_an_error(place: Place) -> None:
    row = "SELECT value FROM memory_about WHERE name = 'seal'"
    with Database(place, as_it_lies=True).reading() as connection:
        before = connection.exec_driver_sql(row).scalar()
    KeyManager(place).reseal(show=False)
    with Database(place, as_it_lies=True).writing() as connection:
        connection.execute(text("UPDATE memory_about SET value = :v WHERE name = 'seal'"), {"v": before})
    for read in (
        lambda place: Session("first", place).steps(),
        of(ANN, lambda memory: memory.recall("tea"), vector=False),
        of(ANN, lambda memory: memory.remember("Is she there?"), vector=False),
    ):
        with pytest.raises(SealError):
            read(fresh(place))


def test_an_older_memory_is_noticed_by_who_opens_its_scope(place: Place) -> None:
    with Database(place, as_it_lies=True).reading() as connection:
        old = connection.execute(text("SELECT * FROM memory_items WHERE id = " + FIRST)).mappings().one()
    with memory_of(place, ANN) as memory:
        memory.update("likes-0", text="It is no tea at all.")
    with Database(place, as_it_lies=True).writing() as connection:
        changed = ", ".join(f"{name} = :{name}" for name in old)
        connection.execute(text(f"UPDATE memory_items SET {changed} WHERE id = :id"), dict(old))
    with pytest.raises(SealError, match="put back"):
        of(ANN, lambda memory: memory.get("likes-0"))(fresh(place))


def test_a_damaged_scope_can_be_emptied_and_shredded(place: Place) -> None:
    change(place, f"DELETE FROM memory_items WHERE id = {FIRST}")
    KeyManager(fresh(place)).shred(scope=ANN)
    assert of(ANN, lambda memory: list(memory.items()))(fresh(place)) == []


def test_a_damaged_session_can_be_deleted(place: Place) -> None:
    change(place, "UPDATE session_runs SET steps = 7")
    with pytest.raises(SealError):
        Session("managed", fresh(place)).runs()
    assert Session("managed", fresh(place)).delete()


def test_nobody_else_has_keys_thrown_away(tmp_path: Path) -> None:
    """By a note that the package did not write, or by the number of a key that it did not write there."""
    keyring = RamKeyring()
    one, other = (Place(tmp_path / name, seal=Seal(MASTER, keyring)) for name in ("one", "other"))
    for each in (one, other):
        SqlStore(each).add("k", "value")
    held = dict(keyring.kept)
    for note in (json.dumps(sorted(held)), json.dumps({"names": sorted(held), "mark": "00" * 16}), "no JSON", "7"):
        with Database(one, as_it_lies=True).writing() as connection:
            connection.execute(text("DELETE FROM memory_about WHERE name = 'shredding'"))
            row = {"v": note}
            connection.execute(text("INSERT INTO memory_about (name, value) VALUES ('shredding', :v)"), row)
        for thrown in (KeyManager(fresh(one)).end_shredding, KeyManager(fresh(one)).drop):
            with pytest.raises(SealError, match="thrown away"):
                thrown()
    change(one, "DELETE FROM memory_about WHERE name = 'shredding'", "UPDATE memory_scopes SET seal_key = 7")
    with pytest.raises(SealError):
        KeyManager(fresh(one)).drop()
    assert keyring.kept == held


def test_a_note_of_keys_to_throw_away_is_still_good_after_new_keys(tmp_path: Path, monkeypatch: Any) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, RamKeyring()))
    beginning(place)
    manager = KeyManager(place)
    monkeypatch.setattr(manager, "end_shredding", lambda: 0)  # killed before
    manager.shred(scope=ANN)
    KeyManager(place).reseal(show=False)
    assert KeyManager(place).end_shredding() > 0
