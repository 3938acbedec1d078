"""A value lies in an envelope: damage is noticed, what is newer is called newer, a cipher binds it to its spot."""

from __future__ import annotations

import hashlib
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from hypothesis import given
from hypothesis import strategies as st
from keyrings import RamKeyring
from sqlalchemy import func, select, update

from smolagents_memory import (
    DecodeError,
    EnhancedAgentMemory,
    MemoryLossWarning,
    NewerFormatError,
    Seal,
    SealError,
    Session,
)
from smolagents_memory.database import envelope as envelope_module
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import VERSION, Envelope
from smolagents_memory.database.sealed import Spot
from smolagents_memory.testing import code


SPOT = Spot("session_records", "owner", 7, "fields")
PLAIN = Envelope()


def sealed_envelope(place: str = "place") -> Envelope:
    """The envelope of a sealed place with two sessions, each of which has a key."""
    seal = Seal(bytes(32), RamKeyring())
    envelope = Envelope(place, seal.keys(place, seal.begin(place), "the place"))
    assert envelope.sealed is not None
    envelope.sealed.new("session owner")
    envelope.sealed.new("session another")
    return envelope


SEALED = sealed_envelope()


@given(st.binary(max_size=3000), st.booleans())
def test_every_value_comes_back(content: bytes, sealed: bool) -> None:
    envelope = SEALED if sealed else PLAIN
    assert envelope.unpack_bytes(envelope.pack_bytes(content, SPOT), SPOT) == content


def test_what_shrinks_is_compressed_and_what_does_not_is_left() -> None:
    text = ("The quick brown fox jumps over the lazy dog. " * 40).encode()
    noise = hashlib.shake_256(b"seed").digest(100_000)
    assert len(PLAIN.pack_bytes(text, SPOT)) < len(text) / 5
    assert len(PLAIN.pack_bytes(noise, SPOT)) == len(noise) + 6
    assert len(PLAIN.pack_bytes(b"short", SPOT)) == 5 + 6


@pytest.mark.parametrize("content", [b"short", b"long " * 200])
def test_any_changed_bit_is_damage_and_not_a_newer_version(content: bytes) -> None:
    packed = PLAIN.pack_bytes(content, SPOT)
    for bit in range(8 * len(packed)):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DecodeError):
            PLAIN.unpack_bytes(bytes(changed), SPOT)
    for length in range(len(packed)):
        with pytest.raises(DecodeError):
            PLAIN.unpack_bytes(packed[:length], SPOT)


def test_a_value_in_another_row_or_column_is_damage() -> None:
    packed = PLAIN.pack_bytes(b"value", SPOT)
    for other in (SPOT._replace(key=8), SPOT._replace(column="inputs"), SPOT._replace(table="blobs")):
        with pytest.raises(DecodeError):
            PLAIN.unpack_bytes(packed, other)
    assert PLAIN.unpack_bytes(packed, SPOT._replace(owner="a fork")) == b"value"


def newer(content: bytes, spot: Spot) -> bytes:
    """As a later version would write it: its head and its checksum are as they always will be."""
    head = f"9 0 {spot.table} {spot.key} {spot.column}\n".encode()
    return b"\x09\x00" + zlib.crc32(content, zlib.crc32(head)).to_bytes(4, "big") + content


def test_a_newer_envelope_is_called_newer(tmp_path: Path) -> None:
    with pytest.raises(NewerFormatError, match="pip install -U"):
        PLAIN.unpack_bytes(newer(b"value", SPOT), SPOT)
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    with Session("s", tmp_path).attach(agent):
        agent.run("go")
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember("text", key="k")
    journal = tables.journal
    with Database.at(tmp_path).writing() as connection:
        last = connection.execute(select(func.max(journal.c.revision))).scalar_one()
        changes = newer(b"", Spot("session_journal", "s", last, "changes"))
        connection.execute(update(journal).where(journal.c.revision == last).values(changes=changes))
        value = newer(b"", Spot("memory_items", "", "k", "value"))
        connection.execute(tables.items.update().values(value=value))
    for read in (Session("s", tmp_path).steps, lambda: EnhancedAgentMemory(tmp_path, vector=False).recall("text")):
        with pytest.raises(NewerFormatError, match="a newer smolagents-memory"):
            read()


def test_values_of_envelope_one_are_still_read() -> None:
    content = b'{"step":"TaskStep"}'
    old = b"\x01\x00" + zlib.crc32(content).to_bytes(4, "big") + content
    assert PLAIN.unpack_bytes(old, SPOT) == content
    for at in range(len(old)):
        changed = bytearray(old)
        changed[at] ^= 0x10
        with pytest.raises(DecodeError):
            PLAIN.unpack_bytes(bytes(changed), SPOT)


