"""Real runs of real agents on scripts, one for each thing that a history can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from PIL import Image
from smolagents import CodeAgent, MultiStepAgent, ToolCallingAgent, tool
from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory import NoteStep
from smolagents_memory.testing import ScriptedModel, call, code


PLAN = """## 1. Facts survey
### 1.1. Facts given in the task
- it is about weather
## 2. Plan
1. Ask for the weather.
2. [x] Answer.
"""


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: The city.
    """
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"Rain in {city}"


@dataclass
class Run:
    """An agent not yet run, and what to give to `run`."""

    agent: MultiStepAgent
    task: str = "Tell me the weather."
    options: dict[str, Any] = field(default_factory=dict)


def code_with_plans_and_errors(**options: Any) -> Run:
    script = [
        PLAN,
        code("place = 'Paris'\nprint(weather(place))"),
        code("x = weather('Oslo')\nweather('Atlantis')\nweather('Rome')"),
        PLAN.replace("Ask", "Ask again"),
        "This is no code at all.",
        code("import os\nos.remove('x')"),
        PLAN,
        code("final_answer(weather(city=place) + ' and ' + x)"),
    ]
    return Run(CodeAgent([weather], ScriptedModel(script), planning_interval=2, verbosity_level=-1, **options))


def calls_in_parallel_and_errors(**options: Any) -> Run:
    script = [
        PLAN,
        call("weather", city="Paris"),
        [call("weather", city="Paris"), call("weather", city="Oslo")],
        [call("weather", city="Paris"), call("weather", city="Atlantis")],
        PLAN,
        call("no_such_tool", x=1),
        call("weather", town="Paris"),
        "no call in this text",
        PLAN,
        call("final_answer", answer="Rain"),
    ]
    return Run(ToolCallingAgent([weather], ScriptedModel(script), planning_interval=3, verbosity_level=-1, **options))


def with_images(**options: Any) -> Run:
    images = [Image.new("RGB", (4, 3), "red"), Image.new("L", (5, 5))]
    script = [code("1 + 1"), code("final_answer({'n': 2})")]
    return Run(CodeAgent([], ScriptedModel(script), verbosity_level=-1, **options), options={"images": images})


def with_a_managed_agent(**options: Any) -> Run:
    helper = ToolCallingAgent(
        [weather],
        ScriptedModel([call("weather", city="Paris"), call("final_answer", answer="Rain in Paris")]),
        name="helper",
        description="Knows the weather.",
        verbosity_level=-1,
    )
    script = [code("report = helper(task='weather in Paris')\nprint(report)"), code("final_answer(report)")]
    agent = CodeAgent([], ScriptedModel(script), managed_agents=[helper], verbosity_level=-1, **options)
    return Run(agent)


def out_of_steps_code(**options: Any) -> Run:
    agent = CodeAgent(
        [weather],
        ScriptedModel([code("a = 1"), code("a += 1"), "It rains, I think."]),
        max_steps=2,
        verbosity_level=-1,
        **options,
    )
    return Run(agent)


def out_of_steps_calls(**options: Any) -> Run:
    script = [call("weather", city="Paris"), call("weather", city="Oslo"), "It rains, I think."]
    return Run(
        ToolCallingAgent([weather], ScriptedModel(script), verbosity_level=-1, **options), options={"max_steps": 2}
    )


def refused_answers(**options: Any) -> Run:
    def is_long(answer: Any, memory: Any, agent: Any = None) -> bool:
        return len(str(answer)) > 3

    script = [code("final_answer('no')"), code("final_answer('long enough')")]
    return Run(
        CodeAgent([], ScriptedModel(script), final_answer_checks=[is_long], verbosity_level=-1, **options),
        options={"additional_args": {"limit": 3}},
    )


def refused_calls(**options: Any) -> Run:
    def is_long(answer: Any, memory: Any, agent: Any = None) -> bool:
        return len(str(answer)) > 3

    script = [call("final_answer", answer="no"), call("final_answer", answer="long enough")]
    return Run(
        ToolCallingAgent([], ScriptedModel(script), final_answer_checks=[is_long], verbosity_level=-1, **options)
    )


def streamed(**options: Any) -> Run:
    script = [PLAN, code("x = weather('Paris')"), code("final_answer(x)")]
    return Run(
        CodeAgent(
            [weather],
            ScriptedModel(script),
            planning_interval=5,
            stream_outputs=True,
            verbosity_level=-1,
            **options,
        )
    )


def answers_none(**options: Any) -> Run:
    return Run(CodeAgent([], ScriptedModel([code("final_answer(None)")]), verbosity_level=-1, **options))


RUNS: dict[str, Callable[..., Run]] = {
    make.__name__: make
    for make in (
        code_with_plans_and_errors,
        calls_in_parallel_and_errors,
        with_images,
        with_a_managed_agent,
        out_of_steps_code,
        out_of_steps_calls,
        refused_answers,
        refused_calls,
        streamed,
        answers_none,
    )
}


def finished(name: str) -> MultiStepAgent:
    """The agent of that run, after it."""
    run = RUNS[name]()
    run.agent.run(run.task, **run.options)
    return run.agent


def odd_steps() -> list[Any]:
    """Steps as people make them by hand."""
    return [
        TaskStep(task="Odd things"),
        ActionStep(1, None),
        ActionStep(2, None, model_output=[{"type": "text", "text": "a list"}], observations=None),
        ActionStep(3, None, observations=404, tool_calls=[{"name": "weather", "arguments": {"city": "x"}, "id": "1"}]),
        ActionStep(4, None, tool_calls=[{"function": {"name": "weather", "arguments": '{"city": "y"}'}}]),
        ActionStep(
            None, None, code_action="this is ( not python", tool_calls=[ToolCall("python_interpreter", "x", "1")]
        ),
        ActionStep(6, None, code_action="x = " + "+".join(["1"] * 3000)),
        ActionStep(7, None, error=ValueError("not an agent's error"), observations="ill \ud800 formed"),
        ActionStep(8, None, model_output_message=ChatMessage(MessageRole.ASSISTANT, None), observations=""),
        PlanningStep([], None, None, None),
        PlanningStep([], ChatMessage(MessageRole.ASSISTANT, "p"), "- [ ] a\n- ~~b~~\n* ✓ c", None),
        NoteStep("A note", kind="summary"),
        FinalAnswerStep("an answer"),
    ]
