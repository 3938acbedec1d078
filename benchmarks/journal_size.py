"""How large is a saved memory? A portable file next to full JSON, succinct JSON and pickle.

    python benchmarks/journal_size.py [steps …]

The claim: at most 1.2 × the bytes of the distinct content, also after callbacks edited earlier steps; and what is
loaded takes memory in proportion to the number of steps.
"""

from __future__ import annotations

import gc
import pickle
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from histories import EDITS, distinct_content, json_length, make_history
from rich.console import Console
from rich.table import Table

from smolagents_memory import ObservedMemory, load_memory, save_memory


def full_json(steps: list[Any]) -> int:
    """The bytes of `json.dumps(get_full_steps())`, each message measured once."""
    lengths: dict[int, int] = {}
    total = 0
    for step in steps:
        for message in getattr(step, "model_input_messages", None) or ():
            if id(message) not in lengths:
                content = [{**p, "image": ""} if p["type"] == "image" else p for p in message.content]
                lengths[id(message)] = json_length({**message.__dict__, "content": content})
            total += lengths[id(message)]
    return total + succinct_json(steps)


def succinct_json(steps: list[Any]) -> int:
    """The bytes of `json.dumps(get_succinct_steps())`."""
    return sum(
        json_length({k: v for k, v in step.dict().items() if k not in ("model_input_messages", "observations_images")})
        for step in steps
    )


def pickled(steps: list[Any]) -> int | None:
    """The bytes of a pickle of each step, as a journal that is written step by step would have them."""
    return sum(len(pickle.dumps(step)) for step in steps) if len(steps) <= 210 else None


def held_after_load(path: Path) -> int:
    """The bytes that Python holds for a loaded memory."""
    gc.collect()
    tracemalloc.start()
    memory = load_memory(path)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert memory.steps
    return held


def main(counts: list[int]) -> bool:
    """Print the table; whether the claim holds."""
    table = Table(title="Saved bytes: ratio to the distinct content")
    for column in (
        "edits",
        "steps",
        "distinct MB",
        "file",
        "full JSON",
        "succinct JSON",
        "pickle",
        "save s",
        "load s",
    ):
        table.add_column(column, justify="right")
    table.add_column("held after load, kB a step", justify="right")
    worst, held = 0.0, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, edit in EDITS.items():
            for count in counts:
                prompt, steps = make_history(count, edit)
                memory = ObservedMemory(prompt.system_prompt)
                memory.steps = steps
                start = time.perf_counter()
                path = save_memory(memory, Path(folder) / "run.jsonl")
                saved = time.perf_counter()
                load_memory(path)
                loaded = time.perf_counter()
                distinct, size, pickle_size = distinct_content(prompt, steps), path.stat().st_size, pickled(steps)
                held[name, count] = held_after_load(path) / len(steps)
                worst = max(worst, size / distinct)
                cells = [size, full_json(steps), succinct_json(steps), pickle_size]
                ratios = [f"{cell / distinct:.2f}" if cell is not None else "–" for cell in cells]
                times = [f"{saved - start:.2f}", f"{loaded - saved:.2f}"]
                table.add_row(
                    name, str(count), f"{distinct / 1e6:.2f}", *ratios, *times, f"{held[name, count] / 1e3:.1f}"
                )
    Console(width=140).print(table)
    growth = max(held[name, counts[-1]] / held[name, counts[-2]] for name in EDITS) if len(counts) > 1 else 1.0
    print(f"worst file: {worst:.2f} × distinct content (at most 1.2)")
    print(f"held a step at {counts[-1]} steps: {growth:.2f} × that of the length before (linear: about 1)")
    return worst <= 1.2 and growth <= 1.3


if __name__ == "__main__":
    sys.exit(not main([int(argument) for argument in sys.argv[1:]] or [10, 50, 200, 1_000]))
