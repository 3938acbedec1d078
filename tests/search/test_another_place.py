"""Another place's backup is put back while a process has the place open: it uses no number that it learnt before."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from numbered_texts import ByNumber
from program import python
from test_chroma_damaged import HERE

from smolagents_memory import EnhancedAgentMemory, SessionManager


class Another(ByNumber):
    name = "by number, otherwise"

    def embed_query(self, text: str) -> Any:
        return super().embed_query(text)[::-1]


RESTORING = """
    import sys
    sys.path[:0], path, backup = VALUES
    from smolagents_memory import SessionManager
    SessionManager(path).restore_backup(backup)
"""


def restored_by_another(path: Path, backup: Path) -> None:
    source = f"VALUES = {(HERE, str(path), str(backup))!r}\n" + textwrap.dedent(RESTORING)
    python(source)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of a place in which embedders and scopes have other numbers than where it is put back."""
    place = tmp_path / "other"
    with EnhancedAgentMemory(place, embedder=Another()) as memory:
        memory.remember("something else")
    for scope in ({"user": "first"}, None):
        with EnhancedAgentMemory(place, embedder=ByNumber(), scope=scope) as memory:
            memory.remember_many({"text": f"{n} figs", "key": f"fig-{n}"} for n in range(30))
    return SessionManager(place).backup(tmp_path / "backup.db")


@pytest.mark.slow
@pytest.mark.parametrize("leads", [True, False], ids=["with Chroma", "without"])
def test_what_is_put_back_is_recalled_and_remembered(tmp_path: Path, backup: Path, leads: bool) -> None:
    place = tmp_path / "place"
    holder = EnhancedAgentMemory(place, embedder=Another()) if not leads else None
    with EnhancedAgentMemory(place, embedder=ByNumber()) as memory:
        if holder is not None:
            memory.long_term.keeper.vault.indexes._leads = False  # as another process would have it
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(31))
        assert memory.recall("pears7", 1)[0].key == "7"
        restored_by_another(place, backup)
        for n in (7, 20):
            assert memory.recall(f"pears{n}", 1)[0].key == f"fig-{n}"
        memory.remember("99 apples", key="99")
        assert memory.recall("pears99", 1)[0].key == "99"
        assert memory.recall("pears7", 1)[0].key == "fig-7"
        assert memory.stats().not_embedded == 0
        assert memory.stats()["index"] == ("chroma" if leads else "exact")
    if holder is not None:
        holder.close()
    with EnhancedAgentMemory(place, embedder=ByNumber()) as again:
        assert again.recall("pears99", 1)[0].key == "99"
        assert again.recall("pears7", 1)[0].key == "fig-7"


def test_where_what_is_put_back_was_embedded_otherwise_recall_goes_by_words(tmp_path: Path) -> None:
    """Vectors of two embedders are not mixed; reindex embeds anew."""
    with EnhancedAgentMemory(tmp_path / "other", embedder=Another()) as memory:
        memory.remember_many({"text": f"{n} figs", "key": f"fig-{n}"} for n in range(30))
    backup = SessionManager(tmp_path / "other").backup(tmp_path / "backup.db")
    with EnhancedAgentMemory(tmp_path / "place", embedder=ByNumber()) as memory:
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(30))
        assert memory.recall("pears7", 1)[0].key == "7"
        restored_by_another(tmp_path / "place", backup)
        assert memory.recall("figs 7", 1)[0].key == "fig-7"
        assert memory.reindex()["embedded"] == 30
        assert memory.recall("pears9", 1)[0].key == "fig-9"
