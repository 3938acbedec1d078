"""What strangers wrote is shown on the terminal, and does not speak to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from agents import code_agent
from program import command

from smolagents_memory import EnhancedAgentMemory, Session
from smolagents_memory.testing import code


RAW = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\x00"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place")
    where = folder / "agent_memory"
    with EnhancedAgentMemory(where, vector=False, scope={"user": f"ann{RAW}"}) as memory:
        memory.remember("hers")
    with EnhancedAgentMemory(where, vector=False) as memory:
        memory.remember(f"the pump {RAW}\nruns\thot", key=f"k{RAW}", source=f"s{RAW}", kind=f"kind{RAW[:5]}")
    agent = code_agent([code(f"final_answer({RAW!r})")], planning_interval=None)
    with Session("s", where, user=f"ann{RAW}", title=f"title{RAW}", tags=[f"tag{RAW}"]).attach(agent):
        agent.run(f"go {RAW}")
    with Session(f"id{RAW}", where).attach(code_agent([])) as session:
        session.flush()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("memories",), ("search", "pump"), ("scopes",), ("sessions",), ("show", "s"), ("replay", "s"), ("stats", "s"),
        ("show", f"none{RAW[:-1]}"), ("forget", "none\x1b[2J", "--yes"), ("search", "x", "--scope", "user=\x1b[2J"),
        ("doctor",), ("people", "list"), ("people", "erase", "none\x1b[2J"),
        ("people", "export", "none\x1b[2J", "a.zip"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_no_command_sends_what_was_written_to_the_terminal(arguments: tuple[str, ...], place: Path) -> None:
    done = command(*arguments, cwd=place)
    said = done.stdout + done.stderr
    assert len(said) > 5
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", said), said


@pytest.mark.slow
def test_what_it_was_can_be_seen(place: Path) -> None:
    shown = command("memories", cwd=place).stdout
    assert "␛]0;owned␛[2J" in shown
