"""Keys are neither lost by accident nor left where they were to go: copies, two at once, services that fail."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from keyrings import RamKeyring
from sqlalchemy import create_engine, text
from test_sealing import MASTER, KeyService

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    ObservedMemory,
    People,
    Place,
    PlaceError,
    Seal,
    SealError,
    Session,
    SessionManager,
    SqlStore,
    load_memory,
    save_memory,
)
from smolagents_memory.testing import code


def with_a_phrase(folder: Path, keyring: str = "keys") -> Place:
    return Place(folder / "mem", seal=Seal.from_passphrase("open sesame", keyring=folder / keyring))


# -- copies of a keyring -------------------------------------------------------------------------------------------


def test_a_copy_of_a_keyring_opens_what_a_passphrase_sealed(tmp_path: Path) -> None:
    SqlStore(with_a_phrase(tmp_path)).add("k", "v")
    KeyManager(with_a_phrase(tmp_path)).export(tmp_path / "copy.json")
    shutil.rmtree(tmp_path / "keys")
    assert KeyManager(with_a_phrase(tmp_path)).import_(tmp_path / "copy.json") == 3
    assert SqlStore(with_a_phrase(tmp_path)).get("k") == "v"


def test_without_its_salt_nothing_is_opened_and_no_other_salt_is_made(tmp_path: Path) -> None:
    SqlStore(with_a_phrase(tmp_path)).add("k", "v")
    KeyManager(with_a_phrase(tmp_path)).export(tmp_path / "copy.json")
    with_a_phrase(tmp_path).seal.keyring.delete("passphrase.salt")
    with pytest.raises(SealError, match=r"needs the salt 'passphrase\.salt'"):
        SqlStore(with_a_phrase(tmp_path)).get("k")
    KeyManager(with_a_phrase(tmp_path)).import_(tmp_path / "copy.json")
    assert SqlStore(with_a_phrase(tmp_path)).get("k") == "v"


def test_a_copy_does_not_go_where_another_passphrase_has_its_salt(tmp_path: Path) -> None:
    SqlStore(with_a_phrase(tmp_path)).add("k", "v")
    KeyManager(with_a_phrase(tmp_path)).export(tmp_path / "copy.json")
    SqlStore(Place(tmp_path / "other", seal=Seal.from_passphrase("another", keyring=tmp_path / "others"))).add(
        "k", "w"
    )
    there = with_a_phrase(tmp_path, "others")
    before = there.seal.keyring.names()
    with pytest.raises(SealError, match="another salt"):
        KeyManager(there).import_(tmp_path / "copy.json")
    assert there.seal.keyring.names() == before


@pytest.mark.parametrize(
    "written",
    [
        "nothing",
        "[" * 100_000,
        json.dumps({"format": "smolagents-memory keys", "version": 1, "keys": {"a": "AAAA"}}),
        json.dumps({"format": "smolagents-memory keys", "version": 1, "keys": {"00.place": "AAAA"}}),
        json.dumps({"format": "smolagents-memory keys", "version": 99, "keys": {}}),
        json.dumps({"format": "another", "version": 1, "keys": {}}),
    ],
)
def test_what_is_no_copy_of_keys_is_refused(tmp_path: Path, written: str) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    SqlStore(place).add("k", "v")
    before = place.seal.keyring.names()
    (tmp_path / "given.json").write_text(written)
    for given in ("given.json", "none.json", "mem"):
        with pytest.raises(SealError, match=r"[Nn]othing was changed|damaged"):
            KeyManager(place).import_(tmp_path / given)
    assert place.seal.keyring.names() == before


# -- two at once ---------------------------------------------------------------------------------------------------


def _made_at_once(path: str, start: Any, told: Any) -> None:
    start.wait()
    told.put(Seal.from_file(path, "keys").master.name)


@pytest.mark.slow
def test_two_that_make_a_key_file_at_once_have_the_same_key(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    for number in range(10):
        start, told = spawn.Barrier(4), spawn.Queue()
        where = (str(tmp_path / f"{number}.key"), start, told)
        makers = [spawn.Process(target=_made_at_once, args=where) for _ in range(4)]
        for maker in makers:
            maker.start()
        names = {told.get(timeout=60) for _ in makers}
        for maker in makers:
            maker.join(60)
        assert len(names) == 1
        assert Seal.from_file(tmp_path / f"{number}.key", "keys").master.name in names


def test_a_key_file_that_was_made_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are links to files, and where there are none."""
    import os

    link = os.link

    def meanwhile(source: Any, target: Any) -> None:
        shutil.copy(theirs, target)
        link(source, target)

    theirs = tmp_path / "theirs.key"
    name = Seal.from_file(theirs, "keys").master.name
    monkeypatch.setattr(os, "link", meanwhile)
    assert Seal.from_file(tmp_path / "one.key", "keys").master.name == name

    def no_links(source: Any, target: Any) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    made = Seal.from_file(tmp_path / "two.key", "keys").master.name
    assert Seal.from_file(tmp_path / "two.key", "keys").master.name == made != name
    assert (tmp_path / "two.key").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.key", "theirs.key", "two.key"]


