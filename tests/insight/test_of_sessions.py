"""Views, figures, replay and injection from sessions: attached, reopened, and in another process."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from histories import RUNS, finished
from program import python
from rich.console import Console
from smolagents import AgentLogger, AgentToolExecutionError, CodeAgent, LogLevel, MultiStepAgent
from smolagents.memory import ActionStep, TaskStep

from smolagents_memory import (
    MemoryStats,
    Session,
    analyze,
    briefing,
    compare,
    conversation,
    find_steps,
    inject_history,
    inject_observation,
    inject_task,
    reasoning,
    replay,
    to_markdown,
    todos,
    tool_executions,
)
from smolagents_memory.testing import ScriptedModel, explain_difference


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'memory.db'}"


def kept(name: str, url: str) -> MultiStepAgent:
    """The agent of that run, after it ran under a session."""
    run = RUNS[name]()
    with Session(name, url).attach(run.agent):
        run.agent.run(run.task, **run.options)
    return run.agent


def figures(memory: Any) -> dict[str, Any]:
    """What `analyze` finds, without the time at which it looked."""
    stats = memory if isinstance(memory, MemoryStats) else analyze(memory)
    return {name: figure for name, figure in stats.to_dict().items() if name != "analysis_timestamp"}


def shown(memory: Any) -> str:
    """What `replay` shows."""
    out = io.StringIO()
    replay(memory, logger=AgentLogger(level=LogLevel.INFO, console=Console(file=out, width=100)))
    return out.getvalue()


def messages(memory: Any) -> list[Any]:
    return [(message.role, message.content) for message in briefing(memory)]


def looked_at(memory: Any) -> dict[str, Any]:
    """Everything there is to see of a memory."""
    return {
        "conversation": conversation(memory),
        "calls": [
            (
                e.tool_name,
                e.params,
                e.result.success,
                e.result.error,
                e.result.execution_time,
                e.source,
                e.joint,
                e.step,
            )
            for e in tool_executions(memory)
        ],
        "reasoning": reasoning(memory),
        "todos": todos(memory),
        "failed": [step.step_number for step in find_steps(memory, error=True)],
        "rainy": [step.step_number for step in find_steps(memory, pattern="Rain in (Paris|Oslo)", tool="weather")],
        "figures": figures(memory),
        "replay": shown(memory),
        "markdown": to_markdown(memory, system_prompt=True),
        "briefing": messages(memory),
        "short briefing": [(each.role, each.content) for each in briefing(memory, max_tokens=200)],
    }


@pytest.mark.parametrize("name", RUNS)
def test_all_that_there_is_to_see_of_a_session_is_that_of_the_live_agent(name: str, url: str) -> None:
    """By the session that is attached, and by one that was opened anew."""
    run = RUNS[name]()
    with Session(name, url).attach(run.agent) as session:
        run.agent.run(run.task, **run.options)
        live = looked_at(run.agent)
        assert live["conversation"]
        assert explain_difference(live, looked_at(session)) is None
    assert explain_difference(live, looked_at(Session(name, url))) is None


def test_another_process_comes_to_the_same_figures(url: str) -> None:
    """All histories in one process that has never seen the agents."""
    expected = {name: figures(kept(name, url)) for name in RUNS}
    script = (
        "import json, sys; from smolagents_memory import SessionManager, analyze\n"
        "manager = SessionManager(sys.argv[1])\n"
        "print(json.dumps({n: analyze(manager.session(n)).to_dict() for n in manager.list_sessions()}))"
    )
    done = python(script, url)
    found = {name: {**each} for name, each in json.loads(done.stdout).items()}
    for each in found.values():
        del each["analysis_timestamp"]
    assert found == json.loads(json.dumps(expected))


def test_the_figures_of_a_session_are_those_counted_by_hand(url: str) -> None:
    """From the script, and from what the session itself notes of its run."""
    kept("calls_in_parallel_and_errors", url)
    session = Session("calls_in_parallel_and_errors", url)
    stats, [noted] = analyze(session), session.runs()
    assert stats.steps.by_kind == {"TaskStep": 1, "PlanningStep": 3, "ActionStep": 7}
    assert (stats.tokens.input_tokens, stats.tokens.output_tokens) == (noted.input_tokens, noted.output_tokens)
    assert stats.steps.by_kind["ActionStep"] == noted.steps
    assert stats.tools.tool_usage["weather"] == 6
    assert stats.tools.tool_usage["final_answer"] == 1
    assert sum(stats.steps.errors.values()) == len([s for s in session.steps() if getattr(s, "error", None)]) == 4
    assert compare(session, session).to_dict()["tokens.total_tokens"]["difference"] == 0
    with_images = Session("with_images", url)
    kept("with_images", url)
    assert analyze(with_images).memory_size.images_kb * 1024 == 4 * 3 * 3 + 5 * 5


def test_an_error_is_found_by_its_class_in_what_a_session_holds(url: str) -> None:
    kept("calls_in_parallel_and_errors", url)
    found = find_steps(Session("calls_in_parallel_and_errors", url), error=AgentToolExecutionError)
    assert found
    assert all(isinstance(step.error, AgentToolExecutionError) for step in found)


def test_each_call_of_a_managed_agent_is_a_session_to_look_at(url: str) -> None:
    agent = kept("with_a_managed_agent", url)
    [child] = Session("with_a_managed_agent", url).children()
    helper = agent.managed_agents["helper"]
    assert explain_difference(looked_at(helper), looked_at(Session(child, url))) is None
    assert analyze(Session(child, url)).tools.tool_usage == {"weather": 1, "final_answer": 1}
    assert "Rain in Paris" in to_markdown(Session(child, url))


def test_what_is_injected_by_hand_is_there_for_who_looks_later(url: str) -> None:
    run = RUNS["with_images"]()
    with Session("s", url).attach(run.agent) as session:
        run.agent.run(run.task, **run.options)
        inject_task(run.agent, "Another one.")
        inject_observation(run.agent, "The service was restarted at noon.")
        live = looked_at(run.agent)
        assert explain_difference(live, looked_at(session)) is None
    later = Session("s", url)
    assert explain_difference(live, looked_at(later)) is None
    assert [step.observations for step in find_steps(later, pattern="at noon")] == [
        "The service was restarted at noon."
    ]


def test_edits_between_steps_are_seen_once_they_are_flushed(url: str) -> None:
    run = RUNS["code_with_plans_and_errors"]()
    with Session("s", url).attach(run.agent) as session:
        run.agent.run(run.task)
        run.agent.memory.steps[2].observations = "cut"
        session.flush()
        of_agent, of_session = looked_at(run.agent), looked_at(session)
        assert of_agent.pop("replay") != of_session.pop("replay")  # which shows each step as it came
        assert explain_difference(of_agent, of_session) is None


@pytest.mark.parametrize("name", RUNS)
def test_another_agent_can_be_given_the_history_of_a_session(name: str, url: str) -> None:
    """It reads what the first one read, is journaled in its turn, and comes back as it was."""
    before = [(m.role, m.content) for m in kept(name, url).write_memory_to_messages()[1:]]  # without the system prompt
    heir = CodeAgent([], ScriptedModel(["Thought\n<code>\nfinal_answer(7)\n</code>"]), verbosity_level=-1)
    with Session("heir", url).attach(heir):
        inject_history(heir, Session(name, url))
        assert explain_difference(before, [(m.role, m.content) for m in heir.write_memory_to_messages()[1:]]) is None
        assert heir.run("And now?", reset=False) == 7
    assert explain_difference(before, messages(Session("heir", url))[: len(before)]) is None
    assert explain_difference(list(heir.memory.steps), Session("heir", url).steps()) is None
    assert explain_difference(looked_at(heir), looked_at(Session("heir", url))) is None


def test_a_briefing_of_a_session_goes_into_another_agent(url: str) -> None:
    kept("code_with_plans_and_errors", url)
    heir = CodeAgent([], ScriptedModel([]), verbosity_level=-1)
    notes = inject_history(heir, briefing(Session("code_with_plans_and_errors", url), max_tokens=300))
    assert "New task:\nTell me the weather." in notes[0].text
    assert "left out to save space" in notes[1].text


def test_the_pace_of_a_replay_is_that_of_the_run(url: str) -> None:
    """Pauses by the times that the session holds, twice as fast."""
    agent = finished("out_of_steps_code")
    for number, step in enumerate(each for each in agent.memory.steps if isinstance(each, ActionStep)):
        step.timing.start_time, step.timing.end_time = 100.0 + 2 * number, 101.0 + 2 * number
    with Session("s", url).attach(agent):
        assert isinstance(agent.memory.steps[0], TaskStep)
    pauses: list[float] = []
    quiet = AgentLogger(level=LogLevel.OFF)
    replay(Session("s", url), speed=2, logger=quiet, sleep=pauses.append)
    assert pauses == [1.0, 1.0]
