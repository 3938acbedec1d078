"""`smolagents-memory demo`: a real agent works, its memory is saved, and another process goes on from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from smolagents import CodeAgent, tool

from smolagents_memory import load_memory, save_memory
from smolagents_memory.testing import ScriptedModel, code


MENU = {"tea": 2.5, "cake": 4.0, "soup": 6.5}


@tool  # type: ignore[untyped-decorator]  # smolagents is not typed
def price_of(dish: str) -> float:
    """Looks up what a dish costs.

    Args:
        dish: The name of the dish.
    """
    return MENU[dish]


def _agent(script: list[str], console: Console) -> CodeAgent:
    agent = CodeAgent(tools=[price_of], model=ScriptedModel(script, model_id="scripted (offline)"))
    agent.logger.console = console
    return agent


def first_act(path: Path, console: Console) -> None:
    """An agent answers a question, with an error on the way, and its memory is saved."""
    script = [
        code("print(price_of(dish='pie'))", thought="I ask for the price of a pie."),
        code("total = price_of(dish='tea') + price_of(dish='cake')\nfinal_answer(total)", thought="There is no pie."),
    ]
    agent = _agent(script, console)
    agent.run("What do tea and something sweet cost?")
    save_memory(agent, path)


def second_act(path: Path, console: Console) -> None:
    """Another process loads the memory and goes on: the agent knows what was said before."""
    agent = _agent([code(f"final_answer({sum(MENU.values())})", thought="I add the soup to what I know.")], console)
    load_memory(path, agent)
    loaded = len(agent.memory.steps)
    answer = agent.run("And with a soup?", reset=False)
    sent = agent.model.calls[0].text
    save_memory(agent, path)

    summary = Table(title="What was kept", show_header=False, title_justify="left")
    summary.add_row("steps that the new process found", str(loaded))
    summary.add_row("the failed step among them", "yes" if "KeyError" in sent else "no")
    summary.add_row("steps after it went on", str(len(agent.memory.steps)))
    summary.add_row("its answer", str(answer))
    summary.add_row("the file, readable with jq", f"{path} ({path.stat().st_size:,} bytes)")
    console.print(summary)


def run_demo(folder: Path) -> int:
    """Play both acts, the second in a process of its own; returns the exit code."""
    console = Console()
    path = folder / "demo.jsonl"
    console.print(Panel(Text("Act 1: an agent works, and its memory is saved")))
    first_act(path, console)
    console.print(Panel(Text("Act 2: a new process loads the memory, and the agent goes on")))
    console.file.flush()
    return subprocess.run([sys.executable, "-m", "smolagents_memory.demo", str(path)], check=False).returncode


if __name__ == "__main__":
    second_act(Path(sys.argv[1]), Console())
