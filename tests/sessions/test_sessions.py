"""Sessions: what happened is kept as it happened, in SQLite and in Postgres alike."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agents import CALL_SCRIPT, CODE_SCRIPT, calling_agent, code_agent, double, photo, rendered
from databases import url_quickly  # noqa: F401 — a fixture: these are many
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, PlanningStep, SystemPromptStep, TaskStep
from smolagents.monitoring import Timing
from smolagents.utils import AgentError, AgentGenerationError

from smolagents_memory import (
    MemoryLossWarning,
    NoteStep,
    ObservedMemory,
    Session,
    SessionConflictError,
    SessionError,
    SessionManager,
    SessionNotFoundError,
    SessionStorageError,
    load_memory,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.testing import ScriptedModel, call, code, explain_difference


KINDS = {"code": code_agent, "calls": calling_agent}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def restored(url: str, name: str = "s") -> CodeAgent:
    """A fresh agent with what the session holds, as another process would have it."""
    agent = code_agent([])
    assert Session(name, url).restore(agent)
    return agent


def check_kept(agent: Any, url: str, name: str = "s") -> None:
    """The session holds exactly what the agent's memory is."""
    other = restored(url, name)
    assert explain_difference(rendered(agent), rendered(other)) is None
    assert explain_difference(list(agent.memory.steps), list(other.memory.steps)) is None
    assert other.memory.system_prompt == agent.memory.system_prompt


def test_a_run_is_restored_exactly(make: Any, url: str) -> None:
    agent = make()
    with Session("s", url).attach(agent):
        agent.run("Do it.", images=[photo()])
    check_kept(agent, url)


def test_every_step_is_there_before_the_next_begins(url: str) -> None:
    seen = []

    def look(messages: Any) -> str:
        other = AgentMemory("")
        other.steps = Session("s", url).steps()
        seen.append(len(other.steps))
        return code("pass") if len(seen) < 4 else code("final_answer(1)")

    agent = code_agent([look] * 4, planning_interval=None)
    with Session("s", url).attach(agent):
        agent.run("Do it.")
    assert seen == [1, 2, 3, 4]


def stamp(step: Any, agent: Any) -> None:
    if step.observations is not None:
        step.observations = "[12:00] " + step.observations


def cut(step: Any, agent: Any) -> None:
    for earlier in agent.memory.steps[:-1]:
        if isinstance(earlier, ActionStep) and earlier.observations and len(earlier.observations) > 60:
            earlier.observations = earlier.observations[:30] + "…" + earlier.observations[-10:]
        if isinstance(earlier, ActionStep) and earlier.observations_images:
            earlier.observations_images = None


def drop(step: Any, agent: Any) -> None:
    if len(agent.memory.steps) > 4:
        agent.memory.steps[1:3] = [NoteStep("two steps were here", kind="summary")]


def shed(step: Any, agent: Any) -> None:
    step.model_input_messages = None
    if isinstance(step, PlanningStep):
        step.model_input_messages = []


@pytest.mark.parametrize(
    "callbacks",
    [[stamp], [cut], [drop], [shed], [stamp, cut, drop, shed]],
    ids=lambda each: "-".join(callback.__name__ for callback in each),
)
def test_what_callbacks_did_is_restored_and_the_original_is_still_there(make: Any, url: str, callbacks: Any) -> None:
    agent = make(step_callbacks={ActionStep: callbacks, PlanningStep: [shed] if shed in callbacks else []})
    session = Session("s", url)
    with session.attach(agent):
        agent.run("Do it.", images=[photo()])
        agent.model = ScriptedModel(CODE_SCRIPT if make is code_agent else CALL_SCRIPT)
        agent.run("Once more.", reset=False)
        check_kept(agent, url)
        if stamp in callbacks:
            stamped = next(step for step in agent.memory.steps if getattr(step, "observations", None))
            assert stamped.observations.startswith("[12:00] ")
            original = session.original(stamped).observations
            assert not original.startswith("[12:00] ")
            assert "[12:00]" in stamped.observations


