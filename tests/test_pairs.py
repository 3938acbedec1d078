"""The table of pairs: every two things that a user may put together, in both orders.

A pair *works*: the session's journal equals the agent's list of steps, and no prompt holds a word of another user's.
Or it *raises* an error of ours, and what was there before goes on. Or it *does not apply*, with the reason. Whoever
adds a noun adds it here: a class with `enter`, which begins it, and `leave`, which ends it; `expected` says what its
pairs come to.

Every pair is made twice: `bare`, with nothing but the two, and `kept`, where a session is attached all the time. Bob
works at the same place meanwhile, in a thread, with a session, a scope and a recall of his own.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from forking import forked
from quick_embedder import Hashed
from smolagents import AgentError, CodeAgent, Tool, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, MemoryStep, TaskStep

from smolagents_memory import (
    EnhancedAgentMemory,
    ObservedMemory,
    People,
    Place,
    ReactMemory,
    Recogniser,
    Redactor,
    RedactPrompt,
    Seal,
    Session,
    SmolagentsMemoryError,
    export_memory,
    import_memory,
    iter_steps,
    load_memory,
    save_memory,
)
from smolagents_memory.testing import ScriptedModel, call, code, same


# -- the world of a pair -------------------------------------------------------------------------------------------


class Look(Tool):
    name, description, inputs, output_type = "look", "Looks.", {}, "string"

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    def forward(self) -> str:
        return f"{self.word} saw"


def playing(word: str, *, calls: bool) -> Iterator[Any]:
    """What a model says for ever: in each run a step that looks at something of its user's, and an answer.

    A task may say "ask helper1", and that is done; or "fail", and the provider is down at the second step, once.
    """
    failed: set[str] = set()

    def says(messages: list[Any]) -> Any:
        texts = [str(message.content) for message in messages]
        asked = [at for at, text in enumerate(texts) if f"{word}'s task" in text or f"{word} asks" in text]
        task = texts[asked[-1]] if asked else ""  # none: somebody put another memory there
        since = "".join(texts[asked[-1] + 1 :] if asked else texts)
        if f"{word} saw" not in since:
            helper = re.search(r"ask (helper\d+)", task)
            if calls:
                return [call("look"), *([call(helper[1], task=f"{word} asks")] if helper else [])]
            return code(f"print(look(), {helper[1]}('{word} asks'))" if helper else "print(look())")
        if "fail" in task and task not in failed:
            failed.add(task)
            return OSError("the provider is down")
        return call("final_answer", answer=f"{word} answers") if calls else code(f"final_answer('{word} answers')")

    return itertools.repeat(says)


def an_agent(word: str, *, calls: bool, **options: Any) -> Any:
    """An agent of a user: a ToolCallingAgent, or a CodeAgent."""
    kind = ToolCallingAgent if calls else CodeAgent
    return kind([Look(word)], ScriptedModel(playing(word, calls=calls)), verbosity_level=0, **options)


def a_memory(place: Any, user: str, **options: Any) -> EnhancedAgentMemory:
    """A long-term memory of one user, by words and by meaning."""
    return EnhancedAgentMemory(place, embedder=Hashed(), scope={"user": user}, **options)


class World:
    """Ann's agent at a place, and Bob, who works there as well."""

    def __init__(self, place: Any, *, kept: bool) -> None:
        self.place, self.kept = place, kept
        self.folder = place.path.parent.parent if isinstance(place, Place) else place  # not in what is sealed
        self.models: list[Any] = []
        self.agent = self.another(step_callbacks=[self._held])
        self.session: Session | None = None
        self.hold: tuple[threading.Event, threading.Event] | None = None
        self.tasks = itertools.count()
        if kept:
            self.attach()

    def _held(self, step: Any) -> None:
        """A step waits here, in whatever thread, if somebody wants it to."""
        hold, self.hold = self.hold, None
        if hold is not None:
            hold[0].set()
            assert hold[1].wait(20)

    def task(self, more: str = "") -> str:
        return f"ANN's task {next(self.tasks)} {more}"

    def another(self, **options: Any) -> Any:
        """An agent of Ann's: one that calls tools where a session is kept, else one that writes code."""
        agent = an_agent("ANN", calls=self.kept, **options)
        self.models.append(agent.model)
        return agent

    def attach(self) -> None:
        session = Session("ann", self.place)
        session.attach(self.agent)
        self.session = session

    def detach(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.detach()

    def turn(self, more: str = "") -> None:
        assert self.agent.run(self.task(more), reset=False) == "ANN answers"

    def check(self) -> None:
        """The journal equals the live list."""
        if self.session is None:
            return
        self.session.flush()
        equal(self.session, self.agent)


def equal(session: Session, agent: Any) -> None:
    kept, live = session.steps(), list(agent.memory.steps)
    assert [type(step).__name__ for step in kept] == [type(step).__name__ for step in live]
    assert all(map(same, kept, live))


class Bob(threading.Thread):
    """Another user at the same place, at the same time."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.place, self.model, self.failed = place, None, None

    def run(self) -> None:
        try:
            agent = an_agent("BOB", calls=False)
            self.model = agent.model
            memory = a_memory(self.place, "bob", auto_recall=3)
            with memory.attach(agent), Session("bob", self.place).attach(agent) as session:
                memory.remember("BOB's secret is that the answers and the tasks are asked and saw.")
                session.run("BOB's task: what answers?")
                equal(session, agent)
        except BaseException as error:  # noqa: BLE001 — it is raised in the test's thread
            self.failed = error


# -- the nouns -----------------------------------------------------------------------------------------------------


class Noun:
    """Something that a user does with an agent."""

    open = False  # whether a run is under way between `enter` and `leave`

    def enter(self, world: World) -> None:
        raise NotImplementedError

    def leave(self, world: World) -> None:
        """End what was begun."""


class SessionAttached(Noun):
    def enter(self, world: World) -> None:
        if world.session is not None:  # then a second one
            Session("another", world.place).attach(world.agent)
        else:
            world.attach()

    def leave(self, world: World) -> None:
        world.check()
        world.detach()


class Enhanced(Noun):
    def enter(self, world: World) -> None:
        self.memory = a_memory(world.place, "ann", auto_recall=3)
        self.memory.attach(world.agent)

    def leave(self, world: World) -> None:
        assert "BOB" not in str([hit.value for hit in self.memory.recall("secret task answers saw", 50)])
        held = {each.key for each in self.memory.items()}
        for kept in self.memory.consolidate():
            self.memory.separate(kept)
        assert {each.key for each in self.memory.items()} == held
        self.memory.close()


class Redacted(Enhanced):
    """Long-term memory at a place that redacts."""

    def enter(self, world: World) -> None:
        number = Recogniser("NUMBER", r"(?<=ANN's task )\d+")
        self.memory = a_memory(Place(world.place, redact=Redactor(also=[number])), "ann", auto_recall=3)
        self.memory.attach(world.agent)

    def leave(self, world: World) -> None:
        super().leave(world)
        again = a_memory(world.place, "ann", learn=False)
        assert not re.search(r"ANN's task \d", str(list(again.items(where={"kind": "outcome"}))))
        again.close()


class Prompts(Noun):
    """What the model sees is redacted."""

    def enter(self, world: World) -> None:
        number = Recogniser("NUMBER", r"(?<=ANN's task )\d+")
        world.agent.step_callbacks.register(MemoryStep, RedactPrompt(Redactor(also=[number])))


class Observed(Noun):
    def enter(self, world: World) -> None:
        world.agent.memory = ObservedMemory(world.agent.system_prompt)


class Plain(Noun):
    def enter(self, world: World) -> None:
        world.agent.memory = AgentMemory(world.agent.system_prompt)


class React(Noun):
    def enter(self, world: World) -> None:
        self.memory = ReactMemory.from_agent(world.agent)
        self.memory.add_message("user", "ANN notes something.")

    def leave(self, world: World) -> None:
        shown = [message.content for message in self.memory.get_messages()]
        assert [step.task in str(shown) for step in world.agent.memory.steps if isinstance(step, TaskStep)].count(
            False
        ) == 0


def earlier(world: World) -> Any:
    """An agent of Ann's that ran before."""
    agent = world.another()
    agent.run("ANN's task of yesterday")
    return agent


class Loaded(Noun):
    def enter(self, world: World) -> None:
        path = world.folder / "yesterday.memory"
        world.folder.mkdir(exist_ok=True)
        save_memory(earlier(world), path)
        world.agent.memory = load_memory(path)


class Imported(Noun):
    def enter(self, world: World) -> None:
        import_memory(world.agent, export_memory(earlier(world)))


class Steps(Noun):
    open = True

    def enter(self, world: World) -> None:
        self.steps = iter_steps(world.agent, world.task(), reset=False)
        next(self.steps)

    def leave(self, world: World) -> None:
        for _ in self.steps:
            pass
        assert "ANN answers" in self.steps.answer


class Streaming(Noun):
    open = True

    def enter(self, world: World) -> None:
        self.stream = world.agent.run(world.task(), stream=True, reset=False)
        for item in self.stream:
            if isinstance(item, ActionStep):
                break

    def leave(self, world: World) -> None:
        *_, last = self.stream
        assert "ANN answers" in str(last)


class Gradio(Noun):
    """What `GradioUI` shows, each piece asked for in a thread of its own, as gradio's queue may do."""

    open = True

    def enter(self, world: World) -> None:
        from smolagents import stream_to_gradio

        self.shown: list[Any] = []
        self.stream = stream_to_gradio(world.agent, world.task(), reset_agent_memory=False)
        while "ANN saw" not in str(self.shown):
            assert self._next()

    def _next(self) -> bool:
        found: list[Any] = []

        def ask() -> None:
            try:
                found.append(next(self.stream, None))
            except BaseException as error:  # noqa: BLE001 — raised below
                found.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        if isinstance(found[0], BaseException):
            raise found[0]
        self.shown.append(getattr(found[0], "content", found[0]))
        return found[0] is not None

    def leave(self, world: World) -> None:
        while self._next():
            pass
        assert "ANN answers" in str(self.shown)


class Resume(Noun):
    """A run that its provider ended, and that is taken up again."""

    def enter(self, world: World) -> None:
        own = world.session is None
        if own:
            world.attach()
        with pytest.raises(AgentError, match="down"):
            world.turn("fail")
        self.task = last_task(world.agent)
        if own:
            world.detach()

    def leave(self, world: World) -> None:
        session = world.session or Session("ann", world.place)
        still_there = last_task(world.agent) == self.task  # else another memory, or another task, is there now
        assert session.resume(world.agent) == "ANN answers"
        if still_there:
            assert session.runs()[-1].state == "finished"


def last_task(agent: Any) -> Any:
    return next((step.task for step in reversed(agent.memory.steps) if isinstance(step, TaskStep)), None)


class Managed(Noun):
    """The agent gets a helper, whom its code calls, and who has long-term memory of the same scope."""

    def enter(self, world: World) -> None:
        name = f"helper{len(world.agent.managed_agents)}"
        self.helper = world.another(name=name, description="Helps.")
        text = {"type": "string", "description": "What to do."}  # as smolagents gives it to those it is made with
        self.helper.inputs, self.helper.output_type = {"task": text}, "string"
        self.memory = a_memory(world.place, "ann").attach(self.helper)
        world.agent.managed_agents[name] = self.helper

    def leave(self, world: World) -> None:
        before = len(world.session.children()) if world.session is not None else 0
        try:
            world.turn(f"ask {self.helper.name}")
        finally:
            self.memory.close()
        assert any(isinstance(step, TaskStep) and "ANN asks" in step.task for step in self.helper.memory.steps)
        if world.session is not None:
            [*_, newest] = children = world.session.children()
            assert len(children) == before + 1
            equal(Session(newest, world.place), self.helper)


class Interrupt(Noun):
    def enter(self, world: World) -> None:
        def stop(step: Any, agent: Any) -> None:
            if stopping:
                stopping.clear()
                agent.interrupt()

        stopping = [True]
        world.agent.step_callbacks.register(ActionStep, stop)
        try:
            with pytest.raises(AgentError, match="interrupted"):
                world.turn()
        finally:
            stopping.clear()


class Forked(Noun):
    """The session goes on twice: as it is, and as a fork that another agent has."""

    def enter(self, world: World) -> None:
        assert world.session is not None
        other = world.another()
        with world.session.fork(f"what-if-{next(world.tasks)}").attach(other) as fork:
            fork.run(world.task())
            equal(fork, other)


class Child(Noun):
    """The process forks; the child has a session and an agent of its own, and leaves its parent's alone."""

    def enter(self, world: World) -> None:
        def in_child() -> None:
            mine = world.another()
            memory = a_memory(world.place, "ann").attach(mine)
            with Session("child", world.place).attach(mine) as session:
                session.run("ANN's task in the child")
                equal(session, mine)
            memory.close()
            if world.session is not None:
                with pytest.raises(SmolagentsMemoryError):
                    world.turn()

        assert forked(in_child) == 0


class Threads(Noun):
    """Another thread is in the middle of a run of the agent."""

    open = True

    def enter(self, world: World) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.failed: list[BaseException] = []
        world.hold = self.inside, self.go_on
        self.thread = threading.Thread(target=self._run, args=(world,))
        self.thread.start()
        while not self.inside.wait(0.01) and self.thread.is_alive():
            pass
        if self.failed:
            self.thread.join()
            world.hold = None
            raise self.failed.pop()

    def _run(self, world: World) -> None:
        try:
            world.turn()
        except BaseException as error:  # noqa: BLE001 — raised where the thread was begun, or where it ends
            self.failed.append(error)

    def leave(self, world: World) -> None:
        self.go_on.set()
        self.thread.join()
        for error in self.failed:
            raise error


class Person(Noun):
    """Ann asks for all that is kept of her, and that another person, who was here before, is erased."""

    def enter(self, world: World) -> None:
        guest = f"GUEST {next(world.tasks)}"
        with a_memory(world.place, guest) as memory:
            memory.remember(f"{guest} was here.")
        with Session(guest, world.place, user=guest).attach(world.another()):
            pass
        people = People(world.place)
        people.export(guest, world.folder / "guest.zip")
        report = people.erase(guest)
        assert (report.sessions, report.memories, report.left) == (1, 1, ())
        assert guest not in [each.user for each in people.list()]


NOUNS: dict[str, Callable[[], Noun]] = {
    "Session": SessionAttached,
    "EnhancedAgentMemory": Enhanced,
    "Place(redact=…)": Redacted,
    "RedactPrompt": Prompts,
    "ObservedMemory": Observed,
    "AgentMemory": Plain,
    "ReactMemory": React,
    "load_memory": Loaded,
    "import_memory": Imported,
    "iter_steps": Steps,
    "resume": Resume,
    "managed agents": Managed,
    "GradioUI": Gradio,
    "streaming": Streaming,
    "interrupt": Interrupt,
    "session.fork": Forked,
    "fork": Child,
    "threads": Threads,
    "People": Person,
}

LONG_TERM = ("EnhancedAgentMemory", "Place(redact=…)")
REPLACING = ("ObservedMemory", "AgentMemory", "load_memory")  # another memory in the place of the agent's
RUNNING = ("iter_steps", "managed agents", "GradioUI", "streaming", "interrupt", "threads")


def expected(first: str, second: str, *, kept: bool) -> str:
    """What the table says of a pair: "works", the error it raises and what that says, or why it does not apply."""
    pair = (first, second)
    attached = kept or first == "Session"
    if not attached and "session.fork" in pair:
        return "does not apply: there is no session that could be forked"
    if first == "threads" and second in RUNNING and not attached:
        return "does not apply: nothing keeps the agent's steps, and smolagents lets two threads run it at once"
    if set(pair) <= set(LONG_TERM):
        return "AttachError: has an EnhancedAgentMemory already"
    if attached and ("Session" in pair if kept else second == "Session"):
        return "SessionError: attached to session"
    if kept and first == "resume" and second in ("ObservedMemory", "AgentMemory"):
        return "SessionError: no task to go on with"  # the memory was replaced by one that has none
    if attached and (set(REPLACING) & set(pair if kept else (second,))):
        return "SessionError: agent.memory was replaced"
    if attached and first == "threads" and second in (*RUNNING, "resume"):
        return "SessionError: in another thread"
    if first == "resume" and not kept and second in (*RUNNING, "ReactMemory", "load_memory", "import_memory"):
        return "SessionError: steps of which some are in no session"  # that came while nobody was attached
    return "works"


# -- the table -----------------------------------------------------------------------------------------------------


def made(first: str, second: str, world: World) -> str:
    """What comes of a pair."""
    outcome = "works"
    entered: list[Noun] = []
    try:
        for name in (first, second):
            noun = NOUNS[name]()
            noun.enter(world)
            entered.append(noun)
    except SmolagentsMemoryError as error:
        outcome = f"{type(error).__name__}: {error}"
    for noun in reversed(entered):
        try:
            noun.leave(world)
        except SmolagentsMemoryError as error:
            outcome = f"{type(error).__name__}: {error}" if outcome == "works" else outcome
        except AgentError as error:
            assert "interrupted" in str(error)
            assert second == "interrupt"  # which ends what is open, too
            assert noun.open
    try:
        world.turn()  # whatever came of it, the agent goes on
        world.check()
    except SmolagentsMemoryError as error:
        outcome = f"{type(error).__name__}: {error}" if outcome == "works" else outcome
    if world.session is not None:
        equal(world.session, world.agent)
        try:
            world.detach()
        except SmolagentsMemoryError as error:
            outcome = f"{type(error).__name__}: {error}" if outcome == "works" else outcome
        equal(Session("ann", world.place), world.agent)
    return outcome


def marked() -> Iterator[Any]:
    """All pairs. The quick round has those of a session with whatever else there is."""
    for first, second, kept in itertools.product(NOUNS, NOUNS, (False, True)):
        quick = not kept and "Session" in (first, second) and "GradioUI" not in (first, second)
        marks = () if quick else pytest.mark.slow
        yield pytest.param(first, second, kept, marks=marks, id=f"{first}-{second}-{'kept' if kept else 'bare'}")


@pytest.fixture(scope="module")
def made_place(tmp_path_factory: Any) -> Any:
    """A place that has its tables."""
    place = tmp_path_factory.mktemp("made") / "place"
    with Session("first", place).attach(an_agent("NOBODY", calls=False)) as session:
        pass
    session.delete()
    return place


@pytest.mark.parametrize(("first", "second", "kept"), list(marked()))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pair(tmp_path: Any, made_place: Any, caplog: Any, first: str, second: str, kept: bool) -> None:
    wanted = expected(first, second, kept=kept)
    if wanted.startswith("does not apply"):
        pytest.skip(wanted)
    place = tmp_path / "place"
    shutil.copytree(made_place, place)
    tried(place, caplog, wanted, first, second, kept=kept)


@pytest.mark.slow
@pytest.mark.parametrize("second", NOUNS)
@pytest.mark.parametrize("first", NOUNS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pair_in_a_sealed_place(tmp_path: Any, caplog: Any, first: str, second: str) -> None:
    place = Place(tmp_path / "place", seal=Seal(bytes(32), tmp_path / "keys"))
    wanted = expected(first, second, kept=True)
    tried(place, caplog, wanted, first, second, kept=True)
    held = b"".join(path.read_bytes() for path in (tmp_path / "place").rglob("*") if path.is_file())
    # Words of three letters stand in ciphertext by chance.
    assert not [word for word in (b"ANN's task", b"ANN answers", b"BOB's ", b"final_answer") if word in held]


def tried(place: Any, caplog: Any, wanted: str, first: str, second: str, *, kept: bool) -> None:
    """Make a pair in a place, beside somebody else, and compare what comes of it with the table."""
    bob = Bob(place)
    bob.start()
    world = World(place, kept=kept)
    try:
        outcome = made(first, second, world)
    finally:
        bob.join()
        with contextlib.suppress(SmolagentsMemoryError):
            world.detach()
    if bob.failed is not None:
        raise bob.failed
    for word, models in (("BOB", world.models), ("ANN", [bob.model])):
        assert not [each.text for model in models for each in model.calls if word in each.text]
    error, _, says = wanted.partition(": ")
    assert outcome.partition(": ")[0] == error
    assert says in outcome
    replaced = first in LONG_TERM and second in REPLACING
    assert replaced == ("recalls and learns no more" in caplog.text)


def test_every_pair_has_its_place_in_the_table() -> None:
    outcomes = [expected(first, second, kept=kept) for first, second, kept in itertools.product(NOUNS, NOUNS, [0, 1])]
    assert len(outcomes) == 2 * len(NOUNS) ** 2
    assert outcomes.count("works") > len(outcomes) / 2
