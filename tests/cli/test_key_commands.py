"""A sealed place on the command line, through real processes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from program import command

from smolagents_memory import EnhancedAgentMemory, KeyManager, Place, Seal, Session, SessionManager
from smolagents_memory.cli import doctor, key_commands, memories, sessions
from smolagents_memory.cli.app import app
from smolagents_memory.database.engine import Database
from smolagents_memory.database.seal_state import UNPURGED
from smolagents_memory.people.shredding import note
from smolagents_memory.testing import code


KEYS = {"SMOLAGENTS_MEMORY_KEY_FILE": "master.key", "SMOLAGENTS_MEMORY_KEYRING": "keys"}
OPTIONS = ("--key-file", "master.key", "--keyring", "keys")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plain memory: a session, and memories of three scopes."""
    folder = tmp_path_factory.mktemp("plain")
    agent = code_agent([code("print('needle'); final_answer(42)")], planning_interval=None)
    with Session("needle-1", folder / "agent_memory").attach(agent):
        agent.run("Find the needle.")
    for scope in (None, {"user": "ann"}, {"user": 7}):
        with EnhancedAgentMemory(folder / "agent_memory", scope=scope, vector=False) as memory:
            memory.remember(f"The needle is in the haystack of {scope}.")
    Database.at(folder / "agent_memory").close()
    return folder


