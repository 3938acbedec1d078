"""Programs as users run them: each in a process of its own, which ends as Python ends and need import nothing anew."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from nursery import nursery, opened


PATIENCE = 120.0  # seconds
_STREAMS = (("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))


def command(*arguments: str, cwd: Path, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `smolagents-memory` and wait for it."""
    return _ended(None, arguments, cwd, given, {"COLUMNS": "140", **environment})


def python(
    source: str, *arguments: object, cwd: Path | None = None, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program as `python -c` does, and wait for it; where it fails the test does."""
    done = _ended(source, [str(each) for each in arguments], cwd or Path.cwd(), "", environment)
    if check and done.returncode:
        pytest.fail(f"it ended with {done.returncode}:\n{done.stderr}")
    return done


def _ended(
    source: str | None, arguments: Any, cwd: Path, given: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    with TemporaryDirectory(prefix="program-") as name, opened():
        folder = Path(name)
        (folder / "in").write_text(given)
        (folder / "out").touch()
        (folder / "err").touch()
        process = nursery.Process(
            target=_run, args=(source, list(arguments), folder, cwd, {**os.environ, **environment})
        )
        process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, PATIENCE, *_said(folder))
        return subprocess.CompletedProcess(arguments, process.exitcode, *_said(folder))


def _said(folder: Path) -> tuple[str, str]:
    return (folder / "out").read_text(), (folder / "err").read_text()


def _run(source: str | None, arguments: list[str], folder: Path, cwd: Path, environment: dict[str, str]) -> None:
    for stream, (name, flags) in enumerate(_STREAMS):
        os.dup2(os.open(folder / name, flags | (os.O_APPEND if stream else 0)), stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 — as long as the process
    sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))  # noqa: SIM115 — likewise
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    tempfile.tempdir = None  # where the environment says; Python 3.10 has asked before
    try:
        if source is None:
            from smolagents_memory.cli import main

            sys.argv = ["smolagents-memory", *arguments]
            main()
        else:
            sys.argv = ["-c", *arguments]
            exec(compile(source, "<string>", "exec"), {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # which multiprocessing passes by
