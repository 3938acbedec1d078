"""How many cores this process may use: in a container, or under `taskset`, less than the machine has."""

from __future__ import annotations

import os
from pathlib import Path


_GROUPS = Path("/sys/fs/cgroup")


def usable_cores(groups: Path = _GROUPS) -> int:
    """At least one. Threads beyond that wait for each other.

    >>> 1 <= usable_cores() <= os.cpu_count()
    True
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = _share(groups)
    return max(1, allowed if share is None else min(allowed, round(share)))


def _share(groups: Path) -> float | None:
    """The cores that a control group has time for, of either version; None for as much as there is."""
    try:
        if (groups / "cpu.max").exists():
            quota, period = (groups / "cpu.max").read_text().split()
        else:
            quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if quota != "max" and int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # no groups here
        return None
