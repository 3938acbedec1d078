"""iter_steps with a session attached: killed between any two steps, taken up in another process days later."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import python
from smolagents import AgentError, CodeAgent
from smolagents.memory import ActionStep, TaskStep, Timing
from stepping_worker import KINDS, TASK, made

from smolagents_memory import NoteStep, Session, iter_steps
from smolagents_memory.database.engine import Database
from smolagents_memory.testing import ScriptedModel, code, explain_difference


WORKER = Path(__file__).with_name("stepping_worker.py")
DAYS = 86_400.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'memory.db'}"


def process(kind: str, url: str, count: int) -> subprocess.CompletedProcess[str]:
    """A process that makes so many steps and dies."""
    return python(WORKER.read_text(), kind, url, count, check=False)


def as_run(kind: str) -> tuple[Any, list[Any], list[Any]]:
    """The answer, the messages and the steps of `run`, without any session."""
    agent = made(kind)
    answer = agent.run(TASK, additional_args={"limit": 5})
    written = [[message.role.value, message.content] for message in agent.write_memory_to_messages()]
    return answer, written, list(agent.memory.steps)


def told(steps: list[Any]) -> list[Any]:
    """Every field of every step but the times."""
    fields = [{name: value for name, value in vars(step).items() if name != "timing"} for step in steps]
    return [
        {**each, "error": str(each.get("error")), "class": type(step)}
        for each, step in zip(fields, steps, strict=True)
    ]


def pass_days(url: str) -> None:
    """Let what the database holds have happened ten days ago."""
    database = Database.at(url)
    with database.writing() as connection:
        for table, columns in {
            "sessions": ("created", "updated"),
            "session_runs": ("started",),
            "session_records": ("created",),
        }.items():
            for column in columns:
                connection.exec_driver_sql(f"UPDATE {table} SET {column} = {column} - {10 * DAYS}")
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "lives"), [("code", (2, 1, 3)), ("calls", (3, 2))])
def test_killed_between_steps_it_reaches_the_answer_and_memory_of_run(
    kind: str, lives: tuple[int, ...], url: str
) -> None:
    """Several lives, each ended by SIGKILL; variables, functions, imports and aliases among them for a CodeAgent."""
    answer, written, steps = as_run(kind)
    for count in lives:
        assert (killed := process(kind, url, count)).returncode == -signal.SIGKILL, killed.stderr
        pass_days(url)
    done = process(kind, url, 99)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert ended["answer"] == answer
    assert explain_difference(ended["messages"], json.loads(json.dumps(written))) is None
    assert ended["state"] == {"limit": "5"}
    session = Session("s", url)
    assert explain_difference(told(session.steps()), told(steps)) is None
    [run] = session.runs()
    assert (run.state, run.task) == ("finished", session.steps()[0].task)
    assert run.steps == len([step for step in steps if hasattr(step, "step_number")])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_after_every_single_step(kind: str, url: str) -> None:
    """As many processes as there are steps."""
    answer, written, steps = as_run(kind)
    for _ in steps[1:]:
        assert (killed := process(kind, url, 1)).returncode == -signal.SIGKILL, killed.stderr
        pass_days(url)
    done = process(kind, url, 99)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert ended["answer"] == answer
    assert explain_difference(ended["messages"], json.loads(json.dumps(written))) is None
    assert explain_difference(told(Session("s", url).steps()), told(steps)) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_at_every_cut_a_new_agent_with_the_session_goes_on_to_the_same_end(kind: str, tmp_path: Path) -> None:
    """In one process, so that every cut is quick to try: the old agent is left, the new one has only the session."""
    answer, _, steps = as_run(kind)
    for cut in range(len(steps)):
        url = f"sqlite:///{tmp_path / f'{cut}.db'}"
        first, second = made(kind), made(kind, said=cut)
        with Session("s", url).attach(first):
            begun = iter_steps(first, TASK, additional_args={"limit": 5})
            for _ in range(cut):
                next(begun)
        with Session("s", url).attach(second):
            going_on = iter_steps(second)
            list(going_on)
        assert going_on.answer == answer, f"cut after {cut} steps"
        assert explain_difference(told(Session("s", url).steps()), told(steps)) is None, f"cut after {cut} steps"
        [run] = Session("s", url).runs()
        assert (run.state, run.steps) == ("finished", len([s for s in steps if hasattr(s, "step_number")])), cut


@pytest.mark.parametrize("kind", KINDS)
def test_resume_takes_up_what_was_begun_step_by_step(kind: str, url: str) -> None:
    answer, _, steps = as_run(kind)
    first = made(kind)
    with Session("s", url).attach(first):
        begun = iter_steps(first, TASK, additional_args={"limit": 5})
        next(begun), next(begun), next(begun)
    assert Session("s", url).resume(made(kind, said=3)) == answer
    assert explain_difference(told(Session("s", url).steps()), told(steps)) is None


def test_what_was_edited_between_two_steps_is_what_the_next_process_reads(url: str) -> None:
    """An edit in place, a step injected, a step taken out; nothing happens after them before the session is left."""
    agent = CodeAgent([], ScriptedModel([code("x = 1"), code("x = 2")]), verbosity_level=-1)
    with Session("s", url).attach(agent):
        steps = iter_steps(agent, "Go")
        next(steps), next(steps)
        agent.memory.steps[1].observations = "x is one"
        agent.memory.steps.insert(1, TaskStep("Take care."))
        edited = [(m.role, m.content) for m in agent.write_memory_to_messages()]
    later = CodeAgent([], ScriptedModel([code("final_answer(x)")]), verbosity_level=-1)
    with Session("s", url).attach(later):
        assert [(m.role, m.content) for m in later.write_memory_to_messages()] == edited
        steps = iter_steps(later)
        assert [step.step_number for step in steps] == [3]
        assert steps.answer == 2


def test_what_of_the_variables_is_lost_is_told_to_the_agent(url: str) -> None:
    """As `resume` tells it: once, before the first step that is made without them."""
    options: dict[str, Any] = {"additional_authorized_imports": ["threading"], "verbosity_level": -1}
    script = "import threading\nlock = threading.Lock()\nkept = 1"
    first = CodeAgent([], ScriptedModel([code(script)]), **options)
    with Session("s", url).attach(first):
        next(iter_steps(first, "Go"))
    later = CodeAgent([], ScriptedModel([code("y = kept"), code("final_answer(kept)")]), **options)
    with Session("s", url).attach(later):
        steps = iter_steps(later)
        list(steps)
        assert steps.answer == 1
    notes = [step for step in later.memory.steps if isinstance(step, NoteStep)]
    assert [("lock" in note.text, note.kind) for note in notes] == [(True, "restored")]
    assert later.memory.steps.index(notes[0]) == 2
    assert notes[0].text in later.model.calls[0].text


def test_max_steps_count_over_all_processes(url: str) -> None:
    first = CodeAgent([], ScriptedModel([code("x = 1"), code("x = 2")]), max_steps=3, verbosity_level=-1)
    with Session("s", url).attach(first):
        steps = iter_steps(first, "Go")
        next(steps), next(steps)
    later = CodeAgent([], ScriptedModel([code("x = 3"), "I give up."]), max_steps=3, verbosity_level=-1)
    with Session("s", url).attach(later):
        steps = iter_steps(later)
        assert [step.step_number for step in steps] == [3, 4]
        assert steps.answer == "I give up."
    assert [run.state for run in Session("s", url).runs()] == ["max_steps"]


def test_a_step_that_failed_and_is_made_again_is_of_the_same_run(url: str) -> None:
    """In between the run has failed; it is running again before its next step is made."""
    states = []

    def look(messages: Any) -> Any:
        states.append(Session("s", url).runs()[0].state)
        return code("final_answer(1)")

    agent = CodeAgent([], ScriptedModel([ConnectionError("down"), look]), verbosity_level=-1)
    with Session("s", url).attach(agent):
        steps = iter_steps(agent, "Go")
        with pytest.raises(AgentError, match="down"):
            next(steps)
        assert Session("s", url).runs()[0].state == "failed"
        assert "down" in Session("s", url).runs()[0].error
        list(steps)
    [run] = Session("s", url).runs()
    assert (run.state, run.answer, run.error, states) == ("finished", 1, None, ["running"])


def test_a_loop_by_hand_that_reached_its_answer_is_finished_and_asks_nobody_again(url: str) -> None:
    agent = CodeAgent([], ScriptedModel([code("x = 1"), code("final_answer(x)")]), verbosity_level=-1)
    with Session("s", url).attach(agent):
        agent.memory.steps.append(TaskStep("Go"))
        agent.python_executor.send_tools(agent.tools)
        for number in (1, 2):
            assert Session("s", url).runs()[0].state == "running"
            step = ActionStep(step_number=number, timing=Timing(start_time=0.0))
            agent.step(step)
            agent.memory.steps.append(step)
    [run] = Session("s", url).runs()
    assert (run.state, run.answer, run.steps) == ("finished", 1, 2)
    assert Session("s", url).resume(CodeAgent([], ScriptedModel([]), verbosity_level=-1)) == 1
