"""A place is sealed and unsealed; its keys are wrapped anew, made anew, thrown away; copies go with their keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agents import code_agent
from keyrings import RamKeyring
from quick_embedder import Hashed
from test_sealing import MASTER, KeyService, everything, told

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    Place,
    Seal,
    SealError,
    Session,
    SessionConflictError,
    SessionManager,
    SqlStore,
)
from smolagents_memory.database import seal_state
from smolagents_memory.testing import explain_difference


SCOPE = {"user": "needle"}


def held(place: object) -> tuple[object, ...]:
    """What `told` wrote, as it is read."""
    with EnhancedAgentMemory(place, scope=SCOPE, embedder=Hashed()) as memory:
        found = [(each.key, round(each.score, 4)) for each in memory.recall("haystack", 3)]
        items = [(each.key, each.value, each.meta, each.kind, each.source) for each in memory.items(archived=None)]
    infos = SessionManager(place).sessions()
    sessions = [(each.session_id, each.user, each.state, each.steps, each.last_task) for each in infos]
    return found, items, sessions, list(SqlStore(place).items())


@pytest.mark.parametrize("mode", ["seal", pytest.param("sign", marks=pytest.mark.slow)])
def test_a_place_is_sealed_and_unsealed_and_holds_the_same(url: str, mode: str) -> None:
    told(url)
    Session("needle-1", url).fork("needle-2")
    Session("needle-2", url).label(user="needle's owner")
    steps, before = Session("needle-1", url).steps(), held(url)
    place = Place(url, seal=Seal(MASTER, RamKeyring(), mode=mode))
    KeyManager(place).seal()
    assert held(place) == before
    assert explain_difference(Session("needle-2", place).steps(), steps) is None
    if mode == "seal":
        for each in (b"needle", b"haystack", b"final_answer"):
            assert each not in everything(place), each
    with pytest.raises(SealError, match="is sealed"):
        held(url)
    KeyManager(place).seal()  # done again it does nothing more
    KeyManager(place).reseal()
    assert held(place) == before
    KeyManager(place).unseal()
    assert held(url) == before
    assert explain_difference(Session("needle-2", url).steps(), steps) is None
    Session("needle-1", url).delete()
    assert explain_difference(Session("needle-2", url).steps(), steps) is None


def test_keys_are_wrapped_by_another_master_and_an_old_copy_needs_the_old_keyring(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    told(place)
    before = held(place)
    SessionManager(place).backup(tmp_path / "copy.db")
    new = Seal(os.urandom(32), tmp_path / "keys")
    KeyManager(place).export(tmp_path / "exported.json")
    assert KeyManager(place).rotate(new) >= 4
    assert held(Place(place, seal=new)) == before
    with pytest.raises(SealError, match="master key"):
        held(place)
    assert held(Place(tmp_path / "copy.db", seal=new)) == before  # its data keys are the same
    then = Seal(MASTER, tmp_path / "then")
    assert KeyManager(Place(tmp_path / "copy.db", seal=then)).import_(tmp_path / "exported.json") >= 4
    assert held(Place(tmp_path / "copy.db", seal=then)) == before


def test_an_open_place_notices_that_its_keys_were_rotated(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    told(place)
    memory = EnhancedAgentMemory(place, scope=SCOPE, vector=False)
    new = Seal(os.urandom(32), tmp_path / "keys")
    KeyManager(place).rotate(new)
    with pytest.raises(SealError):
        memory.remember("with keys that are no more")
    EnhancedAgentMemory(Place(place, seal=new), scope=SCOPE, vector=False).remember("with those of now")


def test_two_key_services_take_turns(tmp_path: Path) -> None:
    first, second = KeyService("first"), KeyService("second")
    place = Place(tmp_path / "mem", seal=Seal(first, tmp_path / "keys"))
    told(place)
    before = held(place)
    KeyManager(place).rotate(Seal(second, tmp_path / "keys"))
    assert held(Place(place, seal=Seal(second, tmp_path / "keys"))) == before
    with pytest.raises(SealError, match="give each a `name`"):
        KeyManager(place).rotate(Seal(KeyService("first"), tmp_path / "keys"))


@pytest.mark.parametrize("keyring", ["folder", "object"])
def test_retired_keys_open_old_copies_until_they_are_dropped(tmp_path: Path, keyring: str) -> None:
    seal = Seal(MASTER, tmp_path / "keys" if keyring == "folder" else RamKeyring())
    place = Place(tmp_path / "mem", seal=seal)
    told(place)
    before = held(place)
    SessionManager(place).backup(tmp_path / "copy.db")
    KeyManager(place).reseal()
    old = Place(tmp_path / "copy.db", seal=seal)
    assert held(old) == held(place) == before
    assert KeyManager(place).drop() > 0
    assert KeyManager(place).drop() == 0
    assert held(place) == before
    fresh = Place(old, seal=Seal(MASTER, seal.keyring))  # who has the keys in RAM has them still
    with pytest.raises(SealError, match="has no key"):
        held(fresh)


@pytest.mark.parametrize("keyring", ["folder", "object"])
def test_what_is_shredded_is_in_no_copy_that_can_be_read(tmp_path: Path, keyring: str) -> None:
    seal = Seal(MASTER, tmp_path / "keys" if keyring == "folder" else RamKeyring())
    place = Place(tmp_path / "mem", seal=seal)
    told(place)
    KeyManager(place).reseal()
    Session("needle-1", place).fork("needle-2")
    SessionManager(place).backup(tmp_path / "copy.db")
    KeyManager(place).shred(session="needle-1")
    assert SessionManager(place).list_sessions() == ["needle-2"]
    assert Session("needle-2", place).steps()
    KeyManager(place).shred(scope=SCOPE)
    with EnhancedAgentMemory(place, scope=SCOPE, vector=False) as memory:
        assert list(memory.items(archived=None)) == []
        memory.remember("A new beginning.")  # under a new key
        assert memory.recall("beginning")
    old = Place(tmp_path / "copy.db", seal=seal)
    for read in (
        lambda: Session("needle-1", old).steps(),
        lambda: EnhancedAgentMemory(old, scope=SCOPE, vector=False).recall("haystack"),
    ):
        with pytest.raises(SealError, match="has no key"):
            read()
    assert Session("needle-2", old).steps()
    assert SqlStore(old).get("needle-plain") == {"needle": 1}
    KeyManager(place).shred(session="needle-1")
    KeyManager(place).shred(scope=SCOPE)


def test_nobody_is_sealed_away_while_attached(tmp_path: Path) -> None:
    seal = Seal(MASTER, RamKeyring())
    told(tmp_path)
    attached = Session("needle-1", tmp_path).attach(code_agent([]))
    with attached, pytest.raises(SessionConflictError, match="attached"):
        KeyManager(Place(tmp_path, seal=seal)).seal()
    KeyManager(Place(tmp_path, seal=seal)).seal()
    with Session("needle-1", Place(tmp_path, seal=seal)).attach(code_agent([])):
        for refused in (KeyManager(Place(tmp_path, seal=seal)).reseal, KeyManager(Place(tmp_path, seal=seal)).unseal):
            with pytest.raises(SessionConflictError, match="attached"):
                refused()
        with pytest.raises(SessionConflictError, match="being written"):
            KeyManager(Place(tmp_path, seal=seal)).shred(session="needle-1")


def test_a_changed_place_is_not_sealed_anew(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, RamKeyring()))
    told(place)
    manager = KeyManager(place)
    with manager.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM memory_items WHERE archived IS NOT NULL")
    for change in (manager.reseal, manager.unseal):
        with pytest.raises(SealError, match="taken away"):
            change()


def test_whose_keys_there_are_is_listed(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    told(place)
    manager = KeyManager(place)
    whose = ["the place", "scope no scope", "scope user=needle", "session needle-1"]
    assert [(each.whose, each.in_use, each.retired) for each in manager.list()] == [(one, True, 0) for one in whose]
    manager.reseal()
    Session("needle-1", place).delete()
    found = {each.whose: (each.in_use, each.retired) for each in manager.list()}
    assert found == {**dict.fromkeys(whose[:3], (True, 1)), "": (False, 2)}
    manager.drop()
    assert [(each.whose, each.in_use, each.retired) for each in manager.list()] == [
        (one, True, 0) for one in whose[:3]
    ]


def test_a_place_that_is_sealed_again_gets_a_key_that_it_never_had(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    told(place)
    manager, had = KeyManager(place), set()
    for _ in range(6):
        with manager.database.reading() as connection:
            state = seal_state.parsed(str(seal_state.read_state(connection)), "")
        assert state.key not in had
        had.add(state.key)
        manager.unseal()
        manager.seal()
    assert manager.drop()