# -- what goes, goes whole -----------------------------------------------------------------------------------------


@pytest.fixture(params=["folder", "object"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys" if request.param == "folder" else RamKeyring()))


def helped(place: Place, session: str, user: str | None = None) -> str:
    """A session with that of a managed agent's call, whose name is given."""
    helper = code_agent(
        [code("final_answer('SUBSECRET')")], name="helper", description="Helps.", planning_interval=None
    )
    agent = code_agent([code("final_answer(helper('Tell.'))")], managed_agents=[helper], planning_interval=None)
    with Session(session, place, user=user).attach(agent):
        agent.run("Ask.")
    [child] = Session(session, place).children()
    return child


def unreadable(place: Place, copy: Path, *sessions: str) -> None:
    """No key of these is left: nobody reads them in a copy that was made before."""
    old = Place(copy, seal=Seal(MASTER, place.seal.keyring))
    for each in sessions:
        with pytest.raises(SealError, match="has no key"):
            Session(each, old).steps()


def test_a_session_that_was_deleted_before_is_shredded_with_its_calls(place: Place, tmp_path: Path) -> None:
    child, kept = helped(place, "gone"), helped(place, "kept")
    SessionManager(place).backup(tmp_path / "copy.db")
    KeyManager(place).reseal()  # they have keys of two times
    Session("gone", place).delete()
    assert KeyManager(place).shred(session="gone") >= 2
    unreadable(place, tmp_path / "copy.db", "gone", child)
    for each in ("kept", kept):
        assert Session(each, place).steps()
        assert Session(each, Place(tmp_path / "copy.db", seal=place.seal)).steps()
    assert KeyManager(place).shred(session="gone") == 0


def test_erasing_a_person_reaches_the_keys_of_what_was_deleted_before(place: Place, tmp_path: Path) -> None:
    child, kept = helped(place, "ann1", "ann"), helped(place, "bob1", "bob")
    with EnhancedAgentMemory(place, scope={"user": "ann", "agent": "x"}, vector=False) as memory:
        memory.remember("Ann likes tea.", key="tea")
        SessionManager(place).backup(tmp_path / "copy.db")
        memory.forget("tea")
    Session("ann1", place).delete()
    SessionManager(place).purge()  # the scope goes, for it is empty
    assert not People(place).list()[1:], "Bob alone is there"
    report = People(place).erase("ann")
    assert not report.left
    unreadable(place, tmp_path / "copy.db", "ann1", child)
    old = Place(tmp_path / "copy.db", seal=Seal(MASTER, place.seal.keyring))
    with pytest.raises(SealError, match="has no key"):
        EnhancedAgentMemory(old, scope={"user": "ann", "agent": "x"}, vector=False).get("tea")
    assert Session(kept, old).steps()
    assert str(People(place).erase("ann")) == "nothing is kept of 'ann'"


def test_what_was_deleted_and_dropped_is_read_in_no_copy(place: Place, tmp_path: Path) -> None:
    """Whether the keyring can name its keys or not."""
    child, kept = helped(place, "gone"), helped(place, "kept")
    SessionManager(place).backup(tmp_path / "copy.db")
    Session("gone", place).delete()
    assert KeyManager(place).drop() >= 1
    unreadable(place, tmp_path / "copy.db", child)
    assert Session(kept, Place(tmp_path / "copy.db", seal=place.seal)).steps()
    assert KeyManager(place).drop() == 0


def test_what_says_whose_keys_are_left_is_not_made_by_others(place: Place, tmp_path: Path) -> None:
    helped(place, "gone", "ann")
    Session("gone", place).delete()
    engine = create_engine(f"sqlite:///{place.path}")
    with engine.begin() as connection:
        told = json.loads(
            connection.execute(text("SELECT value FROM memory_about WHERE name LIKE 'deleted.%'")).scalar()
        )
        assert len(told["of"]) == 2
        told["names"].append(told["names"][0])
        connection.execute(
            text("UPDATE memory_about SET value = :v WHERE name LIKE 'deleted.%'"), {"v": json.dumps(told)}
        )
    engine.dispose()
    keys = KeyManager(place)
    for does in (lambda: keys.shred(session="gone"), lambda: People(place).erase("ann"), keys.drop):
        with pytest.raises(SealError, match="not written by this package"):
            does()


def test_a_place_that_is_unsealed_and_sealed_with_another_keyring_begins_anew(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    helped(place, "gone", "ann")
    kept = helped(place, "kept", "ann")
    Session("gone", place).delete()
    KeyManager(place).unseal()
    again = Place(place, seal=Seal(bytes(32), tmp_path / "others"))
    KeyManager(again).seal()
    assert Session(kept, again).steps()
    assert str(People(again).erase("nobody")) == "nothing is kept of 'nobody'"
    assert KeyManager(again).shred(session="kept") == 2
    assert KeyManager(again).drop() == 0


def test_a_scope_whose_name_is_damaged_prevents_no_purge(place: Place) -> None:
    with EnhancedAgentMemory(place, scope={"user": "ann"}, vector=False) as memory:
        memory.remember("Ann likes tea.", key="tea")
        memory.forget("tea")
    engine = create_engine(f"sqlite:///{place.path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE memory_scopes SET name = 'damaged'")
    engine.dispose()
    SessionManager(place).purge()


# -- services and keyrings that fail -------------------------------------------------------------------------------


class Flickering(KeyService):
    """A key service that does not answer one of its calls."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls, self.fails_at = 0, 0

    def unwrap(self, wrapped: bytes) -> bytes:
        self.calls += 1
        if self.calls == self.fails_at:
            raise ConnectionError("service is down")
        return super().unwrap(wrapped)


def test_a_rotation_during_which_a_service_fails_takes_all_along_or_nothing(tmp_path: Path) -> None:
    service, number = Flickering("first"), 0
    seal = Seal(service, tmp_path / "keys")
    place = Place(tmp_path / "mem", seal=seal)
    SqlStore(place).add("k", "v")
    save_memory(ObservedMemory("Be kind."), tmp_path / "file.jsonl", seal=seal)
    for number in range(1, 30):
        service.calls, service.fails_at = 0, number
        new = Seal(KeyService(f"after {number}"), tmp_path / "keys")
        try:
            assert KeyManager(Place(place, seal=seal)).rotate(new) == 3
        except SealError as error:
            assert "did not answer (ConnectionError)" in str(error)
            cause = error.__cause__
            assert isinstance(getattr(cause, "__cause__", None) or cause, ConnectionError)
            service.fails_at = 0
            assert SqlStore(Place(place, seal=seal)).get("k") == "v"
        else:
            break
    assert 2 < number < 29
    assert SqlStore(Place(place, seal=new)).get("k") == "v"
    load_memory(tmp_path / "file.jsonl", seal=new)


def test_deleting_asks_no_key_service(tmp_path: Path) -> None:
    service = Flickering("first")
    place = Place(tmp_path / "mem", seal=Seal(service, tmp_path / "keys"))
    child = helped(place, "gone", "ann")
    SessionManager(place).backup(tmp_path / "copy.db")
    service.calls, service.fails_at = 0, 1  # it is down
    assert Session("gone", place).delete()
    assert service.calls == 0
    service.fails_at = 0
    assert not People(place).erase("ann").left
    with pytest.raises(SealError, match="has no key"):
        Session(child, Place(tmp_path / "copy.db", seal=Seal(service, tmp_path / "keys"))).steps()


class Odd:
    """A master that gives something else than bytes."""

    name = "odd"

    def __init__(self, wrapped: Any, unwrapped: Any) -> None:
        self.wrapped, self.unwrapped = wrapped, unwrapped

    def wrap(self, key: bytes) -> Any:
        return key if self.wrapped is None else self.wrapped()

    def unwrap(self, wrapped: bytes) -> Any:
        return self.unwrapped


def _down() -> bytes:
    raise ConnectionError("service is down")


@pytest.mark.parametrize("wrapped", [None, lambda: "a text", _down])
@pytest.mark.parametrize("unwrapped", [None, 5, "a text", b""])
def test_a_master_that_gives_no_bytes_is_told_in_our_words(tmp_path: Path, wrapped: Any, unwrapped: Any) -> None:
    seal = Seal(Odd(wrapped, unwrapped), tmp_path / "keys")
    with pytest.raises(SealError):
        SqlStore(Place(tmp_path / "mem", seal=seal)).add("k", "v")
    with pytest.raises(SealError):
        save_memory(ObservedMemory("Be kind."), tmp_path / "file.jsonl", seal=seal)
    assert not (tmp_path / "file.jsonl").exists()


@pytest.mark.parametrize("value", ["'a text'", "99999999999", "1.5"])
def test_an_entry_that_is_no_bytes_is_damaged(tmp_path: Path, value: str) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    SqlStore(place).add("k", "v")
    engine = create_engine(f"sqlite:///{tmp_path / 'keys' / 'keyring.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE smolagents_memory_keyring SET value = {value}")
    engine.dispose()
    with pytest.raises(SealError, match="damaged"):
        SqlStore(Place(place, seal=Seal(MASTER, tmp_path / "keys"))).get("k")
    with pytest.raises(SealError, match="damaged"):
        KeyManager(Place(place, seal=Seal(MASTER, tmp_path / "keys"))).rotate(Seal(bytes(32), tmp_path / "keys"))


def _exports(place: Place, folder: Path) -> Any:
    return Session("s", place).export(folder / "s.jsonl")


def _new_scope(place: Place, folder: Path) -> Any:
    return EnhancedAgentMemory(place, scope={"user": "new"}, vector=False).remember("Something.")


@pytest.mark.parametrize("does", [_exports, _new_scope])
@pytest.mark.parametrize("taken", ["keys", "keys/keyring.db"])
def test_a_keyring_that_is_taken_away_is_missed_and_not_made_anew(
    tmp_path: Path, does: Callable[..., Any], taken: str
) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    SessionManager(place).save_session(ObservedMemory("Be kind."), "s")
    assert Session("s", place).steps() == []
    (tmp_path / taken).rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(SealError, match=r"keyring .*keys is not there"):
            does(place, tmp_path)
    assert not (tmp_path / "keys" / "keyring.db").exists()
    assert not (tmp_path / "s.jsonl").exists()
    (tmp_path / "away").rename(tmp_path / taken)
    does(place, tmp_path)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///file:k.db?uri=true", "sqlite:///k.db?uri=true"])
def test_a_keyring_is_a_file_that_stays(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SealError, match="names a file"):
        Seal(MASTER, url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("phrase", ["", None, b"bytes", 5])
def test_a_passphrase_is_looked_at_at_once(phrase: Any, tmp_path: Path) -> None:
    with pytest.raises(SealError, match="a passphrase is a text"):
        Seal.from_passphrase(phrase, keyring=tmp_path / "keys")


@pytest.mark.parametrize("session", [5, b"s", ["s"]])
def test_what_is_shredded_is_named_by_a_text(session: Any, tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    with pytest.raises(PlaceError, match="a session's id, which is a text"):
        KeyManager(place).shred(session=session)
