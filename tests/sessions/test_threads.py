"""Several threads at one session: nobody waits for another one's disk, and nothing is out of order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from agents import code_agent
from smolagents.memory import ActionStep, TaskStep

from smolagents_memory import Session, TypedMemory
from smolagents_memory.testing import code, explain_difference


class Slow:
    """A database whose next commit takes until it is let go."""

    def __init__(self, session: Session) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.dialect: Any = session.database.engine.dialect
        self.whole = self.dialect.do_commit

    @contextmanager
    def held(self) -> Iterator[Slow]:
        def wait(connection: Any) -> None:
            if not self.begun.is_set():
                self.begun.set()
                self.go.wait(60)
            self.whole(connection)

        self.dialect.do_commit = wait
        try:
            yield self
        finally:
            self.go.set()
            del self.dialect.do_commit

    def append(self, agent: Any, task: str) -> threading.Thread:
        thread = threading.Thread(target=agent.memory.steps.append, args=(TaskStep(task=task),), daemon=True)
        thread.start()
        return thread


def tasks(steps: Any) -> list[str]:
    return [step.task for step in steps if isinstance(step, TaskStep)]


@pytest.mark.slow
def test_who_appends_does_not_wait_for_another_one_s_disk(url: str) -> None:
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    with session.attach(agent):
        with Slow(session).held() as slow:
            first = slow.append(agent, "first")
            assert slow.begun.wait(30)
            others = [slow.append(agent, f"other {number}") for number in range(3)]
            for other in others:
                other.join(20)
            assert not any(other.is_alive() for other in others)
            assert first.is_alive()
            assert len(agent.memory.steps) == 4
            flushing = threading.Thread(target=session.flush, daemon=True)
            flushing.start()
            flushing.join(0.3)
            assert flushing.is_alive()
        first.join(30)
        flushing.join(30)
        assert tasks(Session("s", url).steps()) == tasks(agent.memory.steps)
    assert [tasks(session.fork(f"at {at}", at).steps()) for at in range(4)] == [
        tasks(agent.memory.steps)[: at + 1] for at in range(4)
    ]


def test_the_next_step_begins_when_the_one_before_is_on_disk_whoever_else_writes(url: str) -> None:
    session, seen = Session("s", url), []

    def appended_by_hand(messages: Any) -> str:
        slow.begun.clear()
        helper.append(slow.append(agent, "by hand"))
        assert slow.begun.wait(30)
        threading.Timer(0.5, slow.go.set).start()
        return code("print(1)")

    def looked(messages: Any) -> str:
        seen.append([type(step) for step in Session("s", url).steps()])
        return code("final_answer(2)")

    helper: list[threading.Thread] = []
    agent = code_agent([appended_by_hand, looked], planning_interval=None)
    with session.attach(agent), Slow(session).held() as slow:
        slow.begun.set()  # not yet
        assert agent.run("go") == 2
        helper[0].join(30)
    assert seen == [[TaskStep, TaskStep, ActionStep]]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite://", "url"])
def test_one_session_may_be_read_and_flushed_by_other_threads_while_the_agent_runs(
    place: str, request: pytest.FixtureRequest, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url = place if place == "sqlite://" else f"sqlite:///{tmp_path}/m.db"
    steps = 40
    script = [code(f"x{number} = list(range({number}))\nprint({number})") for number in range(steps)]
    agent = code_agent([*script, code("final_answer(1)")], planning_interval=None, max_steps=steps + 5)
    session, over, lengths = Session("s", url), threading.Event(), []

    def look(number: int) -> int:
        calls, done = [session.runs, session.steps, session.flush, session.exists], 0
        while not over.is_set():
            calls[(number + done) % 4]()
            lengths.append(len(session.steps()))
            done += 1
        return done

    with session.attach(agent), ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look, number) for number in range(4)]
        try:
            assert agent.run("go") == 1
        finally:
            over.set()
        assert all(each.result(60) > 0 for each in looking)
        assert max(lengths) > 2
        session.flush()
        assert explain_difference(list(session.steps()), list(agent.memory.steps)) is None
        assert [run.state for run in session.runs()] == ["finished"]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_many_threads_append_and_each_step_is_there_once(url: str) -> None:
    agent, session = code_agent([], planning_interval=None), Session("s", url)

    def append(thread: int) -> None:
        for number in range(20):
            agent.memory.steps.append(TaskStep(task=f"{thread}/{number}"))

    with session.attach(agent), ThreadPoolExecutor(6) as pool:
        for each in [pool.submit(append, thread) for thread in range(6)]:
            each.result(60)
        session.flush()
        assert len(agent.memory.steps) == 120
        assert tasks(Session("s", url).steps()) == tasks(agent.memory.steps)


def test_a_state_that_threads_change_is_on_disk_when_each_change_returns(url: str) -> None:
    agent, session = code_agent([], planning_interval=None), Session("s", url)
    with session.attach(agent):
        counter = TypedMemory(0, name="count")
        session.keep(counter)

        def count() -> None:
            for _ in range(10):
                counter.update(lambda value: value + 1)

        with ThreadPoolExecutor(4) as pool:
            for each in [pool.submit(count) for _ in range(4)]:
                each.result(60)
        fork = session.fork("as it lies there")
        with fork.attach(code_agent([])):
            kept = TypedMemory(0, name="count")
            fork.keep(kept)
            assert kept.get() == 40
