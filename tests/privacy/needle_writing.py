"""Every public way to write into a place, each with words that stand nowhere else, and what looks for them."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
from agents import code_agent
from PIL import Image
from smolagents import CodeAgent, Tool, ToolCallingAgent

from smolagents_memory import (
    EnhancedAgentMemory,
    Place,
    Redactor,
    Reflector,
    RememberTool,
    Session,
    SessionManager,
    SqlStore,
    StateTool,
    TypedMemory,
)
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.values import new_encoder
from smolagents_memory.testing import ScriptedModel, call, code


class Needles:
    """Words, each with what it is; and bytes of pictures and vectors."""

    def __init__(self, seed: int = 1) -> None:
        self.seed, self._chance = seed, random.Random(seed)
        self.told: dict[bytes, str] = {}

    def word(self, what: str) -> str:
        """A new one."""
        word = "q" + "".join(self._chance.choice("bcdfghjkmnpqrtvwxz") for _ in range(13))
        self.told[word.encode()] = what
        return word

    def picture(self, what: str) -> Image.Image:
        """A picture of noise; its bytes as the package packs them."""
        image, blobs = Image.frombytes("RGB", (16, 16), self._chance.randbytes(768)), Blobs()
        new_encoder(blobs).encode(image)
        (packed,) = blobs.data.values()
        self.told[packed[100:124]] = what
        return image

    def embedder(self) -> Noise:
        """An embedder whose vectors are looked for."""
        return Noise(self)


class Noise:
    """Vectors of noise, another one for each text."""

    name, width = "noise", 16

    def __init__(self, needles: Needles) -> None:
        self._needles, self._of = needles, dict[str, Any]()
        self._chance = numpy.random.default_rng(needles.seed)

    def embed_documents(self, texts: list[str]) -> Any:
        return numpy.stack([self._vector(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        vector = numpy.random.default_rng(len(text)).standard_normal(self.width).astype(numpy.float32)
        return vector / numpy.linalg.norm(vector)

    def _vector(self, text: str) -> Any:
        if text not in self._of:
            vector = self._chance.standard_normal(self.width).astype(numpy.float32)
            self._of[text] = vector = vector / numpy.linalg.norm(vector)
            if len(self._of) == 1:
                self._needles.told[vector.tobytes()[16:40]] = "a vector"
        return self._of[text]


def writings(place: Place, needles: Needles, outside: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One after the other. What is written outside the place for its own sake goes to `outside`."""
    word = needles.word
    names = [word(f"the name of session {each}") for each in ("one", "two", "three", "four")]
    scope, manager, embedder = (
        {word("the entry of a scope"): word("a scope")},
        SessionManager(place),
        needles.embedder(),
    )
    yield "a session that is attached", lambda: _attached(place, names[0], needles)
    yield "a session with managed agents", lambda: _managed(place, names[1], needles)
    yield "labels", lambda: Session(names[0], place).label(title=word("a later title"), tags=[word("a later tag")])
    yield "save_session", lambda: manager.save_session(_ran(needles), names[2], title=word("a title that is saved"))
    yield "a fork", lambda: Session(names[0], place).fork(word("the name of a fork"))
    yield "a fork of before", lambda: Session(names[0], place).fork(word("the name of another fork"), at=1)

    def imported() -> None:
        Session(names[0], place).export(outside / "exported.jsonl.gz")
        Session(names[3], place).import_(outside / "exported.jsonl.gz")

    yield "export and import", imported
    with EnhancedAgentMemory(place, scope=scope, embedder=embedder) as memory:
        yield (
            "remember",
            lambda: memory.remember(
                f"A text with {word('a text')} in it.",
                key=word("a key"),
                source=word("a source"),
                kind=word("a kind"),
                meta={word("a key of metadata"): word("a value of metadata")},
            ),
        )
        many = [{"text": f"One of many {word('one of many')}", "key": f"many-{n}"} for n in range(3)]
        yield "remember_many", lambda: memory.remember_many(many)
        document = "\n\n".join(f"Part {n} is about {word('a document')}." for n in range(3))
        yield "a document", lambda: memory.remember_document(document, source=word("a document's name"))
        yield "update", lambda: memory.update("many-0", text=word("a new text"), meta={"now": word("new metadata")})
        yield "archive and restore", lambda: (memory.archive("many-1"), memory.restore("many-1"))
        yield "recall", lambda: memory.recall(f"{needles.told and 'who'} asks")
        yield "forget", lambda: memory.forget("many-2")
    yield "what runs teach", lambda: _learnt(place, needles, scope, embedder)
    yield "tools", lambda: _by_tools(place, needles)
    store = SqlStore(place)
    yield "a store", lambda: store.add(word("a key of a store"), {"v": word("a value")}, {"m": word("a store's meta")})
    yield "what is redacted", lambda: _redacted(place, needles)
    yield "reindex and purge", lambda: _tidied(place, scope, embedder)


