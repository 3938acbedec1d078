"""The corpus as it is meant: without the marker that keeps scanners for secrets away from the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


CORPUS = Path(__file__).parent / "corpus"
MARKER = "␀"


def unmarked(text: str) -> str:
    """A text without the marker."""
    return text.replace(MARKER, "")


def rows(name: str) -> list[dict[str, Any]]:
    text = unmarked((CORPUS / f"{name}.jsonl").read_text(encoding="utf-8"))
    return [json.loads(line) for line in text.split("\n") if line]


def positives() -> list[dict[str, Any]]:
    """Texts with what is to be found: {"language", "text", "values": [{"kind", "value"}]}, as the text has them."""
    return rows("positives")


def negatives() -> list[dict[str, Any]]:
    """Texts in which nothing is to be found: {"language", "text"}."""
    return rows("negatives")