# -- under a seal -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", SPOT._fields)
def test_a_sealed_value_that_was_moved_does_not_open(changed: str) -> None:
    sealed = SEALED.pack_bytes(b"of one session", SPOT)
    elsewhere = {"table": "session_journal", "owner": "another", "key": 8, "column": "inputs"}[changed]
    with pytest.raises(SealError, match="cannot be trusted"):
        SEALED.unpack_bytes(sealed, SPOT._replace(**{changed: elsewhere}))
    with pytest.raises(SealError):
        sealed_envelope("another place").unpack_bytes(sealed, SPOT)


def test_what_is_not_sealed_is_refused_and_what_is_sealed_needs_its_seal() -> None:
    with pytest.raises(SealError, match="without a seal"):
        SEALED.unpack_bytes(PLAIN.pack_bytes(b"plain", SPOT), SPOT)
    with pytest.raises(SealError, match="opened without a seal"):
        PLAIN.unpack_bytes(SEALED.pack_bytes(b"sealed", SPOT), SPOT)


def test_no_byte_of_a_sealed_value_can_be_changed() -> None:
    sealed = SEALED.pack_bytes(b"of one session", SPOT)
    for at in range(len(sealed)):
        for bit in (1, 128):
            changed = bytearray(sealed)
            changed[at] ^= bit
            with pytest.raises((SealError, NewerFormatError)):
                SEALED.unpack_bytes(bytes(changed), SPOT)
        with pytest.raises(SealError):
            SEALED.unpack_bytes(sealed[:at], SPOT)


# -- what a value unpacks to is bounded by its bytes ---------------------------------------------------------------


def bomb(size: int, spot: Spot = SPOT) -> bytes:
    """A value that says of itself that it is a million bytes of nothing, and more: its checksum is right."""
    deflate = zlib.compressobj(9)
    content = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(size >> 20)) + deflate.flush()
    return envelope_module._HEAD.pack(VERSION, 1, envelope_module._checksum(VERSION, 1, spot, content)) + content


@pytest.mark.slow
def test_a_small_value_that_unpacks_to_half_a_gigabyte_is_refused_in_no_memory() -> None:
    data = bomb(1 << 29)
    assert len(data) < 1 << 22
    tracemalloc.start()
    with pytest.raises(DecodeError, match=r"bytes would be more than .* when unpacked, and are not read"):
        Envelope().unpack_bytes(data, SPOT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 29


@pytest.mark.slow
def test_many_of_them_in_one_transaction_are_no_more_than_one() -> None:
    data, envelope, read = bomb(64 << 20), Envelope(), 0
    with pytest.raises(DecodeError, match="are not read"):
        for _ in range(40):
            read += len(envelope.unpack_bytes(data, SPOT))
    assert read < 40 * (64 << 20) / 4
    assert len(Envelope().unpack_bytes(data, SPOT)) == 64 << 20  # another transaction, which older packages wrote


def test_what_this_package_packs_is_always_within_the_bound() -> None:
    """However well it could be packed: no number of values takes the room of old ones."""
    envelope = Envelope()
    envelope._room = 0
    for size in (0, 100, 3_000, 100_000, 5_000_000):
        for content in (bytes(size), b"abc" * (size // 3), b"one line of a log, again and again\n" * (size // 35)):
            assert envelope.unpack_bytes(Envelope().pack_bytes(content, SPOT), SPOT) == content


def test_a_packed_value_that_is_cut_short_or_goes_on_is_damage() -> None:
    packed = zlib.compress(b"abc" * 1000)
    for content in (packed[:-5], packed + b"more"):
        checksum = envelope_module._checksum(VERSION, 1, SPOT, content)
        with pytest.raises(DecodeError):
            Envelope().unpack_bytes(envelope_module._HEAD.pack(VERSION, 1, checksum) + content, SPOT)


@pytest.mark.parametrize("value", [None, "text", 10**11, 1.5])
def test_a_value_that_is_no_bytes_is_damage(value: Any) -> None:
    with pytest.raises(DecodeError, match="bytes were expected"):
        Envelope().unpack_bytes(value, SPOT)
    with pytest.raises(DecodeError):
        envelope_module.from_key(value)


@pytest.mark.slow
def test_a_session_with_such_a_value_is_read_without_it(tmp_path: Path) -> None:
    agent = code_agent([code("final_answer(42)")], planning_interval=None)
    with Session("s", tmp_path).attach(agent):
        agent.run("go")
    with Database.at(tmp_path).writing() as connection:
        number = connection.execute(select(func.max(tables.records.c.number))).scalar_one()
        spot = Spot("session_records", "s", number, "fields")
        newest = update(tables.records).where(tables.records.c.number == number)
        connection.execute(newest.values(fields=bomb(1 << 29, spot)))
    with pytest.warns(MemoryLossWarning, match="are not read"):
        assert len(Session("s", tmp_path).steps()) == 1
