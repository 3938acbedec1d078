"""One way to say where things live: everything that takes a place takes a folder, a file, a URL or a Place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest
from agents import code_agent
from program import command
from sqlalchemy.engine import URL

from smolagents_memory import (
    EnhancedAgentMemory,
    ForgetTool,
    InMemoryStore,
    People,
    PlaceError,
    RecallTool,
    RememberTool,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    SqliteStore,
    SqlStore,
    ToolStateError,
    UnsupportedValueError,
    VectorMemoryStore,
    open_store,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.database.places import Place
from smolagents_memory.memory import arguments
from smolagents_memory.stores.opening import GROUP


SPELLINGS: dict[str, Callable[[Path], Any]] = {
    "folder": str,
    "path": lambda folder: folder,
    "file": lambda folder: folder / "memory.db",
    "file as a text": lambda folder: str(folder / "memory.db"),
    "url": lambda folder: f"sqlite:///{folder}/memory.db",
    "url of a folder": lambda folder: f"sqlite:///{folder}",
    "URL": lambda folder: URL.create("sqlite", database=str(folder / "memory.db")),
    "URL of a folder": lambda folder: URL.create("sqlite", database=str(folder)),
    "place": Place,
}


def _by_command(where: Any) -> None:
    done = command("remember", "The key is under the mat.", "--storage", str(where), cwd=Path.cwd())
    assert done.returncode == 0, done.stderr


def _closed(memory: EnhancedAgentMemory) -> None:
    with memory:
        memory.remember("The key is under the mat.", key="k")


# whoever takes a place: what it does there
TAKERS: dict[str, Callable[[Any], Any]] = {
    "Place": lambda where: SqlStore(Place(where.url if isinstance(where, Place) else where)).close(),
    "Session": lambda where: Session("s", where).attach(code_agent([])).detach(),
    "SessionManager": lambda where: SessionManager(where).save_session(code_agent([]), "s"),
    "People": lambda where: People(where).list(),
    "EnhancedAgentMemory": lambda where: _closed(EnhancedAgentMemory(where, vector=False)),
    "persistent=": lambda where: _closed(EnhancedAgentMemory(persistent=where, vector=False)),
    "long_term=": lambda where: _closed(EnhancedAgentMemory(long_term=where, vector=False)),
    "SqlStore": lambda where: SqlStore(where).add("k", "v"),
    "SqliteStore": lambda where: SqliteStore(where).add("k", "v"),
    "open_store": lambda where: open_store(where).add("k", "v"),
    "RecallTool": lambda where: RecallTool(where)("key"),
    "RememberTool": lambda where: RememberTool(where)("The key is under the mat."),
    "ForgetTool": lambda where: ForgetTool(where)("k"),
    "--storage": _by_command,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("taker", TAKERS)
def test_every_taker_finds_the_same_place_however_it_is_named(
    taker: str, spelling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "place"
    folder.mkdir()
    where = SPELLINGS[spelling](folder)
    if taker == "--storage":
        if spelling not in ("folder", "file as a text", "url of a folder"):
            pytest.skip("a command takes a text")
        where = str(where)
    TAKERS[taker](where)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.db")}
    assert found == {"place/memory.db"}, "one database, in its place"
    Database.at(folder).close()


NOTHING = [None, "", " ", "\t\n", b"bytes", 7, "a\0b", "\ud800", "mysql://host/name", "a b://c", "nosuch://host"]


@pytest.mark.parametrize("nothing", NOTHING[1:], ids=repr)
@pytest.mark.parametrize("taker", [each for each in TAKERS if each != "--storage"])
def test_what_names_no_place_is_refused_with_our_error(
    taker: str, nothing: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SmolagentsMemoryError) as raised:
        TAKERS[taker](nothing)
    assert isinstance(raised.value, ValueError)
    assert str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("nothing", ["", " ", "nosuch://host"])
def test_a_command_refuses_what_names_no_place(nothing: str, tmp_path: Path) -> None:
    for each in ("sessions", "search x", "remember x", "doctor"):
        done = command(*each.split(), "--storage", nothing, cwd=tmp_path)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("error: ") or each == "doctor"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_here_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Path("")` is what Python calls the folder one is in."""
    monkeypatch.chdir(tmp_path)
    assert Place(Path()).path == tmp_path / "memory.db" == Place(".").path


def test_a_leading_tilde_is_the_home_of_who_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for where in (
        "~/notes",
        Path("~/notes"),
        "sqlite:///~/notes/memory.db",
        URL.create("sqlite", database="~/notes/memory.db"),
    ):
        assert Place(where).path == home / "notes" / "memory.db"
    for taker in ("open_store", "RememberTool", "SessionManager"):
        TAKERS[taker]("~/notes")
    VectorMemoryStore("~/vectors").close()
    assert {path.name for path in home.iterdir() if path.is_dir()} == {"notes", "vectors"}
    assert list(tmp_path.iterdir()) == [home]


def test_a_folder_with_a_colon_and_an_at_sign_is_named_by_its_path(tmp_path: Path) -> None:
    for where in (f"{tmp_path}/a:b@c", "./a:b@c", "../a:b@c", "ann@host/a:b"):
        assert Place(where).path is not None


