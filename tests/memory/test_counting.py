"""Recalls and their help are counted in the database, over all processes; traces outlive a process that exits."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, LongTermStats, RecallTool
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.stores import recalls


def filled(where: Any, **options: Any) -> EnhancedAgentMemory:
    memory = EnhancedAgentMemory(where, vector=False, **options)
    memory.remember_many({"text": f"note {n} on pumps", "key": f"k{n}"} for n in range(4))
    return memory


def in_a_process(script: str, where: Any) -> None:
    opened = f"memory = EnhancedAgentMemory({str(where)!r}, vector=False)"
    program = f"import sys; sys.path[:0] = {sys.path!r}\nfrom smolagents_memory import EnhancedAgentMemory\n{opened}\n"
    subprocess.run([sys.executable, "-c", program + script], check=True)


@pytest.mark.slow
def test_recall_and_feedback_are_counted_over_all_processes(url: str) -> None:
    with filled(url) as memory:
        memory.recall("pumps")
        memory.recall("zebra")
    in_a_process("memory.recall('pumps', 1); memory.recall('pumps', 4); memory.feedback('k3'); memory.close()", url)
    with EnhancedAgentMemory(url, vector=False) as memory:
        stats = memory.stats()
    assert isinstance(stats, LongTermStats)
    assert (stats.memories, stats.recalls, stats.hit_ratio, stats.useful_ratio) == (4, 4, 0.75, 0.25)
    assert stats.counted == "in the database, over all processes"
    assert stats.to_dict()["hit_ratio_over_time"] == [0.75]
    assert stats["hit ratio"] == stats["hit_ratio"] == 0.75
    with pytest.raises(KeyError):
        stats["weather"]
    with EnhancedAgentMemory(url, vector=False, scope={"user": "u"}) as other:
        other.recall("pumps")
        assert (other.stats().recalls, other.stats().hit_ratio) == (1, 0.0)


@pytest.mark.slow
def test_feedback_in_another_process_counts_the_newest_recall_that_gave_it(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        memory.recall("pumps", 4)
        memory.recall("pumps", 4)
    in_a_process("memory.feedback('k1'); memory.feedback('k1'); memory.feedback('k2', useful=False)", tmp_path)
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        assert memory.stats().useful_ratio == 0.5
        record = memory.long_term.get("k1")
        assert record is not None
        assert (record.uses, record.useful) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "import gc; del memory; gc.collect()", "raise SystemExit"])
def test_traces_are_written_when_a_process_exits_without_closing(url: str, how: str) -> None:
    filled(url).close()
    in_a_process(f"memory.recall('pumps', 4)\nmemory.recall('zebra')\n{how}", url)
    with EnhancedAgentMemory(url, vector=False) as memory:
        assert memory.stats().recalls == 2
        record = memory.long_term.get("k2")
        assert record is not None
        assert record.uses == 1


def child(where: str) -> None:
    EnhancedAgentMemory(where, vector=False).recall("pumps", 4)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_process_of_multiprocessing_writes_its_own_and_not_its_parents(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("nothing is forked here")
    memory = filled(tmp_path)
    memory.recall("pumps", 4)  # waits here, also while the child lives and ends
    process = multiprocessing.get_context(method).Process(target=child, args=(str(tmp_path),))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    with EnhancedAgentMemory(tmp_path, vector=False) as other:
        assert other.stats().recalls == 1
    memory.close()
    with EnhancedAgentMemory(tmp_path, vector=False) as other:
        assert other.stats().recalls == 2


def test_a_place_that_is_gone_is_not_made_again_at_the_end_of_the_process(tmp_path: Path) -> None:
    filled(tmp_path / "m").close()
    in_a_process(f"memory.recall('pumps'); import shutil; shutil.rmtree({str(tmp_path / 'm')!r})", tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_recall_pays_no_commit_of_its_own(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = filled(url)
    memory.recall("pumps")
    commits = []
    writing = Database.writing
    monkeypatch.setattr(Database, "writing", lambda self, *given: commits.append(1) or writing(self, *given))
    for n in range(200):
        memory.recall("pumps" if n % 2 else "zebra", 4)
    assert len(commits) <= 4
    memory.close()


def test_old_recalls_become_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recalls, "NEWEST", 40)
    monkeypatch.setattr(recalls, "_SPARE", 10)
    memory = filled(tmp_path)
    for n in range(500):
        memory.recall("pumps" if n % 4 else "zebra", 1)
        if n % 10 == 1:
            memory.feedback(memory.recall("pumps", 1)[0].key)
    memory.close()
    with Database.at(tmp_path).reading() as connection:
        rows = connection.execute(select(func.count()).select_from(tables.recalls)).scalar_one()
    assert 40 <= rows <= 50 + 64
    stats = EnhancedAgentMemory(tmp_path, vector=False).stats()
    assert stats.recalls == 550
    assert stats.hit_ratio == 425 / 550
    assert stats.useful_ratio == 50 / 550


def test_what_waits_is_kept_while_the_database_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recall does not fail because of it."""
    memory = filled(tmp_path)
    broken = monkeypatch.context()
    with broken as patch:
        from smolagents_memory import StoreUnavailableError

        def refuse(*given: Any) -> None:
            raise StoreUnavailableError("the disk is full")

        patch.setattr(memory.long_term.keeper.bank, "touch", refuse)
        for _ in range(200):
            assert memory.recall("pumps", 4)
    memory.close()
    with EnhancedAgentMemory(tmp_path, vector=False) as again:
        assert again.stats().recalls == 200
        record = again.long_term.get("k0")
        assert record is not None
        assert record.uses == 200


def test_a_tool_counts_once_and_the_drift_is_told(caplog: pytest.LogCaptureFixture) -> None:
    memory = filled(None)
    tool = RecallTool(memory)
    for n in range(40):
        tool("pumps" if n < 20 else f"zzz{n}")
    stats = memory.stats()
    assert (stats.recalls, stats.hit_ratio, stats.hit_ratio_over_time) == (40, 0.5, [1.0, 0.0])
    assert "hit ratio" in str(stats.drift)
    assert "serves less well" in caplog.text


def test_in_a_store_of_ones_own_this_process_counts_and_says_so() -> None:
    memory = filled(InMemoryStore())
    memory.recall("pumps", 4)
    memory.feedback("k2")
    memory.recall("zebra")
    stats = memory.stats()
    assert (stats.recalls, stats.hit_ratio, stats.useful_ratio) == (2, 0.5, 0.5)
    assert stats.counted == "in this process"


def test_nothing_of_a_forgotten_memory_stays_in_what_is_counted(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    memory.remember("the zebra", key="qqsecretkeyqq")
    memory.recall("zebra")
    memory.feedback("qqsecretkeyqq")
    memory.recall("zebra")
    memory.forget("qqsecretkeyqq")
    memory.purge()
    memory.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"qqsecret" in path.read_bytes()]
