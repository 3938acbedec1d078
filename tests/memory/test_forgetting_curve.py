"""Fading, archiving, purging; nothing pinned goes; no byte stays."""

from __future__ import annotations

import random

import pytest

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve


@pytest.mark.slow
def test_over_two_years_used_and_important_memories_stay_and_others_go(tmp_path, hashed, clock):
    """A simulated clock, a month at a time."""
    memory = EnhancedAgentMemory(tmp_path, embedder=hashed, clock=clock, forgetting=ForgettingCurve(every=0))
    memory.remember("the vault code is in the red book", key="used")
    memory.remember("the building burns down when valve nine is shut", key="important", importance=1000)
    memory.remember("the mascot is an owl", key="pinned")
    memory.remember_many({"text": f"a passing remark {n}", "key": f"idle{n}"} for n in range(20))
    memory.pin("pinned")
    archived, purged = [], []
    for _ in range(24):
        clock.pass_days(30.4)
        memory.recall("vault code red book", 1)
        archived += memory.decay()
        purged += memory.purge()
    assert sorted(archived) == sorted(purged) == sorted(f"idle{n}" for n in range(20))
    assert {hit.key for hit in memory.recall("vault valve mascot", 10)} == {"used", "important", "pinned"}


def test_archive_and_restore_are_inverses(tmp_path, hashed, clock):
    """After both, the record, its rank and its vectors are what they were."""
    memory = EnhancedAgentMemory(tmp_path, embedder=hashed, clock=clock)
    memory.remember_many({"text": f"note {n} about the harbour", "key": f"k{n}", "source": "s"} for n in range(9))
    before = [(hit.key, round(hit.score, 3), hit.value) for hit in memory.recall("note 4 harbour", 9)]
    memory.long_term.keeper.flush()
    record = memory.long_term.get("k4")
    embedded = hashed.calls
    assert memory.archive("k4")
    assert not memory.archive("k4")
    assert "k4" not in [hit.key for hit in memory.recall("note 4 harbour", 9)]
    assert memory.restore("k4")
    assert not memory.restore("k4")
    memory.long_term.keeper.traces._waiting.forked()  # as if nothing had been recalled
    assert memory.long_term.get("k4") == record
    assert [(hit.key, round(hit.score, 3), hit.value) for hit in memory.recall("note 4 harbour", 9)] == before
    assert hashed.calls <= embedded + 1  # the query; nothing was embedded again
    memory.close()


def test_decay_runs_by_itself_at_most_once_a_day(tmp_path, hashed, clock):
    """When a memory is opened."""
    with EnhancedAgentMemory(tmp_path, embedder=hashed, clock=clock) as memory:
        memory.remember("soon forgotten", key="k")
    clock.pass_days(400)
    with EnhancedAgentMemory(tmp_path, embedder=hashed, clock=clock) as memory:
        assert memory.stats().archived == 1
        memory.restore("k")
    clock.now += 3600
    with EnhancedAgentMemory(tmp_path, embedder=hashed, clock=clock) as memory:
        assert memory.stats().archived == 0


@pytest.mark.slow
def test_after_forget_and_purge_no_byte_of_the_text_is_left(tmp_path):
    """Not in SQL, its full-text index, its WAL or Chroma's folder; fragments neither."""
    memory = EnhancedAgentMemory(tmp_path / "m")
    secret = "Xylophonia Quastenflosser zwölfundneunzig marzipankartoffel"
    chosen = random.Random(1)
    memory.remember_many({"text": f"ordinary note {n} {chosen.random()}", "key": f"k{n}"} for n in range(1200))
    memory.remember(secret, key="qqsecretkeyqq", meta={"who": "wwmetadataww"}, source="ssourcenamess")
    memory.recall("xylophonia", 3)
    memory.long_term.keeper.vault.indexes.flush()
    assert memory.forget("qqsecretkeyqq")
    memory.recall("ordinary note", 3)
    memory.purge()
    fragments = [b"xyloph", b"Xyloph", b"Quasten", b"quasten", b"marzip", b"zipankart", b"qqsecret", b"wwmetadata"]
    fragments += [b"lophonia", b"lophoni", b"flosser", b"ndneunz", b"ssourcename"]
    files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        content = path.read_bytes()
        assert not [fragment for fragment in fragments if fragment in content], path
    memory.close()
