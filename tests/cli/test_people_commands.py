"""Every command over people, through a real process."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from program import command

from smolagents_memory import EnhancedAgentMemory, ObservedMemory, People, SessionManager


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a memory in which something is kept of two people."""
    folder = tmp_path / "agent_memory"
    for user in ("annette", "bobby"):
        SessionManager(folder).save_session(ObservedMemory("prompt"), f"talk of {user}", user=user)
        with EnhancedAgentMemory(folder, scope={"user": user}, vector=False) as memory:
            memory.remember(f"{user} drinks [bold]tea[/bold].")
    return tmp_path


def as_json(*arguments: str, cwd: Path, code: int = 0) -> Any:
    done = command("people", *arguments, "--json", cwd=cwd)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_everybody_is_listed(place: Path) -> None:
    listed = as_json("list", cwd=place)
    assert [(each["user"], each["sessions"], each["memories"]) for each in listed] == [
        ("annette", 1, 1),
        ("bobby", 1, 1),
    ]
    assert listed[0]["first"] <= listed[0]["last"]
    shown = command("people", "list", "--storage", str(place / "agent_memory"), cwd=place.parent).stdout
    assert "annette" in shown
    missing = command("people", "list", "--storage", str(place / "nowhere"), cwd=place)
    assert missing.returncode == 1
    assert "there is no memory" in missing.stderr
    assert not (place / "nowhere").exists()


def test_an_archive_is_written_and_none_is_replaced_unasked(place: Path) -> None:
    told = as_json("export", "annette", "a.zip", cwd=place)
    assert Path(told["path"]).stat().st_size == told["bytes"]
    with zipfile.ZipFile(place / "a.zip") as archive:
        assert "memories.jsonl" in archive.namelist()
    refused = command("people", "export", "annette", "a.zip", cwd=place)
    assert (refused.returncode, "add --yes" in refused.stderr) == (1, True)
    assert "is in" in command("people", "export", "annette", "a.zip", "--yes", cwd=place).stdout
    nobody = command("people", "export", "nobody", "b.zip", cwd=place)
    assert (nobody.returncode, "nothing is kept of 'nobody'" in nobody.stderr) == (1, True)
    assert not (place / "b.zip").exists()


def test_erasing_asks_first_and_tells_what_it_found(place: Path) -> None:
    with EnhancedAgentMemory(place / "agent_memory", scope={"user": "bobby"}, vector=False) as memory:
        memory.remember("annette is a friend.", key="friend")
    refused = command("people", "erase", "annette", cwd=place)
    assert (refused.returncode, "add --yes" in refused.stderr) == (1, True)
    assert [each.user for each in People(place / "agent_memory").list()] == ["annette", "bobby"]
    shown = command("people", "erase", "annette", "--yes", cwd=place).stdout
    assert "Erased of 'annette': 1 session and 1 memory; a search found nothing that is left, and 1 trace" in shown
    assert "the memory 'friend' of user=bobby" in shown
    assert "Not reached: stores of your own" in shown
    assert [each.user for each in People(place / "agent_memory").list()] == ["bobby"]
    assert "Nothing is kept of 'annette'." in command("people", "erase", "annette", cwd=place).stdout
    told = as_json("erase", "bobby", "--yes", cwd=place)
    assert (told["user"], told["sessions"], told["memories"], told["left"]) == ("bobby", 1, 2, [])
    assert told["searched"]
    assert as_json("list", cwd=place) == []


@pytest.mark.slow
def test_what_prevents_it_is_told_in_a_sentence(place: Path) -> None:
    with closing(sqlite3.connect(place / "agent_memory" / "memory.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        done = command("people", "erase", "annette", "--yes", cwd=place)
    assert done.returncode == 1
    assert "somebody else has it open" in done.stderr
    assert "Traceback" not in done.stderr
    assert as_json("erase", "annette", "--yes", cwd=place)["left"] == []


def test_it_leaves_with_1_if_anything_is_left(place: Path) -> None:
    chroma = place / "agent_memory" / "chroma"
    chroma.mkdir()
    (chroma / "memory-1-1.json").write_text("{}")  # with vectors of nobody knows whom
    with FileLock(f"{chroma}.lock"):  # as another process has it
        done = command("people", "erase", "annette", "--yes", cwd=place)
    assert done.returncode == 1
    assert "1 trace left" in done.stdout
    assert "which another process has" in " ".join(done.stdout.split())
    assert as_json("erase", "annette", "--yes", cwd=place)["left"] == []


def test_every_command_has_help_with_an_example(place: Path) -> None:
    for name in ("list", "export", "erase"):
        assert f"smolagents-memory people {name}" in command("people", name, "--help", cwd=place).stdout
