"""What was restored and is gone from the agent's memory is gone from the process."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from typing import Any

import numpy
import pytest
from agents import code_agent
from PIL import Image
from smolagents.memory import ActionStep, TaskStep

from smolagents_memory import Session
from smolagents_memory.sessions.attachment import store
from smolagents_memory.testing import code


def picture(seed: int) -> Image.Image:
    """A picture that nothing packs: 270 kB."""
    return Image.fromarray(numpy.random.default_rng(seed).integers(0, 256, (300, 300, 3), dtype=numpy.uint8))


@pytest.fixture
def filled(url: str) -> str:
    agent = code_agent([], planning_interval=None)
    with Session("s", url).attach(agent):
        for number in range(8):
            agent.model = code_agent([code(f"print('{number}' * 1000)"), code(f"final_answer({number})")]).model
            agent.run(f"task {number}", reset=False, images=[picture(number)])
    del agent
    gc.collect()
    return url


def prune(agent: Any) -> None:
    """As callbacks do it, but of everything."""
    for step in agent.memory.steps:
        if isinstance(step, TaskStep):
            step.task_images = None
        elif isinstance(step, ActionStep):
            step.observations_images = step.model_input_messages = None


def go_on(agent: Any) -> None:
    agent.model = code_agent([code("print(1)"), code("print(2)"), code("final_answer(3)")]).model
    agent.run("more", reset=False)


def alive(references: list[Any]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in references)


@pytest.mark.slow
def test_images_that_are_pruned_from_restored_steps_are_freed(filled: str) -> None:
    agent = code_agent([], planning_interval=None)
    tracemalloc.start()
    with Session("s", filled).attach(agent):
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        images = [weakref.ref(step.task_images[0]) for step in agent.memory.steps if isinstance(step, TaskStep)]
        assert alive(images) == 8
        go_on(agent)  # the model has seen them once more
        prune(agent)
        go_on(agent)
        assert alive(images) == 0
        assert tracemalloc.get_traced_memory()[0] < before + 500_000
    tracemalloc.stop()


@pytest.mark.slow
def test_the_bytes_of_restored_images_are_let_go_of_at_once(filled: str) -> None:
    agent = code_agent([], planning_interval=None)
    gc.collect()
    tracemalloc.start()
    with Session("s", filled).attach(agent):
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4 * 270_000  # the images' own pixels are not traced
    tracemalloc.stop()


@pytest.mark.slow
def test_restored_steps_that_are_dropped_are_freed(filled: str) -> None:
    agent = code_agent([], planning_interval=None)
    with Session("s", filled).attach(agent):
        steps = [weakref.ref(step) for step in agent.memory.steps]
        go_on(agent)
        del agent.memory.steps[: len(steps)]
        go_on(agent)
        assert alive(steps) == 0


@pytest.mark.slow
def test_the_texts_of_many_dropped_steps_are_freed(url: str) -> None:
    """Also where no input messages tell that they are of no use any more."""
    agent = code_agent([], planning_interval=None)
    agent.memory.steps = [TaskStep(task=f"{number} " * 5_000) for number in range(800)]
    store(Session("s", url), agent.memory, {}, None)
    agent = code_agent([], planning_interval=None)
    gc.collect()
    tracemalloc.start()
    with Session("s", url).attach(agent):
        del agent.memory.steps[5:]
        agent.memory.steps.append(TaskStep(task="one more"))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 3_000_000  # of 20 MB
    tracemalloc.stop()


def test_a_memory_that_is_only_written_lets_go_too(url: str) -> None:
    agent = code_agent([], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.model = code_agent([code("print(1)"), code("final_answer(2)")]).model
        agent.run("look", images=[picture(1)])
        images = [weakref.ref(agent.memory.steps[0].task_images[0])]
        prune(agent)
        go_on(agent)
        assert alive(images) == 0
