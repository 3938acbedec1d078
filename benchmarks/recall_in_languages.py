"""How well facts are found in many languages: known facts among the first three, with vectors and by words alone.

    python benchmarks/recall_in_languages.py [--words] [--misses]

`languages/<code>.txt` holds blocks of three lines: a fact, another text near in topic, and a question that is answered
by the fact and worded differently. The facts and the others of a language are one scope; "all" is one scope of all
languages. The questions were written before anything was tuned on them. Below the figures of `FLOORS` it ends with 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from smolagents_memory import EnhancedAgentMemory


FOLDER = Path(__file__).parent / "languages"
FIRST = 3  # results that are looked at
FLOORS = {  # facts found: by words alone, with the vectors of the default embedder
    "ar": (11, 11), "de": (12, 12), "en": (10, 10), "es": (20, 20), "fr": (20, 20), "it": (12, 12), "ja": (12, 12),
    "ko": (12, 12), "mixed": (18, 18), "ru": (12, 12), "zh": (12, 12), "all": (151, 151),
}  # fmt: skip


class Case(NamedTuple):
    """A fact, a text that is near it in topic, and a question for the fact."""

    fact: str
    beside: str
    question: str


def cases(language: str) -> list[Case]:
    """The control set of a language; of "all" those of all languages."""
    if language == "all":
        return [case for each in languages() for case in cases(each)]
    blocks = (FOLDER / f"{language}.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return [Case(*block.split("\n")) for block in blocks]


def languages() -> list[str]:
    """The languages there are control sets of."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def misses(language: str, *, vector: bool) -> Iterator[tuple[Case, list[str]]]:
    """The cases whose fact is not among the first, with what was found instead."""
    asked = cases(language)
    with EnhancedAgentMemory(vector=vector) as memory:
        memory.remember_many({"text": text} for case in asked for text in (case.beside, case.fact))
        for case in asked:
            found = [hit.value for hit in memory.recall(case.question, k=FIRST)]
            if case.fact not in found:
                yield case, found


def main() -> int:
    """Measure, print, and tell by the exit code whether it is as good as it was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", action="store_true", help="by words alone")
    parser.add_argument("--misses", action="store_true", help="print what was not found")
    options = parser.parse_args()
    worse = []
    print("| | facts | words | with vectors |\n|---|---|---|---|")
    for language in [*languages(), "all"]:
        count, found = len(cases(language)), []
        for number, vector in enumerate((False,) if options.words else (False, True)):
            missed = list(misses(language, vector=vector))
            found.append(count - len(missed))
            if found[-1] < FLOORS[language][number]:
                worse.append(language)
            for case, others in missed if options.misses else ():
                print(f"  {case.question}\n    wanted: {case.fact}", *others, sep="\n    ")
        print(f"| {language} | {count} | " + " | ".join(map(str, found)) + " |", flush=True)
    if worse:
        print(f"worse than before: {', '.join(dict.fromkeys(worse))}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
