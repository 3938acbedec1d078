"""Events as OpenTelemetry spans and metrics."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from histories import RUNS
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from smolagents import CodeAgent, Tool, local_python_executor
from smolagents.memory import AgentMemory, TaskStep

from smolagents_memory import Event, Events, ObservedMemory, TypedMemory, iter_steps, trace_events
from smolagents_memory.testing import ScriptedModel, code


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracers(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def observed(agent: Any) -> Any:
    agent.memory = ObservedMemory(agent.system_prompt)
    return agent


def test_every_event_of_a_run_is_a_span_without_any_text_of_it(
    exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """How many steps, of which classes: what they say stays here."""
    run = RUNS["code_with_plans_and_errors"]()
    told: list[Event] = []
    observed(run.agent).memory.on("*", told.append)
    trace_events(run.agent, tracer_provider=tracers)
    run.agent.run(run.task)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [f"memory.{event.name}" for event in told]
    plan = next(span for span in spans if span.attributes["smolagents_memory.added.kinds"] == ("PlanningStep",))
    assert plan.attributes["smolagents_memory.added"] == 1
    assert plan.attributes["smolagents_memory.source"] == "ObservedMemory"
    for text in ("weather", "Paris", "Oslo"):
        assert text not in str([dict(span.attributes) for span in spans])


def test_events_are_counted_and_timed(tracers: TracerProvider, exporter: InMemorySpanExporter) -> None:
    reader = InMemoryMetricReader()
    events = Events()
    stop = trace_events(events, tracer_provider=tracers, meter_provider=MeterProvider([reader]))
    events.emit("recalled", source=None, seconds=0.25, hits=[1, 2], query="secret")
    events.emit("recalled", source=None, seconds=0.75)
    stop()
    events.emit("recalled", source=None)
    metrics = {
        metric.name: metric.data.data_points[0]
        for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics
        for metric in scope.metrics
    }
    assert metrics["smolagents_memory.events"].value == 2
    assert metrics["smolagents_memory.events"].attributes["smolagents_memory.event"] == "recalled"
    assert metrics["smolagents_memory.event.duration"].sum == 1.0
    first, second = exporter.get_finished_spans()
    assert first.end_time - first.start_time == pytest.approx(0.25e9, abs=1e3)
    assert first.attributes["smolagents_memory.hits"] == 2
    assert "secret" not in str(dict(first.attributes))
    assert second.attributes["smolagents_memory.seconds"] == 0.75


def test_more_attributes_can_be_given(exporter: InMemorySpanExporter, tracers: TracerProvider) -> None:
    state = TypedMemory({"visits": 0}, name="counts")
    trace_events(state, tracer_provider=tracers, attributes=lambda event: {"state": event.source.name})
    state.set({"visits": 1})
    [span] = exporter.get_finished_spans()
    assert span.name == "memory.state_changed"
    assert span.attributes["state"] == "counts"
    assert span.attributes["smolagents_memory.revision"] == 1


def test_a_failing_exporter_or_attribute_disturbs_nobody(tracers: TracerProvider) -> None:
    state = TypedMemory(0)
    trace_events(state, tracer_provider=tracers, attributes=lambda event: {"x": 1 / 0})
    state.set(1)
    assert state.get() == 1


def test_spans_are_nested_under_the_agents_run_when_openinference_is_active(
    exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """Also for events told from a tool, inside the thread that runs the agent's code."""
    pytest.importorskip("openinference.instrumentation.smolagents", reason="needs openinference")
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor

    if not hasattr(local_python_executor, "ThreadPoolExecutor"):
        pytest.skip("openinference needs a newer smolagents")

    class Note(Tool):
        name = "note"
        description = "Counts."
        inputs = {}
        output_type = "string"

        def forward(self) -> str:
            return str(counts.update(lambda n: n + 1))

    counts = TypedMemory(0, name="counts")
    instrumentor = SmolagentsInstrumentor()
    instrumentor.instrument(tracer_provider=tracers)
    try:
        script = ScriptedModel([code("note()"), code("final_answer(2)")])
        agent = observed(CodeAgent([Note()], script, verbosity_level=-1))
        trace_events(agent, tracer_provider=tracers)
        trace_events(counts, tracer_provider=tracers)
        agent.run("Go")
    finally:
        instrumentor.uninstrument()
    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
    [run] = [span for span in spans.values() if span.name == "CodeAgent.run"]
    ours = [span for span in spans.values() if span.name.startswith("memory.")]
    assert {span.name for span in ours} >= {"memory.steps_changed", "memory.state_changed"}
    assert all(span.context.trace_id == run.context.trace_id for span in ours)
    [change] = [span for span in ours if span.name == "memory.state_changed"]
    lineage = []
    parent = change.parent
    while parent is not None:
        lineage.append(spans[parent.span_id].name)
        parent = spans[parent.span_id].parent
    assert lineage[-2:] == ["Step 1", "CodeAgent.run"]


def test_a_run_step_by_step_leaves_no_span_of_openinference_open(
    exporter: InMemorySpanExporter, tracers: TracerProvider
) -> None:
    """Its tracer makes a run's span current when `run` is called; stopping between steps must not leave it there."""
    pytest.importorskip("openinference.instrumentation.smolagents", reason="needs openinference")
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor

    if not hasattr(local_python_executor, "ThreadPoolExecutor"):
        pytest.skip("openinference needs a newer smolagents")

    instrumentor = SmolagentsInstrumentor()
    instrumentor.instrument(tracer_provider=tracers)
    try:
        agent = CodeAgent([], ScriptedModel([code("x = 1"), code("final_answer(x)")]), verbosity_level=-1)
        steps = iter_steps(agent, "Go")
        next(steps)
        assert not trace.get_current_span().get_span_context().is_valid
        list(steps)
    finally:
        instrumentor.uninstrument()
    assert [span.name for span in exporter.get_finished_spans() if span.name.startswith("Step")] == [
        "Step 1",
        "Step 2",
    ]
    assert steps.answer == 1


def test_without_an_sdk_nothing_is_listened_to_and_nothing_imported() -> None:
    """In a process of its own: other tests may have set up an SDK."""
    script = """
import sys
from smolagents_memory import ObservedMemory, trace_events
from smolagents_memory.insight import telemetry
assert "opentelemetry.trace" not in sys.modules, "the API is imported before it is needed"
memory = ObservedMemory("p")
stop = trace_events(memory)
assert not memory.events.has_listeners("steps_changed")
assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
stop()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_global_sdk_is_used_when_there_is_one() -> None:
    script = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from smolagents.memory import TaskStep
from smolagents_memory import ObservedMemory, trace_events
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
memory = ObservedMemory("p")
trace_events(memory)
memory.steps.append(TaskStep("x"))
assert [span.name for span in exporter.get_finished_spans()] == ["memory.steps_changed"]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_tells_no_events_is_refused() -> None:
    for silent in (AgentMemory("p"), CodeAgent([], ScriptedModel([]), verbosity_level=-1), TaskStep("x")):
        with pytest.raises(TypeError, match="tells no events"):
            trace_events(silent)
