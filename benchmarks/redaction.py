"""What redaction costs: MB/s over chat, beside plain regular expressions, and its share of what is written.

    python benchmarks/redaction.py [chat.json …]

The files are lists of conversations with `turns` of a `text`; without any, made-up chat is read. The alternative looks
for fewer kinds, without checksums, by one pattern after the other at every character. Exits with 1 below 4 MB/s.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smolagents import CodeAgent

from smolagents_memory import EnhancedAgentMemory, Place, Redactor, Session
from smolagents_memory.testing import ScriptedModel, code
from smolagents_memory.testing.filling import varied_memories


LEAST = 4.0  # MB/s
NAIVE = [
    re.compile(pattern)
    for pattern in (
        r"\b[\w.%+-]+@[\w.-]+\.[A-Za-z]{2,}\b",
        r"(?:\+?\d{1,3}[-.\s]?)?\(?\d{3}\)?[-.\s]?\d{3}[-.\s]?\d{4}",
        r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]){11,30}\b",
        r"\b(?:\d[ -]?){13,19}\b",
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
        r"\b(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}\b",
        r"\b\d{3}-\d{2}-\d{4}\b",
        r"\beyJ[\w-]+\.[\w-]+\.[\w-]+\b",
        r"\b(?:AKIA|ghp_|xoxb-|sk-|hf_)[\w-]{16,}\b",
        r"(?i)(?:api[_-]?key|secret|token|password)\s*[:=]\s*\S+",
    )
]


def chats(files: list[str]) -> list[str]:
    """The turns of conversations."""
    if not files:
        made = [item if isinstance(item, str) else item["text"] for item in varied_memories(4000)]
        return [f"{text} {made[-n]} Could you look into it and tell me what you find?" for n, text in enumerate(made)]
    read = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    return [turn["text"] for each in read for chat in each for turn in chat["turns"]]


def best(work: Callable[[], Any], turns: int = 5) -> float:
    """Seconds of this process, the quickest of some turns."""
    times = []
    for _ in range(turns):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def remembering(texts: list[str], redact: Any) -> float:
    """Seconds to remember texts, by words alone."""

    def work() -> None:
        EnhancedAgentMemory(Place(redact=redact), vector=False).remember_many(texts)

    return best(work, 3)


def journaling(redact: Any) -> float:
    """Seconds of a run of 60 steps under a session."""

    def work() -> None:
        script = [code("print('a page of some length ' * 80)")] * 59 + [code("final_answer(1)")]
        agent = CodeAgent([], ScriptedModel(script, record="none"), verbosity_level=0, max_steps=99)
        with tempfile.TemporaryDirectory() as folder, Session("s", Place(folder, redact=redact)).attach(agent):
            agent.run("Read.")

    return best(work, 3)


def main() -> int:
    """Print figures and ratios."""
    texts, redactor = chats(sys.argv[1:]), Redactor()
    size = sum(len(text.encode()) for text in texts) / 1e6
    ours = size / best(lambda: [redactor.find(text) for text in texts])
    naive = size / best(lambda: [list(each.finditer(text)) for text in texts for each in NAIVE])
    whole = "\n".join(texts)
    print(f"{len(texts):,} turns, {size:.1f} MB")
    print(f"redactor, turn by turn        {ours:6.1f} MB/s, {ours / naive:.2f} × {len(NAIVE)} plain patterns")
    print(f"redactor, all of it at once   {size / best(lambda: redactor.find(whole)):6.1f} MB/s")
    print(f"{len(NAIVE)} plain patterns             {naive:6.1f} MB/s")
    some = texts[:2000]
    print(f"remembering {len(some)} turns       {remembering(some, True) / remembering(some, None):6.2f} × as long")
    print(f"a journal of 60 steps         {journaling(Redactor(journal=True)) / journaling(None):6.2f} × as long")
    return int(ours < LEAST)


if __name__ == "__main__":
    sys.exit(main())
