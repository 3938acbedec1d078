"""The transcript: every step that was ever journaled, in order, as it came and as it was left."""

from __future__ import annotations

import io
import random
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from agents import CALL_SCRIPT, CODE_SCRIPT, calling_agent, code_agent, photo
from PIL import Image
from rich.console import Console
from smolagents import AgentLogger, CodeAgent
from smolagents.memory import ActionStep, MemoryStep, TaskStep

from smolagents_memory import (
    CaptureScreenshot,
    KeepRecentSteps,
    MemoryLossWarning,
    NoteStep,
    PruneImages,
    Session,
    SessionDamagedError,
    SessionError,
    SessionNotFoundError,
    SummarizeOldSteps,
    TruncateObservations,
    compose,
    load_memory,
    replay,
    save_memory,
)
from smolagents_memory.sessions.reading import Reader
from smolagents_memory.steps.kinds import drop_inputs_of
from smolagents_memory.testing import ScriptedModel, code, explain_difference


def printing(count: int, last: Any = "done") -> list[Any]:
    return [*(code(f"print('page {n} ' + 'x' * 300)") for n in range(1, count)), code(f"final_answer({last!r})")]


def plain(script: Any, **options: Any) -> CodeAgent:
    return code_agent(script, planning_interval=None, max_steps=60, **options)


def kinds(steps: Any) -> list[str]:
    return [type(step).__name__ for step in steps]


def observing(agent: Any) -> list[MemoryStep]:
    """What comes into the agent's memory, as it was before any callback."""
    came: list[MemoryStep] = []
    for cls in (ActionStep,):
        callbacks = agent.step_callbacks._callbacks.setdefault(cls, [])
        callbacks.insert(0, lambda step, agent: came.append(_copy(step)))
    return came


def _copy(step: ActionStep) -> ActionStep:
    made = object.__new__(type(step))
    made.__dict__.update(step.__dict__)
    return made


@pytest.mark.parametrize("make", [code_agent, calling_agent])
def test_every_step_is_told_as_it_came_and_as_it_was_left(make: Any, url: str) -> None:
    """Runs that were reset, steps that were cut, dropped and summed up, edits by hand."""
    lean = compose(
        TruncateObservations(40),
        SummarizeOldSteps(ScriptedModel(["so far"] * 9), keep_last=1, every=3),
        KeepRecentSteps(2),
    )
    agent = make(step_callbacks=[lean], max_steps=20)
    came = observing(agent)
    session = Session("s", url)
    with session.attach(agent):
        for reset in (True, True, False):
            agent.model = ScriptedModel(CODE_SCRIPT if make is code_agent else CALL_SCRIPT)
            agent.run("Do it.", reset=reset)
        agent.memory.steps[-1].observations = "by hand"
        live = list(agent.memory.steps)
    transcript = session.transcript()
    told = list(transcript)
    assert len(told) == len(transcript)
    actions = [each.original for each in told if isinstance(each.original, ActionStep)]
    assert explain_difference(actions, came) is None
    left = [each.step for each in told if each.step is not None]
    assert len(left) == len(live)
    for step in live:  # a summary stands where the steps stood, but came later
        assert any(explain_difference(step, each) is None for each in left)
    assert [each.run for each in told if isinstance(each.original, TaskStep)] == [1, 2, 3]
    assert [each.run for each in told] == sorted(each.run or 0 for each in told)
    assert told[-1].left == "changed"
    assert {"dropped", "as it came"} <= {each.left for each in told}
    for place, step in enumerate(session.steps()):
        (entry,) = [each for each in told if each.step is not None and explain_difference(each.step, step) is None]
        assert explain_difference(session.original(place), entry.original) is None
    assert kinds(each.original for each in transcript[2:5]) == kinds(each.original for each in told[2:5])
    assert explain_difference(transcript[-1].original, told[-1].original) is None


def shots() -> Any:
    count = iter(range(99))
    return lambda: Image.new("RGB", (40, 30), (next(count), 0, 0))