def test_the_original_of_a_step_can_be_had_later_by_its_place(url: str) -> None:
    agent = code_agent(
        [code("print('o' * 500)"), code("final_answer(1)")], step_callbacks=[cut, cut], planning_interval=None
    )
    with Session("s", url).attach(agent) as attached:
        agent.run("Do it.")
        agent.memory.steps[1].observations = "cut by hand"
        with pytest.raises(SessionError, match="none at place 99"):
            attached.original(99)
    session = Session("s", url)
    assert session.steps()[1].observations == "cut by hand"
    assert "o" * 500 in session.original(1).observations
    with pytest.raises(SessionError, match="give its place"):
        session.original(session.steps()[1])


operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["run", "append", "insert", "edit", "delete", "swap", "note", "rebind", "reset", "prompt", "images"]
        ),
        st.integers(0, 20),
    ),
    max_size=10,
)


def operate(agent: Any, kind: str, number: int) -> None:
    """Do something that a person or a callback may do to a memory."""
    steps = agent.memory.steps
    at = number % len(steps) if steps else 0
    if kind == "run":
        agent.model = ScriptedModel([code(f"print({number})"), code(f"final_answer({number})")])
        agent.run(f"task {number}", reset=number % 3 == 0, images=[photo()] if number % 2 else None)
    elif kind == "append":
        steps.append(ActionStep(step_number=number, timing=None, observations=f"injected {number}"))
    elif kind == "insert":
        steps.insert(at, TaskStep(task=f"inserted {number}"))
    elif kind == "note":
        steps[at:at] = [NoteStep(f"note {number}"), NoteStep("")]
    elif kind == "prompt":
        agent.memory.system_prompt = SystemPromptStep(f"prompt {number}")
    elif kind == "reset":
        agent.memory.reset()
    elif kind == "rebind":
        agent.memory.steps = [*steps[at:], *steps[:at]]
    elif steps and kind == "delete":
        del steps[at : at + 2]
    elif steps and kind == "swap":
        steps[0], steps[at] = steps[at], steps[0]
    elif steps and kind == "edit":
        step = steps[at]
        step.pinned = not getattr(step, "pinned", False)
        if isinstance(step, ActionStep):
            step.observations = f"edited {number}" + (step.observations or "")
            step.model_input_messages = (step.model_input_messages or [])[: number % 3] or None
    elif steps and kind == "images" and hasattr(steps[at], "observations_images"):
        steps[at].observations_images = [*(steps[at].observations_images or []), photo("green")]


@settings(max_examples=9, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations)
def test_whatever_happens_to_a_memory_is_restored_exactly(
    tmp_path_factory: Any, script: list[tuple[str, int]]
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('db') / 'memory.db'}"
    agent = code_agent([], planning_interval=None)
    session = Session("s", url).attach(agent)
    for kind, number in script:
        operate(agent, kind, number)
        session.flush()
        check_kept(agent, url)
    session.detach()
    other = code_agent([], planning_interval=None)
    with Session("s", url).attach(other):  # and goes on from there just as well
        operate(other, "edit", 3)
        operate(other, "run", 4)
        check_kept(other, url)


def test_a_session_goes_on_over_many_attachments(make: Any, url: str) -> None:
    script = CODE_SCRIPT if make is code_agent else CALL_SCRIPT
    expected = make()
    for number in range(4):
        expected.model = ScriptedModel(script)
        expected.run(f"Task {number}.", reset=False)
        agent = make()
        with Session("s", url).attach(agent):
            agent.run(f"Task {number}.", reset=False)
    assert [type(step) for step in agent.memory.steps] == [type(step) for step in expected.memory.steps]
    assert explain_difference(rendered(agent), rendered(expected)) is None
    assert [run.state for run in Session("s", url).runs()] == ["finished"] * 4