@pytest.fixture(scope="module")
def sealed_once(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, sealed in this process."""
    folder = tmp_path_factory.mktemp("sealed") / "folder"
    shutil.copytree(plain, folder)
    place = Place(folder / "agent_memory", seal=Seal.from_file(folder / "master.key", folder / "keys"))
    KeyManager(place).seal()
    Database.at(place).close()
    return folder


@pytest.fixture
def sealed(sealed_once: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    shutil.copytree(sealed_once, tmp_path / "folder")
    return tmp_path / "folder"


def as_json(*arguments: str, cwd: Path, **environment: str) -> Any:
    done = command(*arguments, "--json", cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments: str, cwd: Path, **environment: str) -> str:
    """What a command says that fails in a sentence."""
    done = command(*arguments, cwd=cwd, **environment)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return " ".join(done.stderr.split())


def opened(folder: Path, key: str = "master.key", **options: Any) -> Place:
    assert (folder / key).exists()
    return Place(folder / "agent_memory", seal=Seal.from_file(folder / key, folder / "keys", **options))


@pytest.mark.slow
def test_a_place_is_sealed_and_every_command_takes_its_keys(plain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(plain, folder)
    done = as_json("seal", *OPTIONS, cwd=folder)
    assert done["key_file_made"] == str(folder / "master.key")
    assert (folder / "master.key").stat().st_mode & 0o777 == 0o600
    assert all(b"needle" not in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert as_json("seal", *OPTIONS, cwd=folder)["key_file_made"] is None  # done again it does nothing more
    assert [each["session_id"] for each in as_json("sessions", *OPTIONS, cwd=folder)] == ["needle-1"]
    assert as_json("search", "haystack", "--scope", "user=ann", cwd=folder, **KEYS)[0]["value"].startswith(
        "The needle"
    )
    assert "is sealed" in refused("sessions", cwd=folder)
    assert "--key-file and --keyring" in refused("search", "needle", cwd=folder)


@pytest.mark.slow
def test_no_command_makes_a_key_file_but_one_that_seals(sealed: Path) -> None:
    wrong = {**KEYS, "SMOLAGENTS_MEMORY_KEY_FILE": "misspelled.key"}
    for arguments in (["sessions"], ["remember", "more"], ["seal"], ["keys", "list"], ["reseal"]):
        assert "there is no key file" in refused(*arguments, cwd=sealed, **wrong)
    assert "there is no key file" in refused("remember", "first", "--storage", "another", cwd=sealed, **wrong)
    assert not (sealed / "misspelled.key").exists()
    assert not (sealed / "another").exists()
    assert "keyring" in refused("sessions", cwd=sealed, **{**KEYS, "SMOLAGENTS_MEMORY_KEYRING": "elsewhere"})
    assert not (sealed / "elsewhere").exists()
    assert "name the keyring" in refused("sessions", "--key-file", "master.key", cwd=sealed)
    assert "neither was given" in refused("sessions", "--keyring", "keys", cwd=sealed)
    both = refused("sessions", cwd=sealed, SMOLAGENTS_MEMORY_PASSPHRASE="s3cret", **KEYS)
    assert "both were given" in both
    assert "s3cret" not in both
    assert "cannot be sealed" in refused("memories", "--storage", "redis://localhost", cwd=sealed, **KEYS)
    assert "name the keys" in refused("reseal", cwd=sealed)
    assert "does not exist" in refused("reseal", "--storage", "another", cwd=sealed, **KEYS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        ("seal", "--key-file", "agent_memory/made.key", "--keyring", "others"),
        ("seal", "--key-file", "made.key", "--keyring", "agent_memory"),
    ],
)
def test_a_key_file_is_made_for_what_is_sealed_and_for_nothing_else(plain: Path, tmp_path: Path, given: Any) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(plain, folder)
    there = sorted(folder.rglob("*"))
    told = command(*given, cwd=folder)
    assert told.returncode
    assert "lies within the place" in told.stderr
    assert sorted(folder.rglob("*")) == there


def test_no_new_key_file_is_made_where_the_old_keys_open_nothing(sealed: Path) -> None:
    (sealed / "master.key").unlink()
    Seal.from_file(sealed / "master.key", sealed / "keys")  # another one
    told = command("rotate", "--new-key-file", "made.key", *OPTIONS, cwd=sealed)
    assert told.returncode
    assert "master key" in told.stderr
    assert not (sealed / "made.key").exists()


def test_a_new_place_is_sealed_from_its_beginning_by_a_passphrase(tmp_path: Path) -> None:
    by = {"SMOLAGENTS_MEMORY_PASSPHRASE": "open sesame", "SMOLAGENTS_MEMORY_KEYRING": "keys"}
    as_json("seal", "--sign", cwd=tmp_path, **by)
    assert as_json("remember", "The needle.", cwd=tmp_path, **by)["keys"]
    assert as_json("memories", cwd=tmp_path, **by)[0]["value"] == "The needle."  # its mode is read in the place
    assert "master key is not the one" in refused(
        "memories", cwd=tmp_path, **{**by, "SMOLAGENTS_MEMORY_PASSPHRASE": "open"}
    )
    assert "in the mode 'sign'" in refused("seal", cwd=tmp_path, **by)
    as_json("rotate", cwd=tmp_path, SMOLAGENTS_MEMORY_NEW_PASSPHRASE="close sesame", **by)
    now = {**by, "SMOLAGENTS_MEMORY_PASSPHRASE": "close sesame"}
    assert len(as_json("memories", cwd=tmp_path, **now)) == 1


@pytest.mark.slow
def test_keys_are_rotated_made_anew_dropped_and_carried(sealed: Path) -> None:
    listed = as_json("keys", "list", cwd=sealed, **KEYS)
    whose = ["the place", "scope no scope", "scope user=7", "scope user=ann", "session needle-1"]
    assert sorted(each["whose"] for each in listed) == sorted(whose)
    assert all(each["in_use"] and not each["retired"] for each in listed)
    exported = as_json("keys", "export", "keys.json", cwd=sealed, **KEYS)
    assert "add --yes" in refused("keys", "export", "keys.json", cwd=sealed, **KEYS)
    assert Path(exported["path"]).stat().st_size == exported["bytes"]
    assert as_json("reseal", cwd=sealed, **KEYS)
    assert any(each["retired"] for each in as_json("keys", "list", cwd=sealed, **KEYS))
    assert "add --yes" in refused("keys", "drop", cwd=sealed, **KEYS)
    assert as_json("keys", "drop", "--yes", cwd=sealed, **KEYS)["dropped"] >= 5
    assert (
        as_json("keys", "import", "keys.json", cwd=sealed, **KEYS)["imported"] == 4
    )  # but the place's, which is there
    done = as_json("rotate", "--new-key-file", "new.key", cwd=sealed, **KEYS)
    assert done["key_file_made"] == str(sealed / "new.key")
    assert "master key" in refused("sessions", cwd=sealed, **KEYS)
    assert as_json("rotate", "--new-key-file", "new.key", cwd=sealed, **KEYS)["rotated"]  # as after a kill
    assert len(SessionManager(opened(sealed, "new.key")).list_sessions()) == 1


def test_what_is_shredded_or_unsealed_is_asked_for_first(sealed: Path) -> None:
    for arguments in (["shred", "--session", "needle-1"], ["shred", "--scope", "user=7"], ["unseal"]):
        assert "add --yes" in refused(*arguments, cwd=sealed, **KEYS)
        assert as_json(*arguments, "--yes", cwd=sealed, **KEYS)
    assert SessionManager(sealed / "agent_memory").list_sessions() == []
    with EnhancedAgentMemory(sealed / "agent_memory", vector=False) as memory:
        assert [each.scope for each in memory.scopes()] == [None, {"user": "ann"}]
    assert "is not sealed" in refused("keys", "list", cwd=sealed, **KEYS)


def test_what_there_is_not_is_not_shredded(sealed: Path) -> None:
    assert "there is no session 'needel-1'" in refused("shred", "--session", "needel-1", "--yes", cwd=sealed, **KEYS)
    assert "there is no scope user=bob" in refused("shred", "--scope", "user=bob", "--yes", cwd=sealed, **KEYS)
    assert "name what is shredded" in refused("shred", cwd=sealed, **KEYS)


def test_doctor_says_what_it_cannot_look_at_without_keys(sealed: Path) -> None:
    done = command("doctor", cwd=sealed)
    assert done.returncode == 1
    assert "neither sessions nor memories were looked at" in " ".join(done.stdout.split())
    well = as_json("doctor", cwd=sealed, **KEYS)
    found = {each["what"]: each["found"] for each in well}
    assert found["seal"] == "everything is encrypted"
    assert found["memories"] == "3 memories read, nothing damaged"
    place = opened(sealed)
    with Database(place, as_it_lies=True).writing() as connection:
        note(connection, UNPURGED, "1")
        connection.exec_driver_sql("UPDATE memory_items SET importance = 7")
    Database.at(place).close()
    told = command("doctor", "--json", cwd=sealed, **KEYS)
    assert told.returncode == 1
    wrong = [each["found"] for each in json.loads(told.stdout) if not each["well"]]
    assert "was killed" in wrong[0]
    assert ["cannot be trusted" in each for each in wrong[1:]] == [True] * 3  # each scope by its name


def test_every_command_with_a_storage_takes_keys() -> None:
    from typer.main import get_command

    assert doctor.doctor
    assert key_commands.keys
    assert memories.search
    assert sessions.sessions

    def all_in(group: Any) -> list[Any]:
        inner = getattr(group, "commands", None)
        return [group] if inner is None else [each for one in inner.values() for each in all_in(one)]

    taking = 0
    for each in all_in(get_command(app)):
        named = {name for parameter in each.params for name in parameter.opts}
        assert ("--storage" in named) == ({"--key-file", "--keyring"} <= named), each.name
        assert "--passphrase" not in named
        assert each.name == "demo" or re.search(r"Example: smolagents-memory ", each.help or ""), each.name
        taking += "--storage" in named
    assert taking > 20


def test_what_is_exported_is_sealed_and_read_with_the_same_keys(sealed: Path) -> None:
    as_json("export", "needle-1", "own.jsonl", cwd=sealed, **KEYS)
    as_json("export", "needle-1", "plain.jsonl", "--plain", cwd=sealed, **KEYS)
    assert b"needle" not in (sealed / "own.jsonl").read_bytes()
    assert b"needle" in (sealed / "plain.jsonl").read_bytes()
    assert as_json("import", "copy", "own.jsonl", cwd=sealed, **KEYS)["steps"] == 2
    told = [as_json("stats", f"{name}.jsonl", cwd=sealed, **KEYS) for name in ("own", "plain")]
    assert told[0]["messages"] == told[1]["messages"]
    assert "is sealed" in refused("stats", "own.jsonl", cwd=sealed)
