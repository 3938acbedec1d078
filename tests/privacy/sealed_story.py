"""A small place with a life behind it, and all the ways in which it is read."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents import code_agent
from keyrings import RamKeyring
from PIL import Image
from quick_embedder import Hashed
from smolagents import CodeAgent
from sqlalchemy import select

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    People,
    Place,
    Seal,
    Session,
    SessionManager,
    SqlStore,
    TypedMemory,
)
from smolagents_memory.codec.encoding import encode_step
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import envelope_of
from smolagents_memory.database.opened import Opened
from smolagents_memory.database.scopes import scope_of
from smolagents_memory.testing import ScriptedModel, code


MASTER = bytes(range(32))
NOW = 1_900_000_000.0
SESSIONS = ("first", "first, forked", "made twice", "managed")
ANN, BEN = {"user": "ann"}, {"user": "ben"}
SCOPES = (ANN, BEN)


@dataclass
class Story:
    """A place as it is now, and as it was earlier: the bytes of its file, and of the entries of its keyring."""

    mode: str
    file: bytes = b""
    keys: dict[str, bytes] = field(default_factory=dict)
    earlier: list[bytes] = field(default_factory=list)
    earlier_keys: list[dict[str, bytes]] = field(default_factory=list)
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    """What readings call a session or a scope, by its number."""


def noisy(seed: int) -> Image.Image:
    """A picture that is like no other, and that compressing does not make smaller."""
    return Image.frombytes("RGB", (12, 9), random.Random(seed).randbytes(12 * 9 * 3))


def lived(path: Path, mode: str) -> Story:
    """Tell the story in a SQLite file."""
    keyring, story = RamKeyring(), Story(mode)
    place = Place(path, seal=Seal(MASTER, keyring, mode=mode))

    def noted() -> None:
        Opened.forget_all()
        story.earlier.append(path.read_bytes())
        story.earlier_keys.append(dict(keyring.kept))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for chapter in chapters(place):
            chapter()
            noted()
    story.file, story.keys = story.earlier.pop(), story.earlier_keys.pop()
    story.owners = dict(owners(place))
    return story


def owners(place: Place) -> Iterator[tuple[tuple[str, int], str]]:
    """The numbers of sessions and scopes, and what readings call them."""
    with Database(place).reading() as connection:
        envelope = envelope_of(connection)
        for row in connection.execute(select(tables.sessions)):
            yield ("session", row.id), f"session {envelope.read_name(row.name)}"
        for row in connection.execute(select(tables.scopes)):
            scope = scope_of(envelope.read_scope(row.name))
            yield ("scope", row.id), f"scope {scope['user']}" if scope else "store"


def chapters(place: Place) -> Iterator[Callable[[], None]]:
    """What happens, one after the other."""
    yield lambda: beginning(place)
    yield lambda: changed(place)
    yield lambda: KeyManager(place).reseal(show=False)
    yield lambda: made_again(place)
    yield lambda: told_on(place)


def beginning(place: Place) -> None:
    """Sessions and memories."""
    ran(place, "first", 1)
    ran(place, "made twice", 2)
    managed(place)
    with memory_of(place, ANN) as ann, memory_of(place, BEN) as ben:
        for owner, memory in (("Ann", ann), ("Ben", ben)):
            for number, thing in enumerate(("tea", "coffee", "a bicycle", "the red door", "old maps", "rain")):
                memory.remember(
                    f"{owner} likes {thing}, and said so {number} times.",
                    key=f"likes-{number}",
                    source="talks" if number < 4 else None,
                    meta={"number": number} if number % 2 else None,
                    importance=1.0 + number / 4,
                    kind="liking" if number % 3 else "memory",
                )
            memory.remember("It is quiet in the library.", origin="tool", source="guide")
    store = SqlStore(place, clock=lambda: NOW)
    for number in range(4):
        store.add(f"plain-{number}", {"number": number, "said": f"plain words {number}"}, {"even": not number % 2})


def changed(place: Place) -> None:
    """Edits of all kinds."""
    ran(place, "first", 3)
    with Session("first", place).attach(code_agent([])) as session:
        agent = session._attachment.agent  # type: ignore[union-attr]
        agent.memory.steps[1].observations = "cut short by hand"
    for scope in SCOPES:
        with memory_of(place, scope) as memory:
            memory.update("likes-0", text="It is green tea, after all.")
            memory.update("likes-1", meta={"number": 10})
            memory.remember("It is quiet in the library.", origin="tool", source="guide")
            memory.recall("bicycle", 2)
            memory.feedback("likes-2")
            memory.archive("likes-5")
            memory.archive("likes-4")
            memory.restore("likes-4")
            memory.pin("likes-3")
            memory.forget(memory.remember("Never mind."))
    SqlStore(place, clock=lambda: NOW).add("plain-1", {"number": 1, "said": "other words"})


def made_again(place: Place) -> None:
    """A session of a name that was there before, and a copy of another one."""
    Session("made twice", place).delete()
    ran(place, "made twice", 4)
    Session("first", place).fork("first, forked")


def told_on(place: Place) -> None:
    """More of the same, so that there is something to put back."""
    ran(place, "first, forked", 5)
    ran(place, "first", 6)
    ran(place, "made twice", 7)
    for scope in SCOPES:
        with memory_of(place, scope) as memory:
            memory.update("likes-2", text="It is a bicycle with three gears.")
            memory.recall("door", 2)
            memory.feedback("likes-3")
            memory.archive("likes-1")


def ran(place: Place, name: str, number: int) -> None:
    """One more run of a session, with an image, a large variable and two states."""
    seen: TypedMemory[dict[str, int]] = TypedMemory({}, name="seen")
    script = [
        code(f"large = b'{number}-' * 1500\nx = {number}\nprint('looked at {number}')"),
        code(f"final_answer('answer {number}')"),
    ]
    agent = brief(code_agent(script, planning_interval=None))
    with Session(name, place, user="ann", title=f"Title {number}", tags=["told"]).attach(agent) as session:
        session.keep(seen)
        agent.state["user"] = f"user {number}"
        agent.run(f"Task {number}", images=[noisy(number)], reset=number == 3)
        seen.update(lambda value: {**value, str(number): number})


def brief(agent: Any) -> Any:
    """An agent whose prompt is short: it is read again and again."""
    agent.prompt_templates["system_prompt"] = "You solve tasks."
    return agent


def managed(place: Place) -> None:
    """A run with two calls of a managed agent."""
    worker = CodeAgent(
        [], ScriptedModel([code("final_answer(5)"), code("final_answer(6)")]), name="worker", description="Works."
    )
    brief(worker).logger.level = -1
    script = [code("x = worker(task='work')\ny = worker(task='work on')"), code("final_answer(x + y)")]
    agent = brief(code_agent(script, managed_agents=[worker], planning_interval=None))
    with Session("managed", place).attach(agent):
        agent.run("Have it done.")


@contextmanager
def memory_of(place: Place, scope: Any, *, vector: bool = True) -> Iterator[EnhancedAgentMemory]:
    """A memory whose clock stands still."""
    options: Any = {"embedder": Hashed()} if vector else {"vector": False}
    with EnhancedAgentMemory(place, scope=scope, clock=lambda: NOW, **options) as memory:
        yield memory


# -- readings ------------------------------------------------------------------------------------------------------


def readings(place: Place) -> dict[str, Callable[[], Any]]:
    """Every way to read a place, by what it reads and how."""
    manager = SessionManager(place)
    found: dict[str, Callable[[], Any]] = {
        "sessions: list": manager.list_sessions,
        "sessions: infos": manager.sessions,
        "sessions: of ann": lambda: manager.list_sessions(user="ann"),
        "sessions: people": People(place).list,
        "store: items": lambda: list(SqlStore(place).items()),
        "store: get": lambda: [SqlStore(place).get(f"plain-{n}") for n in range(4)],
        "store: search": lambda: sorted(SqlStore(place).search("plain words", 9), key=lambda hit: hit.key),
        "store: len": lambda: len(SqlStore(place)),
        "scopes: names": lambda: _of(place, ANN, lambda memory: memory.scopes()),
    }
    for name in (*SESSIONS, "managed/worker/1", "managed/worker/2"):
        found |= {f"session {name}: {how}": read for how, read in _of_session(place, name).items()}
    for scope in SCOPES:
        found |= {f"scope {scope['user']}: {how}": read for how, read in _of_scope(place, scope).items()}
    return found


def _of_session(place: Place, name: str) -> dict[str, Callable[[], Any]]:
    session = Session(name, place)
    return {
        "exists": session.exists,
        "memory": lambda: (session.memory().system_prompt.system_prompt, told(session.steps())),
        "runs": lambda: session.runs(),
        "first run": lambda: told(session.steps(run=1)),
        "transcript": lambda: [(told([each.original]), each.left, each.run) for each in session.transcript()],
        "original": lambda: told([session.original(1)]),
        "children": session.children,
        "labels": lambda: (session.user, session.title, session.tags) if session.exists() else session.runs(),
        "restored": lambda: restored(session),
    }


def _of_scope(place: Place, scope: Any) -> dict[str, Callable[[], Any]]:
    def of(read: Callable[[EnhancedAgentMemory], Any], vector: bool = True) -> Callable[[], Any]:
        return lambda: _of(place, scope, read, vector)

    keys = [f"likes-{number}" for number in range(6)]
    return {
        "items": of(lambda memory: list(memory.items(archived=None))),
        "get": of(lambda memory: [memory.get(key) for key in keys]),
        "count": of(lambda memory: [memory.count(archived=archived) for archived in (None, True, False)]),
        "stats": of(stats),
        "decay": of(lambda memory: [record.key for record in memory.long_term.keeper.bank.histories()]),
        "recall by words": of(recalled, vector=False),
        "recall by meaning": of(recalled),
    }


def stats(memory: EnhancedAgentMemory) -> Any:
    told = memory.stats()
    return told.memories, told.archived, told.embedder, told.not_embedded, told.index


def recalled(memory: EnhancedAgentMemory) -> Any:
    """What is recalled; that it was is not noted, for nothing is written here.

    The last digit of a score is not told: it is another one where vectors lie in another order, and are summed so.
    """
    memory.long_term.keeper.traces.recalled = lambda *_: None
    queries = ("Who likes a bicycle?", "green tea", "is the library quiet")
    return [[replace(each, score=round(each.score, 3)) for each in memory.recall(query, 3)] for query in queries]


def _of(place: Place, scope: Any, read: Callable[[EnhancedAgentMemory], Any], vector: bool = True) -> Any:
    with memory_of(place, scope, vector=vector) as memory:
        return read(memory)


def told(steps: Any) -> Any:
    """Steps as what can be compared."""
    return [encode_step(step) for step in steps]


def restored(session: Session) -> Any:
    """What an agent gets of it: steps, state, variables."""
    agent = brief(code_agent([]))
    session.restore(agent)
    python = {k: v for k, v in agent.python_executor.state.items() if k in ("x", "large", "y")}
    return told(agent.memory.steps), {k: v for k, v in agent.state.items() if k == "user"}, python
