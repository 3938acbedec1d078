"""Portable files that nobody wrote: valid ones with parts exchanged, and ones made up of what readers look for.

As a program it loads many of them, under limits of memory and time, and tells of those that do harm.
"""

from __future__ import annotations

import copy
import datetime as dt
import gzip
import json
import random
import re
import resource
import signal
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from histories import finished, odd_steps
from PIL import Image
from smolagents.agent_types import AgentImage, AgentText
from smolagents.memory import ActionStep
from smolagents.models import MessageRole
from smolagents.monitoring import Timing

from smolagents_memory import ObservedMemory, export_memory, load_memory, save_memory
from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.codec.lines import dump_line
from smolagents_memory.codec.values import READERS


MEMORY = 1_200_000_000  # bytes beyond what the process had
CPU = 4.0  # seconds for a file, and
CPU_BYTE = 50e-6  # for each of its bytes: what a slow machine needs ten times over
TAGS = sorted({*READERS, "graph", "ref", "def", "dict", "with-blobs", "no such tag"})
NAMES = ["v", "n", "c", "at", "b64", "value", "shape", "dtype", "order", "base", "body", "attributes", "args", "index"]
NAMES += [
    "levels",
    "codes",
    "names",
    "range",
    "freq",
    "zone",
    "unit",
    "fold",
    "root",
    "more",
    "mode",
    "size",
    "format",
]
NAMES += ["palette", "transparency", "masked", "default", "longest", "flags", "data", "role", "content", "tool_calls"]
TEXTS = [
    "",
    "x",
    "int",
    "list",
    "tuple",
    "O",
    "<i8",
    "<U3",
    "|V0",
    "C",
    "F",
    "png",
    "zlib",
    "L",
    "RGB",
    "P",
    "1",
    "NaT",
]
TEXTS += ["numpy", "category", "zoned", "extension", "Int64", "string", "Europe/Zurich", "dateutil//etc/hosts", "0x1f"]
TEXTS += [
    "nan",
    "1e99999999",
    "2024-01-01",
    "user",
    "os:system",
    "builtins:OSError",
    "builtins:SyntaxError",
    "MS",
    "ns",
]
TEXTS += ["ÿ\ud800".encode("utf-16", "surrogatepass").hex(), "(((((", "[\u0000-\uffff]", "__class__", "to_messages"]
IMAGES = ["observations_images", "task_images"]
NUMBERS = [0, 1, -1, 2, 3, 7, 64, 255, 2**31, 2**53, -(2**53), 10**12, 10**18, 0.5, -0.0, 1e308, 2**61 - 1, 10**40]


def values() -> dict[str, Any]:
    """One of everything that is kept."""
    twice = (1, [2])
    ring: list[Any] = [1]
    ring.append(ring)
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])})
    times = pd.date_range("2024-01-01", periods=3, freq="D", tz="UTC")
    return {
        "plain": [None, True, 1, 2**80, 0.5, float("inf"), "é", "\ud800", b"\0" * 600, bytearray(b"x")],
        "containers": [{1: 2, (1, 2): 3}, {1, "x"}, frozenset([2]), deque([1], 3), Counter("aab"), OrderedDict(a=1)],
        "more": [defaultdict(list, a=[1]), range(3), slice(1, 2), ..., int, complex(1, 2), re.compile("a+", re.I)],
        "times": [dt.datetime(2024, 1, 2, tzinfo=ZoneInfo("Europe/Zurich")), dt.date(2024, 1, 1), dt.timedelta(1)],
        "numbers": [Decimal("1.5"), Fraction(1, 3), uuid.UUID(int=5), PurePosixPath("/a"), dt.time(1)],
        "shared": [twice, twice, ring],
        "arrays": [np.arange(6).reshape(2, 3), np.array(["a", None], dtype=object), np.float32(1.5), np.dtype("<i4")],
        "masked": np.ma.MaskedArray([1, 2], [True, False]),
        "frames": [frame, frame["a"], times],
        "levels": pd.Series([1, 2], index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])),
        "moments": [pd.array([1, None], dtype="Int64"), pd.Timestamp(0, tz="Europe/Zurich"), pd.Timedelta("1h"), pd.NaT],  # noqa: E501
        "images": [Image.new("P", (3, 2)), Image.new("RGB", (9, 9)), AgentImage(Image.new("L", (2, 2))), AgentText("t")],  # noqa: E501
        "errors": [ValueError("x", 1), OSError(2, "no", "file"), MessageRole.USER],
    }  # fmt: skip


