"""Recall by itself, and learning: nothing twice, nothing that nobody said, no model after Ctrl-C, nobody waits."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest
from quick_embedder import Hashed
from smolagents import CodeAgent, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, TaskStep, Timing
from smolagents.utils import AgentError

from smolagents_memory import (
    EnhancedAgentMemory,
    NoteStep,
    RecallTool,
    Reflector,
    Session,
    SummarizeOldSteps,
    TimestampObservations,
    everywhere,
    iter_steps,
)
from smolagents_memory.testing import ScriptedModel, call, code


FACT = "The coffee machine on floor three needs descaling every week."
COFFEE = "How often does the coffee machine on floor three need descaling?"
DONE = code("final_answer('weekly')")


@pytest.fixture
def memory():
    with EnhancedAgentMemory(vector=False, auto_recall=3) as memory:
        memory.remember(FACT, key="fact")
        yield memory


def coder(memory, script, **options):
    agent = CodeAgent([RecallTool(memory)], ScriptedModel(script), verbosity_level=-1, **options)
    memory.attach(agent)
    return agent


def notes(memory):
    return [step for step in memory.steps if isinstance(step, NoteStep) and step.kind == "recalled"]


def learnt(memory):
    return [record.value for record in memory.long_term.keeper.records() if record.kind != "memory"]


# -- what stands in the prompt is not recalled again ---------------------------------------------------------------


def by_run(agent, task):
    agent.run(task, reset=False)


def by_steps(agent, task):
    list(iter_steps(agent, task, reset=False))


def by_stream(agent, task):
    list(agent.run(task, reset=False, stream=True))


@pytest.mark.parametrize("recall_on", ["task", "step"])
@pytest.mark.parametrize("way", [by_run, by_steps, by_stream])
def test_what_an_earlier_turn_brought_in_comes_once(way, recall_on):
    """However long the conversation; once it was dropped it may come again."""
    with EnhancedAgentMemory(vector=False, auto_recall=3, recall_on=recall_on) as memory:
        memory.remember(FACT, key="fact")
        memory.remember_many(f"Entry {n} of the ledger is closed." for n in range(30))
        agent = coder(memory, [code("print('the coffee machine')"), DONE] * 5)
        for n in range(3):
            way(agent, f"{COFFEE} ({n})")
            assert len([note for note in notes(memory) if FACT in note.text]) == 1
        memory.steps.remove(notes(memory)[0])
        way(agent, COFFEE)
        assert len([note for note in notes(memory) if FACT in note.text]) == 1
        notes(memory)[0].text = ""  # as callbacks empty a note
        way(agent, COFFEE)
        assert len([note for note in notes(memory) if FACT in note.text]) == 1


def test_a_new_conversation_is_recalled_for_anew(memory):
    """The steps are gone, and so is what they held."""
    agent = coder(memory, [DONE, DONE])
    for _ in range(2):
        agent.run(COFFEE)
        assert len(notes(memory)) == 1


def test_what_the_agent_looked_up_is_not_recalled_as_well(memory):
    """Through a tool, in an earlier turn, until it is cut out of that step."""
    agent = coder(memory, [code("print(recall('the coffee machine needs descaling'))"), DONE, DONE, DONE])
    agent.run("Look that thing up.", reset=False)
    assert FACT in str(memory.steps[1].observations)
    agent.run(COFFEE, reset=False)
    assert notes(memory) == []
    memory.steps[1].observations = "[cut]"
    agent.run(COFFEE, reset=False)
    assert len(notes(memory)) == 1


@pytest.mark.parametrize("told", ["task", "prompt", "answer"])
def test_what_the_agent_was_told_or_has_said_is_not_recalled_either(memory, told):
    """In the words of the task, of the system prompt, of an earlier answer."""
    agent = coder(memory, [code(f"final_answer({FACT!r})"), DONE], instructions=FACT if told == "prompt" else None)
    if told == "answer":
        agent.run("Say something.", reset=False)
    agent.run(f"I was told this: {FACT} Is it true?" if told == "task" else COFFEE, reset=False)
    assert notes(memory) == []


def test_in_the_place_of_what_stands_there_comes_what_is_next(memory):
    """A later turn is not left without."""
    memory.remember_many(f"Note {n}: the coffee machine on floor three needs descaling with care." for n in range(9))
    agent = coder(memory, [DONE] * 4)
    seen = set()
    for _ in range(3):
        agent.run("The coffee machine on floor three needs descaling.", reset=False)
        keys = set(notes(memory)[-1].meta["keys"])
        assert len(keys) == 3
        assert not keys & seen
        seen |= keys


def test_what_an_earlier_turn_taught_is_not_recalled_as_long_as_that_turn_stands(memory):
    """Its own steps say it already."""
    agent = coder(memory, [code("print('the valve of pump nine is rusty')"), DONE] * 3)
    agent.run("Inspect the valve of pump nine.", reset=False)
    agent.run("Inspect the valve of pump nine again.", reset=False)
    assert notes(memory) == []
    agent.run("Inspect the valve of pump nine once more.")
    assert "rusty" in notes(memory)[0].text


def test_a_session_that_is_opened_again_knows_what_stands_in_its_steps(tmp_path):
    """In another process, as it were: all that is known is in the steps."""
    for _ in range(2):
        session = Session("s", f"sqlite:///{tmp_path}/sessions.db")
        with EnhancedAgentMemory(tmp_path / "long", vector=False, auto_recall=3, session=session) as memory:
            memory.remember(FACT, key="fact")
            agent = coder(memory, [DONE])
            agent.run(COFFEE, reset=False)
            assert len([note for note in notes(memory) if FACT in note.text]) == 1


# -- what callbacks and managers added -----------------------------------------------------------------------------


class Lookup(Tool):
    name = "lookup"
    description = "Looks up."
    inputs = {"word": {"type": "string", "description": "x"}}
    output_type = "string"

    def forward(self, word: str) -> str:
        return f"{word} means water"


def own_stamp(step, agent=None):
    """As people write one themselves."""
    if isinstance(step, ActionStep) and step.observations:
        step.observations = f"[stamped at noon] {step.observations} [and after]"


def own_mask(step, agent=None):
    """Takes out what nobody may keep."""
    if isinstance(step, ActionStep) and step.observations:
        step.observations = step.observations.replace("water", "*****")


def test_stamps_are_not_learnt_by_whichever_agent_and_callback(memory):
    """Of a tool's result, printed text, an answer, a failure; by our callback and by one of one's own."""
    asked = []

    class Listening(ScriptedModel):
        def generate(self, messages, **options):
            asked.append(str([message.content for message in messages]))
            return super().generate(messages, **options)

    memory._learning._reflector = Reflector(Listening(["- Aqua is water."] * 9))
    ours = everywhere(TimestampObservations(format="stamped at %H"))
    for callbacks in (ours, [own_stamp], {ActionStep: [own_stamp, TimestampObservations(format="stamped at %H")]}):
        for agent in (
            ToolCallingAgent(
                [Lookup()],
                ScriptedModel(
                    ["The plan.", [call("lookup", word="aqua"), call("lookup", word="wasser")], call("nothing"),
                     call("final_answer", answer="water")]
                ),
                step_callbacks=callbacks, planning_interval=9, verbosity_level=-1,
            ),
            CodeAgent(
                [Lookup()],
                ScriptedModel(["A plan.", code("print(lookup('aqua'))"), code("1/0"), code("final_answer('water')")]),
                step_callbacks=callbacks, planning_interval=9, verbosity_level=-1,
            ),
        ):  # fmt: skip
            memory.attach(agent)
            agent.run("What does aqua mean?")
            memory.detach()
            memory.steps = []
    assert len(learnt(memory)) > 5
    assert any("aqua means water" in text for text in learnt(memory))
    assert [text for text in [*learnt(memory), *asked] if "stamped" in text or "and after" in text] == []


def test_what_a_callback_took_out_is_not_learnt(memory):
    """What is taken back is what was added, and nothing else."""
    agent = ToolCallingAgent(
        [Lookup()],
        ScriptedModel([call("lookup", word="aqua"), call("final_answer", answer="done")]),
        step_callbacks=[own_mask, own_stamp],
        verbosity_level=-1,
    )
    memory.attach(agent)
    agent.run("What does aqua mean?")
    assert any("aqua means *****" in text for text in learnt(memory))
    assert not any("water" in text for text in learnt(memory))


def test_a_managed_agent_recalls_for_and_learns_its_task_and_not_what_the_manager_says_round_it():
    """Also where it was stepped by hand or is known by another template."""
    with EnhancedAgentMemory(vector=False, auto_recall=3) as memory:
        memory.remember(FACT, key="fact")
        memory.remember("Put all these in your final_answer tool, or it will be lost.", key="boilerplate")
        memory.remember("Helpful agents are named after rivers.", key="rivers")
        asked = []
        worker = ToolCallingAgent(
            [Lookup()],
            ScriptedModel([call("lookup", word="aqua"), call("final_answer", answer="weekly")]),
            name="worker", description="Works.", verbosity_level=-1,
        )  # fmt: skip
        memory.attach(worker)
        memory.on("recalled", lambda event: asked.append(event.query))
        manager = CodeAgent(
            [], ScriptedModel([code(f"print(worker({COFFEE!r}))"), DONE]), managed_agents=[worker], verbosity_level=-1
        )
        manager.run("Ask the worker.")
        assert asked == [COFFEE]
        assert notes(memory)[0].meta["keys"] == ["fact"]
        outcomes = [text for text in learnt(memory) if text.startswith("Task:")]
        assert f"Task: {COFFEE}\nOutcome: weekly" in outcomes
        assert all(text.startswith(f"Task: {COFFEE}\n") for text in outcomes)
        assert "your manager" in next(step for step in memory.steps if isinstance(step, TaskStep)).task


# -- Ctrl-C asks no model ------------------------------------------------------------------------------------------


class Interrupting(Tool):
    name = "press"
    description = "Presses Ctrl-C."
    inputs = {}
    output_type = "string"
    how = None

    def forward(self) -> str:
        return self.how()


def ctrl_c():
    raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["ctrl-c in a tool", "ctrl-c in the model", "interrupt", "ctrl-c between steps"])
def test_a_run_that_is_interrupted_asks_no_model(how):
    """Neither for lessons nor for a summary, then or when the memory is closed; the plain experiences are kept."""
    reflecting, summing = ScriptedModel(["- A lesson."] * 9), ScriptedModel(["A summary."] * 9)
    press = Interrupting()
    callbacks = [SummarizeOldSteps(summing, keep_last=1, every=2)]
    script = [call("lookup", word="aqua"), call("press"), call("lookup", word="aqua")]
    if how == "ctrl-c in the model":
        script[1] = lambda messages: ctrl_c()
    agent = ToolCallingAgent(
        [Lookup(), press], ScriptedModel(script), step_callbacks=callbacks, max_steps=3, verbosity_level=-1
    )
    press.how = ctrl_c if how == "ctrl-c in a tool" else agent.interrupt
    memory = EnhancedAgentMemory(vector=False, reflector=Reflector(reflecting))
    with pytest.raises((KeyboardInterrupt, AgentError)), memory:
        memory.attach(agent)
        if how == "ctrl-c between steps":
            steps = iter_steps(agent, "What does aqua mean?")
            next(steps)
            raise KeyboardInterrupt
        agent.run("What does aqua mean?")
    assert reflecting.calls == []
    assert summing.calls == []
    again = memory.long_term.keeper.bank
    assert any("means water" in record.value for record in again.records())


def test_a_run_that_is_taken_up_after_ctrl_c_is_reflected_on_once_it_is_over():
    """Lessons are not lost to it."""
    reflecting = ScriptedModel(["- A lesson for life."] * 9)
    memory = EnhancedAgentMemory(vector=False, reflector=Reflector(reflecting))
    agent = coder(memory, [code("print('the valve is rusty')"), lambda messages: ctrl_c(), DONE])
    with pytest.raises(KeyboardInterrupt):
        agent.run(COFFEE)
    assert reflecting.calls == []
    list(iter_steps(agent))
    assert len(reflecting.calls) == 1
    assert "A lesson for life." in learnt(memory)


# -- nobody waits for a model or a disk ----------------------------------------------------------------------------


class Blocks:
    """Something that takes as long as the test wants."""

    def __init__(self):
        self.go_on, self.on = threading.Event(), False

    def wait(self):
        assert not self.on or self.go_on.wait(20)

    def reflector(self, task, run, clean):
        self.wait()
        return []


class SlowEmbedder(Hashed):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def embed_documents(self, texts):
        self.blocks.wait()
        return super().embed_documents(texts)


@contextlib.contextmanager
def busy(path):
    """A database in which somebody else writes, and takes long."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def append(memory):
    step = ActionStep(step_number=99, timing=Timing(start_time=0.0), observations="from elsewhere")
    memory.steps.append(step)
    return any(each is step for each in memory.steps) and memory.flush() is None