@pytest.mark.parametrize(
    "callbacks",
    [
        lambda: [CaptureScreenshot(shots(), keep_last=1)],
        lambda: [CaptureScreenshot(shots(), keep_last=None), PruneImages(1, max_side=8)],
        lambda: [CaptureScreenshot(shots(), keep_last=0)],
        lambda: [compose(CaptureScreenshot(shots(), keep_last=None), PruneImages(0)), KeepRecentSteps(1)],
    ],
)
def test_screenshots_that_callbacks_took_are_in_the_original_and_smaller_copies_not(callbacks: Any, url: str) -> None:
    agent = plain(printing(5), step_callbacks=callbacks())
    session = Session("s", url)
    with session.attach(agent):
        agent.run("Look.", images=[photo()])
        last = session.original(agent.memory.steps[-1])
    told = [each.original for each in session.transcript() if isinstance(each.original, ActionStep)]
    for number, step in enumerate(told):
        own, taken = step.observations_images  # what `run(images=…)` puts on every step comes first
        assert own == photo()
        assert taken == Image.new("RGB", (40, 30), (number, 0, 0))
        assert "image" not in step.observations
    assert last.observations_images == told[-1].observations_images
    assert session.original(len(session.steps()) - 1).observations_images == told[-1].observations_images


def test_images_that_own_callbacks_put_in_the_place_of_others_are_there_too(url: str) -> None:
    def replace(step: Any, agent: Any) -> None:
        for earlier in agent.memory.steps:
            if isinstance(earlier, ActionStep):
                earlier.observations_images = None
        step.observations_images = [photo("green")]

    agent = plain(printing(4), step_callbacks=[replace])
    with Session("s", url).attach(agent) as session:
        agent.run("Look.", images=[photo()])
    told = [each for each in session.transcript() if isinstance(each.original, ActionStep)]
    assert [each.original.observations_images for each in told] == [[photo(), photo("green")]] * 4
    assert [each.step.observations_images for each in told if each.step] == [None, None, None, [photo("green")]]


def test_a_step_that_is_taken_out_and_put_in_again_is_one(url: str) -> None:
    agent = plain(printing(3), step_callbacks=[TruncateObservations(60)])
    with Session("s", url).attach(agent) as session:
        agent.run("Go.")
        steps = agent.memory.steps
        step = steps.pop(1)
        session.flush()
        step.observations = "moved"
        steps.append(step)
        steps.insert(0, NoteStep("first"))
    told = list(session.transcript())
    assert kinds(each.original for each in told) == ["TaskStep", *["ActionStep"] * 3, "NoteStep"]
    assert [each.left for each in told] == ["as it came", "changed", "changed", "as it came", "as it came"]
    assert "x" * 300 in told[1].original.observations
    assert told[1].step.observations == "moved"
    assert "x" * 300 in session.original(4).observations


def test_a_step_whose_callback_raised_is_told_though_it_never_came_into_memory(url: str) -> None:
    def broken(step: Any, agent: Any) -> None:
        if step.step_number == 2:
            raise OSError("a defect")

    agent = plain(printing(3), step_callbacks=[broken])
    session = Session("s", url)
    with session.attach(agent):
        with pytest.raises(OSError, match="defect"):
            agent.run("Go.")
        agent.memory.steps.append(NoteStep("after"))
    told = [(type(each.original).__name__, each.left) for each in session.transcript()]
    assert told == [
        ("TaskStep", "as it came"),
        ("ActionStep", "as it came"),
        ("ActionStep", "dropped"),
        ("NoteStep", "as it came"),
    ]


@pytest.mark.slow
def test_checkpoints_and_what_was_before_them_are_told(url: str) -> None:
    agent = plain([])
    session = Session("s", url)
    with session.attach(agent):
        for _ in range(3):
            for number in range(400):
                agent.memory.steps.append(NoteStep(str(number)))
            agent.memory.steps[:] = []
        agent.memory.reset()
        agent.memory.steps.append(NoteStep("last"))
    with session.database.reading() as connection:
        from smolagents_memory.sessions import directory

        assert directory.get(connection, "s").checkpoint > 0
    told = list(session.transcript())
    assert [each.original.text for each in told] == [str(number) for number in range(400)] * 3 + ["last"]
    assert [each.left for each in told] == ["dropped"] * 1200 + ["as it came"]


