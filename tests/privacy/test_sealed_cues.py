"""What the form of a text tells lies under the seal with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from keyrings import RamKeyring
from sqlalchemy import text

from smolagents_memory import EnhancedAgentMemory, Place, Seal, SealError
from smolagents_memory.database.engine import Database
from smolagents_memory.search.cues import Cues, cues_of


TEXTS = [
    "[8 May] Ann: I went to Boston yesterday.",
    "Ben: Where did you go?",
    "plain words",
    "[9 May] Ann: I went home.",
]


def lying(place: Place) -> list[bytes]:
    with Database(place, as_it_lies=True).reading() as connection:
        return [bytes(row[0]) for row in connection.execute(text("SELECT cues FROM memory_items ORDER BY id"))]


def kept(folder: Path, mode: str | None) -> Place:
    place = Place(folder, seal=Seal(bytes(32), RamKeyring(), mode=mode)) if mode else Place(folder)
    with EnhancedAgentMemory(place, vector=False) as memory:
        memory.remember_many(TEXTS)
    return place


@pytest.mark.parametrize("mode", [None, "seal", "sign"])
def test_it_can_be_read_where_there_is_no_seal(tmp_path: Path, mode: str | None) -> None:
    held = lying(kept(tmp_path / "place", mode))
    told = [Cues.unpacked(each) == cues_of(said) for each, said in zip(held, TEXTS, strict=True)]
    assert told == [mode != "seal"] * len(TEXTS)


def test_recall_weighs_it_all_the_same(tmp_path: Path) -> None:
    answers = []
    for name, mode in (("plain", None), ("sealed", "seal")):
        with EnhancedAgentMemory(kept(tmp_path / name, mode), vector=False) as memory:
            hits = memory.recall("When did Ann go to Boston?", explain=True)
            answers.append([(hit.value, {part: round(each, 6) for part, each in hit.parts.items()}) for hit in hits])
    assert answers[0] == answers[1]
    assert answers[0][0][1]["speaker"] > 0


def test_it_is_not_changed_unnoticed(tmp_path: Path) -> None:
    place = kept(tmp_path / "place", "seal")
    with Database(place, as_it_lies=True).writing() as connection:
        connection.execute(text("UPDATE memory_items SET cues = (SELECT cues FROM memory_items WHERE id = "
                                "(SELECT max(id) FROM memory_items))"))  # fmt: skip
    with pytest.raises(SealError), EnhancedAgentMemory(place, vector=False) as memory:
        memory.recall("When did Ann go to Boston?")
