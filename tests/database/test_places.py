"""One way to say where things live: everything that takes a place takes a folder, a file, a URL or a Place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent

from smolagents_memory import (
    EnhancedAgentMemory,
    PlaceError,
    RecallTool,
    RememberTool,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    SqliteStore,
    SqlStore,
    ToolStateError,
    open_store,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.database.places import Place
from smolagents_memory.memory import long_term


SPELLINGS: dict[str, Callable[[Path], Any]] = {
    "folder": str,
    "path": lambda folder: folder,
    "file": lambda folder: folder / "memory.db",
    "url": lambda folder: f"sqlite:///{folder}/memory.db",
    "url of a folder": lambda folder: f"sqlite:///{folder}",
    "place": Place,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_class_finds_the_same_place_however_it_is_named(spelling: str, tmp_path: Path) -> None:
    where = SPELLINGS[spelling](tmp_path)
    with Session("s", where).attach(code_agent([])):
        pass
    with EnhancedAgentMemory(where, vector=False) as memory:
        memory.remember("The key is under the mat.", key="k")
    assert SessionManager(where).list_sessions() == ["s"]
    for store in (SqlStore(where), SqliteStore(where), open_store(where)):
        assert store.get("k") == "The key is under the mat."
    assert "mat" in RecallTool(where)("Where is the key?")
    RememberTool(where)("The cat is on the mat.", "cat")
    assert SqliteStore(tmp_path).get("cat") == "The cat is on the mat."
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["memory.db"]


@pytest.mark.parametrize("nothing", ["", b"bytes", 7, "mysql://host/name", "a b://c"])
def test_what_names_no_place_is_refused_with_our_error(nothing: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for take in (Place, SessionManager, SqlStore, lambda where: Session("s", where)):
        with pytest.raises(PlaceError) as raised:
            take(nothing)
        assert isinstance(raised.value, (SmolagentsMemoryError, ValueError))
    assert list(tmp_path.iterdir()) == []


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

    monkeypatch.setattr(long_term, "SqlStore", Noted)
    EnhancedAgentMemory(given, vector_store=Vectors())
    assert [store.database.engine.url.password for store in made] == ["s3cret"]


def test_a_tool_is_saved_with_a_place_that_a_word_can_say(tmp_path: Path) -> None:
    assert repr(str(tmp_path / "memory.db")) in RecallTool(Place(tmp_path)).to_dict()["code"]
    for more in (Place(None), Place(tmp_path, durability="process")):
        with pytest.raises(ToolStateError, match="more than a folder or URL says"):
            RecallTool(more).to_dict()
