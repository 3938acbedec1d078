"""The command line and the demo, as a user runs them."""

from __future__ import annotations

from pathlib import Path

from program import command

from smolagents_memory import __version__, load_memory


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
