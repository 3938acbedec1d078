"""The table of kinds: what it says is so, and a new class of steps is one entry in it."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from PIL import Image
from rich.console import Console
from smolagents import AgentLogger, memory
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep, Timing
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory import (
    AddContext,
    CaptureScreenshot,
    FitTokenBudget,
    NoteStep,
    ObservedMemory,
    PruneImages,
    TruncateObservations,
    analyze,
    briefing,
    conversation,
    find_steps,
    inject_history,
    load_memory,
    register_step,
    replay,
    save_memory,
    to_markdown,
)
from smolagents_memory.steps import kinds
from smolagents_memory.steps.kinds import Kind, add_kind, is_action, is_task, kind_of
from smolagents_memory.steps.rendering import text_message
from smolagents_memory.steps.texts import shown
from smolagents_memory.steps.tokens import messages_of, step_tokens
from smolagents_memory.testing import same


@dataclass
class SearchStep(MemoryStep):
    """A class that smolagents does not have."""

    query: str
    found: str
    timing: Timing | None = None
    pages: list[Any] = field(default_factory=list)
    model_input_messages: list[ChatMessage] | None = None

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        asked = text_message(MessageRole.ASSISTANT, f"Search: {self.query}")
        found = text_message(MessageRole.USER, self.found)
        found.content.extend({"type": "image", "image": image} for image in self.pages or ())
        return [asked, found]


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchStep]:
    """A step of the new class, which has its entry for the time of a test."""
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))
    add_kind(
        Kind(
            SearchStep,
            title="Search",
            text="found",
            came_back=True,
            said="query",
            images="pages",
        )
    )
    register_step(SearchStep, name="SearchStep")
    pages = [Image.new("RGB", (4, 3)), Image.new("RGB", (8, 6))]
    yield SearchStep("shop 503", "the pool is too small " * 100, Timing(1000.0, 1002.5), pages)
    kinds._kind_of_class.cache_clear()


def test_callbacks_prune_and_truncate_a_new_class(search: SearchStep) -> None:
    PruneImages(keep_last=1)(search)
    assert [page.size for page in search.pages] == [(8, 6)]
    assert search.found.endswith("\n[1 image removed]")
    TruncateObservations(200)(search)
    assert len(search.found) <= 200
    assert "characters cut" in search.found


def test_a_new_class_is_counted_and_estimated_anew_when_it_changes(search: SearchStep) -> None:
    assert messages_of(search) == 2
    before = step_tokens(search)
    assert before == pytest.approx(len("Search: shop 503" + search.found) / 4 + 0.5 + 2000)
    search.pages = []
    assert step_tokens(search) == before - 2000
    stats = analyze([search])
    assert stats.growth == [len("Search: shop 503" + search.found)]
    assert stats.seconds == 2.5


def test_a_budget_cuts_a_new_class_too(search: SearchStep) -> None:
    FitTokenBudget(300)(search)
    assert step_tokens(search) <= 300


def test_a_new_class_is_shown_found_exported_and_replayed(search: SearchStep) -> None:
    assert [message.content for message in conversation([search])] == ["Search: shop 503", search.found]
    assert find_steps([search, NoteStep("pool")], pattern="pool") == [search]
    report = to_markdown([search])
    assert "### Search · 1970-01-01 00:16:40 UTC · 2.50 s\n\n```text\nthe pool is" in report
    assert "*Image, 8 × 6*" in report
    out = io.StringIO()
    replay([search], logger=AgentLogger(console=Console(file=out, width=80)))
    assert "Search (assistant)" in out.getvalue()
    assert "Image, (8, 6)" in out.getvalue()
    assert analyze([search]).memory_size.images_kb * 1024 == 3 * (12 + 48)


def test_a_new_class_is_handed_to_another_agent(search: SearchStep) -> None:
    search.model_input_messages = [text_message(MessageRole.USER, "the whole prompt")]
    [copied] = inject_history([], [search])
    assert (copied.query, copied.model_input_messages) == ("shop 503", None)
    assert len(briefing([search])) == 2


def test_a_new_class_is_kept_in_files_that_can_be_read_without_its_entry(search: SearchStep, tmp_path: Path) -> None:
    live = ObservedMemory("You are helpful.")
    sent = [*live.system_prompt.to_messages(), *search.to_messages()]
    live.steps += [search, ActionStep(1, Timing(1.0), model_input_messages=sent)]
    path = save_memory(live, tmp_path / "run.jsonl")
    assert same(load_memory(path).steps, live.steps)
    del kinds._KINDS[SearchStep]
    kinds._kind_of_class.cache_clear()
    assert same(load_memory(path).steps, live.steps)


# -- the entries themselves ----------------------------------------------------------------------------------------


def test_every_class_of_smolagents_has_an_entry_and_every_entry_names_fields_that_are_there() -> None:
    """So that a class or a field that comes or goes with a newer smolagents is seen the day it does."""
    theirs = {cls for cls in vars(memory).values() if isinstance(cls, type) and issubclass(cls, MemoryStep)}
    assert {kind.cls for kind in kinds.OWN_KINDS} == (theirs - {MemoryStep}) | {NoteStep}
    for kind in kinds.OWN_KINDS:
        assert set(kind.shown) <= {each.name for each in dataclasses.fields(kind.cls)}
        assert kind.text in kind.shown


def test_a_subclass_is_of_its_bases_kind_and_measured_by_what_it_shows() -> None:
    @dataclass
    class Ticket(TaskStep):
        number: int = 0

        def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
            return [*super().to_messages(), text_message(MessageRole.USER, "x" * self.number)]

    step = Ticket("Mend it.")
    assert kind_of(step) is kind_of(TaskStep("Mend it."))
    assert is_task(step)
    assert not is_action(step)
    before = step_tokens(step)
    step.number = 4000
    assert step_tokens(step) == before + 1000


def test_what_is_no_step_at_all_is_of_no_known_kind() -> None:
    for value in (None, 3, "text", object()):
        assert kind_of(value).role == "note"
        assert kind_of(value).shown == ()


@given(step=strategies.steps)
@settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_step_shows_what_smolagents_renders_wherever_it_can(step: Any) -> None:
    """And something wherever it cannot; what is remembered of its size is what it has."""
    try:
        theirs = step.to_messages()
    except Exception:  # noqa: BLE001 - whatever an odd step raises
        assert all(isinstance(message, ChatMessage) for message in shown(step))
    else:
        assert repr(shown(step)) == repr(theirs)
    assert messages_of(step) == messages_of(step) == len(shown(step))


def test_a_dropped_input_is_what_the_class_itself_can_bear() -> None:
    """`PlanningStep.dict` fails on None."""
    for step, empty in (
        (ActionStep(1, Timing(0.0)), None),
        (PlanningStep([], text_message("user", "p"), "p", Timing(0.0)), []),
    ):
        kinds.drop_inputs_of(step)
        assert step.model_input_messages == empty
        step.dict()


def test_what_acts_on_actions_leaves_other_kinds_alone(search: SearchStep) -> None:
    before = search.found
    AddContext(lambda step: "status")(search)
    CaptureScreenshot(lambda: Image.new("RGB", (1, 1)), keep_last=None)(search)
    assert search.found == before
