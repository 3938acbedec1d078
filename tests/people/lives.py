"""People who leave something in every place where something can be kept of a person."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

from agents import code_agent, fail
from numbered_texts import ByNumber
from PIL import Image
from smolagents import CodeAgent

from smolagents_memory import EnhancedAgentMemory, Session, TypedMemory
from smolagents_memory.testing import ScriptedModel, code


KINDS = [
    *(
        "task",
        "answer",
        "observation",
        "source",
        "error",
        "state",
        "variable",
        "typed",
        "managed",
        "manages",
        "edited",
    ),
    *("title", "tag", "session", "note", "fact", "archived", "document", "meta", "key", "sourced", "team"),
]


class Life:
    """A person with a session, a fork of it, and memories in several scopes; every text of theirs is a secret."""

    def __init__(self, url: Any, user: str, chance: random.Random, *, number: int = 0, pictures: bool = True) -> None:
        self.url, self.user, self.number = url, user, number or None
        self.texts = {kind: "".join(chance.choices(string.ascii_letters, k=40)) for kind in KINDS}
        self.session = f"talk of {self.texts['session']}"
        noise = chance.randbytes(30 * 30 * 3)
        self.image = Image.frombytes("RGB", (30, 30), noise) if pictures else None

    def live(self) -> Life:
        self._talk()
        self._remember()
        return self

    def _talk(self) -> None:
        said = self.texts
        worker = CodeAgent(
            [],
            ScriptedModel([code(f"final_answer('{said['managed']}')")]),
            name="worker",
            description="Works.",
            verbosity_level=-1,
        )
        script = [
            code(f"kept = 'x{said['variable']}'\nprint('{said['observation']}')  # {said['source']}"),
            code(f"fail(reason='{said['error']}')"),
            code(f"worker(task='{said['manages']}')"),
            code(f"final_answer('{said['answer']}')"),
        ]
        agent = code_agent(script, tools=[fail], managed_agents=[worker], planning_interval=None)
        agent.state["secret"] = {"deep": [said["state"]], "large": said["state"].encode() * 100}
        labels = {"user": self.user, "title": said["title"], "tags": [said["tag"]]}
        memory = EnhancedAgentMemory(self.url, scope=self.scope, embedder=ByNumber(), own_collection=1)
        with memory.attach(agent), Session(self.session, self.url, **labels).attach(agent) as session:
            session.keep(typed := TypedMemory({"is": ""}, name="typed"))
            typed.update(lambda _: {"is": said["typed"]})
            agent.run(said["task"], images=[self.image] if self.image else None)
            agent.memory.steps[1].observations = said["edited"]
        Session(self.session, self.url).fork(f"{self.session} again")

    @property
    def scope(self) -> dict[str, Any]:
        return {"user": self.number or self.user}

    def _remember(self) -> None:
        said = self.texts
        with EnhancedAgentMemory(self.url, scope=self.scope, embedder=ByNumber(), own_collection=1) as memory:
            memory.remember(f"{said['note']} 7001", source=f"run of {said['sourced']}", meta={"why": said["meta"]})
            memory.remember(f"{said['fact']} 7002", key=f"k {said['key']}", importance=3)
            memory.archive(memory.remember(f"{said['archived']} 7003"))
            memory.remember_document(f"{said['document']} 7004", source="a document")
            assert memory.recall(f"{said['note']} 7001")
        team = {**self.scope, "agent": "coder"}
        with EnhancedAgentMemory(self.url, scope=team, embedder=ByNumber(), own_collection=1) as memory:
            memory.remember(said["team"])

    # -- looking -----------------------------------------------------------------------------------------------

    def needles(self) -> dict[str, bytes]:
        """What must be in no file once this person is erased."""
        return {**{kind: text.encode() for kind, text in self.texts.items()}, "name": self.user.encode()}

    def met_in(self, folder: Path) -> dict[str, list[str]]:
        """The needles that are met in files, and in which."""
        found: dict[str, list[str]] = {}
        for path in folder.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for kind, needle in self.needles().items():
                if needle in content or needle in path.name.encode():
                    found.setdefault(kind, []).append(path.name)
        return found

    def is_whole(self) -> bool:
        """Whether all of it is there."""
        session = Session(self.session, self.url)
        told = json.dumps([step.dict() for step in map(_plain, session.transcript())], default=str)
        kinds = ("task", "answer", "observation", "source", "error", "manages", "managed")
        assert all(self.texts[kind] in told for kind in kinds)
        assert session.title == self.texts["title"]
        assert Session(f"{self.session} again", self.url).steps()
        assert len(session.children()) == 1
        if self.image is not None:
            assert session.steps()[0].task_images[0].tobytes() == self.image.tobytes()
        with EnhancedAgentMemory(self.url, scope=self.scope, embedder=ByNumber(), own_collection=1) as memory:
            values = {each.value: each for each in memory.items(archived=None)}
            assert values[f"{self.texts['note']} 7001"].meta == {"why": self.texts["meta"]}
            assert values[f"{self.texts['archived']} 7003"].archived
            assert memory.recall(f"{self.texts['fact']} 7002")[0].key == f"k {self.texts['key']}"
        return True


def _plain(told: Any) -> Any:
    step = told.original
    step.__dict__.pop("model_input_messages", None)
    return step