@pytest.mark.slow
@pytest.mark.parametrize("what", ["reflector", "embedder", "disk"])
@pytest.mark.parametrize("when", ["reset", "the end of a run", "close", "a new list", "recall for a task"])
def test_who_reads_or_appends_does_not_wait_for_who_learns_or_recalls(tmp_path, what, when):
    """By another thread, while a model, an embedder or the disk is slow."""
    blocks = Blocks()
    reflector = blocks.reflector if what == "reflector" else None
    embedder = SlowEmbedder(blocks) if what == "embedder" else None
    memory = EnhancedAgentMemory(tmp_path, embedder=embedder, reflector=reflector, auto_recall=2)
    memory.remember(FACT)
    agent = coder(memory, [DONE, DONE])
    if when not in ("the end of a run", "recall for a task"):
        memory.steps.extend(
            [
                TaskStep(task=COFFEE),
                ActionStep(step_number=1, timing=Timing(start_time=0.0), observations="x", is_final_answer=True),
            ]
        )

    def work():
        if when == "reset":
            memory.reset()
        elif when == "close":
            memory.close()
        elif when == "a new list":
            memory.steps = []
        else:
            agent.run("What about the coffee machine?", reset=when == "the end of a run")

    one = threading.Thread(target=work, daemon=True)
    with contextlib.ExitStack() as slow:
        if what == "disk":
            slow.enter_context(busy(memory.long_term.keeper.vault.database.path))
        slow.callback(blocks.go_on.set)
        blocks.on = True
        one.start()
        one.join(0.5)
        assert one.is_alive() or (what, when) in NEVER
        told = []
        other = threading.Thread(target=lambda: told.append(append(memory)), daemon=True)
        other.start()
        other.join(5)
        waited = not told
    one.join(20)
    other.join(20)
    assert not waited
    assert told == [True]
    assert not one.is_alive()


NEVER = [
    ("reflector", "recall for a task"),
    ("disk", "recall for a task"),  # who reads waits for nobody
    *((what, "a new list") for what in ("reflector", "embedder", "disk")),
]
