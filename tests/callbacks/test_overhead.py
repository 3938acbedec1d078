"""The limits that benchmarks/callback_overhead.py sets hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "callback_overhead.py"


@pytest.mark.measures
@pytest.mark.slow
def test_callbacks_stay_cheap_and_flat_over_1000_steps_and_memory_grows_in_proportion() -> None:
    ran = subprocess.run([sys.executable, str(BENCHMARK)], capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "RAM grows in proportion to the steps" in ran.stdout
