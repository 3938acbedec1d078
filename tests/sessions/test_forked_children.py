"""A process that is forked off one that is attached takes nothing of its session along."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from forking import forked
from program import python
from racing import tags
from smolagents.memory import TaskStep

from smolagents_memory import Session, SessionConflictError, SessionManager
from smolagents_memory.testing import code


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")

_READ = """
import sys
from smolagents_memory import Session
for run in Session("s", sys.argv[1]).runs():
    print(run.task, run.state)
"""


def ends(session: Session, agent: Any) -> None:
    """It does nothing at all."""


def runs(session: Session, agent: Any) -> None:
    with pytest.raises(SessionConflictError, match="forked"):
        agent.run("in the child", reset=False)


def appends(session: Session, agent: Any) -> None:
    agent.memory.steps.append(TaskStep(task="in the child"))
    with pytest.raises(SessionConflictError):
        session.flush()


def detaches(session: Session, agent: Any) -> None:
    session.detach()
    with pytest.raises(SessionConflictError, match="is being written"):
        session.attach(agent)


def deletes(session: Session, agent: Any) -> None:
    with pytest.raises(SessionConflictError):
        session.delete()


def opens_its_own(session: Session, agent: Any) -> None:
    other = code_agent([code("final_answer('mine')")], planning_interval=None)
    name = f"a fork by {os.getpid()}"
    with session.fork(name).attach(other):
        assert other.run("in the child", reset=False) == "mine"
    assert tags(Session(name, session.database.place).steps()) == ["before", "in the child"]


@pytest.mark.slow
@pytest.mark.parametrize("does", [ends, runs, appends, detaches, deletes, opens_its_own])
def test_the_parents_journal_goes_on(url: str, does: Callable[[Session, Any], None]) -> None:
    agent = code_agent([code(f"final_answer({number})") for number in range(3)], planning_interval=None)
    session = Session("s", url)
    with session.attach(agent):
        agent.run("before", reset=False)
        for _ in range(2):
            assert forked(lambda: does(session, agent)) == 0
        with pytest.raises(SessionConflictError, match=f"process {os.getpid()}"):
            Session("s", url).attach(code_agent([]))
        agent.run("after", reset=False)
        agent.run("at the end", reset=False)
    assert python(_READ, url).stdout.splitlines() == ["before finished", "after finished", "at the end finished"]


def test_a_child_that_was_forked_while_another_thread_wrote_does_not_wait_for_it(tmp_path: Path) -> None:
    agent = code_agent([], planning_interval=None)
    with Session("s", tmp_path / "m.db").attach(agent) as session:
        with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None, check_same_thread=False)) as busy:
            busy.execute("BEGIN IMMEDIATE")
            writer = threading.Thread(target=agent.memory.steps.append, args=[TaskStep(task="in the parent")])
            writer.start()
            while not session._attachment.journal._writing.locked():
                time.sleep(0.01)
            release = threading.Timer(1.0, busy.execute, ["COMMIT"])
            release.start()
            assert forked(session.detach) == 0
            release.join()
        writer.join()
        agent.memory.steps.append(TaskStep(task="and on"))
    assert tags(Session("s", tmp_path / "m.db").steps()) == ["in the parent", "and on"]


def test_a_child_journals_no_calls_of_managed_agents_in_its_parents_session(url: str) -> None:
    worker = code_agent([code("final_answer(1)")] * 2, name="worker", description="Works.", planning_interval=None)
    agent = code_agent([code("final_answer(worker(task='dig'))")], managed_agents=[worker], planning_interval=None)
    session = Session("s", url)
    with session.attach(agent):
        assert forked(lambda: worker.run("in the child")) == 0
        assert session.children() == []
        agent.run("go")
        assert session.children() == ["s/worker/1"]


def test_what_is_in_ram_is_a_copy_of_the_childs_own(tmp_path: Any) -> None:
    from smolagents_memory import Place

    place = Place(None)
    agent = code_agent([code("final_answer(1)"), code("final_answer(2)")], planning_interval=None)
    session = Session("s", place)

    def child() -> None:
        runs(session, agent)
        session.detach()
        with Session("s", place).attach(agent):
            assert agent.run("in the child", reset=False) == 2

    with session.attach(agent):
        agent.run("before", reset=False)
        assert forked(child) == 0
        agent.run("after", reset=False)
    assert tags(SessionManager(place).session("s").steps()) == ["before", "after"]


_EXITS = """
import os, sys
from smolagents_memory import Session
from smolagents_memory.testing import ScriptedModel, code
from smolagents import CodeAgent
agent = CodeAgent([], ScriptedModel([code("final_answer(1)"), code("final_answer(2)")]), verbosity_level=0)
with Session("s", sys.argv[1]).attach(agent) as session:
    agent.run("before", reset=False)
    born = os.fork()
    if born == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(born, 0)[1]) == 7
    try:
        Session("s", sys.argv[1]).attach(agent)
    except Exception as error:
        assert "is being written" in str(error), error
    agent.run("after", reset=False)
"""


@pytest.mark.slow
def test_a_child_that_leaves_as_python_leaves_takes_nothing_along(url: str) -> None:
    """Through the end of the `with` block and of the interpreter."""
    subprocess.run([sys.executable, "-c", _EXITS, url], check=True, timeout=120)
    assert [(run.task, run.state) for run in Session("s", url).runs()] == [
        ("before", "finished"),
        ("after", "finished"),
    ]


@pytest.mark.slow
def test_a_child_that_outlives_its_parent_does_not_keep_its_session(url: str) -> None:
    stays = "        os.closerange(1, 3); import time; time.sleep(60); os._exit(0)\n"
    program = _EXITS[: _EXITS.index("        sys.exit(7)")] + stays + "    print(born, flush=True); os._exit(0)\n"
    done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, timeout=15)
    try:
        Session("s", url).attach(code_agent([])).detach()
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)


@pytest.mark.slow
def test_other_places_may_be_opened_and_closed_meanwhile(tmp_path: Path) -> None:
    stop = threading.Event()

    def comes_and_goes() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            Session("s", tmp_path / f"{number}.db").database.prepare()

    others = threading.Thread(target=comes_and_goes)
    others.start()
    try:
        for number in range(100):
            assert forked(lambda number=number: Session("s", tmp_path / f"child {number}.db").database.prepare()) == 0
    finally:
        stop.set()
        others.join()
