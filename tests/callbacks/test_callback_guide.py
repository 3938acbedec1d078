"""The guide to the callbacks runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import smolagents_memory


GUIDE = Path(__file__).parents[2] / "docs" / "callbacks.md"


def test_every_block_of_the_guide_runs_top_to_bottom(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 15
    namespace: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), namespace)


def test_every_public_callback_is_in_the_guide() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    homes = {name: home for home, names in smolagents_memory._HOMES.items() for name in names}
    for name in (name for name, home in homes.items() if home.startswith("callbacks.")):
        assert re.search(rf"\b{name}\b", guide), name