def test_a_fork_tells_what_had_come_until_then_and_goes_on_by_itself(url: str) -> None:
    agent = plain(printing(6), step_callbacks=[KeepRecentSteps(3)])
    session = Session("s", url)
    with session.attach(agent):
        agent.run("Go.")
    whole = session.fork("whole")
    cut = session.fork("cut", at=2)
    assert [each.left for each in whole.transcript()] == [each.left for each in session.transcript()]
    assert [each.original.step_number for each in cut.transcript()[1:]] == [1, 2, 3, 4, 5]
    other = plain([code("final_answer('elsewhere')")], step_callbacks=[KeepRecentSteps(3)])
    assert cut.resume(other) == "elsewhere"
    assert [each.original.step_number for each in cut.transcript()[1:]] == [1, 2, 3, 4, 5, 6]
    assert len(session.transcript()) == 7


def test_a_fork_that_an_older_version_made_tells_nothing_of_what_its_origin_did_later(tmp_path: Path) -> None:
    """It holds all of its origin's records."""
    agent = plain(printing(4))
    session = Session("s", tmp_path)
    with session.attach(agent):
        agent.run("Go.")
    fork = session.fork("f", at=1)
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        (old, new) = (row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY id"))
        [columns] = [", ".join(row[1] for row in connection.execute("PRAGMA table_info(session_records)"))]
        given = columns.replace("session", str(new), 1)
        last = connection.execute("SELECT max(number) FROM session_records WHERE session = ?", (new,)).fetchone()[0]
        connection.execute(
            f"INSERT INTO session_records ({columns}) SELECT {given} FROM session_records "
            f"WHERE session = {old} AND number > {last}"
        )
    assert len(fork.transcript()) == 2
    assert fork.resume(plain([code("final_answer(1)")])) == 1
    assert [each.left for each in fork.transcript()] == ["as it came"] * 3


def test_what_was_imported_loaded_or_adopted_is_told_by_its_runs(url: str, tmp_path: Path) -> None:
    agent = plain([*printing(3), *printing(3)])
    for reset in (True, False):
        agent.run("Go.", reset=reset)
    save_memory(agent, tmp_path / "run.jsonl")
    imported = Session("imported", url).import_(tmp_path / "run.jsonl")
    with Session("adopted", url).attach(agent) as adopted:
        pass
    with Session("loaded", url).attach(plain([])) as loaded:
        load_memory(tmp_path / "run.jsonl", agent=loaded._attachment.agent)  # type: ignore[union-attr]
    for session in (imported, adopted):
        assert [each.run for each in session.transcript()] == [1] * 4 + [2] * 4
        assert len(session.steps(run=1)) == 4
    assert len(loaded.transcript()) == 8
    for session in (imported, adopted, loaded):
        assert [each.left for each in session.transcript()] == ["as it came"] * 8
        assert explain_difference([each.original for each in session.transcript()], agent.memory.steps) is None


@pytest.mark.parametrize("concurrent", [False, True])
def test_calls_of_managed_agents_are_told(concurrent: bool, url: str) -> None:
    worker = plain(
        [*printing(4), *printing(4)], name="worker", description="Works.", step_callbacks=[KeepRecentSteps(1)]
    )
    manager = plain([code("worker('one')\nworker('two')"), code("final_answer(0)")], managed_agents=[worker], tools=[])
    session = Session("s", url, concurrent_calls=concurrent)
    with session.attach(manager):
        manager.run("Go.")
    for child in session.children():
        told = list(Session(child, url).transcript())
        assert kinds(each.original for each in told) == ["TaskStep", *["ActionStep"] * 4]
        assert [each.left for each in told[1:]] == ["dropped"] * 3 + ["as it came"]
        assert {each.run for each in told} == {1}


def test_what_is_damaged_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    agent = plain(printing(6), step_callbacks=[TruncateObservations(60), KeepRecentSteps(2)])
    session = Session("s", tmp_path)
    with session.attach(agent):
        agent.run("Go.")
    before = list(session.transcript())
    numbers = [row.number for row in session.transcript()._rows]
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        connection.execute("UPDATE session_records SET fields = X'00' WHERE number = ?", (numbers[2],))
    transcript = session.transcript()
    with pytest.warns(MemoryLossWarning, match=f"record {numbers[2]} "):
        told = list(transcript)
    for entry in [*told, *before]:
        drop_inputs_of(entry.original)  # the prompts of later steps quoted what is damaged now
    assert explain_difference([e.original for e in told], [e.original for e in before if e is not before[2]]) is None
    with pytest.raises(SessionDamagedError, match=f"record {numbers[2]} "):
        transcript[2]
    with sqlite3.connect(tmp_path / "memory.db") as connection:  # and what happened at a revision
        connection.execute("UPDATE session_journal SET changes = X'00' WHERE revision = 4")
    with pytest.warns(MemoryLossWarning, match="revision 4"):
        again = list(session.transcript())
    for entry in again:
        drop_inputs_of(entry.original)
    assert explain_difference([e.original for e in again], [e.original for e in told]) is None


def test_a_version_that_cannot_be_read_leaves_the_others_of_the_step(tmp_path: Path) -> None:
    agent = plain(printing(2))
    session = Session("s", tmp_path)
    with session.attach(agent):
        agent.run("Go.")
        agent.memory.steps[1].observations = "edited"
        session.flush()
        newest = session._attachment.journal.live[1].number  # type: ignore[union-attr]
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        connection.execute("UPDATE session_records SET fields = X'00' WHERE number = ?", (newest,))
    with pytest.warns(MemoryLossWarning, match=f"record {newest} "):
        told = session.transcript()[1]
    assert "x" * 300 in told.original.observations
    assert told.left == "as it came"  # what can be read of it


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError, match="no session 'nobody'"):
        Session("nobody", tmp_path).transcript()
    with Session("s", tmp_path).attach(plain([])) as session:
        assert list(session.transcript()) == []
        session._attachment.agent.memory.steps.append(NoteStep("a"))  # type: ignore[union-attr]
        with pytest.raises(IndexError):
            session.transcript()[5]
        with pytest.raises(SessionError, match="has 1 steps, none at place 5"):
            Session("s", tmp_path).original(5)


