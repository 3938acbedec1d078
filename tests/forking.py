"""A forked child that does one thing and ends, and what it exits with."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import time
from collections.abc import Callable


def forked(does: Callable[[], object]) -> int:
    """What a child exits with."""
    born = os.fork()
    if born == 0:
        code = 4
        faulthandler.dump_traceback_later(30, file=sys.__stderr__)  # one that hangs says where
        try:
            does()
            gc.collect()
            code = 0
        finally:
            os._exit(code)  # it must never come back into pytest
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(born, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(born, signal.SIGKILL)
    os.waitpid(born, 0)
    return -1
