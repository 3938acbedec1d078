"""The demo, as a user runs it, and as nobody wants to run it: killed at any moment."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smolagents_memory import MissingExtraError, Session, SessionManager, load_memory
from smolagents_memory.demo import run_demo
from smolagents_memory.demo.pictures import drawing
from smolagents_memory.demo.service import Service, Shop
from smolagents_memory.demo.watcher import ReadLog, SetPool, model_for


ENDED = ("none lost, none taken twice", "6 steps instead of 11", "Where to look")
PLAY = (
    "import sys; from pathlib import Path; from smolagents_memory.demo import run_demo; "
    "folder, mode, model, api_base = sys.argv[1:]; "
    "sys.exit(run_demo(Path(folder), mode=mode, model=model or None, api_base=api_base or None))"
)


def started(folder: Path, mode: str = "full", model: str = "", api_base: str = "", *, browser: bool = False):
    """The demo in a process of its own."""
    environment = {**os.environ, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    if not browser:
        environment["PATH"] = ""  # then no Chromium is found
    return subprocess.Popen(
        [sys.executable, "-c", PLAY, str(folder), mode, model, api_base],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
    )


def played(folder: Path, mode: str = "full", patience: float = 180, **options) -> str:
    """What the demo says when it is left in peace; it must end well."""
    demo = started(folder, mode, **options)
    said, _ = demo.communicate(timeout=patience)
    assert demo.returncode == 0, said
    return said


def read_until(demo: subprocess.Popen, pattern: str) -> str:
    """What the demo says up to a line that matches."""
    said = ""
    for line in demo.stdout:
        said += line
        if re.search(pattern, line):
            return said
    raise AssertionError(f"it never said {pattern!r}:\n{said}")


def session(folder: Path, name: str) -> Session:
    return Session(name, f"sqlite:///{folder}/demo/memory.db")


@pytest.mark.slow
def test_the_demo_kills_its_agent_resumes_it_and_remembers(tmp_path):
    began = time.monotonic()
    said = played(tmp_path, browser=True)
    assert time.monotonic() - began < 180  # some twenty seconds where nobody else works
    assert re.search(r"kill -9 \d+: the agent died while it read the log", said)
    assert re.search(r"found 8 steps of the one before", said)
    assert "[ALERT] Pattern detected: 3 failures in last 10 checks" in said
    for line in ENDED:
        assert line in said
    monday, thursday = session(tmp_path, "monday"), session(tmp_path, "thursday")
    assert [run.state for run in [*monday.runs(), *thursday.runs()]] == ["finished", "finished"]
    # the variable `answers` was filled by two processes
    assert monday.runs()[0].answer == "Too few connections: set_pool(size=32) repaired it (7 checks)."
    pictures = [len(getattr(step, "observations_images", None) or ()) for step in monday.steps()]
    assert pictures == [0] * 10 + [1, 1]
    assert all(re.match(r"\[\d\d:\d\d:\d\d\] ", step.observations) for step in monday.steps()[1:8])
    assert len(session(tmp_path, "what-if").steps()) == 9  # forked at the third step, a tip, two steps, a task, one


@pytest.mark.slow
def test_a_demo_that_was_played_is_played_anew_from_nothing(tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "shop.json").write_text('{"act": 4}')
    (tmp_path / "notes.txt").write_text("the user's own")
    demo = started(tmp_path)
    said = read_until(demo, r"^   1 ")
    demo.kill()
    demo.communicate()
    assert "Act 1" in said
    assert (tmp_path / "notes.txt").read_text() == "the user's own"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("replay", ["Step 11", "Executing parsed code", "set_pool(size=32)"]),
        ("inject", ["one observation is injected", "a colleague", "A second task is injected", "Checkout down"]),
        ("step_by_step", ["now in memory: 5 messages", "notes from earlier", "now in memory: 20 messages"]),
    ],
)
def test_each_mode_does_what_its_name_says(tmp_path, mode, expected):
    said = played(tmp_path, mode)
    for text in expected:
        assert text in said, said
    assert "kill -9" not in said
    assert "monday" in SessionManager(tmp_path / "demo").list_sessions()
    assert len(load_memory(session(tmp_path, "monday").export(tmp_path / "monday.jsonl")).steps) == 12


@pytest.mark.slow
def test_the_agents_process_is_replaced_however_it_is_killed(tmp_path):
    demo = started(tmp_path)
    said = read_until(demo, r"Act 2")
    for wanted in (r"found \d+ steps", r"^   [89] ", r"^  1\d "):
        said += read_until(demo, wanted)
        worker = int(re.findall(r"rocess (\d+) found", said)[-1])
        os.kill(worker, signal.SIGKILL)
    rest, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, said + rest
    assert rest.count("another one goes on") + said.count("another one goes on") >= 2
    for line in ENDED:
        assert line in rest


def killed_in_act_two(folder: Path) -> None:
    demo = started(folder)
    read_until(demo, r"Act 2")
    demo.kill()
    demo.communicate()


@pytest.mark.slow
def test_a_demo_that_was_killed_goes_on_when_it_is_run_again(tmp_path):
    killed_in_act_two(tmp_path)
    said = played(tmp_path)
    assert "Act 1" not in said
    for line in ENDED:
        assert line in said


@pytest.mark.endurance
def test_the_demo_ends_well_after_a_kill_at_any_moment_of_its_second_act(tmp_path, rounds, chance):
    first = tmp_path / "first"
    first.mkdir()
    killed_in_act_two(first)
    time.sleep(1)  # the agent's process ends with the demo
    for number in range(rounds(12)):
        folder = tmp_path / str(number)
        shutil.copytree(first, folder)
        for _ in range(chance.choice([1, 1, 2])):
            demo = started(folder)
            time.sleep(chance.uniform(0.3, 6.0))
            demo.kill()
            demo.communicate()
        said = played(folder)
        for line in ENDED:
            assert line in said, said
        assert session(folder, "monday").runs()[0].state == "finished"


@pytest.mark.slow
def test_nobody_is_left_behind_when_the_demo_is_killed(tmp_path):
    demo = started(tmp_path, browser=True)
    said = read_until(demo, r"^   3 ")
    demo.kill()
    demo.communicate()
    worker = int(re.findall(r"works in process (\d+)", said)[-1])
    until = time.monotonic() + 20
    while time.monotonic() < until and Path(f"/proc/{worker}/cmdline").exists():
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists() or not Path(f"/proc/{worker}/cmdline").read_bytes()


@pytest.mark.slow
def test_two_demos_do_not_play_in_one_folder(tmp_path):
    one = started(tmp_path)
    read_until(one, r"^   1 ")
    other = started(tmp_path)
    said, _ = other.communicate(timeout=60)
    assert other.returncode == 1
    assert "another --folder" in said
    one.kill()
    one.communicate()


def test_what_cannot_be_played_is_said_before_anything_begins(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="step_by_step"):
        run_demo(tmp_path, mode="backwards")
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'smolagents-memory\[litellm\]'"):
        run_demo(tmp_path, model="ollama_chat/llama3.2")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'smolagents-memory\[openai\]'"):
        run_demo(tmp_path, model="some", api_base="http://127.0.0.1:9/v1")
    assert not list(tmp_path.iterdir())


def test_a_real_model_is_reached_by_its_name_or_address():
    pytest.importorskip("openai")
    assert type(model_for("some", "http://127.0.0.1:9/v1")).__name__.startswith("OpenAI")
    pytest.importorskip("litellm")
    made = model_for("ollama_chat/llama3.2", "http://127.0.0.1:9")
    assert type(made).__name__ == "LiteLLMModel"
    assert made.model_id == "ollama_chat/llama3.2"


def test_the_shop_fails_until_its_pool_is_large_enough(tmp_path):
    shop = Shop(tmp_path / "shop.json")
    shop.begin(1)
    with Service(shop) as service:
        assert [shop.check() for _ in range(4)] == [200, 200, 503, 503]
        assert "5 of 5 in use" in ReadLog(service.url)()
        with pytest.raises(ValueError, match="16, 32 or 64"):
            SetPool(service.url)(size=8)
        assert SetPool(service.url)(size=32) == "the pool has 32 connections"
        assert shop.check() == 200
    assert "no answer" in ReadLog(service.url)()
    assert Shop.opened(shop.path) == shop
    assert drawing(shop.statuses, shop.pool).startswith(b"\x89PNG")
