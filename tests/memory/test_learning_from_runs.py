"""What a run taught is there for the next one, in another process, without storing again what was recalled."""

from __future__ import annotations

import contextlib
import copy
import pickle
import textwrap

import pytest
from program import python
from smolagents import CodeAgent, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, TaskStep, Timing
from smolagents.utils import AgentError

from smolagents_memory import (
    EnhancedAgentMemory,
    NoteStep,
    RecallTool,
    Reflector,
    Session,
    StoreError,
    TimestampObservations,
    TruncateObservations,
    iter_steps,
)
from smolagents_memory.testing import ScriptedModel, call, code


TASK = "Fetch the quarterly report of the Zorblax branch."

FIRST = """
    from smolagents import ToolCallingAgent, Tool
    from smolagents_memory import EnhancedAgentMemory, RecallTool
    from smolagents_memory.testing import ScriptedModel, call

    class Fetch(Tool):
        name = "fetch_report"
        description = "Fetches a report."
        inputs = {"branch": {"type": "string", "description": "x"}, "format": {"type": "string", "description": "x"}}
        output_type = "string"

        def forward(self, branch: str, format: str) -> str:
            if format != "parquet":
                raise ValueError(f"the format {format} is not available, only parquet is")
            return f"report of {branch}: revenue 1,234,567"

    memory = EnhancedAgentMemory(PATH, auto_recall=AUTO)

    def script():
        if RUN == 1:
            yield call("fetch_report", branch="Zorblax", format="csv")
            yield call("fetch_report", branch="Zorblax", format="xlsx")
            yield call("fetch_report", branch="Zorblax", format="parquet")
            yield call("final_answer", answer="1,234,567")
        else:
            if not AUTO:
                yield call("recall", query="fetch quarterly report Zorblax")

            def informed(messages):  # acts on what it reads, as a model would
                text = str([m.content for m in messages])
                return call("fetch_report", branch="Zorblax", format="parquet" if "parquet" in text else "csv")

            yield informed
            yield call("final_answer", answer="1,234,567")

    agent = ToolCallingAgent(tools=[Fetch(), RecallTool(memory)], model=ScriptedModel(script()), verbosity_level=0)
    memory.attach(agent)
    agent.run(TASK)
    steps = [s for s in agent.memory.steps if hasattr(s, "step_number")]
    notes = [s for s in agent.memory.steps if type(s).__name__ == "NoteStep"]
    print(len(steps), sum(s.error is not None for s in steps), len(notes))
    memory.close()
"""


