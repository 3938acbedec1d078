"""Portable files: saved whole, loaded exactly, honest about damage."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import calling_agent, code_agent, photo, rendered
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from smolagents.memory import AgentMemory, TaskStep
from strategies import steps

from smolagents_memory import (
    DamagedFileError,
    ForeignFileError,
    MemoryFileError,
    MemoryLossWarning,
    NewerFormatError,
    NotKept,
    ObservedMemory,
    SmolagentsMemoryError,
    export_memory,
    import_memory,
    load_memory,
    save_memory,
)
from smolagents_memory.codec.lines import dump_line, parse_line
from smolagents_memory.testing import code, explain_difference


@pytest.fixture(params=["code", "calls"])
def ran(request: pytest.FixtureRequest) -> Any:
    """An agent of either kind after a run with errors, a plan, images, and parallel calls."""
    agent = code_agent() if request.param == "code" else calling_agent()
    agent.run("Do it.", images=[photo()])
    return agent


def fresh_agent(like: Any, script: Any) -> Any:
    return code_agent(script) if type(like).__name__ == "CodeAgent" else calling_agent(script)


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz", "deep/er/run"])
def test_a_memory_comes_back_as_it_was(ran: Any, tmp_path: Path, name: str) -> None:
    ran.state["table"] = {"rows": [(1, 2.5)], "image": photo("blue")}
    save_memory(ran, tmp_path / name)
    memory = load_memory(tmp_path / name)
    assert isinstance(memory, ObservedMemory)
    assert explain_difference(list(ran.memory.steps), list(memory.steps)) is None
    assert memory.system_prompt == ran.memory.system_prompt
    assert explain_difference(ran.state, memory.origin.state) is None
    assert memory.origin.agent == {"name": None, "class": type(ran).__name__, "model_id": "scripted"}


def test_an_agent_goes_on_from_a_loaded_memory_in_every_way(ran: Any, tmp_path: Path) -> None:
    before = rendered(ran)
    ran.state["seen"] = 3
    save_memory(ran, tmp_path / "run.jsonl")
    agent = fresh_agent(ran, ["A new plan.", code("final_answer(1)"), code("final_answer(2)")])
    if type(agent).__name__ == "ToolCallingAgent":
        from smolagents_memory.testing import call

        agent = calling_agent(["A new plan.", call("final_answer", answer=1), call("final_answer", answer=2)])

    memory = load_memory(tmp_path / "run.jsonl", agent)

    assert memory is agent.memory
    assert explain_difference(rendered(agent), before) is None
    assert agent.state["seen"] == 3
    agent.replay(detailed=True)
    assert len(agent.memory.get_full_steps()) == len(agent.memory.get_succinct_steps()) == len(ran.memory.steps)
    count = len(agent.memory.steps)
    agent.return_full_result = True
    result = agent.run("And now?", reset=False)
    assert result.output == 1
    assert result.state == "success"
    assert len(agent.memory.steps) == count + 3
    assert explain_difference(rendered(agent)[: len(before)], before) is None


def test_a_plain_agent_memory_can_be_saved_and_loaded_into(tmp_path: Path) -> None:
    memory = AgentMemory("plain")
    memory.steps.append(TaskStep(task="look"))
    save_memory(memory, tmp_path / "m.jsonl")
    other = AgentMemory("")
    assert load_memory(tmp_path / "m.jsonl", other) is other
    assert type(other.steps) is list
    assert other.steps == memory.steps
    assert other.system_prompt.system_prompt == "plain"


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=4), st.booleans())
def test_any_history_survives_a_file_and_an_export(tmp_path: Path, history: list[Any], packed: bool) -> None:
    memory = ObservedMemory("\ud800 system")
    memory.steps = history
    path = save_memory(memory, tmp_path / ("any.jsonl.gz" if packed else "any.jsonl"))
    assert explain_difference(history, list(load_memory(path).steps)) is None
    exported = json.loads(json.dumps(export_memory(memory), allow_nan=False))
    assert explain_difference(history, list(import_memory(None, exported).steps)) is None


def test_what_was_loaded_saves_to_the_same_file_again(ran: Any, tmp_path: Path) -> None:
    first = save_memory(ran, tmp_path / "a.jsonl").read_bytes().split(b"\n")
    again = save_memory(load_memory(tmp_path / "a.jsonl"), tmp_path / "b.jsonl").read_bytes().split(b"\n")
    assert first[1:] == again[1:]


def test_every_line_is_json_that_other_tools_read(ran: Any, tmp_path: Path) -> None:
    lines = save_memory(ran, tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert records[0]["format"] == "smolagents-memory"
    assert records[0]["steps"] == records[-1]["end"] == len(ran.memory.steps)
    if shutil.which("jq"):
        found = subprocess.run(
            ["jq", "-r", 'select(.step == "TaskStep").fields.task', str(tmp_path / "run.jsonl")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout == "Do it.\n"


def test_a_value_that_cannot_be_kept_never_stops_a_save(ran: Any, tmp_path: Path) -> None:
    ran.memory.steps[-1].action_output = threading.Lock()
    ran.state["generator"] = (i for i in ())
    with pytest.warns(MemoryLossWarning, match="This memory holds what cannot be kept") as seen:
        save_memory(ran, tmp_path / "run.jsonl")
    assert len(seen) == 1
    memory = load_memory(tmp_path / "run.jsonl")
    assert isinstance(memory.steps[-1].action_output, NotKept)
    assert isinstance(memory.origin.state["generator"], NotKept)


def test_saving_through_a_link_replaces_the_file_it_points_to_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "real.jsonl"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link.jsonl").symlink_to(target)
    save_memory(ObservedMemory("s"), tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert load_memory(target).system_prompt.system_prompt == "s"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_missing_file_and_a_wrong_argument_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no memory file"):
        load_memory(tmp_path / "none.jsonl")
    with pytest.raises(TypeError, match="an agent or a memory, not int"):
        save_memory(3, tmp_path / "x")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Any]]:
    agent = code_agent()
    agent.run("Do it.", images=[photo()])
    path = save_memory(agent, tmp_path_factory.mktemp("saved") / "run.jsonl")
    return path.read_bytes(), list(agent.memory.steps)


def check_damaged(path: Path, data: bytes, whole: list[Any]) -> int:
    """A damaged file raises one clear error; what it says can be recovered can be recovered, exactly."""
    path.write_bytes(data)
    with pytest.raises(MemoryFileError) as caught:
        load_memory(path)
    assert path.name in str(caught.value)
    if caught.value.recoverable == 0:
        return 0
    with pytest.warns(MemoryLossWarning, match="lost:"):
        memory = load_memory(path, recover=True)
    assert len(memory.steps) == caught.value.recoverable
    assert explain_difference(list(memory.steps), whole[: len(memory.steps)]) is None
    return len(memory.steps)


def test_a_file_cut_anywhere_gives_the_steps_before_the_cut(saved: tuple[bytes, list[Any]], tmp_path: Path) -> None:
    data, whole = saved
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    step_ends = [end for end in ends if b'"index":' in data[data.rfind(b"\n", 0, end - 1) + 1 : end][:20]]
    recovered = set()
    for cut in sorted(
        {*random.Random(1).sample(range(1, len(data) - 1), 60), *(end - 1 for end in ends[:-1]), *ends[:-1]}
    ):
        intact = sum(end - 1 <= cut for end in step_ends)
        kept = check_damaged(tmp_path / "cut.jsonl", data[:cut], whole)
        assert kept == intact
        recovered.add(kept)
    assert len(recovered) == len(whole) + 1


def test_a_flipped_bit_anywhere_is_noticed(saved: tuple[bytes, list[Any]], tmp_path: Path) -> None:
    data, whole = saved
    rng = random.Random(2)
    for _ in range(150):
        at, bit = rng.randrange(len(data) - 1), rng.randrange(8)
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        check_damaged(tmp_path / "flip.jsonl", bytes(damaged), whole)


def test_a_packed_file_cut_or_flipped_is_noticed_and_recovered(saved: tuple[bytes, list[Any]], tmp_path: Path) -> None:
    data, whole = saved
    packed = gzip.compress(data)
    assert check_damaged(tmp_path / "cut.gz", packed[: len(packed) * 3 // 4], whole) > 0
    for at in range(12, len(packed), 997):
        damaged = bytearray(packed)
        damaged[at] ^= 4
        check_damaged(tmp_path / "flip.gz", bytes(damaged), whole)


def test_a_damaged_line_in_the_middle_keeps_the_steps_before_it_and_names_the_line(
    saved: tuple[bytes, list[Any]], tmp_path: Path
) -> None:
    data, _ = saved
    lines = data.split(b"\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(b'{"index":3'))
    lines[at] = lines[at].replace(b"Thought", b"Taught")
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DamagedFileError, match=rf"line {at + 1}: its checksum.*3 of 6 steps are intact"):
        load_memory(path)
    with pytest.warns(MemoryLossWarning, match=rf"line {at + 1}.*step 3 is missing.*3 of 6 steps are lost"):
        assert len(load_memory(path, recover=True).steps) == 3


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", DamagedFileError, "empty"),
        (b"\n\n", DamagedFileError, "empty"),
        (b"\x89PNG\r\n", ForeignFileError, "begins with"),
        (b"[1, 2]", ForeignFileError, "neither an exported memory nor"),
        (b'{"format": "other"}', ForeignFileError, "no memory file"),
        (b'{"format": "smolagents-memory", "version": 0}', ForeignFileError, "version 0"),
        (b'{"format": "smolagents-memory", "version": "9"}', ForeignFileError, "version '9'"),
        (b'{"format": "smolagents-memory", "version": 1}', DamagedFileError, "lacks a part"),
        (dump_line({"format": "smolagents-memory", "version": 2, "written_by": "9.0"}), NewerFormatError, "9.0"),
        (dump_line({"format": "sqlite", "version": 2}), ForeignFileError, "no memory file"),
        (b"[" * 200_000, MemoryFileError, "nested deeper"),
        (b"{" * 10, MemoryFileError, "not JSON"),
        (b"\x1f\x8b\x08\x00 not gzip", DamagedFileError, "cannot be unpacked"),
        (b'{"a": ' + b"9" * 10_000 + b"}", MemoryFileError, "not JSON"),
        (b"\xff\xfe\x00", ForeignFileError, "begins with"),
    ],
)
def test_what_is_no_memory_file_gives_one_clear_error(
    tmp_path: Path, content: bytes, error: type[Exception], says: str
) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    with pytest.raises(error, match=says) as caught:
        load_memory(tmp_path / "x.jsonl")
    assert isinstance(caught.value, SmolagentsMemoryError)
    assert "x.jsonl" in str(caught.value)


def hostile(record: dict[str, Any]) -> bytes:
    header = {"format": "smolagents-memory", "version": 1, "steps": 1}
    prompt = {"system_prompt": {"step": "SystemPromptStep", "version": 1, "fields": {"system_prompt": "s"}}}
    return b"".join(map(dump_line, [header, prompt, {"state": {}}, record, {"end": 1}]))


deep: Any = []
for _ in range(400):
    deep = [deep]


@pytest.mark.parametrize(
    "fields",
    [
        {"task": {"$": "image", "mode": "RGB", "size": [10**6, 10**6], "format": "png", "b64": ""}},
        {"task": {"$": "image", "mode": "nonsense", "size": [1, 1], "format": "zlib", "b64": ""}},
        {"task": {"$": "bytes", "at": "0" * 64}},
        {"$": "graph", "root": {"$": "ref", "n": 7}, "more": []},
        {"task": deep},
        {"task": {"$": "class", "v": "os.system"}},
        {"task": {"$": "ToolCall", "name": {"$": "tuple"}}},
    ],
)
def test_a_hostile_step_gives_our_error_and_runs_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "hostile.jsonl"
    text = (
        json.dumps({"index": 0, "step": "TaskStep", "version": 1, "fields": fields})
        if fields.get("task") is not deep
        else None
    )
    if text is None:
        nested = b'{"index":0,"step":"TaskStep","version":1,"fields":{"task":' + b"[" * 90_000 + b"]" * 90_000 + b"}}"
        line = nested[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(nested)
        path.write_bytes(hostile({"end": 1}).replace(dump_line({"end": 1}), line, 1))
    else:
        path.write_bytes(hostile(json.loads(text)))
    with pytest.raises(DamagedFileError, match="0 of 1 steps are intact"):
        load_memory(path)
    with pytest.warns(MemoryLossWarning):
        memory = load_memory(path, recover=True)
    assert memory.system_prompt.system_prompt == "s"
    assert list(memory.steps) == []


@pytest.mark.slow
def test_a_million_keys_and_a_class_that_is_not_on_the_list_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    keys = {str(i): None for i in range(1_000_000)}
    path.write_bytes(hostile({"index": 0, "step": "os:system", "version": 1, "fields": {"task": keys}}))
    (step,) = load_memory(path).steps
    assert step.type_name == "os:system"
    assert len(step.data["task"]) == 1_000_000


def test_a_small_packed_file_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smolagents_memory.codec.lines.LONGEST_LINE", 1_000_000)
    with gzip.open(tmp_path / "bomb.gz", "wb") as target:
        target.write(hostile({"end": 1}).split(b"\n")[0] + b"\n")
        target.write(b"0" * 50_000_000)
    with pytest.raises(DamagedFileError, match="line of more than"):
        load_memory(tmp_path / "bomb.gz")


@settings(max_examples=70, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_line_parse_or_raise_our_error(data: bytes) -> None:
    try:
        parse_line(data)
    except SmolagentsMemoryError as error:
        assert str(error)


def test_any_record_survives_its_line() -> None:
    record = {"a": 'x","crc":"00000000"}', "b": ["\u2028", "\x00", "é"]}
    assert parse_line(dump_line(record)) == record


# -- killed while saving -------------------------------------------------------------------------------------------

_SAVER = """
import sys
from smolagents.memory import TaskStep
from smolagents_memory import ObservedMemory, save_memory
path, number = sys.argv[1], 0
memory = ObservedMemory("s")
memory.steps = [TaskStep(task="t" * 20_000) for _ in range(20)]
while True:
    number += 1
    memory.system_prompt.system_prompt = f"version {number}"
    save_memory(memory, path)
    print(number, flush=True)
