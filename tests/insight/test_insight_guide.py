"""The user guide's code runs, top to bottom."""

from __future__ import annotations

import linecache
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


GUIDE = Path(__file__).parents[2] / "docs" / "insight.md"


def test_every_block_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = ModuleType("insight_guide")
    monkeypatch.setitem(sys.modules, guide.__name__, guide)  # dataclasses look up the module they are in
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    for number, block in enumerate(blocks):
        name = f"<block {number}>"
        linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)  # @tool reads its source
        exec(compile(block, name, "exec"), vars(guide))
    shown = capsys.readouterr().out
    for expected in ("no such city", "['Ask for the weather.', 'Answer.']", "total kb", "1 added 0 removed"):
        assert expected in shown