@pytest.mark.parametrize("auto", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_a_failed_task_is_solved_in_fewer_steps_in_a_new_process(tmp_path, auto):
    """With one recall; with auto-recall without any."""

    def run(number):
        head = f"PATH, AUTO, RUN, TASK = {str(tmp_path)!r}, {auto}, {number}, {TASK!r}\n"
        done = python(head + textwrap.dedent(FIRST))
        return tuple(map(int, done.stdout.split()[-3:]))

    assert run(1) == (4, 2, 0)
    assert run(2) == (2 if auto else 3, 0, 1 if auto else 0)


@pytest.fixture
def memory(tmp_path):
    with EnhancedAgentMemory(tmp_path, auto_recall=3) as memory:
        yield memory


def kept(memory, kind):
    return [record.value for record in memory.long_term.keeper.records() if record.kind == kind]


def coder(memory, script, **options):
    agent = CodeAgent(tools=[RecallTool(memory)], model=ScriptedModel(script), verbosity_level=0, **options)
    memory.attach(agent)
    return agent


def test_a_code_agents_run_leaves_task_actions_failures_and_the_code_that_solved_it(memory):
    """Each as a memory of its own kind, neighbours under the run's source."""
    coder(memory, [code("x = 1 / 0"), code("print(6 * 7)"), code("final_answer(42)")]).run("Compute the answer.")
    assert kept(memory, "outcome") == ["Task: Compute the answer.\nOutcome: 42"]
    assert kept(memory, "solution") == [
        "Task: Compute the answer.\nCode that solved it:\nprint(6 * 7)\nfinal_answer(42)"
    ]
    assert kept(memory, "action") == ["code: print(6 * 7) → 42"]
    assert "division by zero\nWhat then worked: code: print(6 * 7)" in kept(memory, "failure")[0]
    assert len({record.source for record in memory.long_term.keeper.records()}) == 1


def test_the_same_run_again_adds_no_second_copy(memory):
    """It strengthens what is there."""
    script = [code("print(6 * 7)"), code("final_answer(42)")]
    coder(memory, script).run("Compute the answer.")
    before = memory.stats().memories
    coder(memory, script).run("Compute the answer.")
    assert memory.stats().memories == before
    assert (
        memory.long_term.keeper.bank.get_many([record.key for record in memory.long_term.keeper.records()])[
            next(r.key for r in memory.long_term.keeper.records() if r.kind == "solution")
        ].uses
        >= 1
    )


def test_what_recall_brought_in_is_never_stored_again(memory):
    """Neither through the tool, nor by auto-recall, nor when the answer repeats it."""
    fact = "The northern gate of the plant opens only with the orange badge."
    memory.remember(fact)
    agent = coder(memory, [code("print(recall('northern gate badge'))"), code(f"final_answer({fact!r})")])
    agent.run("How does the northern gate of the plant open?")
    assert any(isinstance(step, NoteStep) and fact in step.text for step in agent.memory.steps)
    holding = [record.value for record in memory.long_term.keeper.records() if "orange badge" in record.value]
    assert holding == [fact]
    assert not [record for record in memory.long_term.keeper.records() if "quoted as data" in record.value]


def test_auto_recall_puts_one_note_after_the_task_and_nothing_when_nothing_is_relevant(memory):
    """Quoted, within the budget, by relevance and not always k."""
    memory.remember("The coffee machine on floor three needs descaling every week.", source="manual")
    memory.remember("Parking permits are renewed in March.")
    agent = coder(memory, [code("final_answer('weekly')")])
    agent.run("How often does the coffee machine need descaling?")
    kinds = [type(step).__name__ for step in agent.memory.steps]
    assert kinds == ["TaskStep", "NoteStep", "ActionStep"]
    assert "> The coffee machine on floor three" in agent.memory.steps[1].text
    assert "Parking" not in agent.memory.steps[1].text
    memory.detach()
    agent = coder(memory, [code("final_answer('H2O')")])
    agent.run("Name the chemical formula of benzene.")
    assert [type(step).__name__ for step in agent.memory.steps] == ["TaskStep", "ActionStep"]


def test_auto_recall_keeps_to_its_budget(tmp_path):
    """Tokens are characters / 4."""
    with EnhancedAgentMemory(tmp_path, auto_recall=20, budget=150) as memory:
        memory.remember_many(f"The turbine in hall {n} needs oil of grade {n} every spring." for n in range(20))
        agent = coder(memory, [code("final_answer(1)")])
        agent.run("Which oil does the turbine in hall 3 need?")
        note = agent.memory.steps[1]
        assert 40 < len(note.text) / 4 <= 150


def test_recall_on_every_step_brings_each_memory_once(tmp_path):
    """What an observation is about is looked up as well."""
    with EnhancedAgentMemory(tmp_path, auto_recall=2, recall_on="step") as memory:
        memory.remember("Error E42 of the boiler means that the filter is clogged; rinse it with warm water.")
        agent = coder(
            memory,
            [
                code("print('boiler says: error E42')"),
                code("print('still E42 boiler error')"),
                code("final_answer(1)"),
            ],
        )
        agent.run("Look at the machine room.")
        notes = [step for step in agent.memory.steps if isinstance(step, NoteStep)]
        assert len(notes) == 1
        assert "rinse it" in notes[0].text


def test_an_interrupted_run_is_learnt_from_as_well(memory):
    """A run that dies leaves what it had found out."""
    agent = coder(memory, [code("print('the valve is rusty')"), RuntimeError("the model is gone")])
    with pytest.raises(AgentError):
        agent.run("Inspect the valve of the pump.")
    assert any("valve is rusty" in text for text in kept(memory, "action"))
    assert kept(memory, "unsolved")


def test_use_in_the_next_step_feeds_the_ranking(memory):
    """Without anybody saying so."""
    key = memory.remember("Use the proxy gatekeeper.internal:8080 for downloads.")
    other = memory.remember("Downloads of posters are stored on the attic shelf.")
    coder(
        memory, [code("proxy = 'gatekeeper.internal:8080'\nprint('downloads use ' + proxy)"), code("final_answer(1)")]
    ).run("Which proxy is used for downloads?")
    assert memory.long_term.get(key).useful == 1
    assert memory.long_term.get(other).useful == 0


def test_a_reflector_distils_lessons_and_its_failure_costs_nothing_else(tmp_path, caplog):
    """With a model that answers in lines, and with one that fails."""
    for script, lessons in (["- Ask for parquet.\n- Sums are in euros."], 2), ([RuntimeError("no")], 0):
        path = tmp_path / str(lessons)
        with EnhancedAgentMemory(path, reflector=Reflector(ScriptedModel(script))) as memory:
            coder(memory, [code("final_answer(1)")]).run("Get the sums.")
            assert len(kept(memory, "lesson")) == lessons
            assert kept(memory, "outcome")
    assert "no lessons were distilled" in caplog.text


class Lookup(Tool):
    name = "lookup"
    description = "Looks up."
    inputs = {"word": {"type": "string", "description": "x"}}
    output_type = "string"

    def forward(self, word: str) -> str:
        return f"{word} means water"


def test_summary_and_history_say_what_was_done(memory):
    """Task, calls, failures, outcome; in a model's words if one is given."""
    agent = ToolCallingAgent(
        tools=[Lookup()],
        model=ScriptedModel([call("lookup", word="aqua"), call("nothing"), call("final_answer", answer="water")]),
        verbosity_level=0,
    )
    memory.attach(agent)
    agent.run("What does aqua mean?")
    text = memory.summary()
    for expected in (
        "Task: What does aqua mean?",
        "lookup(word='aqua') → aqua means water",
        "failed: ",
        "Outcome: water",
    ):
        assert expected in text
    assert memory.create_summary(ScriptedModel(["It was about water."])) == "It was about water."
    history = memory.tool_call_history()
    assert (history[0]["tool"], history[0]["arguments"], history[0]["result"]) == (
        "lookup",
        {"word": "aqua"},
        "aqua means water",
    )
    assert history[1]["error"]


def test_a_memory_without_a_task_is_summed_up_as_well():
    """An empty one, and one that nobody gave a task."""
    memory = EnhancedAgentMemory(vector=False)
    assert memory.summary() == "Nothing has happened yet."
    memory.add_message("assistant", "hello")
    assert "Before the first task" in memory.summary()


def test_a_copy_is_of_working_memory_alone():
    """Locks and databases are not copied."""
    memory = EnhancedAgentMemory(system_prompt="Be kind.", vector=False)
    memory.add_message("user", "hello")
    for copied in (copy.copy(memory), copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert [step.task for step in copied.steps] == ["hello"]
        assert copied.system_prompt.system_prompt == "Be kind."


def test_attaching_keeps_the_steps_and_the_system_prompt():
    """It takes the place of a memory that is in use."""
    agent = CodeAgent(
        tools=[], model=ScriptedModel([code("final_answer(1)"), code("final_answer(2)")]), verbosity_level=0
    )
    agent.run("one")
    memory = EnhancedAgentMemory(vector=False)
    assert memory.attach(agent) is agent.memory
    agent.run("two", reset=False)
    assert [step.task for step in memory.steps if isinstance(step, TaskStep)] == ["one", "two"]
    assert kept(memory, "outcome") == ["Task: two\nOutcome: 2"]
    memory.close()


def test_what_callbacks_added_and_questions_to_memory_are_not_learnt(hashed):
    """A stamp is no experience, and neither is having found nothing in memory."""
    memory = EnhancedAgentMemory(embedder=hashed)
    script = [code("print(recall('the Zorblax report'))"), code("print('revenue 1,234,567')"), code("final_answer(1)")]
    stamps = [TimestampObservations(format="stamped at %H")]
    agent = CodeAgent([RecallTool(memory)], ScriptedModel(script), step_callbacks=stamps, verbosity_level=-1)
    memory.attach(agent)
    agent.run("Read the Zorblax report.")
    learnt = [str(hit.value) for hit in memory.recall("Zorblax report revenue", 20)]
    assert any("→ revenue 1,234,567" in text for text in learnt)
    assert not any("Nothing was found" in text or "stamped" in text for text in learnt)


FACT = "The coffee machine on floor three needs descaling every week."
COFFEE = "How often does the coffee machine need descaling?"
WEEKLY = [code("print('the valve is rusty')"), code("final_answer('weekly')")]


def by_stream(agent, task=COFFEE):
    list(agent.run(task, stream=True))


def by_steps(agent, task=COFFEE):
    list(iter_steps(agent, task))


def by_steps_taken_up_each_time(agent, task=COFFEE):
    steps = iter_steps(agent, task)
    while next(steps, None) is not None:
        steps = iter_steps(agent)


def by_hand(agent, task=COFFEE):
    agent.memory.steps.append(TaskStep(task=task))
    agent.python_executor.send_tools(agent.tools)
    for number in range(1, 9):
        step = ActionStep(step_number=number, timing=Timing(start_time=0.0))
        output = agent.step(step)
        agent.memory.steps.append(step)
        if output.is_final_answer:
            return


@pytest.mark.parametrize("way", [by_stream, by_steps, by_steps_taken_up_each_time, by_hand])
def test_a_run_is_recalled_for_and_learnt_from_however_it_is_made(memory, way):
    """The note stands right after the task when the model is first asked; the whole run is learnt, once."""
    memory.remember(FACT)
    agent = coder(memory, WEEKLY)
    way(agent)
    kinds = [type(step).__name__ for step in agent.memory.steps]
    assert kinds == ["TaskStep", "NoteStep", "ActionStep", "ActionStep"]
    assert FACT in agent.model.calls[0].text
    assert kept(memory, "outcome") == [f"Task: {COFFEE}\nOutcome: weekly"]
    assert [text for text in kept(memory, "action") if "valve" in text]
    assert kept(memory, "unsolved") == []
    assert len({record.source for record in memory.long_term.keeper.records() if record.kind != "memory"}) == 1


@pytest.mark.parametrize("way", [by_steps, by_hand])
def test_a_run_that_is_left_between_two_steps_is_learnt_from_when_the_next_begins(memory, way):
    """Nobody says that it is over."""
    script = [code("print('the valve is rusty')"), ConnectionError("down"), code("final_answer(1)")]
    agent = coder(memory, script)
    with pytest.raises(AgentError, match="down"):
        way(agent, "Inspect the pump.")
    agent.run("And the door?")
    assert any("valve is rusty" in text for text in kept(memory, "action"))
    assert any("Inspect the pump" in text for text in kept(memory, "unsolved"))
    assert kept(memory, "outcome") == ["Task: And the door?\nOutcome: 1"]


@pytest.mark.parametrize("made", [0, 1])
def test_a_run_that_is_resumed_in_a_new_process_learns_and_recalls_like_any_other(tmp_path, made):
    """Died before its first step it has no note yet; died later it has one, and gets no second."""

    def remembering(script):
        session = Session("s", f"sqlite:///{tmp_path}/sessions.db")
        memory = EnhancedAgentMemory(tmp_path / "long", auto_recall=3, session=session)
        return memory, coder(memory, script)

    memory, first = remembering([*WEEKLY[:made], RuntimeError("killed")])
    memory.remember(FACT)
    if made:
        with pytest.raises(AgentError):
            first.run(COFFEE, reset=False)
    else:
        first.run(COFFEE, reset=False, stream=True).close()  # its task is in memory, its loop was never begun
    memory.close()
    memory, later = remembering(WEEKLY[made:])
    assert memory.session.resume(later) == "weekly"
    notes = [n for n, step in enumerate(later.memory.steps) if isinstance(step, NoteStep)]
    assert notes == [1]
    assert FACT in later.model.calls[0].text
    assert kept(memory, "outcome") == [f"Task: {COFFEE}\nOutcome: weekly"]
    assert [text for text in kept(memory, "action") if "valve" in text]
    uses = memory.long_term.keeper.records()
    assert memory.session.resume(later) == "weekly"  # a run that has its answer is not learnt from again
    assert list(memory.long_term.keeper.records()) == list(uses)
    memory.close()


def test_a_run_that_failed_and_goes_on_in_the_same_process_is_learnt_to_its_end(memory):
    """What it came to in the end is known, too."""
    agent = coder(memory, [WEEKLY[0], ConnectionError("down"), WEEKLY[1]])
    with pytest.raises(AgentError):
        agent.run("Inspect the valve.")
    assert kept(memory, "outcome") == []
    list(iter_steps(agent))
    assert kept(memory, "outcome") == ["Task: Inspect the valve.\nOutcome: weekly"]


def test_what_fails_in_learning_never_breaks_a_run(memory, caplog, mocker):
    """It is logged."""
    mocker.patch.object(memory.long_term, "remember", side_effect=ZeroDivisionError("a defect"))
    mocker.patch.object(memory.long_term, "recall", side_effect=ZeroDivisionError("a defect"))
    assert coder(memory, WEEKLY).run("Inspect the valve.") == "weekly"
    assert "Learning failed at run_begins" in caplog.text
    assert "Learning failed at run_ends" in caplog.text
    mocker.stopall()


def interrupted(*_):
    raise KeyboardInterrupt


def failing(*_):
    raise RuntimeError("no lesson")


@pytest.mark.parametrize(
    ("reflector", "lessons"),
    [
        (failing, []),
        (lambda *_: None, []),
        (lambda *_: [None], []),
        (lambda *_: [{"text": 5}], []),
        (lambda *_: "Ask for parquet.", ["Ask for parquet."]),
        (lambda *_: ["Ask for parquet."], ["Ask for parquet."]),
        (lambda *_: (each for each in ["Ask for parquet."]), ["Ask for parquet."]),
    ],
)
def test_a_reflector_of_ones_own_costs_its_lessons_at_most(reflector, lessons, hashed):
    """Whatever it raises or returns."""
    with EnhancedAgentMemory(embedder=hashed, reflector=reflector) as memory:
        coder(memory, [code("print('the valve is rusty')"), code("final_answer(1)")]).run("Inspect the valve.")
        assert kept(memory, "outcome")
        assert kept(memory, "action")
        assert kept(memory, "lesson") == lessons


def test_a_reflector_that_is_interrupted_costs_its_lessons_at_most(hashed):
    """The plain experiences are kept before a model is asked."""
    with EnhancedAgentMemory(embedder=hashed, reflector=interrupted) as memory:
        agent = coder(memory, [code("final_answer(1)")])
        with pytest.raises(KeyboardInterrupt):
            agent.run("Inspect the valve.")
        assert kept(memory, "outcome")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("the database is locked")])
