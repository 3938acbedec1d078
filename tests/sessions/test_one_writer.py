"""Of two processes at one session one writes and the other is told; at different sessions nobody is in the way."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agents import code_agent
from databases import emptied
from nursery import children, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here
from racing import attach_at_once, attach_elsewhere, hold, hold_elsewhere, many_sessions, shut_each_other_out, tags
from sqlalchemy import update

from smolagents_memory import Session, SessionConflictError, SessionManager
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.sessions import leases
from smolagents_memory.testing import code


TRIES = [
    pytest.param(10, id="10 tries"),
    pytest.param(25, id="25 tries", marks=pytest.mark.slow),
    pytest.param(500, id="500 tries", marks=pytest.mark.endurance),
]


@pytest.fixture
def tries(request: pytest.FixtureRequest, rounds: Callable[[int], int]) -> int:
    return int(request.param) if request.param < 100 else rounds(request.param)


@pytest.mark.parametrize("tries", TRIES, indirect=True)
def test_who_comes_second_is_told_and_writes_nothing(url: str, tries: int) -> None:
    with children(attach_at_once, url, ["A", "B"]) as (first, second):
        for number in range(tries):
            for child in (first, second):
                child.ask(f"s{number}")
            said = {"A": first.answer(), "B": second.answer()}
            assert sorted(said.values()) == ["told", "wrote"]
            writer = "A" if said["A"] == "wrote" else "B"
            assert tags(Session(f"s{number}", url).steps()) == [f"{writer} {step}" for step in range(3)]


@pytest.mark.parametrize("tries", TRIES, indirect=True)
def test_who_was_shut_out_is_told_and_the_history_is_that_of_one_writer(url: str, tries: int) -> None:
    told = 0
    with children(shut_each_other_out, url, ["A", "B"]) as both:
        for number in range(tries):
            for child in both:
                child.ask(f"t{number}")
            said = [child.answer() for child in both]
            kept = tags(Session(f"t{number}", url).steps())
            told += sum(outcome == "told" for outcome, _ in said)
            assert kept in [memory for outcome, memory in said if outcome == "wrote"]
            for outcome, memory in said:
                assert outcome == "told" or set(memory) <= set(kept)
    assert told > 0


def test_a_lock_left_by_a_killed_process_is_no_obstacle(url: str) -> None:
    with children(hold, url, ["A"]) as (child,):
        child.ask("s")
        child.answer()
        with pytest.raises(SessionConflictError, match=f"process {child.process.pid}"):
            Session("s", url).attach(code_agent([]))
        child.kill()
        agent = code_agent([])
        with Session("s", url).attach(agent):
            assert tags(agent.memory.steps) == ["A was here"]


def test_that_a_writer_was_killed_is_known_however_often_it_is_asked(url: str) -> None:
    """Of each of its sessions, and also when who asked first was killed as well, or only looked."""
    with children(hold, url, ["A"]) as (child,):
        for name in ("s", "t"):
            child.ask(name)
            child.answer()
    with Database.at(url).writing() as connection:  # killed in the midst
        connection.execute(update(tables.runs).values(state="running", ended=None))
    for _ in range(2):
        assert [Session(name, url).runs()[-1].state for name in ("s", "t")] == ["interrupted"] * 2
        assert {info.state for info in SessionManager(url).sessions()} == {"interrupted"}
    Session("t", url).attach(code_agent([])).detach()
    assert Session("s", url).runs()[-1].state == "interrupted"


@pytest.mark.parametrize(
    "owner",
    [
        {"process": 1, "started": "long ago", "host": socket.gethostname()},  # its number was given again
        {"process": os.getpid(), "token": "of an earlier life", "host": socket.gethostname()},
        {"process": 1, "started": "long ago", "host": "another host"},  # that has neither lock nor lease
        {"process": 1, "host": "another host", "token": "0" * 16, "lock": "../../etc/passwd"},
        {"process": 1, "host": "another host", "token": "0" * 16, "lock": "0" * 16},
        None,
    ],
)
def test_who_has_neither_lock_nor_lease_is_no_obstacle(url: str, owner: object) -> None:
    Session("s", url).attach(code_agent([])).detach()
    with Database.at(url).writing() as connection:
        left = b"unreadable" if owner is None else json.dumps(owner).encode()
        connection.execute(update(tables.sessions).values(writer=left))
    Session("s", url).attach(code_agent([])).detach()


@pytest.mark.slow
def test_a_writer_of_another_name_in_a_container_that_was_killed_is_no_obstacle(url: str) -> None:
    """Another host's name, another process's number space, the same folder; or a server that sees no more of it."""
    with children(hold_elsewhere, url, ["A"]) as (child,):
        child.ask("s")
        child.answer()
        for _ in range(2):
            with pytest.raises(SessionConflictError, match="another host"):
                Session("s", url).attach(code_agent([]))
        child.kill()
        agent = code_agent([])
        begun = time.monotonic()
        with Session("s", url).attach(agent):
            assert tags(agent.memory.steps) == ["A was here"]
        assert time.monotonic() - begun < 15
    assert SessionManager(url).sessions()[0].state == "finished"


@pytest.mark.slow
def test_what_a_server_commits_for_one_that_is_dead_is_no_sign_of_life(postgres: str) -> None:
    """A renewal that was under way when its writer was killed comes while somebody waits for the lease to lapse."""
    url = emptied(postgres)
    Session("s", url).attach(code_agent([])).detach()

    def renewed() -> None:
        with Database.at(url).writing() as connection:
            elsewhere = json.dumps({"process": 1, "host": "another host", "token": "0" * 16}).encode()
            connection.execute(update(tables.sessions).values(writer=elsewhere, lease=leases._now + 1.5))

    renewed()
    late = threading.Timer(0.4, renewed)
    late.start()
    Session("s", url).attach(code_agent([])).detach()
    late.join()


def test_a_lease_that_lapsed_goes_on_unless_somebody_took_it(
    postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = emptied(postgres)
    monkeypatch.setattr(leases, "LASTS", 0.2)
    monkeypatch.setattr(leases, "RENEWED", 1000)
    agent = code_agent([code(f"final_answer({each})") for each in range(3)], planning_interval=None)
    with pytest.raises(SessionConflictError), Session("s", url).attach(agent):
        time.sleep(0.4)
        agent.run("one", reset=False)
        with children(attach_elsewhere, url, ["B"]) as (other,):
            other.ask("another")
            assert other.answer() == "wrote"
            agent.run("two", reset=False)
            other.ask("s")
            assert other.answer() == "wrote"
        agent.run("three", reset=False)
    assert tags(Session("s", url).steps()) == ["one", "two", "B was here"]


@pytest.mark.slow
def test_a_clock_that_is_wrong_does_not_matter(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with children(hold_elsewhere, url, ["A"]) as (child,):
        child.ask("s")
        child.answer()
        for wrong in (-1e6, 1e6):
            monkeypatch.setattr(time, "time", lambda shift=wrong, real=time.time: real() + shift)
            assert SessionManager(url).sessions()[0].state == "finished"
            with pytest.raises(SessionConflictError):
                Session("s", url).attach(code_agent([]))
            monkeypatch.undo()


def test_thousands_of_sessions_need_one_file_and_leave_none(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    database = Database.at(tmp_path)
    database.prepare()
    before = psutil.Process().num_fds() if hasattr(psutil.Process, "num_fds") else 0
    held = [leases.Lease(database) for _ in range(3000)]
    if before:
        assert psutil.Process().num_fds() <= before + 1
    assert len(list(tmp_path.glob("*.lock"))) == 1
    for lease in held:
        lease.release()
        lease.release()
    assert list(tmp_path.glob("*.lock")) == []


def test_what_killed_writers_left_goes_with_the_next_writer_or_a_purge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "place[1]")
    with children(hold, place, ["A", "B"]) as (first, second):
        for child, name in ((first, "s"), (second, "t")):
            child.ask(name)
            child.answer()
    left = lambda: list(Path(place).glob("*.lock"))  # noqa: E731
    assert len(left()) == 2
    Session("s", place).attach(code_agent([])).detach()
    assert len(left()) == 1
    SessionManager(place).purge()
    assert len(left()) == 1  # it is new: somebody may be about to lock it
    monkeypatch.setattr(leases, "_NOT_YET_LOCKED", -1)
    with Session("s", place).attach(code_agent([])):
        SessionManager(place).purge()
        assert len(left()) == 1
        with children(attach_elsewhere, place, ["B"]) as (other,):
            other.ask("s")
            assert other.answer() == "told"
    assert left() == []


@pytest.mark.parametrize(
    "number", [pytest.param(5, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.endurance)]
)
def test_eight_processes_on_sessions_of_their_own_never_meet(url: str, number: int) -> None:
    names = [f"p{each}" for each in range(8)]
    with children(many_sessions, url, names) as born:
        for child in born:
            child.ask(number)
        for child in born:
            child.answer()
    manager = SessionManager(url)
    assert manager.list_sessions() == sorted(f"{name}/{each}" for name in names for each in range(number))
    for info in manager.sessions():
        assert (info.state, info.steps) == ("finished", 2)
    for name in names:
        steps = Session(f"{name}/{number - 1}", url).steps()
        assert tags(steps) == [f"task {number - 1}"]
        assert steps[0].task_images[0].size == (20, 10)