def test_a_reset_begins_a_new_run_and_earlier_ones_stay_readable(url: str) -> None:
    agent = code_agent(
        [code("final_answer(1)"), code("final_answer(2)"), code("final_answer(3)")], planning_interval=None
    )
    session = Session("s", url)
    with session.attach(agent):
        for number in (1, 2, 3):
            agent.run(f"task {number}", reset=number == 2)
    assert [step.task for step in session.steps() if isinstance(step, TaskStep)] == ["task 2", "task 3"]
    assert [step.task for step in session.steps(run=1) if isinstance(step, TaskStep)] == ["task 1"]
    assert [step.task for step in session.steps(run=2) if isinstance(step, TaskStep)] == ["task 2"]
    assert len(session.steps(run=3)) == 4
    assert [(run.number, run.task, run.answer, run.steps) for run in session.runs()] == [
        (1, "task 1", 1, 1),
        (2, "task 2", 2, 1),
        (3, "task 3", 3, 1),
    ]
    with pytest.raises(SessionError, match=r"no run 9; it has \[1, 2, 3\]"):
        session.steps(run=9)


def test_steps_by_hand_and_injected_ones_are_kept_though_no_callback_fires(url: str) -> None:
    agent = code_agent([code("print('by hand')")], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.memory.steps.append(TaskStep(task="by hand"))
        agent.python_executor.send_tools({**agent.tools})
        step = ActionStep(step_number=1, timing=Timing(time.time()))
        agent.step(step)
        agent.memory.steps.append(step)
    check_kept(agent, url)
    assert Session("s", url).runs()[0].state == "interrupted"


def test_pixels_painted_into_a_kept_image_are_found_at_flush_and_at_detach(url: str) -> None:
    picture = photo()
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    session = Session("s", url).attach(agent)
    agent.run("look", images=[picture])
    picture.putpixel((0, 0), (1, 2, 3))
    session.flush()
    assert session.steps()[0].task_images[0].getpixel((0, 0)) == (1, 2, 3)
    picture.putpixel((0, 0), (4, 5, 6))
    session.detach()
    assert Session("s", url).steps()[1].observations_images[0].getpixel((0, 0)) == (4, 5, 6)


@pytest.mark.parametrize(
    "name", ["", "a/b/../c", 'user@host\'s "id" ; DROP TABLE sessions', "\x00", "\ud800", "ü" * 300, "%", "-1"]
)
def test_any_string_is_an_id(url: str, name: str) -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session(name, url).attach(agent):
        agent.run("x")
    assert SessionManager(url).list_sessions() == [name]
    check_kept(agent, url, name)
    assert SessionManager(url).delete_session(name)


def test_what_the_model_and_people_write_may_be_anything(url: str) -> None:
    agent = code_agent([], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.memory.steps.append(TaskStep(task="\ud83d \x00 '\"; -- 😀"))
    check_kept(agent, url)


# -- one writer ----------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_at_attach_and_loses_nothing(url: str) -> None:
    first, second = code_agent([code("final_answer(1)")]), code_agent([])
    second.memory.steps.append(NoteStep("mine"))
    with Session("s", url).attach(first):
        with pytest.raises(SessionConflictError, match=r"is being written by process \d+"):
            Session("s", url).attach(second)
        assert second.memory.steps == [NoteStep("mine", created=second.memory.steps[0].created)]
        with pytest.raises(SessionConflictError):
            Session("s", url).delete()
    second.memory.reset()
    Session("s", url).attach(second).detach()


def test_who_was_shut_out_is_told_when_a_task_begins_and_may_keep_its_memory(url: str) -> None:
    first = code_agent([code("final_answer(1)"), code("final_answer(2)")], planning_interval=None)
    session = Session("s", url).attach(first)
    first.run("one")
    second = code_agent([code("final_answer(3)")], planning_interval=None)
    with Session("s", url).attach(second, take_over=True):
        with pytest.raises(SessionConflictError, match="another writer"):
            first.run("two", reset=False)
        second.run("three", reset=False)
    assert len(first.memory.steps) == 2
    SessionManager(url).save_session(first, "kept")
    with pytest.raises(SessionConflictError):
        session.detach()
    assert [run.task for run in Session("s", url).runs()] == ["one", "three"]
    assert len(Session("kept", url).steps()) == 2


def test_a_conflict_inside_a_run_waits_for_flush(url: str, caplog: pytest.LogCaptureFixture) -> None:
    def shut_out(messages: Any) -> str:
        Session("s", url).attach(code_agent([]), take_over=True).detach()
        return code("final_answer(1)")

    agent = code_agent([shut_out], planning_interval=None)
    session = Session("s", url).attach(agent)
    with caplog.at_level(logging.ERROR):
        assert agent.run("go") == 1
    assert "somebody else writes to it" in caplog.text
    with pytest.raises(SessionConflictError):
        session.flush()
    with pytest.raises(SessionConflictError):
        session.detach()
    assert len(agent.memory.steps) == 2
    assert len(Session("s", url).steps()) == 1


def test_an_agent_attached_to_one_session_cannot_carry_its_steps_into_another(url: str) -> None:
    agent = code_agent([code("secret = 1\nfinal_answer(secret)"), code("final_answer(2)")], planning_interval=None)
    agent.state["whose"] = "a's"
    with Session("a", url).attach(agent):
        agent.run("of a")
    with Session("b", url).attach(agent):
        assert len(agent.memory.steps) == 0
        assert "whose" not in agent.state
        agent.run("of b", reset=False)
    assert [step.task for step in Session("b", url).steps() if isinstance(step, TaskStep)] == ["of b"]
    with Session("a", url).attach(agent):
        assert agent.memory.steps[0].task == "of a"
        assert agent.state["whose"] == "a's"


def test_steps_that_are_in_no_session_begin_a_new_one_but_are_never_overwritten(url: str) -> None:
    agent = code_agent([code("final_answer(1)"), code("final_answer(2)")], planning_interval=None)
    agent.run("before")
    with Session("s", url).attach(agent):
        pass
    check_kept(agent, url)
    agent.run("unseen", reset=False)
    with pytest.raises(SessionError, match="some are in no session"):
        Session("s", url).attach(agent)
    SessionManager(url).save_session(agent, "s")
    check_kept(agent, url)


# -- copies --------------------------------------------------------------------------------------------------------


def test_a_fork_goes_on_by_itself_from_any_step(url: str) -> None:
    agent = code_agent([code(f"print({n})") for n in range(3)] + [code("final_answer(9)")], planning_interval=None)
    session = Session("s", url)
    states = []
    with session.attach(agent):
        agent.step_callbacks.register(ActionStep, lambda step, agent: states.append(rendered(agent)))
        agent.run("go", images=[photo()])
        everything = rendered(agent)
    states = [*states[1:], everything]
    for at in range(1, 5):
        fork = session.fork(f"f{at}", at=at)
        other = restored(url, f"f{at}")
        assert explain_difference(rendered(other), states[at - 1]) is None
        assert fork.runs()[0].state in ("interrupted", "finished")
    whole = session.fork("whole")
    session.delete()
    assert len(whole.steps()) == 5
    assert whole.steps()[0].task_images[0].tobytes() == photo().tobytes()
    with pytest.raises(SessionConflictError, match="already"):
        whole.fork("f1")
    for nowhere in (77, "1", 1.0):
        with pytest.raises(SessionError, match="none at place"):
            whole.fork("x", at=nowhere)  # type: ignore[arg-type]


def test_each_run_of_an_imported_session_can_be_read_as_it_was_at_its_end(url: str, tmp_path: Path) -> None:
    agent = code_agent([code(f"final_answer({number})") for number in range(3)], planning_interval=None)
    session = Session("s", url)
    with session.attach(agent):
        for task in ("one", "two", "three"):
            agent.run(task, reset=False)
    read = Session("t", url).import_(session.export(tmp_path / "run.jsonl"))
    assert [len(read.steps(run.number)) for run in read.runs()] == [2, 4, 6]
    assert [(run.task, run.steps) for run in read.runs()] == [("one", 1), ("two", 1), ("three", 1)]


def test_export_and_import_carry_a_session_as_a_portable_file(make: Any, url: str, tmp_path: Path) -> None:
    agent = make()
    agent.state["n"] = 3
    with Session("s", url).attach(agent):
        agent.run("Do it.", images=[photo()])
    path = Session("s", url).export(tmp_path / "s.jsonl.gz")
    memory = load_memory(path)
    assert explain_difference(list(memory.steps), list(agent.memory.steps)) is None
    assert memory.origin.state["n"] == 3
    Session("t", url).import_(path)
    check_kept(agent, url, "t")
    other = make()
    Session("t", url).restore(other)
    assert other.state["n"] == 3
    with pytest.raises(SessionConflictError, match="already"):
        Session("t", url).import_(path)


def test_a_manager_saves_loads_lists_and_deletes(make: Any, url: str) -> None:
    manager, agent = SessionManager(url), make()
    assert not manager.load_session(agent, "s")
    agent.run("Do it.", images=[photo()])
    manager.save_session(agent, "s")
    manager.save_session(agent, "s")
    agent.memory.steps.append(NoteStep("later"))
    agent.memory.steps[1].plan = "another plan"
    manager.save_session(agent, "s")
    check_kept(agent, url)
    other = make()
    assert manager.load_session(other, "s")
    (info,) = manager.sessions()
    assert (info.session_id, info.state, info.last_task, info.runs) == ("s", "finished", "Do it.", 1)
    assert info.steps == sum(isinstance(step, ActionStep) for step in agent.memory.steps)
    assert info.input_tokens > 0
    assert manager.delete_session("s")
    assert not manager.delete_session("s")
    assert manager.list_sessions() == []
    with pytest.raises(SessionNotFoundError, match="no session 's'"):
        Session("s", url).steps()


def test_sessions_that_nobody_used_expire(url: str) -> None:
    manager = SessionManager(url)
    for name in ("old", "used"):
        manager.save_session(code_agent([]), name)
    assert manager.expire(dt.timedelta(days=1)) == []
    time.sleep(0.05)
    with manager.session("used").attach(code_agent([])):
        assert manager.expire(0.0) == ["old"]
    assert manager.list_sessions() == ["used"]


def test_a_backup_made_while_in_use_brings_everything_back(url: str, tmp_path: Path) -> None:
    manager, agent = (
        SessionManager(url),
        code_agent([code("final_answer(1)"), code("final_answer(2)")], planning_interval=None),
    )
    with manager.session("s").attach(agent):
        agent.run("one", images=[photo()])
        backup = manager.backup(tmp_path / "copies" / "b.db")
    assert SessionManager(f"sqlite:///{backup}").list_sessions() == ["s"]
    before = rendered(restored(url))
    manager.delete_session("s")
    manager.save_session(code_agent([]), "other")
    manager.restore_backup(backup)
    assert manager.list_sessions() == ["s"]
    assert explain_difference(rendered(restored(url)), before) is None
    manager.save_session(code_agent([]), "new")
    with pytest.raises(FileNotFoundError, match="no backup"):
        manager.restore_backup(tmp_path / "none.db")


# -- managed agents ------------------------------------------------------------------------------------------------


def worker(script: Any) -> CodeAgent:
    return code_agent(script, name="worker", description="Works.", planning_interval=None)


def test_every_call_of_a_managed_agent_is_a_session_of_its_own(url: str) -> None:
    manager = CodeAgent(
        tools=[double],
        model=ScriptedModel([code("print(worker(task='dig'))"), code("final_answer(worker(task='dig on'))")]),
        managed_agents=[worker([code("print(1)"), code("final_answer('found')"), code("final_answer('more')")])],
        verbosity_level=0,
    )
    session = Session("s", url)
    with session.attach(manager):
        manager.run("find it")
    check_kept(manager, url)
    first, second = session.children()
    assert (first, second) == ("s/worker/1", "s/worker/2")
    steps = Session(first, url).steps()
    assert [type(step) for step in steps] == [TaskStep, ActionStep, ActionStep]
    assert "dig" in steps[0].task
    assert Session(first, url).runs()[0].answer == "found"
    assert SessionManager(url).list_sessions() == ["s"]
    session.delete()
    assert not Session(first, url).exists()


@pytest.mark.parametrize("at_once", [True, False])
def test_parallel_calls_of_one_managed_agent_stay_readable(url: str, at_once: bool) -> None:
    turns: dict[int, int] = {}

    def work(messages: Any) -> Any:
        # smolagents mixes what the two calls are sent; the thread alone tells whose turn it is
        time.sleep(0.02)
        me = threading.get_ident()
        turns[me] = turns.get(me, 0) + 1
        return code(f"print('of-{me}')") if turns[me] < 4 else code(f"final_answer('of-{me}')")

    helper = worker([work] * 40)
    manager = ToolCallingAgent(
        tools=[],
        model=ScriptedModel(
            [
                [call("worker", task="dig A", additional_args={}), call("worker", task="dig B", additional_args={})],
                call("final_answer", answer="ok"),
            ]
        ),
        managed_agents=[helper],
        verbosity_level=0,
    )
    session = Session("s", url, concurrent_calls=at_once)
    with session.attach(manager):
        assert manager.run("find both") == "ok"
    children = [Session(name, url).steps() for name in session.children()]
    assert len(children) == 2
    # which task each of them notes is up to smolagents: both write it into the one agent before they read it
    for steps in children:
        assert [type(step) for step in steps] == [TaskStep, *[ActionStep] * 4]
        (mine,) = {me for me in turns if f"of-{me}" in steps[1].model_output}
        assert all(f"of-{mine}" in step.model_output for step in steps[1:])


def test_attaching_is_all_or_nothing(url: str) -> None:
    class Mine(AgentMemory):
        pass

    with Session("s", url).attach(code_agent([])) as session:
        session.database.prepare()
    helpers = [worker([code("final_answer(1)")]), code_agent([], name="second", description="Cannot be followed.")]
    helpers[1].memory = Mine("m")
    agent = code_agent([code("final_answer(2)")], managed_agents=helpers, planning_interval=None)
    agents = [agent, *helpers]
    before = [(dict(vars(each)), type(each.memory), list(each.memory.steps)) for each in agents]
    for name, take_over in (("s", False), ("new", False), ("s", True)):
        with pytest.raises(TypeError, match="subclass ObservedMemory"):
            Session(name, url).attach(agent, take_over=take_over)
        assert [(dict(vars(each)), type(each.memory), list(each.memory.steps)) for each in agents] == before
    helpers[1].memory = AgentMemory("m")
    with Session("s", url).attach(agent):
        assert agent.run("go") == 2


def test_an_attachment_that_the_database_prevents_leaves_no_trace(url: str) -> None:
    first = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", url).attach(first):
        first.run("go", images=[photo()])
    database = Database.at(url)
    rename = "ALTER TABLE {} RENAME TO {}"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(rename.format("blobs", "lost"))
    agent = code_agent([], managed_agents=[worker([])])
    agents = [agent, *agent.managed_agents.values()]
    before = [(dict(vars(each)), list(each.memory.steps)) for each in agents]
    with pytest.raises(SessionStorageError):
        Session("s", url).attach(agent)
    assert [(dict(vars(each)), list(each.memory.steps)) for each in agents] == before
    with database.engine.begin() as connection:
        connection.exec_driver_sql(rename.format("lost", "blobs"))
    Session("s", url).attach(agent).detach()


# -- ends ----------------------------------------------------------------------------------------------------------


def test_how_a_run_ended_is_noted(url: str) -> None:
    def stop(step: Any, agent: Any) -> None:
        agent.interrupt()

    cases: dict[str, tuple[Any, type[BaseException] | None]] = {
        "finished": (code_agent([code("final_answer(1)")], planning_interval=None), None),
        "failed": (code_agent([ConnectionError("down")], planning_interval=None), AgentGenerationError),
        "max_steps": (code_agent([code("pass"), "I give up."], max_steps=1, planning_interval=None), None),
        "interrupted": (code_agent([code("pass")] * 2, step_callbacks=[stop], planning_interval=None), AgentError),
    }
    for state, (agent, error) in cases.items():
        with Session(state, url).attach(agent):
            if error is None:
                agent.run("go")
            else:
                with pytest.raises(error):
                    agent.run("go")
        assert Session(state, url).runs()[0].state == state
        check_kept(agent, url, state)
    assert "down" in Session("failed", url).runs()[0].error
    streamed = code_agent([code("pass")] * 3, planning_interval=None)
    with Session("left", url).attach(streamed):
        stream = streamed.run("go", stream=True)
        while not isinstance(next(stream), ActionStep):
            pass
        assert Session("left", url).runs()[0].state == "running"
        stream.close()
    assert Session("left", url).runs()[0].state == "interrupted"


def test_leaving_puts_everything_back(url: str) -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    registry, run = agent.step_callbacks, agent.run
    with Session("s", url).attach(agent):
        assert agent.step_callbacks is not registry
        heard: list[Any] = []
        agent.step_callbacks.register(ActionStep, heard.append)
        agent.run("go")
        assert len(heard) == 1
    assert agent.step_callbacks is registry
    assert agent.run == run
    assert "run" not in vars(agent)
    assert not agent.memory.events.has_listeners("steps_changed", "step_edited", "system_prompt_changed")


def test_an_error_in_the_block_is_not_hidden_by_the_journal_s(url: str) -> None:
    agent = code_agent([])
    with pytest.raises(ZeroDivisionError), Session("s", url).attach(agent):
        raise ZeroDivisionError


def test_a_memory_class_of_one_s_own_is_refused_with_the_remedy(url: str) -> None:
    class Mine(AgentMemory):
        pass

    agent = code_agent([])
    agent.memory = Mine("s")
    with pytest.raises(TypeError, match="subclass ObservedMemory"):
        Session("s", url).attach(agent)
    agent.memory = ObservedMemory("s")
    Session("s", url).attach(agent).detach()


def test_many_threads_on_sessions_of_one_database_do_not_get_in_each_other_s_way(url: str) -> None:
    problems: list[Any] = []

    def work(name: int) -> None:
        try:
            for number in range(3):
                agent = code_agent([code("final_answer(1)")], planning_interval=None)
                with Session(f"{name}", url).attach(agent):
                    agent.run(f"{number}", reset=False)
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert problems == []
    assert [len(Session(f"{name}", url).steps()) for name in range(8)] == [6] * 8


def test_what_cannot_be_kept_is_said_once_and_the_rest_is_kept(url: str) -> None:
    agent = code_agent([], planning_interval=None)
    with Session("s", url).attach(agent), pytest.warns(MemoryLossWarning, match="Session 's' holds"):
        agent.memory.steps.append(
            ActionStep(step_number=1, timing=None, observations="o", action_output=threading.Lock())
        )
    assert restored(url).memory.steps[0].observations == "o"


def test_a_url_of_another_kind_and_a_wrong_durability_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no database URL"):
        Session("s", "not a url://at all")
    with pytest.raises(ValueError, match="SQLite or Postgres, not in 'mysql'"):
        Session("s", "mysql://host/db")
    with pytest.raises(ValueError, match="durability"):
        Session("s", f"sqlite:///{tmp_path}/m.db", durability="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="string"):
        Session(3)  # type: ignore[arg-type]


def test_durability_process_keeps_the_same_and_says_so_to_the_database(url: str) -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", url, durability="process").attach(agent):
        agent.run("go")
    check_kept(agent, url)
    relaxed = Database.at(url, "process")
    with relaxed.reading() as connection:
        if relaxed.sqlite:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1
        else:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"
