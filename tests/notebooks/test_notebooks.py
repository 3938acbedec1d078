"""The notebooks run from top to bottom, offline and without a key, and are as a reader wants them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest


nbformat = pytest.importorskip("nbformat", reason="pip install 'smolagents-memory[test]'")
nbclient = pytest.importorskip("nbclient", reason="pip install 'smolagents-memory[test]'")
pytest.importorskip("ipykernel", reason="pip install 'smolagents-memory[test]'")
pytest.importorskip("matplotlib", reason="pip install 'smolagents-memory[notebooks]'")

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TOPICS = [
    "01_callbacks",
    "02_save_resume",
    "03_recall",
    "04_monitoring_agent",
    "05_vision_browser_memory",
    "06_long_runs",
    "07_inspect_inject_step",
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A kernel inherits the environment: the package under test, and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")


def test_there_is_one_for_each_topic():
    assert [path.stem for path in NOTEBOOKS] == TOPICS


def most_are_slow() -> list[Any]:
    """Each has a kernel of its own; one of them shows that notebooks run."""
    return [pytest.param(path, marks=() if "resume" in path.stem else pytest.mark.slow) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", most_are_slow(), ids=TOPICS)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]
    assert not (tmp_path / "agent_memory").exists()  # what a notebook keeps, it keeps in a folder of its own


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_as_a_reader_wants_it(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    first, install, *_, last = notebook["cells"]
    assert f"colab.research.google.com/github/smolagents-memory/smolagents-memory/blob/main/notebooks/{path.name}" in (
        "".join(first["source"])
    )
    assert '%pip install --quiet "smolagents-memory[' in "".join(install["source"])
    assert "USE_A_REAL_MODEL = False" in "".join(last["source"])
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert any(cell.get("outputs") for cell in notebook["cells"])
    assert len(text) < 150_000
    if path.stem != "02_save_resume":
        assert "image/png" in text  # something to look at
    for word in ("/tmp/", "/root/", "/home/"):
        assert word not in text
