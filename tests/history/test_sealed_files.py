"""Portable files under a seal: read with its keys alone, and never as anything that was not written."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent, photo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyrings import RamKeyring
from smolagents.memory import AgentMemory, TaskStep
from strategies import steps

from smolagents_memory import (
    DamagedFileError,
    KeyManager,
    MemoryFileError,
    MemoryLossWarning,
    ObservedMemory,
    OversizedFileError,
    Place,
    Seal,
    SealError,
    Session,
    SmolagentsMemoryError,
    SqlStore,
    analyze,
    export_memory,
    import_memory,
    load_memory,
    save_memory,
)
from smolagents_memory.privacy import sealed_stream
from smolagents_memory.testing import code, explain_difference


MASTER = bytes(range(32))
SEAL = Seal(MASTER, RamKeyring())


def remembering(count: int) -> ObservedMemory:
    """A memory of so many tasks."""
    memory = ObservedMemory("The needle's prompt.")
    memory.steps = [TaskStep(f"needle {number} " + "in the haystack" * 20) for number in range(count)]
    return memory


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_stream, "CHUNK", 300)


@pytest.mark.parametrize("mode", ["seal", "sign"])
@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_an_agent_comes_back_as_it_was(tmp_path: Path, name: str, mode: str) -> None:
    seal = Seal(MASTER, tmp_path / "keys", mode=mode)
    agent = code_agent([code("needle = 1; print('needle')"), code("final_answer('needle')")])
    agent.run("Find the needle.", images=[photo(size=(300, 200))])
    agent.state["kept"] = {"needle": [1, 2.5, b"needle"]}
    save_memory(agent, tmp_path / name, seal=seal)
    again = code_agent()
    load_memory(tmp_path / name, again, seal=seal)
    assert explain_difference(again.memory.steps, agent.memory.steps) is None
    assert again.state["kept"] == agent.state["kept"]
    exported = json.loads(json.dumps(export_memory(agent, seal=seal)))
    assert explain_difference(import_memory(None, exported, seal=seal).steps, agent.memory.steps) is None
    if mode == "seal":
        everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        for needle in (b"needle", b"final_answer", b"ActionStep"):
            assert needle not in everything + base64.b64decode(exported["sealed"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["keys", name])


@given(st.lists(steps, max_size=4), st.integers(20, 2000))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_history_comes_back_whatever_the_chunks(tmp_path: Path, history: list[Any], chunk: int) -> None:
    memory = AgentMemory("prompt")
    memory.steps = history
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLossWarning)
        patch.setattr(sealed_stream, "CHUNK", chunk)
        save_memory(memory, tmp_path / "plain.jsonl")
        save_memory(memory, tmp_path / "sealed.jsonl", seal=SEAL)
        loaded = load_memory(tmp_path / "sealed.jsonl", seal=SEAL).steps
        assert explain_difference(loaded, load_memory(tmp_path / "plain.jsonl").steps) is None
        assert (
            explain_difference(import_memory(None, export_memory(memory, seal=SEAL), seal=SEAL).steps, loaded) is None
        )


def check_refused(path: Path, whole: list[Any], *, prefix: bool = True) -> None:
    """It is an error of ours, and what can be had of it all the same is a beginning of what was written."""
    with pytest.raises((SealError, MemoryFileError)):
        load_memory(path, seal=SEAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLossWarning)
            recovered = load_memory(path, seal=SEAL, recover=True).steps
    except SmolagentsMemoryError:
        return
    assert explain_difference(recovered, whole[: len(recovered)]) is None
    assert len(recovered) < len(whole) or not prefix


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.gz"])
def test_a_flipped_bit_or_a_cut_anywhere_never_gives_something_else(
    tmp_path: Path, name: str, chance: random.Random
) -> None:
    memory, path = remembering(12), tmp_path / name
    whole = save_memory(memory, path, seal=SEAL).read_bytes()
    for at in chance.sample(range(len(whole)), min(len(whole), 150)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        check_refused(path, memory.steps, prefix=False)  # of what follows the last step nothing need be lost
        path.write_bytes(whole[:at])
        check_refused(path, memory.steps, prefix=False)


def frames(whole: bytes) -> tuple[bytes, list[bytes]]:
    """The first line and the chunks of a file."""
    header, _, rest = whole.partition(b"\n")
    found = []
    while rest:
        size = 4 + int.from_bytes(rest[:4], "big")
        found.append(rest[:size])
        rest = rest[size:]
    return header + b"\n", found


MOVED: dict[str, Callable[[list[bytes], list[bytes]], list[bytes]]] = {
    "cut at a chunk": lambda mine, other: mine[:-1],
    "cut to nothing": lambda mine, other: [],
    "one left out": lambda mine, other: [*mine[:2], *mine[3:]],
    "one repeated": lambda mine, other: [*mine[:3], *mine[2:]],
    "two trade places": lambda mine, other: [*mine[:1], mine[2], mine[1], *mine[3:]],
    "one of another file": lambda mine, other: [*mine[:2], other[2], *mine[3:]],
    "the last again": lambda mine, other: [*mine, mine[-1]],
    "bytes after the end": lambda mine, other: [*mine, b"\0\0\0\1\0"],
    "the end of another file": lambda mine, other: [*mine[:-1], other[-1]],
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("how", MOVED)
def test_chunks_that_were_moved_are_noticed(tmp_path: Path, how: str) -> None:
    memory, path = remembering(6), tmp_path / "run.jsonl"
    header, mine = frames(save_memory(memory, path, seal=SEAL).read_bytes())
    _, other = frames(save_memory(memory, path, seal=SEAL).read_bytes())
    assert len(mine) > 6
    path.write_bytes(header + b"".join(mine))
    assert len(load_memory(path, seal=SEAL).steps) == 6
    path.write_bytes(header + b"".join(MOVED[how](mine, other)))
    with pytest.raises(DamagedFileError):
        load_memory(path, seal=SEAL)


@pytest.mark.usefixtures("small_chunks")
def test_of_a_cut_file_the_steps_before_the_cut_are_read(tmp_path: Path) -> None:
    memory, path = remembering(12), tmp_path / "run.jsonl"
    whole = save_memory(memory, path, seal=SEAL).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFileError, match=r"cut short.*\d of 12 steps are intact") as raised:
        load_memory(path, seal=SEAL)
    assert 2 < raised.value.recoverable < 9
    with pytest.warns(MemoryLossWarning, match="steps were read; lost"):
        recovered = load_memory(path, seal=SEAL, recover=True).steps
    assert len(recovered) == raised.value.recoverable


def test_who_does_not_have_the_keys_is_told_so(tmp_path: Path) -> None:
    path, keys = tmp_path / "run.jsonl", tmp_path / "keys"
    save_memory(remembering(2), path, seal=Seal(MASTER, keys))
    plain = save_memory(remembering(2), tmp_path / "plain.jsonl")
    for seal, says in (
        (None, "run.jsonl is sealed"),
        (Seal(os.urandom(32), keys), "master key is not the one"),
        (Seal(MASTER, tmp_path / "elsewhere"), "is not there"),
        (SEAL, "has no key of it"),
        (Seal(MASTER, keys, mode="sign"), "of the mode"),
        ("a passphrase", "seal is a Seal"),
    ):
        with pytest.raises(SealError, match=says):
            load_memory(path, seal=seal)
    with pytest.raises(SealError, match="is sealed"):
        analyze(path)
    with pytest.raises(SealError, match=r"plain\.jsonl is not sealed"):
        load_memory(plain, seal=Seal(MASTER, keys))
    with pytest.raises(SealError, match="the data is not sealed"):
        import_memory(None, export_memory(remembering(1)), seal=SEAL)
    sealed = export_memory(remembering(1), seal=SEAL)
    with pytest.raises(SealError, match="the data is sealed"):
        import_memory(None, sealed)
    for damaged in (
        {**sealed, "sealed": sealed["sealed"][:-8]},
        {**sealed, "sealed": None},
        {"format": sealed["format"]},
    ):
        with pytest.raises(DamagedFileError, match="the data is damaged"):
            import_memory(None, damaged, seal=SEAL)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_under_a_seal_too(tmp_path: Path) -> None:
    memory, path = ObservedMemory(""), tmp_path / "run.jsonl.gz"
    memory.steps = [TaskStep("z" * 40_000_000)]
    save_memory(memory, path, seal=SEAL)
    assert path.stat().st_size < 100_000
    with pytest.raises(OversizedFileError):
        load_memory(path, seal=SEAL)
    assert len(load_memory(path, seal=SEAL, max_bytes=1 << 30).steps) == 1


def test_what_comes_out_of_a_sealed_place_is_sealed_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    seal = Seal(MASTER, tmp_path / "keys")
    place, other = Place(tmp_path / "mem", seal=seal), Seal(os.urandom(32), tmp_path / "other keys")
    agent = code_agent([code("final_answer('needle')")], planning_interval=None)
    with Session("s", place).attach(agent):
        agent.run("Find the needle.")
    session = Session("s", place)
    assert b"needle" not in session.export(tmp_path / "own.jsonl").read_bytes()
    assert b"needle" not in session.export(tmp_path / "all.jsonl", all_steps=True).read_bytes()
    assert b"needle" in session.export(tmp_path / "plain.jsonl", seal=False).read_bytes()
    session.export(tmp_path / "other.jsonl", seal=other)
    for number, (name, given_seal) in enumerate(
        {"own.jsonl": None, "all.jsonl": None, "plain.jsonl": None, "other.jsonl": other}.items()
    ):
        copied = Session(f"copy {number}", place).import_(tmp_path / name, seal=given_seal)
        assert explain_difference(copied.steps(), session.steps()) is None
    with pytest.raises(SealError, match="is sealed"):
        Session("copy", tmp_path / "plain place").import_(tmp_path / "own.jsonl")
    copied = Session("copy", tmp_path / "plain place").import_(tmp_path / "own.jsonl", seal=seal)
    assert b"needle" in copied.export(tmp_path / "plain.jsonl").read_bytes()


def test_keys_of_files_go_with_those_of_places(tmp_path: Path) -> None:
    seal, path = Seal(MASTER, tmp_path / "keys"), tmp_path / "run.jsonl"
    place = Place(tmp_path / "mem", seal=seal)
    SqlStore(place).add("k", "v")
    save_memory(remembering(2), path, seal=seal)
    stranger = Seal(os.urandom(32), tmp_path / "keys")
    save_memory(remembering(3), tmp_path / "theirs.jsonl", seal=stranger)
    KeyManager(place).export(tmp_path / "keys.json")
    KeyManager(place).reseal()
    KeyManager(place).drop()
    assert len(load_memory(path, seal=seal).steps) == 2
    new = Seal(os.urandom(32), tmp_path / "keys")
    KeyManager(place).rotate(new)
    assert len(load_memory(path, seal=new).steps) == 2
    with pytest.raises(SealError, match="master key"):
        load_memory(path, seal=seal)
    assert len(load_memory(tmp_path / "theirs.jsonl", seal=stranger).steps) == 3
    then = Seal(MASTER, tmp_path / "then")
    then.keyring.put_if_absent("other", b"{}")
    KeyManager(Place(place, seal=then))  # no keys of the place are needed to put keys there
    assert KeyManager(Place(place, seal=then)).import_(tmp_path / "keys.json") >= 3
    assert len(load_memory(path, seal=then).steps) == 2


def test_a_sealed_file_is_read_chunk_by_chunk(tmp_path: Path) -> None:
    path, part = tmp_path / "sealed", (b"needle" * 1_000 + b"\n") * 10
    with path.open("wb") as target:
        target.writelines(sealed_stream.sealed_stream(itertools.repeat(part, 300), SEAL))
    size = 0
    with path.open("rb") as raw, sealed_stream.Unsealed(raw, SEAL, "it") as file:
        tracemalloc.start()
        try:
            for line in file:
                size += len(line)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert size == 300 * len(part)
    assert peak < 2_000_000
