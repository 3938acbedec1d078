"""What cannot come back is named, to the report and to the agent; a process that is killed loses nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from revived import Life, fresh_agent, lived, revived
from smolagents import ToolCallingAgent, tool
from smolagents.local_python_executor import PythonExecutor

import smolagents_memory
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.testing import ScriptedModel
from smolagents_memory.variables.capture import ExecutorCapture, RestoreReport, fold, restore_variables


def test_a_socket_is_named_to_the_report_and_to_the_agent() -> None:
    life = lived("import socket\nconn = socket.socket()\nhost = 'here'\nopen_ones = {'first': [conn]}", "conn.close()")
    agent, report = revived(life)
    assert report.restored == {"socket": "import", "host": "variable"}
    assert report.missing == {
        "conn": "a socket.socket cannot be kept",
        "open_ones": "inside it, a socket.socket cannot be kept",
    }
    assert "conn" not in agent.python_executor.state
    note = report.note()
    assert note is not None
    assert "- conn: a socket.socket cannot be kept\n- open_ones: inside it" in note


def test_a_loss_that_the_agent_was_not_told_of_outlives_another_kill() -> None:
    life = lived("import socket\nconn = socket.socket()\nother = socket.socket()\nx = 1")
    agent, report = revived(life)
    capture = ExecutorCapture()
    capture.untold = dict(report.missing)
    deltas = [capture.changes(agent, None, Blobs())]
    assert set(fold(deltas)["missing"]) == {"conn", "other"}  # type: ignore[arg-type]
    agent.python_executor("other = 5")
    deltas.append(capture.changes(agent, None, Blobs()))
    assert set(fold(deltas)["missing"]) == {"conn"}  # type: ignore[arg-type]
    capture.untold = {}
    deltas.append(capture.changes(agent, None, Blobs()))
    assert "missing" not in fold(deltas)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_is_too_large_is_named_and_smaller_ones_are_kept() -> None:
    life = lived(
        "import numpy as np\nsmall = np.arange(10)\nhuge = np.zeros(900_000)\nmany = [[i] for i in range(300_000)]\n"
        "table = {i: 'x' * 100 for i in range(60_000)}"
    )
    agent, report = revived(life)
    assert report.missing["huge"] == "7.2 MB: more than the budget of 4 MB"
    assert set(report.missing) == {"huge", "many", "table"}
    assert agent.python_executor.state["small"].sum() == 45
    assert life.blobs.data == {}


def test_the_budget_is_for_all_together_and_aliases_cost_nothing() -> None:
    life = lived(
        "import numpy as np\na = np.zeros(200)\nb = np.zeros(250)\nc = np.zeros(300)\nc2 = b", "a = None", budget=5000
    )
    first, second = (fold(life.deltas[:n]) for n in (1, 2))
    assert set(first["variables"]) == {"a", "b", "c2"}
    assert first["missing"] == {"c": "2 kB: the other variables leave no room for it in the budget of 5 kB"}
    assert set(second["variables"]) == {"a", "b", "c2", "c"}
    assert "missing" not in second
    agent, _ = revived(life)
    assert agent.python_executor.state["c"].shape == (300,)


def test_what_grew_too_large_is_not_restored_as_it_was_before() -> None:
    life = lived("x = [1]", "x.extend(range(2_000_000))")
    agent, report = revived(life)
    assert "more than the budget" in report.missing["x"]
    assert "x" not in agent.python_executor.state


def test_a_sent_variable_that_became_something_unkeepable_is_not_the_old_one() -> None:
    life = Life(["import socket\nconn = socket.socket()", "final_answer(1)"])
    life.agent.run("Go on.", additional_args={"conn": "a name"})
    agent, report = revived(life, additional_args={"conn": "a name"})
    assert set(report.missing) == {"conn"}
    assert "conn" not in agent.python_executor.state


def test_a_name_that_a_tool_has_now_is_left_to_the_tool() -> None:
    @tool
    def search() -> str:
        """Searches."""
        return "found"

    life = lived("search = 5\nx = 1")
    agent, report = revived(life, "y = search()", tools=[search])
    assert report.missing == {"search": "a tool has this name now"}
    assert agent.python_executor.state["y"] == "found"


class ElsewhereExecutor(PythonExecutor):  # type: ignore[misc]
    """Runs code where nobody can look, as the remote ones do."""

    def send_tools(self, tools: Any) -> None:
        """Nothing is sent."""

    def send_variables(self, variables: Any) -> None:
        """Nothing is sent."""

    def __call__(self, code_action: str) -> Any:
        raise RuntimeError("out of reach")


def test_a_remote_executor_is_said_clearly_and_once() -> None:
    agent = fresh_agent([])
    agent.python_executor = ElsewhereExecutor()
    capture = ExecutorCapture()
    delta = capture.changes(agent, "x = 1", Blobs())
    assert delta == {"full": 1, "remote": "ElsewhereExecutor"}
    assert capture.changes(agent, "x = 2", Blobs()) is None
    report = restore_variables(agent, fold([delta]), {})
    assert report.restored == {}
    assert "remote executor (ElsewhereExecutor) and are out of reach" in str(report.note())


def test_local_variables_do_not_go_to_a_remote_executor() -> None:
    agent = fresh_agent([])
    agent.python_executor = ElsewhereExecutor()
    report = restore_variables(agent, lived("x = 1\ndef f():\n    return x").folded, {})
    assert report.missing == dict.fromkeys(("x", "f"), "it cannot be sent to a ElsewhereExecutor")
    assert "now it is a remote one" in str(report.note())


def test_an_agent_without_python_has_no_variables() -> None:
    agent = ToolCallingAgent(tools=[], model=ScriptedModel([]), verbosity_level=0)
    assert ExecutorCapture().changes(agent, None, Blobs()) is None
    assert restore_variables(agent, {}, {}) == RestoreReport()


def test_a_failure_while_looking_is_told_and_made_good_by_the_next_look() -> None:
    class Moody(dict):
        broken = True

        def __iter__(self) -> Any:
            if self.broken:
                raise RuntimeError("dictionary changed size during iteration")
            return super().__iter__()

        def items(self) -> Any:
            if self.broken:
                raise RuntimeError("dictionary changed size during iteration")
            return super().items()

    agent, capture = fresh_agent([]), ExecutorCapture()
    agent.python_executor.send_tools({})
    deltas = [capture.changes(agent, "", Blobs())]
    agent.python_executor.state = Moody(agent.python_executor.state, x=[1])
    deltas.append(capture.changes(agent, "x = [1]", Blobs()))
    again = fresh_agent([])
    assert "changed size" in str(restore_variables(again, fold(deltas), {}).note())  # type: ignore[arg-type]
    agent.python_executor.state.broken = False
    deltas.append(capture.changes(agent, "", Blobs()))
    report = restore_variables(again, fold(deltas), {})  # type: ignore[arg-type]
    assert report.note() is None
    assert again.python_executor.state["x"] == [1]


def test_a_missing_blob_costs_only_the_variable_that_needs_it() -> None:
    life = lived("import numpy as np\nbig = np.arange(1000)\nsmall = [1]\nboth = [big, small]\nx = small")
    life.blobs.data.clear()
    agent, report = revived(life)
    assert set(report.missing) == {"big", "both"}
    assert "could not be read" in report.missing["big"]
    assert agent.python_executor.state["x"] is agent.python_executor.state["small"]


def test_variables_of_a_newer_version_are_left_alone() -> None:
    report = restore_variables(fresh_agent([]), {"full": 99, "variables": {"x": {"$": "unheard-of"}}}, {})
    assert report.restored == {}
    assert "newer version" in str(report.note())


# -- a real kill ---------------------------------------------------------------------------------------------------

WORKER = """
import json, os, signal, sys
from dataclasses import dataclass
sys.path[:0] = [{tests!r}]
from revived import Life
from smolagents import tool

