"""What was found is nowhere: needles go in by every way that writes, and no file has them. A control has them all."""

from __future__ import annotations

import itertools
import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reading import positives
from smolagents import AgentError, CodeAgent, ToolCallingAgent, tool

from smolagents_memory import (
    EnhancedAgentMemory,
    MemoryLossWarning,
    Place,
    Redactor,
    Reflector,
    RememberTool,
    Session,
    SessionManager,
    SqliteStore,
    TypedMemory,
    reasoning,
    to_markdown,
)
from smolagents_memory.testing import ScriptedModel, call, code


def needles() -> Iterator[tuple[str, str]]:
    """Values out of the corpus, each with the sentence in which it stands: never the same one again."""
    for row in positives():
        for value in row["values"]:
            if value["kind"] not in ("PRIVATE_KEY", "SECRET") and not set("\n'\"\\") & set(row["text"]):
                yield value["value"], row["text"]


class Field:
    """Where needles are taken from, and which were."""

    def __init__(self) -> None:
        every = list(needles())
        random.Random(5).shuffle(every)  # of all kinds and languages
        self._all = iter(every)
        self.used: list[str] = []

    def text(self) -> str:
        """A sentence with a needle in it."""
        value, text = next(self._all)
        self.used.append(value)
        return text


@tool
def look() -> str:
    """Looks at the desk."""
    return LOOKED[0]


LOOKED = [""]


def write_memories(place: Any, field: Field) -> list[str]:
    """By every way into long-term memory; what was told of them."""
    says = ScriptedModel(itertools.repeat(f"- {field.text()}"), record="none")
    memory = EnhancedAgentMemory(place, vector=False, scope={"user": "u"}, reflector=Reflector(says))
    memory.remember(field.text(), key=field.text(), source=field.text(), meta={"a": {field.text(): [field.text()]}})
    memory.remember_many([field.text(), {"text": field.text(), "tools": [field.text()], "origin": "tool"}])
    key = memory.add_experience(field.text())
    memory.update(key, text=field.text(), meta={"why": field.text()})
    memory.remember(field.text(), made_of=[key], kind=field.text())
    memory.remember_document(f"{'A long way. ' * 300}\n\n{field.text()} {'And back. ' * 300}", field.text())
    RememberTool(memory)(field.text(), key=field.text())
    memory.recall(field.text())
    memory.forget(field.text())
    learn(memory, field)
    told = [str(list(memory.items(archived=None))), str(memory.recall("the", 50)), to_markdown(memory)]
    memory.close()
    store: SqliteStore[Any] = SqliteStore(place, scope={"store": 1})
    store.add(field.text(), {"deep": [field.text(), (field.text().encode(),)], field.text(): 1}, {"by": field.text()})
    return [*told, str(list(store.items()))]


def learn(memory: EnhancedAgentMemory, field: Field) -> None:
    """What a run teaches: its task, what came back, an error, an answer."""
    LOOKED[0] = field.text() + " a long page" * 100
    script = [code("print(look())"), code(f"raise ValueError('''{field.text()}''')")]
    agent = CodeAgent([look], ScriptedModel([*script, code(f"final_answer('''{field.text()}''')")]), verbosity_level=0)
    with memory.attach(agent):
        agent.run(field.text())


