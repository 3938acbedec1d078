"""All that happens to memory is told by one memory, and is a span: steps, sessions, long-term memory, alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from PIL import Image
from smolagents import CodeAgent, Tool, local_python_executor
from smolagents.memory import ActionStep

from smolagents_memory import (
    AlertOnFailures,
    EnhancedAgentMemory,
    Event,
    PruneImages,
    Session,
    TypedMemory,
    save_memory,
    trace_events,
)
from smolagents_memory.testing import ScriptedModel, code


EVENTS = {
    "steps_changed",
    "step_edited",
    "system_prompt_changed",
    "pruned",
    "alert",
    "saved",
    "restored",
    "added",
    "recalled",
    "archived",
    "forgotten",
}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracers(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def show(step: ActionStep, agent: Any) -> None:
    """Every step comes with an image."""
    step.observations_images = [Image.new("L", (4, 4))]


def agent(*script: str) -> CodeAgent:
    callbacks = [show, PruneImages(keep_last=1), AlertOnFailures("[Dd]ivision", threshold=2)]
    model = ScriptedModel([code(each) for each in script])
    return CodeAgent([], model, step_callbacks={ActionStep: callbacks}, verbosity_level=-1)


def everything(memory: EnhancedAgentMemory, mine: CodeAgent, folder: Path) -> None:
    """Make each of EVENTS happen."""
    with memory.attach(mine):
        mine.run("What is three over zero?", reset=False)
        mine.memory.steps[1].observations = "edited by hand"
        mine.memory.flush()
        key = memory.remember("The launch code of the rocket is kept in the safe.")
        assert memory.recall("rocket launch code")
        memory.archive(key)
        memory.forget(key)
        save_memory(mine, folder / "run.jsonl")


def test_every_event_arrives_at_who_listens_to_it_and_at_who_listens_to_all(tmp_path: Path) -> None:
    """On a memory with a session: the first agent's run is saved, the second one's memory restored."""
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with Session("s", url).attach(agent("final_answer(1)")) as session:
        session._attachment.agent.run("First", reset=False)
    memory = EnhancedAgentMemory(vector=False, session=Session("s", url))
    heard: dict[str, list[Event]] = {name: [] for name in EVENTS}
    everything_heard: list[Event] = []
    offs = [memory.on(name, heard[name].append) for name in EVENTS]
    offs.append(memory.on("*", everything_heard.append))
    everything(memory, agent("3 / 0", "3 / 0", "final_answer(None)"), tmp_path)
    assert {name for name, events in heard.items() if events} == EVENTS
    for name, events in heard.items():
        assert [event for event in everything_heard if event.name == name] == events
    assert {event.name for event in everything_heard} == EVENTS
    assert heard["restored"][0].steps == 2
    assert {event.session for event in heard["saved"] if "session" in event.data} == {"s"}
    assert heard["saved"][-1].path
    [alert] = heard["alert"]
    assert alert.alert.kind == "failures"
    assert [event.query for event in heard["recalled"]] == ["rocket launch code"]
    assert len(heard["forgotten"][0].keys) == 1
    count = len(everything_heard)
    for off in offs:
        off()
        off()  # once more does no harm
    memory.remember("Nobody listens any more.")
    memory.steps.clear()
    assert len(everything_heard) == count


def test_every_event_is_a_span_and_no_text_of_it_leaves(
    exporter: InMemorySpanExporter, tracers: TracerProvider, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with Session("s", url).attach(agent("final_answer(1)")) as session:
        session._attachment.agent.run("First", reset=False)
    memory = EnhancedAgentMemory(vector=False, session=Session("s", url))
    stop = trace_events(memory, tracer_provider=tracers)
    everything(memory, agent("3 / 0", "3 / 0", "final_answer(None)"), tmp_path)
    spans = exporter.get_finished_spans()
    assert {span.name for span in spans} == {f"memory.{name}" for name in EVENTS}
    told = str([dict(span.attributes) for span in spans])
    for text in ("rocket", "edited by hand", "three over zero", "run.jsonl"):
        assert text not in told
    stop()
    exporter.clear()
    memory.remember("Nobody listens any more.")
    assert not exporter.get_finished_spans()


def test_all_of_them_hang_under_the_run_when_openinference_is_active(
    exporter: InMemorySpanExporter, tracers: TracerProvider, tmp_path: Path
) -> None:
    """Also what a tool remembers and recalls, and a state that is kept with the session, from inside the code."""
    pytest.importorskip("openinference.instrumentation.smolagents", reason="needs openinference")
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor

    if not hasattr(local_python_executor, "ThreadPoolExecutor"):
        pytest.skip("openinference needs a newer smolagents")

    class Note(Tool):
        name = "note"
        description = "Remembers and recalls."
        inputs: dict[str, Any] = {}
        output_type = "integer"

        def forward(self) -> int:
            memory.remember("The door is green.")
            return counts.update(lambda n: n + len(memory.recall("door")))

    counts = TypedMemory(0, name="counts")
    session = Session("s", f"sqlite:///{tmp_path / 'memory.db'}")
    memory = EnhancedAgentMemory(vector=False, session=session, learn=False)
    instrumentor = SmolagentsInstrumentor()
    instrumentor.instrument(tracer_provider=tracers)
    try:
        mine = CodeAgent([Note()], ScriptedModel([code("n = note()"), code("final_answer(n)")]), verbosity_level=-1)
        with memory.attach(mine):
            session.keep(counts)
            stops = [trace_events(source, tracer_provider=tracers) for source in (memory, counts)]
            assert mine.run("Go", reset=False) == 1
            for stop in stops:
                stop()
    finally:
        instrumentor.uninstrument()
    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
    ours = {span.name for span in spans.values() if span.name.startswith("memory.")}
    assert ours >= {f"memory.{name}" for name in ("steps_changed", "saved", "added", "recalled", "state_changed")}
    for span in spans.values():
        root = span
        while root.parent is not None:
            root = spans[root.parent.span_id]
        assert root.name == "CodeAgent.run", span.name
    later = TypedMemory(0, name="counts")
    plain = CodeAgent([], ScriptedModel([]), verbosity_level=-1)
    with Session("s", f"sqlite:///{tmp_path / 'memory.db'}").attach(plain) as again:
        again.keep(later)
    assert later.get() == 1
