"""Many byte strings are found wherever they stand, and nowhere else."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from smolagents_memory.people import needles as module
from smolagents_memory.people.needles import SHORTEST, Needles, forms


BYTES = st.lists(st.sampled_from([b"a", b"b", b"\0", b"ab", b"\xff"]), max_size=40).map(b"".join)


@settings(deadline=None, max_examples=300)
@given(st.lists(BYTES, max_size=8), BYTES, st.integers(1, 30))
@example([b"aaaaaa"], b"aaaaaaa", 4)
@example([b"abab", b"baba"], b"ababa", 5)
def test_what_is_found_is_what_stands_there(wanted: list[bytes], data: bytes, part: int) -> None:
    needles = Needles(dict.fromkeys(wanted, "it"))
    there = {needle for needle in wanted if len(needle) >= SHORTEST and needle in data}
    assert needles.within(data) == there
    read = []
    module._PART, before = part, module._PART
    try:
        found = needles.within_parts(lambda size, at: data[at : at + size], read.append)
    finally:
        module._PART = before
    assert found == there
    assert sum(read) == len(data)


@given(st.text(st.characters(), max_size=30))
def test_a_text_is_found_however_json_writes_it(text: str) -> None:
    needles = Needles(dict.fromkeys(forms(text), "the name"))
    for lies in (json.dumps([text]).encode(), json.dumps([text], ensure_ascii=False).encode("utf-8", "surrogatepass")):
        assert bool(needles.within(lies)) == (len(text) >= SHORTEST)