def test_replay_and_the_file_of_everything_hold_what_was_dropped(tmp_path: Path) -> None:
    agent = plain(printing(5), step_callbacks=[TruncateObservations(60), KeepRecentSteps(2)])
    with Session("s", tmp_path / "m").attach(agent) as session:
        agent.run("Go.", images=[photo()])
    assert len(load_memory(session.export(tmp_path / "some.jsonl")).steps) == 3
    loaded = load_memory(session.export(tmp_path / "all.jsonl.gz", all_steps=True))
    assert explain_difference(list(loaded.steps), [each.original for each in session.transcript()]) is None
    assert loaded.system_prompt == agent.memory.system_prompt
    screen = io.StringIO()
    replay(session, logger=AgentLogger(console=Console(file=screen, width=500)))
    assert all(f"page {number} " + "x" * 300 in screen.getvalue() for number in range(1, 5))


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 40])  # more and fewer than are read together
def test_a_long_transcript_takes_work_and_room_in_proportion(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session_of(count: int) -> Session:
        session = Session(f"s{count}", tmp_path)
        agent = plain([])
        with session.attach(agent):
            steps: list[Any] = [TaskStep("Go.")]
            for number in range(count):
                step = ActionStep(number, None, observations=random.Random(number).randbytes(500).hex())
                if number % every == 0:
                    shown = steps[-3:]
                    step.model_input_messages = [message for each in shown for message in each.to_messages()]
                steps.append(step)
            agent.memory.steps += steps
            for step in agent.memory.steps[1::2]:
                step.observations = step.observations[:50]
            session.flush()
            del agent.memory.steps[: count // 2]
        return session

    built = []
    build = Reader.build
    monkeypatch.setattr(Reader, "build", lambda self, number: built.append(number) or build(self, number))

    def measured(count: int) -> tuple[float, float]:
        session = session_of(count)
        built.clear()
        assert sum(1 for _ in session.transcript()) == count + 1
        work = len(built) / count
        tracemalloc.start()
        for _ in session.transcript():
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return work, peak / count

    (few, _), (work, peak) = measured(120), measured(720)
    assert work < 1.2 * few < 5
    assert peak < 6_000  # bytes a step, each of which holds 1,000 of text, its prompt three such
