"""Every command over sessions, through a real process."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from databases import emptied
from program import command
from sqlalchemy.engine import make_url

from smolagents_memory import KeepRecentSteps, Session, SessionManager, TruncateObservations, load_memory
from smolagents_memory.testing import code


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a memory in which one session is finished and one failed."""
    url = f"sqlite:///{tmp_path / 'agent_memory' / 'memory.db'}"
    done = code_agent([code("print('[bold]seen[/bold]')"), code("final_answer(42)")], planning_interval=None)
    with Session("done", url).attach(done):
        done.run("Answer.", images=[photo()])
    failed = code_agent([ConnectionError("down")], planning_interval=None)
    with pytest.raises(Exception, match="down"), Session("failed", url).attach(failed):
        failed.run("Fail.")
    return tmp_path


def as_json(*arguments: str, cwd: Path) -> Any:
    done = command(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sessions_are_listed(place: Path) -> None:
    listed = as_json("sessions", cwd=place)
    assert {(info["session_id"], info["state"], info["last_task"]) for info in listed} == {
        ("done", "finished", "Answer."),
        ("failed", "failed", "Fail."),
    }
    shown = command("sessions", "--storage", str(place / "agent_memory"), cwd=place.parent).stdout
    assert "finished" in shown
    assert "Answer." in shown


@pytest.mark.slow
def test_a_session_is_shown_and_replayed_as_text_and_never_as_markup(place: Path) -> None:
    assert "[bold]seen[/bold]" in command("show", "done", cwd=place).stdout
    assert "[bold]seen[/bold]" in command("replay", "done", cwd=place).stdout
    told = as_json("show", "done", cwd=place)
    assert [step["step"] for step in told["steps"]] == ["TaskStep", "ActionStep", "ActionStep"]
    assert told["runs"][0]["answer"] == 42
    assert as_json("replay", "done", cwd=place)[0]["role"]


@pytest.mark.slow
def test_a_password_in_a_url_is_not_printed(postgres: str, tmp_path: Path) -> None:
    url = make_url(emptied(postgres)).set(password="s3cret").render_as_string(hide_password=False)
    asked = [("migrate",), ("migrate",), ("backup", "b.db"), ("show", "nobody"), ("sessions",), ("doctor",)]
    done = [command(*each, "--storage", url, cwd=tmp_path) for each in asked]
    assert all("s3cret" not in each.stdout + each.stderr for each in done)
    assert [each.returncode for each in done] == [0, 0, 0, 1, 0, 0]
    assert "***" in done[0].stdout


@pytest.mark.slow
def test_export_import_fork_and_stats_agree(place: Path) -> None:
    exported = as_json("export", "done", "out.jsonl.gz", cwd=place)
    assert Path(exported["path"]).stat().st_size == exported["bytes"]
    assert len(load_memory(place / "out.jsonl.gz").steps) == 3
    assert as_json("import", "copy", "out.jsonl.gz", cwd=place) == {"session": "copy", "steps": 3}
    assert as_json("fork", "done", "what-if", "--at", "1", cwd=place) == {"session": "what-if", "steps": 2}
    of_session, of_file = (as_json("stats", source, cwd=place) for source in ("copy", "out.jsonl.gz"))
    assert of_session["steps"] == of_file["steps"]
    assert "total steps" in command("stats", "done", cwd=place).stdout
    assert "begins with 2 steps" in command("fork", "done", "again", "--at", "1", cwd=place).stdout


def test_what_was_cut_and_dropped_is_shown_replayed_and_exported_on_request(tmp_path: Path) -> None:
    lean = [TruncateObservations(60), KeepRecentSteps(1)]
    agent = code_agent(
        [*(code(f"print('page {n} ' + 'x' * 90)") for n in (1, 2)), code("final_answer(0)")],
        planning_interval=None,
        step_callbacks=lean,
    )
    with Session("lean", tmp_path / "agent_memory").attach(agent):
        agent.run("Read.")
    shown = command("show", "lean", cwd=tmp_path).stdout
    for told in (shown, command("replay", "lean", cwd=tmp_path).stdout):
        assert all(f"page {n} " + "x" * 90 in told for n in (1, 2))
    assert "4 steps, each as it came; of these 2 were dropped" in " ".join(shown.split())
    steps = as_json("show", "lean", cwd=tmp_path)["steps"]
    assert [(step["left"], step["run"]) for step in steps] == [
        ("as it came", 1), ("dropped", 1), ("dropped", 1), ("as it came", 1),
    ]  # fmt: skip
    as_json("export", "lean", "some.jsonl", cwd=tmp_path)
    as_json("export", "lean", "all.jsonl", "--all", cwd=tmp_path)
    assert len(load_memory(tmp_path / "some.jsonl").steps) == 2
    assert "x" * 90 in load_memory(tmp_path / "all.jsonl").steps[2].observations


def test_delete_asks_first_and_purges_on_request(place: Path) -> None:
    refused = command("delete", "done", cwd=place)
    assert refused.returncode == 1
    assert "add --yes" in refused.stderr
    assert as_json("delete", "done", "--yes", "--purge", cwd=place) == {"deleted": "done", "purged": True}
    assert SessionManager(place / "agent_memory").list_sessions() == ["failed"]
    assert b"[bold]seen" not in (place / "agent_memory" / "memory.db").read_bytes()


def test_backup_and_migrate(place: Path) -> None:
    assert as_json("backup", "b.db", cwd=place)["bytes"] == (place / "b.db").stat().st_size
    assert as_json("migrate", cwd=place)["before"] == as_json("migrate", cwd=place)["now"]
    assert "newest schema" in command("migrate", cwd=place).stdout


def test_doctor_finds_things_well_and_says_what_to_do_where_they_are_not(place: Path) -> None:
    found = {finding["what"]: finding for finding in as_json("doctor", cwd=place)}
    assert found["database file"]["found"] == "ok"
    assert all(finding["well"] for finding in found.values())
    with sqlite3.connect(place / "agent_memory" / "memory.db") as connection:
        connection.execute("UPDATE session_records SET fields = X'00' WHERE number = 1")
    damaged = command("doctor", cwd=place)
    assert damaged.returncode == 1
    assert "✗ session 'done'" in damaged.stdout
    assert "export what can be read" in damaged.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "nobody"], "there is no session 'nobody'"),
        (["sessions", "--storage", "nowhere"], "name the place with --storage"),
        (["sessions", "--storage", "mysql://host/db"], "SQLite or Postgres"),
        (["sessions", "--storage", "postgresql://127.0.0.1:1/none"], "cannot be opened"),
        (["import", "new", "missing.jsonl"], "there is no memory file"),
        (["import", "new", "damaged.jsonl"], "load_memory(path, recover=True)"),
        (["import", "done", "agent_memory/memory.db"], "no memory file"),
        (["fork", "done", "failed"], "already"),
        (["show", "done", "--run", "7"], "has no run 7"),
        (["replay", "done", "--speed", "-1"], "speed is above 0"),
        (["export", "done", "agent_memory/memory.db/x.jsonl"], "File exists"),
    ],
)
def test_bad_input_gives_a_sentence_that_says_what_to_do(place: Path, arguments: list[str], says: str) -> None:
    Session("done", f"sqlite:///{place / 'agent_memory' / 'memory.db'}").export(place / "whole.jsonl")
    (place / "damaged.jsonl").write_bytes((place / "whole.jsonl").read_bytes()[:-400])
    done = command(*arguments, cwd=place)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    from typer.main import get_command

    from smolagents_memory.cli import doctor, key_commands, memories, sessions
    from smolagents_memory.cli.app import app

    assert doctor.doctor
    assert key_commands.keys
    assert memories.search
    assert sessions.sessions
    commands: Any = get_command(app)
    groups = {name: getattr(each, "commands", {"": each}) for name, each in commands.commands.items()}
    each_of_them = {
        f"{group} {name}".strip(): each for group, all_of in groups.items() for name, each in all_of.items()
    }
    for name, each in each_of_them.items():
        assert f"Example: smolagents-memory {name}" in each.help, name
        assert name == "demo" or any(parameter.name == "as_json" for parameter in each.params), name
    assert "Example" in command("sessions", "--help", cwd=tmp_path).stdout


def test_sessions_are_chosen_and_shown_by_person_title_and_tag(place: Path) -> None:
    Session("done", place / "agent_memory").label(user="ann", title="A Week in Rome", tags=["travel", "spring"])
    for asked in (["--user", "ann"], ["--tag", "travel", "--tag", "spring"], ["--title", "rome"]):
        [listed] = as_json("sessions", *asked, cwd=place)
        assert (listed["session_id"], listed["user"], listed["title"]) == ("done", "ann", "A Week in Rome")
        assert listed["tags"] == ["travel", "spring"]
        shown = command("sessions", *asked, cwd=place).stdout
        assert "travel, spring" in shown
        assert "failed" not in shown
    assert as_json("sessions", "--user", "bob", cwd=place) == []
    assert "No sessions that fit." in command("sessions", "--tag", "work", cwd=place).stdout
    told = as_json("show", "done", cwd=place)
    assert (told["user"], told["title"], told["tags"]) == ("ann", "A Week in Rome", ["travel", "spring"])
    assert "title: A Week in Rome" in command("show", "done", cwd=place).stdout