@pytest.mark.parametrize("later", ["the next run", "the close"])
def test_what_could_not_be_written_when_a_run_ended_is_written_later(error, later, tmp_path, hashed, mocker):
    """An interruption of the embedder, or a place that is locked, costs nothing of it."""
    memory = EnhancedAgentMemory(tmp_path / "m", embedder=hashed)
    agent = coder(memory, [code("final_answer('rusty')"), code("final_answer('dry')")])
    broken = mocker.patch.object(memory.long_term, "remember", side_effect=error)
    with contextlib.suppress(KeyboardInterrupt):
        agent.run("Inspect the valve.")
    mocker.stop(broken)
    if later == "the next run":
        agent.run("Inspect the pump.")
    memory.close()
    with EnhancedAgentMemory(tmp_path / "m", embedder=hashed) as memory:
        assert [text for text in kept(memory, "outcome") if "rusty" in text]


def own_stamp(step, agent):
    step.observations = f"[stamped at noon] {step.observations}"


@pytest.mark.parametrize("limit", [60, 4000])
@pytest.mark.parametrize("stamp", [TimestampObservations(format="stamped at %H"), own_stamp])
@pytest.mark.parametrize("stamp_first", [True, False])
def test_what_callbacks_added_is_not_learnt_where_the_text_was_cut_as_well(stamp_first, stamp, limit, hashed):
    """Nor what says that it was cut."""
    memory = EnhancedAgentMemory(embedder=hashed)
    long = "revenue 1,234,567 was reported by the branch; " * 300 + "costs were not"
    callbacks = [stamp, TruncateObservations(limit)] if stamp_first else [TruncateObservations(limit), stamp]
    script = [code(f"print({long!r})"), code("final_answer(1)")]
    agent = CodeAgent([], ScriptedModel(script), step_callbacks=callbacks, verbosity_level=-1)
    memory.attach(agent)
    agent.run("Read the report.")
    (learnt,) = kept(memory, "action")
    assert "stamped" in agent.memory.steps[1].observations
    assert "stamped" not in learnt
    assert "characters cut" not in learnt
    assert limit == 60 or "revenue 1,234,567 was" in learnt.partition("→")[2]


