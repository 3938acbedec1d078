"""The command line and the demo, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from smolagents_memory import __version__, load_memory


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # without an installed script (a source tree on the path) the module is the same program
    script = Path(sys.executable).with_name("smolagents-memory")
    program = (
        [str(script)] if script.exists() else [sys.executable, "-c", "from smolagents_memory.cli import main; main()"]
    )
    return subprocess.run(
        [*program, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )


def test_the_demo_is_saved_in_one_process_and_goes_on_in_another(tmp_path: Path) -> None:
    done = command("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Act 2" in done.stdout
    assert "13.0" in done.stdout
    memory = load_memory(tmp_path / "agent_memory" / "demo.jsonl")
    assert [type(step).__name__ for step in memory.steps] == [
        "TaskStep",
        "ActionStep",
        "ActionStep",
        "TaskStep",
        "ActionStep",
    ]
    assert "KeyError" in str(memory.steps[1].error)


def test_help_and_version(tmp_path: Path) -> None:
    assert command("--version", cwd=tmp_path).stdout.strip() == __version__
    assert "demo" in command("--help", cwd=tmp_path).stdout
    assert "Example" in command("demo", "--help", cwd=tmp_path).stdout
    wrong = command("no-such-command", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "no-such-command" in wrong.stderr
