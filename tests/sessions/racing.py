"""What the processes of test_one_writer.py run."""

from __future__ import annotations

import random
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from agents import code_agent, photo
from smolagents.memory import TaskStep

from smolagents_memory import Session, SessionConflictError
from smolagents_memory.sessions import directory, leases
from smolagents_memory.testing import code


def tags(steps: Any) -> list[str]:
    return [step.task for step in steps if isinstance(step, TaskStep)]


def answering(conn: Any, answer: Callable[[Any], Any]) -> None:
    """Answer questions until the other end is closed."""
    try:
        while True:
            conn.send(("ok", answer(conn.recv())))
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))


def attach_at_once(conn: Any, url: str, me: str, barrier: Any) -> None:
    """Attach when the other one does; whoever is let in writes, until both have tried."""

    def attempt(name: str) -> str:
        agent = code_agent([], planning_interval=None)
        session = Session(name, url)
        barrier.wait(30)
        try:
            session.attach(agent)
        except SessionConflictError:
            barrier.wait(30)
            return "told"
        for number in range(3):
            agent.memory.steps.append(TaskStep(task=f"{me} {number}"))
        barrier.wait(30)
        session.detach()
        return "wrote"

    answering(conn, attempt)


def shut_each_other_out(conn: Any, url: str, me: str, barrier: Any) -> None:
    """Take the session over while the other one does, and go on writing."""
    chance = random.Random(me)

    def attempt(name: str) -> tuple[str, list[str]]:
        agent = code_agent([], planning_interval=None)
        session = Session(name, url)
        barrier.wait(30)
        time.sleep(chance.random() * 0.01)
        session.attach(agent, take_over=True)
        for number in range(4):
            agent.memory.steps.append(TaskStep(task=f"{me} {number}"))
            time.sleep(chance.random() * 0.002)
        try:
            session.detach()
        except SessionConflictError:
            return "told", tags(agent.memory.steps)
        return "wrote", tags(agent.memory.steps)

    answering(conn, attempt)


def hold(conn: Any, url: str, me: str, barrier: Any) -> None:
    """Attach, write, and wait to be killed."""

    def attempt(name: str) -> None:
        agent = code_agent([code("final_answer(1)")], planning_interval=None)
        Session(name, url).attach(agent)
        agent.run(f"{me} was here")

    answering(conn, attempt)


def call_at_once(conn: Any, url: str, me: str, barrier: Any) -> None:
    """Begin calls of managed agents in one session, as two who think that it is theirs."""

    def work(number: int) -> list[str]:
        database = Session("s", url).database
        parent = directory.claim(database, "s", {}, take_over=True)
        barrier.wait(60)
        return [directory.claim_call(database, parent, 0, "worker", {}).name for _ in range(number)]

    answering(conn, work)


def _move(lasts: float) -> None:
    """Be on another machine, as far as others can tell: another name, and a temporary folder of one's own."""
    tempfile.tempdir = tempfile.mkdtemp()
    socket.gethostname = lambda: "another host"
    leases.LASTS, leases.RENEWED = lasts, 0.3


def hold_elsewhere(conn: Any, url: str, me: str, barrier: Any) -> None:
    """As `hold`, on another machine."""
    _move(lasts=3.0)
    hold(conn, url, me, barrier)


def attach_elsewhere(conn: Any, url: str, me: str, barrier: Any) -> None:
    """Write one task from another machine, and go; or be told."""
    _move(lasts=15.0)

    def attempt(name: str) -> str:
        agent = code_agent([], planning_interval=None)
        try:
            with Session(name, url).attach(agent):
                agent.memory.steps.append(TaskStep(task=f"{me} was here"))
        except SessionConflictError:
            return "told"
        return "wrote"

    answering(conn, attempt)


def many_sessions(conn: Any, url: str, me: str, barrier: Any) -> None:
    """One session after the other, as fast as it goes."""

    def work(number: int) -> None:
        barrier.wait(60)
        for each in range(number):
            agent = code_agent([code(f"print({each})"), code(f"final_answer({each})")], planning_interval=None)
            with Session(f"{me}/{each}", url).attach(agent):
                agent.run(f"task {each}", images=[photo()])

    answering(conn, work)
