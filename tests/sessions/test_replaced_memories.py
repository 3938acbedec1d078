"""What stands in `agent.memory` while a session is attached, and runs that would lose or mix a conversation."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
from program import python
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.memory import AgentMemory, TaskStep

from smolagents_memory import EnhancedAgentMemory, ObservedMemory, Session, iter_steps, load_memory, save_memory
from smolagents_memory._errors import SessionConflictError, SessionError
from smolagents_memory.sessions import waiting
from smolagents_memory.testing import ScriptedModel, call, code, same


def agent(*script, **options):
    return CodeAgent([], ScriptedModel([code(each) for each in script]), verbosity_level=0, **options)


def tasks(steps):
    return [step.task for step in steps if isinstance(step, TaskStep)]


def equal(session, mine):
    kept, live = session.steps(), list(mine.memory.steps)
    return len(kept) == len(live) and all(map(same, kept, live))


@pytest.mark.parametrize("how", ["attached", "assigned"])
def test_an_enhanced_memory_carries_the_journal_over(tmp_path, caplog, how):
    mine = agent("final_answer(1)", "final_answer(2)", "final_answer(3)")
    with Session("s", tmp_path).attach(mine) as session:
        mine.run("One")
        memory = EnhancedAgentMemory(tmp_path, vector=False)
        if how == "attached":
            memory.attach(mine)
        else:
            mine.memory = memory
        mine.run("Two", reset=False)
        session.flush()
        assert equal(session, mine)
        memory.steps[0].task = "One, edited"
        session.flush()
        assert tasks(session.steps()) == ["One, edited", "Two"]
        memory.close()
        mine.run("Three", reset=False)
    assert tasks(Session("s", tmp_path).steps()) == ["One, edited", "Two", "Three"]
    assert not caplog.records


def test_the_other_way_round_works_as_well(tmp_path):
    mine = agent("final_answer(1)", "final_answer(2)")
    with EnhancedAgentMemory(tmp_path, vector=False).attach(mine) as memory:
        with Session("s", tmp_path).attach(mine) as session:
            mine.run("One")
            session.flush()
            assert equal(session, mine)
        assert mine.memory is memory


def replacements(tmp_path):
    other = agent("final_answer(0)")
    other.run("Elsewhere")
    save_memory(other.memory, tmp_path / "other.memory")
    plain = AgentMemory("plain")
    plain.steps = list(other.memory.steps)
    return {
        "plain": AgentMemory("plain"),
        "plain with steps": plain,
        "observed": ObservedMemory("observed"),
        "loaded": load_memory(tmp_path / "other.memory"),
    }


@pytest.mark.parametrize("kind", ["plain", "plain with steps", "observed", "loaded"])
@pytest.mark.parametrize("within", [True, False], ids=["within a run", "between runs"])
def test_any_other_memory_is_journaled_logged_once_and_raised_at_the_end(tmp_path, caplog, kind, within):
    given = replacements(tmp_path)[kind]
    left = [given] * within

    def replace(step, agent):
        if left:
            agent.memory = left.pop()

    mine = agent("x = 1", "final_answer(x)", "final_answer(3)", step_callbacks=[replace])
    with pytest.raises(SessionError, match=r"was replaced"):  # noqa: SIM117 — the inner one raises as it ends
        with Session("s", tmp_path).attach(mine) as session:
            mine.run("One")
            if not within:
                mine.memory = given
            mine.run("Two", reset=False)
            with pytest.raises(SessionError, match=r"agent\.memory was replaced"):
                session.flush()
    assert equal(Session("s", tmp_path), mine)
    assert tasks(mine.memory.steps)[-1] == "Two"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_memory_of_a_class_of_one_s_own_is_refused_word_for_word(tmp_path, caplog):
    class Odd(AgentMemory):
        pass

    mine = agent("final_answer(1)", "final_answer(2)")
    with pytest.raises(SessionError, match=r"Odd.*not journaled"), Session("s", tmp_path).attach(mine):
        mine.run("One")
        mine.memory = Odd("odd")
        assert mine.run("Two") == 2  # the run goes on
    assert tasks(Session("s", tmp_path).steps()) == ["One"]
    assert len(caplog.records) == 1


def test_a_replacement_that_nobody_tells_of_is_seen_at_the_next_step(tmp_path):
    mine = agent("final_answer(1)", "final_answer(2)")
    with pytest.raises(SessionError, match=r"agent\.memory was replaced"), Session("s", tmp_path).attach(mine):
        mine.run("One")
        vars(mine)["memory"] = AgentMemory("plain")
        mine.run("Two", reset=False)
    assert equal(Session("s", tmp_path), mine)


def test_the_error_that_came_first_is_the_one_to_see(tmp_path):
    mine = agent()
    with pytest.raises(ZeroDivisionError), Session("s", tmp_path).attach(mine):
        mine.memory = AgentMemory("plain")
        raise ZeroDivisionError


def test_an_agent_has_one_session_at_a_time(tmp_path):
    mine = agent("final_answer(1)")
    with Session("one", tmp_path).attach(mine) as one:
        with pytest.raises(SessionError, match="attached to session 'one' already"):
            Session("two", tmp_path).attach(mine)
        mine.run("One")
        assert equal(one, mine)
    assert not Session("two", tmp_path).steps()


def test_two_managers_of_one_helper_keep_each_its_own_calls(tmp_path):
    helper = ToolCallingAgent(
        [], ScriptedModel([[call("final_answer", answer=str(n))] for n in range(3)]), verbosity_level=0, name="helper",
        description="Helps.",
    )  # fmt: skip
    ann = agent("final_answer(helper('for ann'))", managed_agents=[helper])
    bob = agent("final_answer(helper('for bob'))", managed_agents=[helper])
    with Session("ann", tmp_path).attach(ann) as of_ann, Session("bob", tmp_path).attach(bob) as of_bob:
        ann.run("Ann's")
        bob.run("Bob's")
        for session, mine, other in ((of_ann, "ann", "bob"), (of_bob, "bob", "ann")):
            texts = [str(tasks(Session(child, tmp_path).steps())) for child in session.children()]
            assert len(texts) == 1
            assert f"for {mine}" in texts[0]
            assert f"for {other}" not in texts[0]


def test_to_begin_anew_by_default_is_said_once(tmp_path, caplog):
    mine = agent(*["final_answer(1)"] * 6)
    with Session("s", tmp_path).attach(mine) as session:
        mine.run("One")
        assert not caplog.records
        mine.run("Two")
        mine.run("Three")
        [said] = caplog.records
        assert "reset=False" in said.getMessage()
        assert session.run("Four") == 1
        assert tasks(mine.memory.steps) == ["Three", "Four"]
        session.run("Five", reset=True)
    assert len(caplog.records) == 1
    with Session("s", tmp_path).attach(other := agent("final_answer(2)")) as session:
        caplog.clear()
        other.run("Asked for", reset=True)
        assert not caplog.records
    with pytest.raises(SessionError, match="not attached"):
        session.run("Six")


def test_two_threads_and_one_agent_are_one_run_and_an_error(tmp_path):
    inside, go_on = threading.Event(), threading.Event()

    def held(step):
        inside.set()
        go_on.wait(10)

    mine = agent("final_answer(1)", "final_answer(2)", step_callbacks=[held])
    with Session("s", tmp_path).attach(mine) as session:
        first = threading.Thread(target=session.run, args=("First",))
        first.start()
        inside.wait(10)
        for begin in (lambda: mine.run("Second"), lambda: iter_steps(mine, "Second"), lambda: session.run("Second")):
            with pytest.raises(SessionError, match="another thread"):
                begin()
        go_on.set()
        first.join()
        assert [(run.task, run.state) for run in session.runs()] == [("First", "finished")]
        assert session.run("Third") == 2
        assert equal(session, mine)


# -- waiting for a busy session ------------------------------------------------------------------------------------


def test_a_busy_session_is_waited_for_first_come_first_served(tmp_path):
    order = []
    first = Session("s", tmp_path).attach(agent())

    def serve(number):
        with Session("s", tmp_path).attach(agent(f"final_answer({number})"), wait=30) as session:
            order.append(number)
            session.run(f"Task {number}")

    threads = [threading.Thread(target=serve, args=(n,)) for n in range(5)]
    for number, thread in enumerate(threads):
        thread.start()
        while sum(map(len, waiting._lines.values())) == number:
            time.sleep(0.001)
    with pytest.raises(SessionConflictError):
        Session("s", tmp_path).attach(agent(), wait=0.01)
    first.detach()
    for thread in threads:
        thread.join()
    assert order == list(range(5))
    assert tasks(Session("s", tmp_path).steps()) == [f"Task {n}" for n in range(5)]


def test_who_does_not_wait_does_not_go_before_who_does(tmp_path):
    first = Session("s", tmp_path).attach(agent())
    other = threading.Thread(target=lambda: Session("s", tmp_path).attach(agent(), wait=30))
    other.start()
    while not waiting._lines:
        time.sleep(0.001)
    with pytest.raises(SessionConflictError, match="wait"):
        Session("s", tmp_path).attach(agent())
    first.detach()
    other.join()


def test_a_writer_in_another_process_is_waited_for(tmp_path):
    holder = (
        "import sys, time; from smolagents import CodeAgent; from smolagents_memory import Session\n"
        "from smolagents_memory.testing import ScriptedModel\n"
        "s = Session('s', sys.argv[1]).attach(CodeAgent([], ScriptedModel([])))\n"
        "print('attached', flush=True); time.sleep(0.7); s.detach()"
    )
    other = subprocess.Popen([sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ)
    assert other.stdout.readline().strip() == b"attached"
    with pytest.raises(SessionConflictError):
        Session("s", tmp_path).attach(agent())
    Session("s", tmp_path).attach(agent(), wait=30).detach()
    assert other.wait() == 0
    other.stdout.close()


@pytest.mark.parametrize("wait", [-1, float("nan"), "10", None, True])
def test_a_wait_that_is_none_is_refused(tmp_path, wait):
    with pytest.raises(SessionError, match="seconds"):
        Session("s", tmp_path).attach(agent(), wait=wait)
    assert not Session("s", tmp_path).exists()


def test_a_run_whose_process_died_is_interrupted_for_who_attaches_next(tmp_path):
    """Until it goes on: it said "running", for there is a living writer again."""
    killed = (
        "import os, sys; from smolagents import CodeAgent; from smolagents_memory import Session\n"
        "from smolagents_memory.testing import ScriptedModel, code\n"
        "agent = CodeAgent([], ScriptedModel([code('x = 1'), code('x = 2')]), verbosity_level=0,\n"
        "                  step_callbacks=[lambda step: step.step_number == 2 and os.kill(os.getpid(), 9)])\n"
        "Session('s', sys.argv[1]).attach(agent); agent.run('One')"
    )
    assert python(killed, tmp_path, check=False).returncode == -9
    mine = agent("final_answer(7)")
    with Session("s", tmp_path).attach(mine) as session:
        session.flush()
        assert [run.state for run in Session("s", tmp_path).runs()] == ["interrupted"]
        assert session.resume(mine) == 7
        assert [(run.state, run.steps) for run in session.runs()] == [("finished", 2)]
