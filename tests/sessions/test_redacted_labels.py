"""A session's title and tags are redacted where its journal is, and found by what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from keyrings import RamKeyring

from smolagents_memory import ObservedMemory, Place, Redactor, Seal, Session, SessionManager


MAIL, OTHER = "ann.lee@example.com", "j.weber@nordwind-verlag.de"
GIVEN: dict[str, Any] = {"title": f"Write to {MAIL}", "tags": ["travel", OTHER]}


def place_of(folder: Path, **options: Any) -> Place:
    return Place(folder, redact=Redactor(journal=True), **options)


def on_disk(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


@pytest.mark.parametrize("how", ["attach", "save", "label"])
def test_neither_title_nor_tags_reach_the_disk_as_they_are(tmp_path: Path, how: str) -> None:
    place = place_of(tmp_path)
    if how == "attach":
        with Session("s", place, user="ann", **GIVEN).attach(code_agent([])):
            pass
    else:
        given = {} if how == "label" else GIVEN
        SessionManager(place).save_session(ObservedMemory("prompt"), "s", user="ann", **given)
    if how == "label":
        Session("s", place).label(**GIVEN)
    title, tags = Session("s", place).title, Session("s", place).tags
    assert title is not None
    assert title.startswith("Write to [EMAIL_")
    assert tags[0] == "travel"
    assert tags[1].startswith("[EMAIL_")
    assert not any(mail.encode() in on_disk(tmp_path) for mail in (MAIL, OTHER))
    again = Session("s", place, **GIVEN)
    with again.attach(code_agent([])):  # the same once more
        assert (again.title, again.tags) == (title, tags)


def test_what_was_given_finds_the_session(tmp_path: Path) -> None:
    manager = SessionManager(place_of(tmp_path))
    for name in ("s", "t"):
        manager.save_session(ObservedMemory("prompt"), name, **GIVEN)
    manager.save_session(ObservedMemory("prompt"), "other", title=f"Write to {OTHER}", tags=["travel"])
    assert manager.list_sessions(title=MAIL.upper()) == ["s", "t"]
    assert manager.list_sessions(title=f"to {MAIL}", tags=[OTHER, "travel"]) == ["s", "t"]
    assert manager.list_sessions(tags=[MAIL]) == []
    assert manager.list_sessions(title="write") == ["other", "s", "t"]
    assert [each.session_id for each in manager.sessions(tags=["travel"], title=OTHER)] == ["other"]


def test_what_was_labelled_before_is_still_found(tmp_path: Path) -> None:
    SessionManager(tmp_path).save_session(ObservedMemory("prompt"), "s", **GIVEN)
    assert SessionManager(place_of(tmp_path)).list_sessions(title=MAIL, tags=[OTHER]) == ["s"]
    assert SessionManager(Place(tmp_path, redact=True)).list_sessions(title=MAIL, tags=[OTHER]) == ["s"]


def test_without_the_journal_they_stay_as_they_are(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=True)
    SessionManager(place).save_session(ObservedMemory("prompt"), "s", **GIVEN)
    assert Session("s", place).title == GIVEN["title"]


def test_under_a_seal_they_are_given_back(tmp_path: Path) -> None:
    redactor = Redactor(journal=True)
    place = Place(tmp_path, seal=Seal(bytes(32), RamKeyring()), redact=redactor)
    SessionManager(place).save_session(ObservedMemory("prompt"), "s", **GIVEN)
    assert redactor.reveal(Session("s", place).title or "") == GIVEN["title"]
    Session("s", place).label(title=f"Call {OTHER}")
    assert redactor.reveal(Session("s", place).title or "") == f"Call {OTHER}"
    assert SessionManager(place).list_sessions(title=OTHER) == ["s"]


@pytest.mark.filterwarnings("ignore::smolagents_memory.MemoryLossWarning")
def test_what_failed_finds_no_other_that_failed(tmp_path: Path) -> None:
    def fails(text: str) -> list[Any]:
        raise ValueError(text)

    manager = SessionManager(Place(tmp_path, redact=Redactor(journal=True, also=[fails])))
    manager.save_session(ObservedMemory("prompt"), "s", title="one", tags=["a"])
    assert manager.list_sessions() == ["s"]
    assert manager.list_sessions(title="two") == manager.list_sessions(tags=["b"]) == []
