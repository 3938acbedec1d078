"""Whatever a file says: loading it takes memory and time in proportion to its bytes, and opens nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from smolagents_memory import NoteStep, ObservedMemory, load_memory, save_memory
from smolagents_memory._errors import MemoryFileError, OversizedFileError
from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.codec.lines import dump_line


HEAD = {"format": "smolagents-memory", "version": 1, "steps": 1}
PROMPT = {"system_prompt": {"step": "SystemPromptStep", "version": 1, "fields": {"system_prompt": "s"}}}
RECORD = {"index": 0, "step": "ActionStep", "version": 1}
PRIME = 2**61 - 1  # of ints that are this far from each other the hashes are the same
LONG = {"$": "int", "v": hex(2**8_000_000)}
ZERO = {"$": "ndarray", "shape": [1], "dtype": "<i8", "order": "C", "b64": "AAAAAAAAAAA="}


def content(data: bytes) -> tuple[dict[str, str], str]:
    name = hashlib.sha256(data).hexdigest()
    return {"content": name, "base64": base64.b64encode(data).decode()}, name


def lines(*records: dict[str, Any]) -> list[bytes]:
    return [dump_line(each) for each in (HEAD, PROMPT, {"state": {}}, *records, {"end": 1})]


def step(output: Any, **fields: Any) -> bytes:
    return b"".join(lines({**RECORD, "fields": {"step_number": 1, "timing": None, "action_output": output, **fields}}))


def shared(kind: str | None, deep: int = 60) -> dict[str, Any]:
    """Values of which each holds the one before it twice."""
    more = [[n, _pair(kind, {"$": "ref", "n": n + 1})] for n in range(1, deep)]
    return {"$": "graph", "root": {"$": "set", "v": [{"$": "ref", "n": 1}]}, "more": [*more, [deep, _pair(kind, 1)]]}


def _pair(kind: str | None, node: Any) -> Any:
    return [node, node] if kind is None else {"$": kind, "v": [node, node]}


def hashed_anew(key: Any) -> dict[str, Any]:
    """One key of many sets, which Python hashes anew for each."""
    first = {"$": "def", "n": 1, "v": key}
    root = [[first], *({"$": "set", "v": [{"$": "ref", "n": 1}]} for _ in range(20_000))]
    return {"$": "graph", "root": root, "more": []}


def images() -> bytes:
    size = 9_000
    node = {"$": "image", "mode": "L", "size": [size, size], "format": "zlib"}
    line, name = content(zlib.compress(bytes(size * size), 9))
    made = [{**node, "at": name, "transparency": each} for each in range(10)]
    return b"".join(lines(line, {**RECORD, "fields": {"step_number": 1, "timing": None, "observations_images": made}}))


def again(parts: list[Any], made: Any, times: int) -> dict[str, Any]:
    """One value that is made of the same parts so many times: the first one is {"$": "ref", "n": 1}."""
    first = [{"$": "def", "n": n, "v": part} for n, part in enumerate(parts, start=1)]
    return {"$": "graph", "root": [first, *[made] * times], "more": []}


def ref(n: int = 1) -> dict[str, Any]:
    return {"$": "ref", "n": n}


def large(value: int) -> dict[str, Any]:
    return {"$": "int", "v": hex(value)}


def rows(count: int, dtype: str = "<i8", data: bytes | None = None) -> dict[str, Any]:
    """A column of so many rows."""
    held = bytes(8 * count) if data is None else data
    node = {"$": "ndarray", "shape": [count], "dtype": dtype, "order": "C"}
    return {**node, "b64": base64.b64encode(held).decode()}


def series(**more: Any) -> dict[str, Any]:
    index = {"$": "pd.Index", "range": [0, 10**8, 1], "names": [None]}
    return {
        "$": "pd.Series",
        "v": ["numpy", {"$": "npscalar", "v": {**ZERO, "shape": []}}],
        "index": index,
        "name": None,
        **more,
    }


def copies() -> bytes:
    line, name = content(bytes(2_000_000))
    many = [{"$": "bytearray", "at": name} for _ in range(2_000)]
    return b"".join(lines(line, {**RECORD, "fields": {"step_number": 1, "timing": None, "action_output": many}}))


def column(values: list[Any], count: int = 1) -> dict[str, Any]:
    return series(v=values, index={"$": "pd.Index", "range": [0, count, 1], "names": [None]})


def levels(codes: dict[str, Any]) -> dict[str, Any]:
    return {"$": "pd.Index", "levels": [["numpy", ZERO]], "codes": [codes], "names": [None]}


def frame(wide: int, values: list[Any], count: int = 100_000) -> dict[str, Any]:
    index, columns = ({"$": "pd.Index", "range": [0, each, 1], "names": [None]} for each in (count, wide))
    return {"$": "pd.DataFrame", "index": index, "columns": columns, "v": [values] * wide}


def categories(dtype: str, data: bytes) -> dict[str, Any]:
    values = {
        "$": "pd.Index",
        "v": ["numpy", rows(len(data) // np.dtype(dtype).itemsize, dtype, data)],
        "names": [None],
    }
    return {"$": "pd.Index", "v": ["category", rows(1), values, False], "names": [None]}


def alike_hashes(count: int) -> Any:
    """Numbers of which pandas' hash, (n >> 33) ^ n ^ (n << 11) in 32 bits, is the same."""
    high = np.random.default_rng(1).permutation(count).astype(np.uint64) << np.uint64(33)
    low, wanted = np.zeros(count, np.uint64), high >> np.uint64(33)
    for bit in map(np.uint64, range(32)):
        below = low << np.uint64(11)
        low |= (wanted ^ below) & (np.uint64(1) << bit)
    return (high | low).view(np.int64)