def test_a_place_of_a_place_is_the_same_one_with_what_is_said_of_it(tmp_path: Path) -> None:
    place = Place(tmp_path, durability="process")
    assert (Place(place).key, Place(place).durability) == (place.key, "process")
    assert Place(place, durability="power").durability == "power"
    in_ram = Place()
    with EnhancedAgentMemory(Place(Place(in_ram)), vector=False) as memory:
        memory.remember("The key is under the mat.")
    with EnhancedAgentMemory(in_ram, vector=False) as memory:
        assert memory.count() == 1


# -- stores by their URLs: wherever memories live ------------------------------------------------------------------


class Noted(InMemoryStore):
    """What a package of somebody else's has behind its scheme."""

    made: ClassVar[list[Noted]] = []

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self.url = url
        self.made.append(self)


class _Theirs:
    name, load = "theirs", lambda self: Noted


def _entry_points(installed: Any = metadata.entry_points, **wanted: Any) -> Any:
    return [_Theirs()] if wanted.get("group") == GROUP else installed(**wanted)


MEMORIES = [
    "EnhancedAgentMemory",
    "persistent=",
    "long_term=",
    "open_store",
    "RecallTool",
    "RememberTool",
    "ForgetTool",
]


@pytest.mark.parametrize("taker", MEMORIES)
@pytest.mark.parametrize("scheme", ["memory", "theirs", "redis", "chroma"])
def test_the_url_of_a_store_is_taken_wherever_memories_live(
    taker: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(metadata, "entry_points", _entry_points)
    Noted.made.clear()
    if scheme == "redis":
        url = request.getfixturevalue("redis_url")
    else:
        url = {"memory": "memory://", "theirs": "theirs://host/x", "chroma": f"chroma://{tmp_path / 'c'}"}[scheme]
    TAKERS[taker](url)
    assert bool(Noted.made) == (scheme == "theirs")
    assert not list(tmp_path.rglob("memory.db"))


def test_what_was_kept_behind_the_url_of_a_store_is_there_again(redis_url: str, tmp_path: Path) -> None:
    url = f"{redis_url}?prefix=places"
    with EnhancedAgentMemory(url) as memory:
        memory.remember("The key is under the mat.", key="k")
    assert "mat" in RecallTool(url)("Where is the key?")
    done = command("search", "key", "--storage", url, cwd=tmp_path)
    assert "mat" in done.stdout
    assert command("forget", "k", "--yes", "--storage", url, cwd=tmp_path).returncode == 0
    assert open_store(url).get("k") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["redis://localhost:1", "chroma:///x", "memory://", "theirs://host", "unix:///x.sock"])
@pytest.mark.parametrize("taker", ["Place", "Session", "SessionManager", "SqlStore", "SqliteStore"])
def test_where_the_url_of_a_store_cannot_serve_it_is_said_what_can(taker: str, url: str) -> None:
    with pytest.raises(PlaceError, match=r"SQLite or Postgres, not in .*EnhancedAgentMemory, .* take one"):
        TAKERS[taker](url)


def test_a_scope_is_nothing_for_the_url_of_a_store() -> None:
    with pytest.raises(UnsupportedValueError, match="scope"):
        EnhancedAgentMemory("memory://", scope={"user": "ann"})
    with pytest.raises(UnsupportedValueError, match="two stores"):
        EnhancedAgentMemory("memory://", long_term=InMemoryStore())


def test_what_a_place_says_is_not_said_otherwise_beside_it(tmp_path: Path) -> None:
    place = Place(tmp_path, durability="process")
    assert Session("s", place).database.place is place
    with pytest.raises(PlaceError, match="say it once"):
        Session("s", place, durability="power")
    for wrong in ({"durability": "none"}, {"seal": object()}, {"redact": "yes"}):
        with pytest.raises(PlaceError):
            Place(tmp_path, **wrong)


def test_a_password_is_used_and_never_printed(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://ann:s3cret@localhost:1/x?password=t0psecret&connect_timeout=1"
    caplog.set_level(logging.DEBUG)
    database = Database.at(url)
    assert database.engine.url.password == "s3cret"
    with pytest.raises(SmolagentsMemoryError) as raised:
        SqlStore(url)
    shown = f"{raised.value} {database!r} {database} {database.place!r} {Session('s', url)!r} {caplog.text}"
    assert "s3cret" not in shown
    assert "t0psecret" not in shown


def test_a_memory_hands_its_place_on_with_the_password(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a vector store of one's own the texts are kept in a SqlStore at the memory's own place."""
    from sqlalchemy.engine import make_url

    given = make_url(postgres).set(username="postgres", password="s3cret").render_as_string(hide_password=False)

    class Vectors:
        def add(self, key, value, meta=None): ...
        def get(self, key): ...
        def search(self, query, top_k=5): ...
        def forget(self, key): ...

    made = []

    class Noted(SqlStore):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(arguments, "SqlStore", Noted)
    EnhancedAgentMemory(given, vector_store=Vectors())
    assert [store.database.engine.url.password for store in made] == ["s3cret"]


def test_a_tool_is_saved_with_a_place_that_a_word_can_say(tmp_path: Path) -> None:
    assert repr(str(tmp_path / "memory.db")) in RecallTool(Place(tmp_path)).to_dict()["code"]
    for more in (Place(None), Place(tmp_path, durability="process")):
        with pytest.raises(ToolStateError, match="more than a folder or URL says"):
            RecallTool(more).to_dict()
