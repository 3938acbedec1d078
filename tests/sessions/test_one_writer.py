"""Of two processes at one session one writes and the other is told; at different sessions nobody is in the way."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

import pytest
from agents import code_agent
from nursery import children, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here
from racing import attach_at_once, hold, many_sessions, shut_each_other_out, tags
from sqlalchemy import update

from smolagents_memory import Session, SessionConflictError, SessionManager
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database


TRIES = [pytest.param(25, id="25 tries"), pytest.param(500, id="500 tries", marks=pytest.mark.endurance)]


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


@pytest.mark.parametrize(
    ("owner", "free"),
    [
        ({"process": 1, "started": "long ago", "host": socket.gethostname()}, True),  # its number was given again
        ({"process": os.getpid(), "token": "of an earlier life", "host": socket.gethostname()}, True),
        ({"process": 1, "started": "long ago", "host": "another host"}, False),  # from here nobody can tell
        (None, True),
    ],
)
def test_whether_a_lock_s_owner_lives_is_found_out(url: str, owner: object, free: bool) -> None:
    Session("s", url).attach(code_agent([])).detach()
    with Database.at(url).writing() as connection:
        left = b"unreadable" if owner is None else json.dumps(owner).encode()
        connection.execute(update(tables.sessions).values(writer=left))
    if free:
        Session("s", url).attach(code_agent([])).detach()
    else:
        with pytest.raises(SessionConflictError, match="another host"):
            Session("s", url).attach(code_agent([]))
        Session("s", url).attach(code_agent([]), take_over=True).detach()


@pytest.mark.parametrize("number", [5, pytest.param(50, marks=pytest.mark.endurance)])
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