@dataclass
class Ticket:
    number: int

@tool
def ticket() -> object:
    '''Gives a ticket.'''
    return Ticket(7)

class Doomed(Life):
    def keep(self, step, agent):
        super().keep(step, agent)
        blobs = {{name: data.hex() for name, data in self.blobs.data.items()}}
        with open({journal!r} + '.new', 'w') as file:
            json.dump([self.deltas, blobs], file)
        os.replace({journal!r} + '.new', {journal!r})
        if len(self.deltas) == 4:
            os.kill(os.getpid(), signal.SIGKILL)

Doomed([
    "import numpy as np\\nimport socket\\ndata = np.arange(1000.0)\\nalias = data",
    "def mean(values):\\n    return float(values.sum()) / len(values)",
    "class Log:\\n    def __init__(self):\\n        self.lines = []\\n"
    "    def write(self, x):\\n        self.lines.append(x)\\nnotes = Log()",
    "notes.write(mean(data))\\nconn = socket.socket()\\nstub = ticket()",
    "final_answer('never')",
], tools=[ticket]).agent.run('Go on.')
"""


def test_a_killed_process_goes_on_in_another(tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.json")
    script = WORKER.format(tests=str(Path(__file__).parent.parent), journal=journal)
    root = str(Path(smolagents_memory.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    worker = tmp_path / "worker.py"
    worker.write_text(script, encoding="utf-8")
    done = subprocess.run([sys.executable, str(worker)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr

    life = Life([])
    life.deltas, blobs = json.loads(Path(journal).read_text(encoding="utf-8"))
    life.blobs.data.update({name: bytes.fromhex(data) for name, data in blobs.items()})
    agent, report = revived(life, "notes.write(mean(alias))", "answer = notes.lines")
    state = agent.python_executor.state
    assert state["answer"] == [499.5, 499.5]
    assert state["alias"] is state["data"]
    assert set(report.missing) == {"conn", "stub"}
    assert "__main__:Ticket is not known in this process; see register_value" in report.missing["stub"]


class Sulky:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("leave me alone")


def test_one_object_that_cannot_be_read_costs_only_itself() -> None:
    life = Life([])
    life.agent.python_executor.send_tools({})
    life.agent.python_executor.state.update(x=[1], bad=Sulky())
    for _ in range(2):
        delta = life.capture.changes(life.agent, "", life.blobs)
        life.deltas.append(delta or {"edits": []})
        life.agent.python_executor.state["x"].append(2)
    agent, report = revived(life)
    assert set(report.missing) == {"bad"}
    assert agent.python_executor.state["x"] == [1, 2]


def test_looking_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        life = Life(["import socket\nconn = [socket.socket()]\nconn[0].close()", "final_answer(1)"])
        life.agent.run("Go on.")
    assert len(life.deltas) == 1


@pytest.mark.parametrize("budget", [0, 1, 100])
def test_even_a_budget_of_nothing_keeps_functions_and_imports(budget: int) -> None:
    life = lived("import math\ndef f():\n    return 1\nx = 'long' * 100", budget=budget)
    _, report = revived(life)
    assert set(report.restored) == {"math", "f"}
    assert set(report.missing) == {"x"}