def write_journal(place: Any, field: Field) -> list[str]:
    """By every way into a session: steps, calls, errors, answers, variables, state, a managed agent."""
    LOOKED[0] = field.text()
    helper_says = [code(f"final_answer('''{field.text()}''')")]
    helper = CodeAgent([], ScriptedModel(helper_says), verbosity_level=0, name="helper", description="Helps.")
    script = [
        code(f"x = '''{field.text()}'''\ny = [x]\nprint(look())\ndef f():\n    return '''{field.text()}'''"),
        code(f"print(helper('''{field.text()}'''))"),
        code(f"raise ValueError('''{field.text()}''')"),
        code(f"final_answer({{'a': '''{field.text()}''', 'b': b'''{field.used[0]}'''}})"),
    ]
    agent = CodeAgent([look], ScriptedModel(script), verbosity_level=0, managed_agents=[helper])
    with Session("s", place).attach(agent) as session:
        state = TypedMemory({"note": ""}, name="desk")
        session.keep(state)
        state.update(lambda value: {"note": field.text()})
        session.run(field.text(), additional_args={"who": field.text()})
        agent.memory.steps[1].observations += field.text()
    calling = ToolCallingAgent([look], ScriptedModel([call("look"), OSError(field.text())]), verbosity_level=0)
    with Session("t", place).attach(calling) as session, pytest.raises(AgentError, match="generating"):
        session.run(field.text())
    SessionManager(place).save_session(agent, "saved")
    told = Session("s", place)
    return [str(told.steps()), str(told.runs()), str([each.original for each in told.transcript()]),
            to_markdown(told), str(reasoning(told)), str(Session("t", place).runs())]  # fmt: skip


def left_in(folder: Path, told: list[str], needles: list[str]) -> list[str]:
    """The needles that are in the files of a folder, or in what was told."""
    content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return [each for each in needles if each.encode() in content or any(each in text for text in told)]


@pytest.fixture(autouse=True)
def legible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compressed, so that what is in a file can be seen there."""
    monkeypatch.setattr("smolagents_memory.database.envelope._WORTH", 1 << 60)


@pytest.mark.filterwarnings("ignore::smolagents_memory.MemoryLossWarning")
@pytest.mark.parametrize("write", [write_memories, write_journal])
def test_no_needle_is_in_any_file_or_told_by_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder, write: Any
) -> None:
    caplog.set_level(logging.DEBUG, logger="smolagents_memory")
    field = Field()
    told = write(Place(tmp_path / "place", redact=Redactor(journal=True)), field)
    assert len(field.used) > 12
    warned = [str(each.message) for each in recwarn if each.category is MemoryLossWarning]
    assert left_in(tmp_path / "place", [*told, caplog.text, *warned], field.used) == []


@pytest.mark.filterwarnings("ignore::smolagents_memory.MemoryLossWarning")
@pytest.mark.parametrize("write", [write_memories, write_journal])
def test_where_nothing_is_redacted_all_of_them_are(tmp_path: Path, write: Any) -> None:
    """The control: a test that looks for what is never written proves nothing."""
    field = Field()
    told = write(Place(tmp_path / "place"), field)
    found = left_in(tmp_path / "place", told, field.used)
    assert len(found) >= 0.8 * len(field.used)  # what was replaced is gone


def test_without_the_journal_memories_are_clean_and_the_journal_is_whole(tmp_path: Path) -> None:
    place = Place(tmp_path, redact=True)
    mail = "olivia.hart@oakridge.edu"
    memory = EnhancedAgentMemory(place, vector=False)
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)")]), verbosity_level=0)
    memory.attach(agent)
    with Session("s", place).attach(agent) as session:
        session.run(f"Ask {mail}.")
    memory.close()
    assert mail in Session("s", place).steps()[0].task  # type: ignore[attr-defined]
    assert mail not in str(list(EnhancedAgentMemory(place, vector=False).items()))


def test_a_backup_and_an_export_have_none_either(tmp_path: Path) -> None:
    place, field = Place(tmp_path / "place", redact=Redactor(journal=True)), Field()
    agent = CodeAgent([], ScriptedModel([code(f"final_answer('''{field.text()}''')")]), verbosity_level=0)
    with Session("s", place).attach(agent) as session:
        session.run(field.text())
    (tmp_path / "out").mkdir()
    SessionManager(place).backup(tmp_path / "out" / "backup.db")
    Session("s", place).export(tmp_path / "out" / "run.jsonl")
    assert left_in(tmp_path / "out", [], field.used) == []
    shutil.rmtree(tmp_path / "out")
