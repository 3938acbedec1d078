"""Places that nobody uses any more are closed."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest

from smolagents_memory import Session


def open_files() -> int:
    process = psutil.Process()
    if not hasattr(process, "num_fds"):
        pytest.skip("open files are not counted here")
    return int(process.num_fds())


@pytest.mark.slow
def test_a_thousand_places_that_were_opened_and_dropped_leave_no_open_file(tmp_path: Path) -> None:
    Session("s", tmp_path / "first.db").exists()
    gc.collect()
    before = open_files()
    most = 0
    for number in range(1000):
        Session("s", tmp_path / f"{number % 50}.db").exists()
        if number % 100 == 0:
            gc.collect()
            most = max(most, open_files())
    gc.collect()
    assert most - before < 100
    assert open_files() - before < 40  # the newest eight are kept open for whoever comes next
