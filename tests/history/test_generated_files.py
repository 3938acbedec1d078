"""Files that nobody wrote, 50,000 of them: our own error, or a memory that can be saved and loaded again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


HERE = Path(__file__).parent
AT_ONCE = 2_500  # files a process


def generate(seed: int, first: int, count: int) -> list[str]:
    """What a process that loads so many files found; the last line tells how it ended."""
    command = [sys.executable, str(HERE / "generating.py"), str(seed), str(first), str(count)]
    paths = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=3_600
    )
    lines = child.stdout.splitlines()
    found = [line for line in lines if line.startswith("found")]
    ended = child.returncode == 0 and lines[-1:] == ["end"]
    return found if ended else [*found, f"{lines[-1:]} ended with {child.returncode}: {child.stderr[-1500:]}"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_files_that_nobody_wrote_give_our_error_or_a_memory(seed: int) -> None:
    assert generate(seed, 0, 60) == []


@pytest.mark.endurance
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_so_do_50_000_of_them(rounds: Callable[[int], int], seed: int) -> None:
    whole = rounds(50_000)
    found: list[str] = []
    for first in range(0, whole, AT_ONCE):
        found += generate(seed, first, min(AT_ONCE, whole - first))
    assert found == []
