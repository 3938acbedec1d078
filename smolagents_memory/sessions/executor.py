"""stub"""

from dataclasses import dataclass, field


class ExecutorCapture:
    def __init__(self, budget):
        pass

    def changes(self, *a):
        return None


@dataclass
class RestoreReport:
    restored: dict = field(default_factory=dict)
    missing: dict = field(default_factory=dict)

    def note(self):
        return None


def estimated_size(value, limit):
    return 0


def fold_variables(d):
    return {}


def restore_variables(*a):
    return RestoreReport()
