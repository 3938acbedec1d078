"""One archive holds all that is kept of a person, readable, and nothing of anybody else."""

from __future__ import annotations

import io
import json
import random
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from lives import Life
from PIL import Image

from smolagents_memory import (
    EnhancedAgentMemory,
    KeepRecentSteps,
    MemoryLossWarning,
    People,
    PlaceError,
    Session,
    SessionManager,
    SessionNotFoundError,
    SqlStore,
    TruncateObservations,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.people import persons
from smolagents_memory.testing import code


ANN, BOB = "Ann Zwiebelthaler", "Bob Quastenflosser"


@pytest.fixture
def chance() -> random.Random:
    return random.Random(11)


def read(path: Path) -> dict[str, Any]:
    """An archive: lines as what they say, all else as bytes."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == len(set(archive.namelist()))
        files = {name: archive.read(name) for name in archive.namelist()}
    return {
        name: list(map(json.loads, data.splitlines())) if name.endswith("l") else data for name, data in files.items()
    }


def sessions_in(archive: dict[str, Any]) -> dict[str, Any]:
    """The lines of each session, by its id."""
    return {lines[0]["session"]: lines for name, lines in archive.items() if name.startswith("sessions/")}


def test_all_of_it_is_there_and_nothing_of_others(url: str, tmp_path: Path, chance: random.Random) -> None:
    bob = Life(url, BOB, chance).live()
    ann = Life(url, ANN, chance).live()
    written = People(url).export(ANN, tmp_path / "out" / "ann.zip")
    archive = read(written)
    said = json.dumps(list(archive.values()), default=lambda data: data.decode("latin-1"))
    assert {kind: text for kind, text in ann.texts.items() if text not in said} == {}
    assert {kind: text for kind, text in bob.texts.items() if text in said} == {}
    assert BOB not in said
    told = sessions_in(archive)
    assert set(told) == {ann.session, f"{ann.session} again", f"{ann.session}/worker/1"}
    head, *steps = told[ann.session]
    assert (head["user"], head["title"], head["tags"]) == (ANN, ann.texts["title"], [ann.texts["tag"]])
    assert [run["state"] for run in head["runs"]] == ["finished"]
    assert head["runs"][0]["answer"] == ann.texts["answer"]
    assert head["state"]["secret"]["deep"] == [ann.texts["state"]]
    assert head["typed_state"]["typed"] == {"is": ann.texts["typed"]}
    assert "prompt" not in head["lost"]
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    assert told[f"{ann.session}/worker/1"][0]["parent"] == ann.session
    assert steps[1]["left"] == "changed"
    assert ann.texts["observation"] in steps[1]["as_it_came"]["observations"]
    assert steps[1]["as_it_was_left"]["observations"] == ann.texts["edited"]
    assert BOB.encode() not in archive["README.txt"]
    assert ANN.encode() in archive["README.txt"]
    assert bob.is_whole()
    assert ann.is_whole()


def test_memories_with_all_that_is_known_of_them(url: str, tmp_path: Path, chance: random.Random) -> None:
    ann = Life(url, ANN, chance, pictures=False).live()
    lines = {each["text"]: each for each in read(People(url).export(ANN, tmp_path / "a.zip"))["memories.jsonl"]}
    note = lines[f"{ann.texts['note']} 7001"]
    assert note["scope"] == {"user": ANN}
    assert note["source"] == f"run of {ann.texts['sourced']}"
    assert note["metadata"] == {"why": ann.texts["meta"]}
    assert (note["kind"], note["origin"], note["archived"]) == ("memory", "user", None)
    assert note["created"].endswith("+00:00")
    assert lines[f"{ann.texts['archived']} 7003"]["archived"].endswith("+00:00")
    assert lines[f"{ann.texts['fact']} 7002"]["importance"] == 3
    assert lines[ann.texts["team"]]["scope"] == {"user": ANN, "agent": "coder"}
    with EnhancedAgentMemory(url, scope=ann.scope, vector=False) as memory:
        assert len(lines) == memory.count(archived=None) + 1


def test_calls_go_with_their_session_whatever_they_say(tmp_path: Path, chance: random.Random) -> None:
    ann = Life(tmp_path, ANN, chance, pictures=False).live()
    with Database.at(tmp_path).writing() as connection:
        connection.exec_driver_sql("UPDATE sessions SET person = NULL WHERE parent IS NOT NULL")
    told = sessions_in(read(People(tmp_path).export(ANN, tmp_path / "a.zip")))
    assert f"{ann.session}/worker/1" in told
    report = People(tmp_path).erase(ANN)
    assert (report.sessions, report.left) == (3, ())


def test_pictures_are_files_and_lines_say_which(tmp_path: Path) -> None:
    modes = ["RGB", "RGBA", "L", "1", "P", "CMYK", "F", "I;16", "LA"]
    pictures = [Image.new("RGB", (9, 7), (200, 30, each)).convert(mode) for each, mode in enumerate(modes[:7])]
    pictures += [Image.new(mode, (9, 7)) for mode in modes[7:]]
    large = Image.new("RGB", (4000, 3000), "white")  # of which hardly anything is kept
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", tmp_path, user=ANN).attach(agent) as session:
        session.run("Look.", images=[*pictures, large, pictures[0]])
    archive = read(People(tmp_path).export(ANN, tmp_path / "a.zip"))
    named = [each["picture"] for each in sessions_in(archive)["s"][1]["as_it_came"]["task_images"]]
    assert named[0] == named[-1]
    assert sorted(set(named)) == sorted(name for name in archive if name.startswith("pictures/"))
    for name, picture in zip(named, [*pictures, large], strict=False):
        read_back = Image.open(io.BytesIO(archive[name]))
        assert read_back.size == picture.size
        if picture.mode not in ("CMYK", "F"):  # which a PNG has not
            assert read_back.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()


def test_what_callbacks_cut_and_dropped_is_there_as_it_came(tmp_path: Path) -> None:
    agent = code_agent(
        [*(code(f"print('page {n} ' + 'x' * 90)") for n in (1, 2)), code("final_answer(0)")],
        planning_interval=None,
        step_callbacks=[TruncateObservations(60), KeepRecentSteps(1)],
    )
    with Session("lean", tmp_path, user=ANN).attach(agent):
        agent.run("Read.")
    steps = sessions_in(read(People(tmp_path).export(ANN, tmp_path / "a.zip")))["lean"][1:]
    assert [step["left"] for step in steps] == ["as it came", "dropped", "dropped", "as it came"]
    assert "x" * 90 in steps[1]["as_it_came"]["observations"]
    assert "model_input_messages" not in json.dumps(steps)


def test_large_values_of_variables_are_files(tmp_path: Path) -> None:
    agent = code_agent([code("kept = 'ab' * 40000\nfinal_answer(1)")], planning_interval=None)
    agent.state["blob"] = bytes(range(256)) * 100
    with Session("s", tmp_path, user=ANN).attach(agent):
        agent.run("Keep.")
    archive = read(People(tmp_path).export(ANN, tmp_path / "a.zip"))
    name = sessions_in(archive)["s"][0]["state"]["blob"]["at"]
    assert archive[name] == bytes(range(256)) * 100
    assert "ab" * 40000 in json.dumps(sessions_in(archive)["s"][0]["variables"])


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/abs", "C:\\x", "con", "a\0b", "\ud800half", "..", "é" * 300, "\n", "x/../../y"]
)
def test_no_name_leads_out_of_the_archive(tmp_path: Path, name: str) -> None:
    with Session(name, tmp_path, user=ANN).attach(code_agent([])):
        pass
    with SqlStore(tmp_path, scope={"user": ANN}) as store:
        store.add(f"../{name}", {"odd": [name, 1.5, None]}, {"meta": name.replace("\0", "")})
    archive = read(People(tmp_path).export(ANN, tmp_path / "a.zip"))
    for each in archive:
        assert Path("/safe", each).resolve().is_relative_to("/safe")
        assert each.isascii()
        assert each.isprintable()
        assert len(each) < 100
    assert list(sessions_in(archive)) == [name]
    [memory] = archive["memories.jsonl"]
    assert memory["value"] == {"odd": [name, 1.5, None]}


def test_it_is_its_owner_s_alone_and_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SessionManager(tmp_path / "place").session("s", user=ANN).attach(code_agent([])).detach()
    path = tmp_path / "a.zip"
    path.write_text("before")
    path.chmod(0o644)
    People(tmp_path / "place").export(ANN, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sessions_in(read(path)).keys() == {"s"}
    content = path.read_bytes()

    def fails(*arguments: Any) -> None:
        arguments[0].write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(persons, "write_archive", fails)
    with pytest.raises(OSError, match="no space left"):
        People(tmp_path / "place").export(ANN, path)
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir() if each.name not in ("place", "a.zip")] == []


def test_nothing_is_written_onto_the_place_itself(tmp_path: Path) -> None:
    SessionManager(tmp_path).session("s", user=ANN).attach(code_agent([])).detach()
    other = tmp_path / "other" / "memory.db"
    SessionManager(other.parent).session("s", user=ANN).attach(code_agent([]))
    for wrong in ("memory.db", "memory.db-wal", "memory.db-shm", ".", "other/memory.db"):
        with pytest.raises(PlaceError):
            People(tmp_path).export(ANN, tmp_path / wrong)
    assert SessionManager(tmp_path).list_sessions() == ["s"]
    link = tmp_path / "link.zip"
    link.symlink_to(tmp_path / "memory.db")
    for own in (link, tmp_path / "memory.db"):
        Database.at(tmp_path).close()  # a database that nobody has open is a file like others, but for its own
        assert not (tmp_path / "memory.db-wal").exists()
        with pytest.raises(PlaceError):
            People(tmp_path).export(ANN, own)


def test_a_link_is_followed(tmp_path: Path) -> None:
    SessionManager(tmp_path).session("s", user=ANN).attach(code_agent([])).detach()
    (tmp_path / "there").mkdir()
    (tmp_path / "link.zip").symlink_to(tmp_path / "there" / "a.zip")
    assert People(tmp_path).export(ANN, tmp_path / "link.zip") == tmp_path / "there" / "a.zip"
    assert (tmp_path / "link.zip").is_symlink()
    assert sessions_in(read(tmp_path / "there" / "a.zip")).keys() == {"s"}


def test_of_whom_nothing_is_kept_nothing_is_written(tmp_path: Path, chance: random.Random) -> None:
    Life(tmp_path / "place", BOB, chance, pictures=False).live()
    with pytest.raises(SessionNotFoundError, match="nothing is kept of 'Nobody'"):
        People(tmp_path / "place").export("Nobody", tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_what_is_damaged_is_named_and_the_rest_is_written(tmp_path: Path, chance: random.Random) -> None:
    ann = Life(tmp_path, ANN, chance, pictures=False).live()
    SessionManager(tmp_path).session("whole", user=ANN).attach(code_agent([])).detach()
    with Database.at(tmp_path).writing() as connection:
        connection.exec_driver_sql("UPDATE sessions SET revision = 'much' WHERE labels IS NOT NULL")
        connection.exec_driver_sql("UPDATE memory_items SET value = x'0200' WHERE kind = 'document'")
    with pytest.warns(MemoryLossWarning):
        archive = read(People(tmp_path).export(ANN, tmp_path / "a.zip"))
    told = sessions_in(archive)
    assert "damaged" in told[ann.session][0]["lost"]
    assert told["whole"][0]["lost"] == []
    assert [each["damaged"] for each in archive["memories.jsonl"] if each["kind"] == "document"] == [True]
    assert f"{ann.texts['note']} 7001" in [each.get("text") for each in archive["memories.jsonl"]]