def written() -> list[bytes]:
    """Files that were saved."""
    folder = Path(tempfile.mkdtemp())
    made: list[bytes] = []
    memory = ObservedMemory("s")
    memory.steps = [*odd_steps(), ActionStep(step_number=1, timing=Timing(1.0), action_output=values())]
    for number, source in enumerate([memory, finished("code_with_plans_and_errors"), finished("with_images")]):
        if number:
            source.state.update(values())
        made.append(save_memory(source, folder / "x.jsonl").read_bytes())
    made.append(json.dumps(export_memory(memory)).encode())
    made.append(json.dumps(source.memory.get_full_steps(), default=str).encode())
    return made


class Chance:
    """What a seed makes of files that were saved."""

    def __init__(self, seeds: list[bytes]) -> None:
        self._whole = seeds
        self._records = [[_record(line) for line in each.splitlines()] for each in seeds]
        self._nodes = [node for records in self._records for each in records for _, _, node in _inside(each)]
        self._nodes = [node for node in self._nodes if len(json.dumps(node)) < 3_000]

    def file(self, seed: str) -> bytes:
        """A file."""
        chance = random.Random(seed)
        try:
            return self._file(chance)
        except RecursionError:  # nested deeper than can be written
            return self._bytes(chance, chance.choice(self._whole))

    def _file(self, chance: random.Random) -> bytes:
        kind = chance.random()
        if kind < 0.1:
            return self._bytes(chance, chance.choice(self._whole))
        records = copy.deepcopy(chance.choice(self._records))
        if kind < 0.35:
            steps = [each for each in records if isinstance(each, dict) and "fields" in each]
            if steps:
                name = chance.choice(["action_output", "tool_calls", "task", "error", "model_output_message", *IMAGES])
                made = self._trap(chance) if kind < 0.2 else self.node(chance, 0)
                chance.choice(steps)["fields"][name] = chance.choice([made, [made]])
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3, 8]) if kind < 0.35 else chance.choice([1, 1, 2, 3, 8])):
            self._change(chance, records)
        data = self._written(records)
        if chance.random() < 0.05:
            return gzip.compress(data, 1)
        return self._bytes(chance, data) if chance.random() < 0.05 else data

    @staticmethod
    def _written(records: list[Any]) -> bytes:
        whole = len(records) == 1
        return b"".join(json.dumps(each).encode() if whole else dump_line(each) for each in records)

    def node(self, chance: random.Random, depth: int) -> Any:
        """Something that a reader may take for a value."""
        kind = chance.random()
        if depth > 5 or kind < 0.3:
            return chance.choice([None, True, "", *TEXTS, *NUMBERS])
        if kind < 0.4:
            return copy.deepcopy(chance.choice(self._nodes))
        if kind < 0.42:
            return self._trap(chance)
        if kind < 0.55:
            return [self.node(chance, depth + 1) for _ in range(chance.choice([0, 1, 2, 2, 3, 30]))]
        named = {name: self.node(chance, depth + 1) for name in chance.sample(NAMES, chance.choice([0, 1, 2, 3]))}
        inside = [self.node(chance, depth + 1) for _ in range(chance.choice([0, 1, 2, 3]))]
        return {"$": chance.choice(TAGS), **chance.choice([{}, {"v": inside}, {"n": chance.randrange(9)}]), **named}

    def _trap(self, chance: random.Random) -> Any:
        """Something small that may be meant to become large."""
        large = chance.choice([60, 3_000, 10**5, 10**8, 10**12])
        kind = chance.choice(["tuple", "set", "frozenset", "list", "dict", "deque", "Counter", "error", "sub"])
        node = chance.choice([*TEXTS, *NUMBERS])
        index = {"$": "pd.Index", "range": [0, large, 1], "names": [node]}
        deep = min(large, chance.choice([70, 400]))
        more: list[Any] = [[n, [{"$": "ref", "n": n + 1}] * chance.choice([1, 2])] for n in range(1, deep)]
        more = [[n, {"$": kind, "v": each}] if chance.random() < 0.9 else [n, each] for n, each in more]
        graph = {"$": "graph", "root": {"$": kind, "v": [{"$": "ref", "n": 1}]}, "more": [*more, [deep, node]]}
        array = partial(_empty_array, chance.choice([0, 1]))
        again = {"$": chance.choice(["AgentText", "path", kind, "dtype"]), "c": "Path", "v": {"$": "ref", "n": 1}}
        traps: list[Callable[[], Any]] = [
            lambda: graph,
            lambda: {"$": "set", "v": [graph]},
            lambda: {"$": "ToolCall", "name": "t", "arguments": graph, "id": node},
            lambda: {"$": kind, "v": [{"$": "int", "v": hex(n * (2**61 - 1))} for n in range(deep)]},
            lambda: {"$": "dict", "v": [[{"$": "int", "v": hex(n * (2**61 - 1))}, 1] for n in range(deep)]},
            lambda: {"$": "pd.Series", "v": ["numpy", node], "index": index, "name": None},
            lambda: {"$": "pd.DataFrame", "v": [["extension", "Int64", node]], "index": index, "columns": index},
            lambda: {"$": "ndarray", "shape": [large, chance.choice([0, 1, large])], "dtype": "<i8", "b64": ""},
            lambda: {"$": "image", "mode": chance.choice(["L", "1"]), "size": [large, 9], "format": "zlib", "b64": ""},
            lambda: {"$": "AgentImage", "v": node},
            lambda: {"$": "sub", "c": "smolagents.agent_types:AgentAudio", "v": {"base": kind, "body": large}},
            lambda: {"$": "pattern", "v": f"(?:[\u0000-\uffff]a{{{deep}}})" * min(deep, 90), "flags": 34},
            lambda: {"$": "Fraction", "v": [f"1e{large}"]},
            lambda: {"$": "Decimal", "v": f"1e{large}"},
            lambda: {"$": "range", "v": [0, large, 1]},
            lambda: {"$": "Fraction", "v": [{"$": "int", "v": hex(7**deep)}, {"$": "int", "v": hex(3**deep)}]},
            lambda: {"$": "ndarray", "masked": [array(f"<U{large}"), array("|b1"), node]},
            lambda: {"$": "npscalar", "v": array(f"<U{large}")},
            lambda: {"$": "pd.Series", "v": ["extension", f"{chance.choice('SUV')}{large}", [node]], "index": index},
            lambda: {"$": "pd.Index", "levels": [["numpy", node]], "codes": [index], "names": [None]},
            lambda: {"$": "pd.Index", "v": ["category", array("<i8"), index, False], "names": [None]},
            lambda: {"$": "image", "mode": "L", "size": [0, large], "format": "zlib", "b64": ""},
            lambda: {"$": "error", "c": ["builtins:SyntaxError"], "args": [node, {"$": "range", "v": [0, large, 1]}]},
            lambda: {"$": "graph", "root": [{"$": "def", "n": 1, "v": graph}, *[again] * deep], "more": []},
            lambda: {"$": "set", "v": [{"$": "int", "v": hex(10**deep)}, {"$": "Decimal", "v": f"1e{deep}"}]},
            lambda: {"$": "bytearray", "v": large},
        ]  # fmt: skip
        made = chance.choice(traps)()
        return json.loads(json.dumps(made))  # nothing in it is shared as objects

    def _change(self, chance: random.Random, records: list[Any]) -> None:
        places = list(_inside(records))
        if not places:
            return
        target, key, node = chance.choice(places)
        kind = chance.randrange(9)
        if kind == 0 and isinstance(target, list):
            target[key:key] = [
                copy.deepcopy(node) for _ in range(1 + 1_000 * (chance.random() < 0.2 and len(str(node)) < 200))
            ]
        elif kind == 1:
            del target[key]
        elif kind == 2 and isinstance(node, dict):
            node["$"] = chance.choice(TAGS)
        elif kind == 3 and isinstance(target, dict):
            target[chance.choice([*NAMES, *TEXTS])] = target.pop(key)
        elif kind == 4 and isinstance(node, (int, float)):
            target[key] = chance.choice([*NUMBERS, node + 1, node * 1000])
        elif kind == 5 and isinstance(node, str):
            target[key] = chance.choice([*TEXTS, node * 50, node[: len(node) // 2]])
        elif kind == 6:
            target[key] = copy.deepcopy(chance.choice(self._nodes))
        elif kind == 7:
            for _ in range(chance.choice([1, 10, 60, 600])):
                node = [node] if chance.random() < 0.5 else {"$": chance.choice(TAGS), "v": [node]}
            target[key] = node
        else:
            target[key] = self.node(chance, 0)

    @staticmethod
    def _bytes(chance: random.Random, data: bytes) -> bytes:
        changed = bytearray(data or b"[]")
        for _ in range(chance.choice([1, 3, 30])):
            at = chance.randrange(len(changed) + 1)
            changed[at : at + chance.choice([0, 1, 1, 40])] = chance.choice(
                [b"", b"\n", b'"', b"[", b"9" * 9, b"\x00"]
            )
        return bytes(changed)


def _empty_array(rows: int, dtype: str) -> dict[str, Any]:
    return {"$": "ndarray", "shape": [rows], "dtype": dtype, "order": "C", "b64": ""}


def _record(line: bytes) -> Any:
    record = json.loads(line)
    if isinstance(record, dict):
        record.pop("crc", None)
    return record


def _inside(node: Any) -> list[tuple[Any, Any, Any]]:
    """Every place in JSON: what holds it, under what, and what stands there."""
    found: list[tuple[Any, Any, Any]] = []
    pending = [node]
    while pending:
        each = pending.pop()
        places = list(each.items() if isinstance(each, dict) else enumerate(each))
        found += [(each, key, inner) for key, inner in places]
        pending += [inner for _, inner in places if isinstance(inner, (dict, list))]
    return found


# -- loading them --------------------------------------------------------------------------------------------------


def try_one(path: Path, data: bytes) -> str:
    """What is wrong with how this file is loaded; nothing where it is as it should be."""
    path.write_bytes(data)
    allowed = CPU + CPU_BYTE * len(data)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 4 * allowed)
    try:
        found = _loaded(path)
    except SmolagentsMemoryError as error:
        found = "out of memory" if "MemoryError" in str(error) else ""
    except BaseException as error:  # noqa: BLE001 — that is what is looked for
        found = f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    took = time.process_time() - began
    return found or (f"it took {took:.1f} s" if took > 3 * allowed else "")


def _loaded(path: Path) -> str:
    try:
        memory = load_memory(path)
    except SmolagentsMemoryError as error:
        if "MemoryError" in str(error) or not getattr(error, "recoverable", 0):
            raise
        memory = load_memory(path, recover=True)
    again = load_memory(save_memory(memory, path.with_name("again.jsonl")))
    same = [type(step) for step in again.steps] == [type(step) for step in memory.steps]
    return "" if same else "it came back otherwise"


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError("it takes too long")


def main(seed: str, first: int, count: int) -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_long)
    chance = Chance(written())
    grown = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (grown, grown))
    path = Path(tempfile.mkdtemp()) / "x.jsonl"
    for number in range(first, first + count):
        print("begin", number, flush=True)
        if found := try_one(path, chance.file(f"{seed} {number}")):
            print("found", number, found, flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
