"""The command line as a user runs it: a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def command(*arguments: str, cwd: Path, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `smolagents-memory` and wait for it."""
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
        input=given,
        env={**os.environ, "COLUMNS": "140", **environment},
        timeout=120,
        check=False,
    )
