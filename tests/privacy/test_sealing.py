"""A sealed place holds the same as any other, and nobody reads it, or changes it unnoticed, without its keys."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from databases import emptied
from keyrings import RamKeyring
from quick_embedder import Hashed
from sqlalchemy import func, select, update

from smolagents_memory import (
    EnhancedAgentMemory,
    Place,
    PlaceError,
    Seal,
    SealError,
    Session,
    SessionManager,
    SqlStore,
)
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.testing import code, explain_difference


MASTER = bytes(range(32))


def told(place: Any) -> Any:
    """A session, memories in a scope and a plain store in a place; gives the agent."""
    agent = code_agent([code("x = {'a': b'z' * 5000}"), code("print('seen: needle')"), code("final_answer(3)")])
    agent.state["user"] = "needle"
    with Session("needle-1", place).attach(agent):
        agent.run("find the needle", images=[photo()])
        agent.memory.steps[1].observations = "cut, not the needle"
    with EnhancedAgentMemory(place, scope={"user": "needle"}, embedder=Hashed()) as memory:
        memory.remember("The needle is in the haystack.", key="needle-key", meta={"about": "needle"}, source="needles")
        memory.remember("The needle is with Annabel's darjeeling.")
        memory.remember("The needle is with Annabel's darjeeling.")  # strengthened
        memory.remember("Annabel likes the needle.", key="away", kind="needled")
        memory.long_term.change(["away"], "archive")
    SqlStore(place).add("needle-plain", {"needle": 1})
    return agent


@pytest.fixture(params=["seal", pytest.param("sign", marks=pytest.mark.slow)])
def seal(request: pytest.FixtureRequest) -> Seal:
    return Seal(MASTER, RamKeyring(), mode=request.param)


def test_what_is_sealed_comes_back(url: str, seal: Seal) -> None:
    place = Place(url, seal=seal)
    agent = told(place)
    steps = Session("needle-1", place).steps()
    assert explain_difference(steps, list(agent.memory.steps)) is None
    assert "seen: needle" in Session("needle-1", place).original(2).observations
    fork = Session("needle-1", place).fork("needle-2")
    assert explain_difference(fork.steps(), steps) is None
    assert len(fork.fork("needle-3", at=1).steps()) == 2
    assert [info.session_id for info in SessionManager(place).sessions()] == ["needle-3", "needle-2", "needle-1"]
    other = code_agent([code("print(x['a'][:2], user)"), code("final_answer(4)")])
    with fork.attach(other):
        assert other.run("again", reset=False) == 4
    with EnhancedAgentMemory(place, scope={"user": "needle"}, embedder=Hashed()) as memory:
        assert memory.recall("haystack", 1)[0].value == "The needle is in the haystack."
        found = memory.long_term.get("needle-key")
        assert (found.meta, found.source) == ({"about": "needle"}, "needles")
        memory.long_term.change(["away"], "restore")
        assert {each.kind for each in memory.recall("Annabel", 5)} >= {"needled"}
        assert memory.forget("away")
    assert SqlStore(place).search("needle")[0].value == {"needle": 1}


def everything(place: Place) -> bytes:
    """All that lies in a place: its files, or what a server says that its tables hold."""
    if place.path is not None:
        return b"".join(path.read_bytes() for path in sorted(place.path.parent.rglob("*")) if path.is_file())
    found = []
    with Database(place, as_it_lies=True).reading() as connection:
        for table in (*tables.metadata.sorted_tables, "memory_words"):
            for row in connection.exec_driver_sql(f"SELECT * FROM {table}"):
                found += [bytes(each) if isinstance(each, (bytes, memoryview)) else str(each).encode() for each in row]
    return b"\n".join(found)


def test_nothing_that_somebody_wrote_can_be_read_in_the_place(url: str) -> None:
    told(url)
    assert everything(Place(url)).count(b"needle") > 10  # or else this finds nothing
    if url.startswith("sqlite"):
        url = url.replace("memory.db", "sealed/memory.db")
    else:
        emptied(url)
    place = Place(url, seal=Seal(MASTER, RamKeyring()))
    told(place)
    held = everything(place)
    for each in (b"needle", b"haystack", b"nnabel", b"darjeeling", photo().tobytes()[:40], b"final_answer"):
        assert each not in held, each


def readings(place: Any) -> list[Callable[[], Any]]:
    """Ways to read what `told` wrote."""
    scope = {"user": "needle"}
    return [
        lambda: Session("needle-1", place).steps(),
        lambda: Session("needle-1", place).runs(),
        lambda: list(Session("needle-1", place).transcript()),
        lambda: SessionManager(place).sessions(),
        lambda: SessionManager(place).list_sessions(),
        lambda: Session("needle-1", place).attach(code_agent([])),
        lambda: Session("new", place).attach(code_agent([])),
        lambda: EnhancedAgentMemory(place, scope=scope, embedder=Hashed()).recall("haystack"),
        lambda: EnhancedAgentMemory(place, scope=scope, vector=False).remember("more"),
        lambda: SqlStore(place).get("needle-plain"),
        lambda: SqlStore(place).search("needle"),
    ]


def test_without_its_seal_a_sealed_place_is_an_error_that_names_it(url: str) -> None:
    keyring = RamKeyring()
    place = Place(url, seal=Seal(MASTER, keyring))
    told(place)
    before = everything(place)
    for wrong, says in (
        (None, "is sealed"),
        (Seal(os.urandom(32), keyring), "master key is not the one"),
        (Seal(MASTER, RamKeyring()), "has no key of the place"),
        (Seal(MASTER, keyring, mode="sign"), 'mode="seal"'),
    ):
        for read in readings(Place(url, seal=wrong)):
            with pytest.raises(SealError, match=says) as raised:
                read()
            assert str(place) in str(raised.value)
    after = everything(place)
    if place.path is None:
        assert before == after


def test_with_a_seal_a_plain_place_is_an_error_too(url: str) -> None:
    told(url)
    for read in readings(Place(url, seal=Seal(MASTER, RamKeyring()))):
        with pytest.raises(SealError, match="holds values without one"):
            read()
    assert Session("needle-1", url).steps()


def test_an_empty_place_that_was_opened_before_is_sealed(tmp_path: Path) -> None:
    assert SessionManager(tmp_path).list_sessions() == []
    place = Place(tmp_path, seal=Seal(MASTER, RamKeyring()))
    SqlStore(place).add("k", "needle")
    with pytest.raises(SealError, match="is sealed"):
        SqlStore(tmp_path).get("k")


def test_the_keyring_is_never_within_the_place(tmp_path: Path) -> None:
    for keyring in (tmp_path / "mem", tmp_path / "mem" / "keys", f"sqlite:///{tmp_path}/mem/memory.db"):
        with pytest.raises(PlaceError, match="lies within the place"):
            Place(tmp_path / "mem", seal=Seal(MASTER, keyring))
    Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))


def test_a_missing_keyring_is_named_and_not_made(tmp_path: Path) -> None:
    told(Place(tmp_path / "mem", seal=Seal.from_passphrase("open sesame", tmp_path / "keys")))
    with pytest.raises(SealError, match=r"keyring .*elsewhere is not there"):
        Session(
            "needle-1", Place(tmp_path / "mem", seal=Seal.from_passphrase("open sesame", tmp_path / "elsewhere"))
        ).steps()
    assert not (tmp_path / "elsewhere").exists()
    assert Session(
        "needle-1", Place(tmp_path / "mem", seal=Seal.from_passphrase("open sesame", tmp_path / "keys"))
    ).steps()
    with pytest.raises(SealError, match="master key"):
        Session("needle-1", Place(tmp_path / "mem", seal=Seal.from_passphrase("open", tmp_path / "keys"))).steps()


def test_a_key_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    made = Seal.from_file(tmp_path / "folder" / "key", tmp_path / "keys")
    assert (tmp_path / "folder" / "key").stat().st_mode & 0o777 == 0o600
    told(Place(tmp_path / "mem", seal=made))
    again = Seal.from_file(tmp_path / "folder" / "key", tmp_path / "keys")
    assert Session("needle-1", Place(tmp_path / "mem", seal=again)).steps()
    (tmp_path / "folder" / "key").chmod(0o644)
    with pytest.raises(SealError, match="chmod 600"):
        Seal.from_file(tmp_path / "folder" / "key", tmp_path / "keys")
    (tmp_path / "other").write_text("no key\n")
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(SealError, match="no key of ours"):
        Seal.from_file(tmp_path / "other", tmp_path / "keys")


class KeyService:
    """A service that wraps keys, and never gives its own."""

    def __init__(self, name: str) -> None:
        self.name, self._held = name, {}

    def wrap(self, key: bytes) -> bytes:
        number = len(self._held).to_bytes(4, "big")
        self._held[number] = key
        return number

    def unwrap(self, wrapped: bytes) -> bytes:
        return self._held[wrapped]


def test_a_key_service_is_a_master(tmp_path: Path) -> None:
    service = KeyService("first")
    place = Place(tmp_path / "mem", seal=Seal(service, tmp_path / "keys"))
    told(place)
    assert Session("needle-1", place).steps()
    with pytest.raises(SealError, match="master key"):
        Session("needle-1", Place(place, seal=Seal(KeyService("second"), tmp_path / "keys"))).steps()


def test_a_backup_holds_no_keys_and_is_read_with_them(tmp_path: Path) -> None:
    place = Place(tmp_path / "mem", seal=Seal(MASTER, tmp_path / "keys"))
    told(place)
    SessionManager(place).backup(tmp_path / "copy.db")
    assert b"needle" not in (tmp_path / "copy.db").read_bytes()
    Session("needle-1", place).delete()
    SessionManager(place).restore_backup(tmp_path / "copy.db")
    assert Session("needle-1", place).steps()
    assert Session("needle-1", Place(tmp_path / "copy.db", seal=Seal(MASTER, tmp_path / "keys"))).steps()
    told(tmp_path / "plain")
    SessionManager(tmp_path / "plain").backup(tmp_path / "plain.db")
    with pytest.raises(SealError, match="without one"):
        SessionManager(place).restore_backup(tmp_path / "plain.db")
    with pytest.raises(SealError, match="is sealed"):
        SessionManager(tmp_path / "plain").restore_backup(tmp_path / "copy.db")
    assert Session("needle-1", place).steps()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a deleted entry": lambda c: c.exec_driver_sql("DELETE FROM session_journal WHERE revision = 2"),
    "the last entry": lambda c: c.exec_driver_sql(
        "DELETE FROM session_journal WHERE revision = (SELECT max(revision) FROM session_journal)"
    ),
    "an entry twice": lambda c: c.exec_driver_sql(
        "UPDATE session_journal SET changes = (SELECT changes FROM session_journal WHERE revision = 2) "
        "WHERE revision = 3"
    ),
    "a deleted record": lambda c: c.exec_driver_sql("DELETE FROM session_records WHERE number = 1"),
    "a kind": lambda c: c.exec_driver_sql("UPDATE session_records SET kind = 'TaskStep'"),
    "tokens": lambda c: c.exec_driver_sql("UPDATE session_records SET input_tokens = 7"),
    "a run": lambda c: c.exec_driver_sql("UPDATE session_runs SET state = 'failed'"),
    "no run": lambda c: c.exec_driver_sql("DELETE FROM session_runs"),
    "a revision": lambda c: c.exec_driver_sql("UPDATE sessions SET revision = revision - 1"),
    "a checkpoint": lambda c: c.exec_driver_sql("UPDATE sessions SET checkpoint = checkpoint + 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_that_was_changed_is_an_error_and_is_not_written(url: str, seal: Seal, change: str) -> None:
    place = Place(url, seal=seal)
    told(place)
    with Database(place, as_it_lies=True).writing() as connection:
        CHANGES[change](connection)
    before = everything(place)
    failed = 0
    for read in readings(place)[:6]:
        try:
            read()
        except SealError as error:
            failed += 1
            assert str(place) in str(error)
    assert failed
    with pytest.raises(SealError):
        Session("needle-1", place).attach(code_agent([]))
    if place.path is None:
        assert everything(place) == before


@pytest.mark.parametrize(
    "change",
    [
        "importance = 9",
        "trust = 2",
        "origin = 'document'",
        "pinned = (1 = 1)",
        "useful = 5",
        "touched = 5",
        "kind = 'lesson'",
        "words = 'haystack haystack haystack'",
        "word_count = 1",
        "archived = NULL",
        "source_id = NULL",
        "made_of = NULL",
        "place = 7",
    ],
)
def test_a_memory_that_was_changed_is_an_error(url: str, seal: Seal, change: str) -> None:
    place = Place(url, seal=seal)
    told(place)
    database = Database(place, as_it_lies=True)
    with database.reading() as connection:
        before = connection.execute(select(tables.items)).all()
    with database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE memory_items SET {change}")
        if connection.execute(select(tables.items)).all() == before:
            pytest.skip("that is what stood there")
    for use in (
        lambda memory: list(memory.items(archived=None)),
        lambda memory: [memory.remember("other", key=key) for key in ("needle-key", "away")],
        lambda memory: [memory.forget(key) for key in ("needle-key", "away")],
    ):
        with pytest.raises(SealError):
            use(EnhancedAgentMemory(place, scope={"user": "needle"}, vector=False))


def test_rows_that_trade_places_are_an_error(url: str, seal: Seal) -> None:
    place = Place(url, seal=seal)
    told(place)
    items = tables.items.c
    for name in ("key", "value", "meta", "mark", "words"):
        with Database(place, as_it_lies=True).writing() as connection:
            rows = connection.execute(select(items.id, items[name]).order_by(items.id)).all()
            one, other = rows[0], rows[1]
            if name == "key":
                connection.execute(update(tables.items).where(items.id == one.id).values(key=b"elsewhere"))
            for number, value in ((other.id, one[1]), (one.id, other[1])):
                connection.execute(update(tables.items).where(items.id == number).values({name: value}))
        with pytest.raises(SealError):
            list(EnhancedAgentMemory(place, scope={"user": "needle"}, vector=False).items())
        with Database(place, as_it_lies=True).writing() as connection:
            if name == "key":
                connection.execute(update(tables.items).where(items.id == one.id).values(key=b"elsewhere"))
            for number, value in ((other.id, other[1]), (one.id, one[1])):
                connection.execute(update(tables.items).where(items.id == number).values({name: value}))
        assert len(list(EnhancedAgentMemory(place, scope={"user": "needle"}, vector=False).items())) == 2


def test_a_vector_of_another_memory_is_an_error(tmp_path: Path, seal: Seal) -> None:
    place = Place(tmp_path, seal=seal)
    told(place)
    vectors = tables.vectors
    with Database(place, as_it_lies=True).writing() as connection:
        first = connection.execute(select(func.min(vectors.c.id))).scalar_one()
        other = connection.execute(select(vectors.c.vector).where(vectors.c.id != first)).scalars().first()
        connection.execute(update(vectors).where(vectors.c.id == first).values(vector=other))
    with pytest.raises(SealError, match="a vector of"):
        EnhancedAgentMemory(place, scope={"user": "needle"}, embedder=Hashed()).recall("haystack")


def test_without_cryptography_all_but_a_seal_works(tmp_path: Path) -> None:
    program = """
        import sys
        sys.modules["cryptography"] = sys.modules["cryptography.exceptions"] = None
        import smolagents_memory
        for name in smolagents_memory.__all__:
            getattr(smolagents_memory, name)
        assert smolagents_memory.People("place").list() == []
        try:
            smolagents_memory.Seal(bytes(32), "keys")
        except smolagents_memory.MissingExtraError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "smolagents-memory[seal]" in done.stdout
