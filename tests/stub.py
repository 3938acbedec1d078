"""`smolagents_memory/__init__.pyi`: what editors and type checkers read of the public names. Run this to write it."""

from __future__ import annotations

from pathlib import Path

import smolagents_memory


PATH = Path(smolagents_memory.__file__).with_name("__init__.pyi")


def stub() -> str:
    """The text that belongs there now."""
    lines = ["# made by tests/stub.py from the table in __init__.py"]
    homes = {f"smolagents_memory.{home}": names.split() for home, names in smolagents_memory._HOMES.items()}
    for home, names in sorted({**homes, "smolagents_memory._version": ["__version__"]}.items()):
        lines.append(f"from {home} import (")
        lines += [f"    {name} as {name}," for name in sorted(names)]
        lines.append(")")
    lines += ["", "__all__: list[str]", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PATH.write_text(stub(), encoding="utf-8")