def neighbours(bits: int) -> tuple[int, int]:
    """Of two such numbers it takes longest to say what both can be divided by."""
    one, other = 1, 1
    while one.bit_length() < bits:
        one, other = other, one + other
    return one, other


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def noted_images() -> bytes:
    """Images of one pixel, with notes that are unpacked each time the content is opened."""
    notes = [chunk(b"zTXt", b"k%d\0\0" % n + zlib.compress(bytes(1 << 20), 9)) for n in range(60)]
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]))
    line, name = content(head + b"".join(notes) + chunk(b"IDAT", zlib.compress(bytes(2))) + chunk(b"IEND", b""))
    node = {"$": "image", "mode": "L", "size": [1, 1], "format": "png", "at": name}
    made = [{**node, "transparency": each} for each in range(3_000)]
    return b"".join(lines(line, {**RECORD, "fields": {"step_number": 1, "timing": None, "observations_images": made}}))


def text(letters: int) -> dict[str, Any]:
    return {"$": "str", "b64": base64.b64encode(b"a/" * (letters // 2)).decode()}


def sound(text: Any) -> dict[str, Any]:
    body = {"base": "str", "body": text, "attributes": {}}
    return {"$": "sub", "c": "smolagents.agent_types:AgentAudio", "v": body}


def alike(data: bytes, *, step: str = "ActionStep", times: int = 100, **fields: dict[str, Any]) -> bytes:
    """Steps that all hold one content."""
    line, name = content(data)
    fields = {key: {**node, "at": name} for key, node in fields.items()}
    own = {"step_number": 1, "timing": None} if step == "ActionStep" else {}
    records = [{**RECORD, "index": n, "step": step, "fields": {**own, **fields}} for n in range(times)]
    return b"".join(lines(line, *records))


def unfolding(kind: str) -> bytes:
    """A text of values of which each holds the one before it twice."""
    more = [[n, {"$": kind, "v": [ref(n + 1), ref(n + 1), None]}] for n in range(1, 60)]
    name = {"$": "graph", "root": {"$": "ref", "n": 1}, "more": [*more, [60, 1]]}
    return step(None, tool_calls=[{"$": "ToolCall", "name": name, "arguments": "x", "id": "1"}])


def doubled_messages() -> bytes:
    told = {"role": {"$": "role", "v": "user"}, "content": "x"}
    records = [{"index": 0, "step": "TaskStep", "version": 1, "fields": {"task": "t"}}]
    for n in range(1, 40):
        ranges = [[0, 2 ** (n - 2)], [0, 2 ** (n - 2)]] if n > 1 else [[0, 1, 0]]
        new = [{"$": "ChatMessage", **told}] if n == 1 else []
        fields = {"step_number": n, "timing": None}
        records.append({**RECORD, "index": n, "fields": fields, "inputs": {"new": new, "list": ranges}})
    return b"".join(lines(*records))


def lists(*ranges: list[Any]) -> list[bytes]:
    """A step that was sent lists of messages."""
    told = {"$": "ChatMessage", "role": {"$": "role", "v": "user"}, "content": "x"}
    sent = [{"new": [told], "list": each} for each in ranges]
    records = [
        {**RECORD, "index": n, "fields": {"step_number": n, "timing": None}, "inputs": each}
        for n, each in enumerate(sent)
    ]
    return lines(*records)


def packed(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts), 6)


def contents() -> bytes:
    return packed(lines()[0], *[b'{"content":"x","base64":"' + b"A" * 60_000_000 + b'"}\n' for _ in range(20)])


def ten_million_newlines() -> bytes:
    return lines()[0] + b"\n" * 10_000_000


TEXT = {"$": "graph", "root": [{"$": "ToolCall", "name": "t", "id": "1", "arguments": [{"$": "ref", "n": 1}]}]}
CLASSES = {"name": "f", "arguments": {}, "id": "1"}

HOSTILE = {
    "a fraction of a hundred million digits": lambda: step({"$": "Fraction", "v": ["1e100000000"]}),
    "a fraction that takes hours to shorten": lambda: step({"$": "Fraction", "v": [{"$": "int", "v": "0x" + "f" * 3_000_000}, {"$": "int", "v": "0x" + "7" * 3_000_000}]}),  # noqa: E501
    "60 shared tuples in a set": lambda: step(shared("tuple")),
    "a key that is nested beyond the stack": lambda: step({"$": "graph", "root": {"$": "set", "v": [{"$": "ref", "n": 1}]}, "more": [[n, {"$": "tuple", "v": [{"$": "ref", "n": n + 1}] if n < 100_000 else []}] for n in range(1, 100_001)]}),  # noqa: E501
    "50,000 keys of one hash": lambda: step({"$": "dict", "v": [[{"$": "int", "v": hex(n * PRIME)}, 1] for n in range(50_000)]}),  # noqa: E501
    "50,000 members of one hash": lambda: step({"$": "set", "v": [{"$": "int", "v": hex(n * PRIME)} for n in range(50_000)]}),  # noqa: E501
    "one long range in 20,000 sets": lambda: step(hashed_anew({"$": "range", "v": [0, LONG, 3]})),
    "one long fraction in 20,000 sets": lambda: step(hashed_anew({"$": "Fraction", "v": [{"$": "int", "v": hex(2**199_990 + 1)}, {"$": "int", "v": hex(3**126_000)}]})),  # noqa: E501
    "one long pattern in 20,000 sets": lambda: step(hashed_anew({"$": "pattern", "v": "ab" * 10_000, "flags": 0})),
    "a series of one number": lambda: step(series()),
    "a series of an array of one": lambda: step(series(v=["numpy", ZERO])),
    "a frame of one number": lambda: step({"$": "pd.DataFrame", "v": [["numpy", ZERO]], "index": series()["index"], "columns": {"$": "pd.Index", "range": [0, 1, 1], "names": [None]}}),  # noqa: E501
    "a column of texts that unfold": lambda: step({"$": "graph", "root": {"$": "pd.Series", "v": ["extension", "string", [{"$": "ref", "n": 1}]], "index": {"$": "pd.Index", "range": [0, 1, 1], "names": [None]}, "name": None}, "more": shared(None)["more"]}),  # noqa: E501
    "an array of nothing": lambda: step({"$": "ndarray", "shape": [10**12], "dtype": "|V0", "order": "C", "b64": ""}),
    "ten large images of one content": images,
    "an image of negative sides": lambda: step({"$": "image", "mode": "L", "size": [-9, -9], "format": "zlib", "b64": ""}),  # noqa: E501
    "copies of one content": copies,
    "lists that double": doubled_messages,
    "newlines": ten_million_newlines,
    "newlines of a text without end": lambda: packed(b"[", b"\n" * 200_000_000),
    "twenty contents of 60 MB": contents,
    "a pattern of many sets": lambda: step({"$": "pattern", "v": "[\u0000-\uffff]" * 30_000, "flags": 34}),
    "a text that unfolds": lambda: step(None, tool_calls={**TEXT, "more": shared(None)["more"]}),
    "bytes by their number": lambda: step({"$": "sub", "c": "smolagents.agent_types:AgentAudio", "v": {"base": "str", "body": 10**12, "attributes": {}}}),  # noqa: E501
    "a method that is none": lambda: step(None, to_messages={"$": "class", "v": "list"}),
    "a zone that is a path": lambda: step({"$": "pd.Timestamp", "v": 0, "unit": "ns", "zone": "dateutil//etc/localtime"}),  # noqa: E501
    "a column whose type names a path": lambda: step({"$": "pd.Series", "v": ["extension", "datetime64[ns, dateutil//etc/localtime]", [0]], "index": {"$": "pd.Index", "range": [0, 1, 1], "names": [None]}, "name": None}),  # noqa: E501
    "an image that is a path": lambda: step({"$": "AgentImage", "v": "/etc/hostname"}),
    "an image that is an address": lambda: step({"$": "AgentImage", "v": "http://127.0.0.1:9/x.png"}),
    "a pattern that prints itself": lambda: step({"$": "pattern", "v": "a", "flags": 128}),
    "a step beside a class": lambda: step(None, tool_calls=[{"$": "ToolCall", **CLASSES, "dict": 1}]),
}  # fmt: skip

# ranges, and what else is larger than what says so
HOSTILE |= {
    "a range of images": lambda: step(1, observations_images={"$": "range", "v": [0, 10**10, 1]}),
    "a task with a range of images": lambda: b"".join(lines({"index": 0, "step": "TaskStep", "version": 1, "fields": {"task": "t", "task_images": {"$": "range", "v": [0, 10**10, 1]}}})),  # noqa: E501
    "a range of images that has no length": lambda: step(1, observations_images={"$": "range", "v": [0, large(2**80), 1]}),  # noqa: E501
    "the bytes of one content as images": lambda: alike(bytes(5_000_000), observations_images={"$": "bytes"}),
    "the bytes of one content as a task": lambda: alike(bytes(1_000_000), step="TaskStep", times=400, task={"$": "bytes"}),  # noqa: E501
    "slices that unfold": lambda: unfolding("slice"),
    "an array of lists that unfold": lambda: step(None, tool_calls={"$": "graph", "root": [{"$": "ToolCall", "name": {"$": "ndarray", "shape": [1], "dtype": "O", "v": [ref()]}, "id": "1", "arguments": "x"}], "more": shared(None)["more"]}),  # noqa: E501
    "a column of lists that unfold": lambda: step(None, tool_calls={"$": "graph", "root": [{"$": "ToolCall", "name": {**series(), "v": ["numpy", {"$": "ndarray", "shape": [1], "dtype": "O", "v": [ref()]}], "index": {"$": "pd.Index", "range": [0, 1, 1], "names": [None]}}, "id": "1", "arguments": "x"}], "more": shared(None)["more"]}),  # noqa: E501
    "one fraction many times": lambda: step(again([large(each) for each in neighbours(199_990)], {"$": "Fraction", "v": [ref(1), ref(2)]}, 1_000)),  # noqa: E501
    "ranges of many digits": lambda: step(again([large(7**1_400_000), large(3**1_100_000)], {"$": "range", "v": [0, ref(1), ref(2)]}, 20)),  # noqa: E501
    "an image with notes, many times": noted_images,
    "an image of nothing but rows": lambda: step({"$": "image", "mode": "L", "size": [0, 50_000_000], "format": "zlib", "b64": ""}),  # noqa: E501
    "a masked array of nothing": lambda: step({"$": "ndarray", "masked": [rows(0, "<U100000000", b""), rows(0, "|b1", b""), "x"]}),  # noqa: E501
    "a type that holds itself": lambda: step({"$": "dtype", "v": [7, {"$": "def", "n": 2, "v": [1, {"$": "ref", "n": 2}]}]}),  # noqa: E501
    "a type that unfolds": lambda: step({"$": "graph", "root": {"$": "dtype", "v": ref()}, "more": shared(None)["more"]}),  # noqa: E501
    "one text as many": lambda: step(again([text(2_000_000)], {"$": "AgentText", "v": ref()}, 1_000)),
    "one text as many sounds": lambda: step(again([text(2_000_000)], sound(ref()), 1_000)),
    "the texts of many sounds are one": lambda: step(again([{"base": "str", "body": "a" * 2_000_000, "attributes": {}}], {**sound(""), "v": ref()}, 1_000)),  # noqa: E501
    "one text as many paths": lambda: step(again([text(2_000_000)], {"$": "path", "c": "PurePosixPath", "v": ref()}, 100)),  # noqa: E501
    "an error of a range": lambda: step({"$": "error", "c": ["builtins:SyntaxError"], "args": ["m", {"$": "range", "v": [0, 10**10, 1]}], "attributes": {}}),  # noqa: E501
    "an error of one array, many times": lambda: step(again([{"$": "bytearray", "b64": "AAAA" * 500_000}], {"$": "error", "c": ["builtins:UnicodeDecodeError"], "args": ["utf8", ref(), 0, 1, "m"], "attributes": {}}, 1_000)),  # noqa: E501
    "an item as large as it is called": lambda: step(column(["extension", "S400000000", ["x"]])),
    "a category of cells": lambda: step(column(["extension", "category", [int(each) for each in alike_hashes(50_000)]], 50_000)),  # noqa: E501
    "levels of a range": lambda: step(levels({"$": "pd.Index", "range": [0, 200_000_000, 1], "names": [None]})),
    "levels of a range of Python's": lambda: step(levels({"$": "range", "v": [0, 10**10, 1]})),
    "a frame of one column": lambda: step(again([rows(100_000)], frame(800, ["numpy", ref()]), 1)),
    "the cells of many columns are one": lambda: step(again([[1] * 50_000], frame(800, ["extension", "Int64", ref()], 50_000), 1)),  # noqa: E501
    "days that are worked out from many texts": lambda: step(again([["2024-01-01 10:00"] * 20_000], column(["extension", "period[D]", ref()], 20_000), 200)),  # noqa: E501
    "categories of one hash": lambda: step(categories("<i8", alike_hashes(100_000).tobytes())),
    "complex categories of one hash": lambda: step(categories("<c16", np.repeat(np.random.default_rng(1).permutation(100_000) + 1.0, 2).tobytes())),  # noqa: E501
    "objects as categories of one hash": lambda: step({"$": "pd.Index", "v": ["category", rows(1), {"$": "pd.Index", "v": ["numpy", {"$": "ndarray", "shape": [60_000], "dtype": "O", "v": [large(n << 32 | n) for n in np.random.default_rng(1).permutation(60_000).tolist()]}], "names": [None]}, False], "names": [None]}),  # noqa: E501
    "an int and a decimal that are the same": lambda: step(again([large(10**300_000), {"$": "Decimal", "v": "1" + "0" * 300_000}], {"$": "set", "v": [ref(1), ref(2)]}, 100)),  # noqa: E501
    "two paths that are the same": lambda: step(again([{"$": "path", "c": "PurePosixPath", "v": text(3_000_000)}] * 2, {"$": "set", "v": [ref(1), ref(2)]}, 10_000)),  # noqa: E501
    "two texts that are the same": lambda: step(again([text(10_000_000)] * 2, {"$": "set", "v": [ref(1), ref(2)]}, 50_000)),  # noqa: E501
    "a long decimal in 20,000 sets": lambda: step(hashed_anew({"$": "Decimal", "v": "7" * 300_000})),
}  # fmt: skip

CHILD = """
import resource, sys, time, warnings
import pandas, numpy, smolagents_memory
from smolagents_memory._errors import SmolagentsMemoryError
warnings.simplefilter("ignore")
grown = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 900_000_000
resource.setrlimit(resource.RLIMIT_AS, (grown, grown))
for path in sys.argv[1:]:
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 12, resource.RLIM_INFINITY))
    try:
        smolagents_memory.load_memory(path)
    except SmolagentsMemoryError as error:
        print(path, type(error).__name__, str(error)[:200], flush=True)
    else:
        print(path, "loaded", flush=True)
"""


@pytest.mark.slow
def test_a_load_is_in_proportion_to_the_bytes_whatever_they_say(tmp_path: Path) -> None:
    for number, make in enumerate(HOSTILE.values()):
        (tmp_path / f"{number}.jsonl").write_bytes(make())
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(len(HOSTILE))]
    child = subprocess.run([sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, timeout=240)
    told = dict(zip(HOSTILE, child.stdout.splitlines(), strict=False))
    assert child.returncode == 0, (list(HOSTILE)[len(told)], child.stderr[-2000:])
    assert [name for name, line in told.items() if line.endswith("loaded")] == []
    assert all("FileError" in line for line in told.values())
    assert [name for name, line in told.items() if "MemoryError" in line or "memory than there is" in line] == []


@pytest.mark.slow
def test_what_is_ones_own_is_read_when_it_is_said_how_much_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(images())
    with pytest.raises(OversizedFileError, match=r"0 of 1 steps were read.*max_bytes= allows more, if it is"):
        load_memory(path)
    assert len(load_memory(path, max_bytes=900_000_000).steps[0].observations_images) == 10


def test_no_path_of_a_sound_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    held = {"_value": "http://127.0.0.1:9/x.wav", "_path": "http://127.0.0.1:9/x.wav", "_tensor": None}
    path.write_bytes(
        step(
            {
                "$": "sub",
                "c": "smolagents.agent_types:AgentAudio",
                "v": {"base": "str", "body": "x", "attributes": held},
            }
        )
    )
    assert load_memory(path).steps[0].action_output._path is None


def test_what_hides_a_tool_is_left_out_of_the_state(tmp_path: Path) -> None:
    from revived import fresh_agent

    path = tmp_path / "x.jsonl"
    path.write_bytes(
        b"".join([*lines()[:2], dump_line({"state": {"final_answer": 1, "x": 2}}), dump_line({"end": 0})])
    )
    path.write_bytes(path.read_bytes().replace(dump_line(HEAD), dump_line({**HEAD, "steps": 0})))
    agent = fresh_agent([])
    with pytest.warns(UserWarning, match="final_answer is left out"):
        load_memory(path, agent)
    assert agent.state == {"x": 2}


def test_a_packed_memory_that_repeats_itself_is_read(tmp_path: Path) -> None:
    memory = ObservedMemory("s")
    memory.steps = [NoteStep("the same words again and again " * 30) for _ in range(2_000)]
    memory.steps.append(NoteStep("a screenshot", meta={"image": Image.new("RGB", (1280, 800))}))
    path = save_memory(memory, tmp_path / "x.jsonl.gz")
    assert len(load_memory(path).steps) == 2_001


@pytest.mark.parametrize(
    "make",
    [
        lambda: packed(*lists([[0, 0.5, 0]], [[0, 1, 0]])),
        lambda: b"".join(lists([[0, 1, 0]], [[0, 1], [0, -1]])),
        lambda: b"".join(lists([[0, 1, 0]], [[0, True]])),
    ],
)
def test_a_size_that_is_none_gives_nothing_back(tmp_path: Path, make: Any, monkeypatch: Any) -> None:
    left: list[Any] = []
    take = Allowance.take

    def taken(self: Allowance, *arguments: Any, **options: Any) -> None:
        left.append(self.left)
        take(self, *arguments, **options)
        left.append(self.left)

    monkeypatch.setattr(Allowance, "take", taken)
    path = tmp_path / "x.jsonl"
    path.write_bytes(make())
    with pytest.raises(MemoryFileError, match=r"is none|no number"):
        load_memory(path)
    assert left == sorted(left, reverse=True)
    assert {type(each) for each in left} <= {int}


def test_what_is_refused_says_so_in_our_own_error(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(step({"$": "Fraction", "v": ["1e100000000"]}))
    with pytest.raises(MemoryFileError, match="a str where there should be a int"):
        load_memory(path)


@pytest.mark.slow
def test_many_screenshots_of_plain_pages_are_no_attack(tmp_path: Path) -> None:
    memory = ObservedMemory("s")
    pages = [Image.new("RGB", (1280, 800), (number, 0, 0)) for number in range(60)]
    memory.steps = [NoteStep("a page", meta={"image": page}) for page in pages]
    path = save_memory(memory, tmp_path / "x.jsonl")
    assert len(load_memory(path).steps) == 60
