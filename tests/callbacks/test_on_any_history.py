"""Arbitrary histories against every callback, and every pair of them in both orders."""

from __future__ import annotations

import copy
import itertools

import pytest
import strategies
from callback_runs import EVERY, check_valid, code_agent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from smolagents.memory import ActionStep, FinalAnswerStep, SystemPromptStep, TaskStep

from smolagents_memory import NoteStep, StepCallback, compose, is_pinned, pin


AGENT = code_agent([])
SYSTEM = SystemPromptStep(system_prompt="You are an agent. " * 20)

currents = st.one_of(
    strategies.action_steps, strategies.planning_steps, st.builds(FinalAnswerStep, output=strategies.texts)
)
longer = st.builds(
    lambda step, text, times: _said(step, text * times), strategies.action_steps, strategies.texts, st.integers(1, 300)
)
likely = st.one_of(  # what real runs are made of, so that everything has something to do
    longer,
    st.builds(
        TaskStep,
        task=st.sampled_from(["Look.", "Look again."]),
        task_images=st.none() | st.lists(strategies.images, max_size=2),
    ),
    st.builds(
        ActionStep,
        step_number=st.integers(1, 9),
        timing=st.none(),
        model_output=st.just("I look."),
        tool_calls=st.lists(strategies.tool_calls, min_size=1, max_size=3),
        observations=st.sampled_from(["200 OK", "503", "a long page " * 60, ""]),
        observations_images=st.none() | st.lists(strategies.images, max_size=2),
    ),
    st.builds(NoteStep, text=st.just("earlier things"), kind=st.sampled_from(["summary", "note"])),
)


def _said(step, text):
    step.observations = text
    return step


@st.composite
def histories(draw):
    steps = draw(st.lists(likely | strategies.steps, max_size=8))
    for step in steps:
        if draw(st.integers(0, 5)) == 0:
            pin(step)
    tasks = [step.task for step in steps if isinstance(step, TaskStep)]
    return steps, draw(longer | currents), draw(st.sampled_from([*tasks, "Look.", None]))


def load(history):
    """A fresh copy of the history in the agent: its steps are new, their values are shared and must not be changed."""
    steps, current, task = history
    AGENT.memory.system_prompt, AGENT.task = SYSTEM, task
    AGENT.memory.steps = [copy.copy(step) for step in steps]
    return copy.copy(current)


def state(current):
    return [(step, dict(step.__dict__)) for step in [*AGENT.memory.steps, current]]


def unchanged(before, after):
    return len(before) == len(after) and all(
        one is other and held.keys() == now.keys() and all(held[field] is now[field] for field in held)
        for (one, held), (other, now) in zip(before, after, strict=True)
    )


def renders(current):
    """Whether smolagents itself can show the model this memory."""
    AGENT.memory.steps.append(current)
    try:
        check_valid(AGENT.write_memory_to_messages())
    except Exception:  # noqa: BLE001 - a list for a model's output, arguments in a cycle: it raises many things
        return False
    finally:
        AGENT.memory.steps.pop()
    return True


def run(callback, history, defects):
    """Run the callback and check what must hold whatever it does."""
    defects.clear()
    current = load(history)
    before, valid = list(AGENT.memory.steps), renders(current)
    fields = {id(step): dict(step.__dict__) for step in before}
    callback(current, agent=AGENT)
    after = AGENT.memory.steps
    assert not defects, defects
    assert AGENT.memory.system_prompt is SYSTEM
    assert SYSTEM.__dict__ == {"system_prompt": "You are an agent. " * 20}
    tasks = [step for step in before if isinstance(step, TaskStep)]
    if tasks:
        wanted = None if AGENT.task is None else AGENT.task.strip()
        own = [step for step in tasks if fields[id(step)]["task"].strip() == wanted]  # before anything was added to it
        assert any(step is (own or tasks)[-1] for step in after), "the task of the run is gone"
    if isinstance(current, FinalAnswerStep) and before:
        assert after[-1] is before[-1], "the newest step is gone"
    for step in before:
        if is_pinned(step):
            assert any(step is kept for kept in after), "a pinned step is gone"
            if isinstance(current, FinalAnswerStep) or step is not before[-1]:
                assert step.__dict__.keys() == fields[id(step)].keys()
                assert all(value is fields[id(step)][field] for field, value in step.__dict__.items())
    for step in after:
        if id(step) in fields and isinstance(step, ActionStep):
            said = fields[id(step)]
            assert step.tool_calls is said["tool_calls"]
            assert step.error is said["error"]
            assert (step.observations is None) <= (said["observations"] is None), "an answer is gone"
    if valid:
        assert renders(current), "smolagents cannot show this memory any more"
    return current


@pytest.fixture
def defects(monkeypatch):
    found = []
    monkeypatch.setattr(StepCallback, "report", lambda self, defect, *rest, **more: found.append((self, repr(defect))))
    return found


def unmutated(history):
    return [
        (dict(step.__dict__), [list(v) if isinstance(v, list) else v for v in step.__dict__.values()])
        for step in [*history[0], history[1]]
    ]


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories())
@pytest.mark.parametrize("name", EVERY)
def test_one_callback_keeps_what_must_be_kept_and_a_second_time_changes_nothing(name, history, defects):
    values = unmutated(history)
    callback = EVERY[name]()
    current = run(callback, history, defects)
    once = state(current)
    callback(current, agent=AGENT)
    assert not defects, defects
    assert unchanged(once, state(current)), f"{name} did something more the second time"
    again = unmutated(history)
    for (fields, lists), (now, now_lists) in zip(values, again, strict=True):
        assert fields.keys() == now.keys()
        for one, other in zip(lists, now_lists, strict=True):
            assert one is other or (isinstance(one, list) and all(a is b for a, b in zip(one, other, strict=True)))


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories())
def test_every_pair_in_both_orders_keeps_what_must_be_kept(history, defects):
    made = {name: make() for name, make in EVERY.items()}
    for first, second in itertools.permutations(made.values(), 2):
        run(compose(first, second), history, defects)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(step=longer | currents)
def test_a_step_without_an_agent_is_no_trouble_either(step, defects):
    for make in EVERY.values():
        make()(copy.copy(step))
        make()(copy.copy(step), agent=None)
    assert not defects, defects