def test_what_a_callback_took_out_is_not_learnt(hashed):
    """Though another one has added something."""

    def redact(step, agent):
        step.observations = "[checked] " + step.observations.replace("hunter2", "***")

    memory = EnhancedAgentMemory(embedder=hashed)
    script = [code("print('the vault opens with ' + 'hunter' + '2' + ' at nine')"), code("final_answer(1)")]
    agent = CodeAgent([], ScriptedModel(script), step_callbacks=[redact], verbosity_level=-1)
    memory.attach(agent)
    agent.run("Open the vault.")
    (learnt,) = kept(memory, "action")
    assert learnt.endswith("→ the vault opens with *** at nine")


def test_what_is_said_round_a_managed_agents_report_is_not_learnt(hashed):
    """It is in each of them."""
    memory = EnhancedAgentMemory(embedder=hashed)
    options = {"name": "helper", "description": "Helps.", "verbosity_level": -1}
    helper = CodeAgent([], ScriptedModel([code("final_answer('Crane 4 is down.')")]), **options)
    script = [code("r = helper('Which?')\nprint(r)"), code("final_answer(r)")]
    manager = CodeAgent([], ScriptedModel(script), managed_agents=[helper], verbosity_level=-1)
    memory.attach(manager)
    manager.run("Find out which crane is down.")
    every = [hit.value for hit in memory.items()]
    assert not [text for text in every if "final answer from" in text]
    assert [text for text in every if text.endswith("Outcome: Crane 4 is down.")]