def _attached(place: Place, name: str, needles: Needles) -> None:
    word = needles.word
    script = [
        code(f"x = '{word('a variable')}'\nlarge = b'{word('a large variable')}' * 100\nprint('{word('a print')}')"),
        code(f"raise ValueError('{word('an error')}')", thought=f"I think {word('a thought')}."),
        code(f"final_answer('{word('an answer')}')"),
    ]
    agent = code_agent(script, planning_interval=None)
    agent.state[word("a name in the state")] = word("a value in the state")
    state: TypedMemory[dict[str, str]] = TypedMemory({}, name="kept")
    told: dict[str, Any] = {"user": word("a person"), "title": word("a title"), "tags": [word("a tag")]}
    with Session(name, place, **told).attach(agent) as session:
        session.keep(state)
        agent.run(
            f"Do {word('a task')}.",
            images=[needles.picture("an image")],
            additional_args={"given": word("an argument")},
        )
        agent.memory.steps[1].observations = f"cut to {word('an edit')}"
        state.update(lambda value: {**value, "a": word("a typed state")})


def _managed(place: Place, name: str, needles: Needles) -> None:
    word = needles.word
    worker = CodeAgent(
        [], ScriptedModel([code(f"final_answer('{word('a result of a call')}')")]), name="worker", description="Works."
    )
    worker.logger.level = -1
    script = [code(f"x = worker(task='{word('a task of a call')}')"), code("final_answer(x)")]
    agent = code_agent(script, managed_agents=[worker], planning_interval=None)
    with Session(name, place).attach(agent):
        agent.run("Have it done.")


def _ran(needles: Needles) -> Any:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    agent.run(f"Before it was kept: {needles.word('a task of before')}")
    return agent


def _learnt(place: Place, needles: Needles, scope: Any, embedder: Any) -> None:
    word = needles.word
    reflector = Reflector(ScriptedModel([f"- Always think of {word('a lesson')}."]))
    options: Any = {"scope": scope, "embedder": embedder, "reflector": reflector, "auto_recall": 3}
    session = Session(word("the name of a session that teaches"), place)
    with EnhancedAgentMemory(place, learn=True, session=session, **options) as memory:
        said = f"the valve is {word('an experience')}"
        agent = code_agent([code(f"print('{said}')"), code(f"final_answer('{word('an outcome')}')")])
        memory.attach(agent)
        memory.add_message("user", word("a message"))
        agent.run(f"Look at the valve of {word('a task that teaches')}.")


def _by_tools(place: Place, needles: Needles) -> None:
    word, shared = needles.word, TypedMemory[dict[str, str]]({"a": ""}, name="shared")
    with EnhancedAgentMemory(place, vector=False) as memory:
        tools: list[Tool] = [RememberTool(memory), StateTool(shared, writable=True)]
        script = [
            call("remember", text=f"It says {word('what a tool remembers')}"),
            call("shared", changes={"a": word("what a tool changes")}),
            call("final_answer", answer="done"),
        ]
        agent = ToolCallingAgent(tools, ScriptedModel(script), verbosity_level=0)
        with Session(word("the name of a session with tools"), place).attach(agent) as session:
            session.keep(shared)
            agent.run("Use them.")


def _redacted(place: Place, needles: Needles) -> None:
    said = needles.word("what is redacted")
    redacting = Place(place, redact=Redactor())
    with EnhancedAgentMemory(redacting, scope={"user": "redacted"}, vector=False) as memory:
        memory.remember(f"Write to {said}@example.com.")


def _tidied(place: Place, scope: Any, embedder: Any) -> None:
    with EnhancedAgentMemory(place, scope=scope, embedder=embedder) as memory:
        memory.reindex()
        memory.purge()
    SessionManager(place).purge()


# -- looking for them ----------------------------------------------------------------------------------------------


class Watch:
    """Looks for needles in all files of folders, again and again, in those that are deleted and open still as well."""

    def __init__(self, needles: Needles, *folders: Path) -> None:
        self.found: dict[str, str] = {}  # what was found, and where first
        self.rounds = 0
        self._needles, self._folders = needles, [Path(os.path.realpath(each)) for each in folders]
        self._ended, self._looking = threading.Event(), threading.Lock()

    def look(self) -> None:
        """Once."""
        with self._looking:
            for path, data in self._files():
                for needle, what in list(self._needles.told.items()):
                    if what not in self.found and needle in data:
                        self.found[what] = path
            self.rounds += 1

    @contextmanager
    def all_the_time(self) -> Iterator[None]:
        """In a thread beside what is done meanwhile."""

        def look() -> None:
            while not self._ended.is_set():
                self.look()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self.look()

    def _files(self) -> Iterator[tuple[str, bytes]]:
        for folder in self._folders:
            for path in sorted(folder.rglob("*")):
                yield from self._read(str(path), path)
        for link in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").exists() else ():
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.endswith("(deleted)") and any(target.startswith(f"{each}/") for each in self._folders):
                yield from self._read(target, link)

    def _read(self, shown: str, path: Path) -> Iterator[tuple[str, bytes]]:
        try:
            if path.is_file():
                yield shown, path.read_bytes()
        except OSError:  # it went meanwhile
            return