"""


def save_and_kill(folder: Path, rounds: int) -> int:
    """Kill a saving process at random instants; returns how many saves it had made."""
    path, saves, rng = folder / "run.jsonl.gz", 0, random.Random(3)
    for _ in range(rounds):
        process = subprocess.Popen([sys.executable, "-c", _SAVER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        done = int(process.stdout.readline())
        deadline = time.monotonic() + rng.uniform(0, 0.25)
        reader = threading.Thread(target=lambda: saved_numbers.extend(map(int, process.stdout)))
        saved_numbers: list[int] = []
        reader.start()
        time.sleep(max(0.0, deadline - time.monotonic()))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        done = saved_numbers[-1] if saved_numbers else done
        saves += done
        memory = load_memory(path)
        assert len(memory.steps) == 20
        assert int(memory.system_prompt.system_prompt.split()[1]) in (done, done + 1)
    return saves


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is a POSIX signal")
def test_a_killed_save_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    assert save_and_kill(tmp_path, 3) > 10
    save_memory(ObservedMemory("last"), tmp_path / "run.jsonl.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl.gz"]


@pytest.mark.endurance
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is a POSIX signal")
def test_a_thousand_saves_killed_at_random_leave_whole_files(tmp_path: Path, rounds: Callable[[int], int]) -> None:
    wanted, saves = rounds(1_000), 0
    while saves < wanted:
        saves += save_and_kill(tmp_path, 10)
    assert saves >= wanted
