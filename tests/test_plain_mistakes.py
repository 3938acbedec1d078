"""Mistakes that anybody makes in their first hour: each is told in a sentence, and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import command

from smolagents_memory import (
    AttachError,
    EnhancedAgentMemory,
    ForgettingCurve,
    MissingExtraError,
    People,
    Place,
    PlaceError,
    Recogniser,
    Redactor,
    Seal,
    SealError,
    Session,
    SmolagentsMemoryError,
    UnsupportedValueError,
    load_memory,
)
from smolagents_memory.privacy import data_keys


@pytest.mark.parametrize("pattern", ["x*", r"\b", r"E-\d*|", "$", ""])
def test_a_pattern_that_is_met_by_nothing_finds_what_it_finds(pattern: str) -> None:
    redactor = Redactor(kinds=["STAFF"], also=[Recogniser("STAFF", pattern)])
    found = [each.value for each in redactor.find("abc xx E-12 x")]
    assert found == {"x*": ["xx", "x"], r"E-\d*|": ["E-12"]}.get(pattern, [])
    assert list(redactor.find("")) == []


@pytest.mark.parametrize("given", [{"pattern": "("}, {"pattern": 5}, {"pattern": "x", "check": 1}])
def test_a_recogniser_that_is_none_is_named(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="STAFF"):
        Recogniser("STAFF", **given)


SECRET = 47110815


@pytest.mark.parametrize(
    "does",
    [
        lambda where: Seal.from_passphrase(SECRET, keyring=where / "keys"),  # type: ignore[arg-type]
        lambda where: Seal.from_passphrase(str(SECRET).encode(), keyring=where / "keys"),  # type: ignore[arg-type]
        lambda where: Seal(str(SECRET), where / "keys"),  # type: ignore[arg-type]
        lambda where: Seal(str(SECRET).encode(), where / "keys"),
        lambda where: Place(where / "place", seal=str(SECRET)),  # type: ignore[arg-type]
        lambda where: load_memory(where / "file.jsonl", seal=str(SECRET)),  # type: ignore[arg-type]
        lambda where: EnhancedAgentMemory(Place(where / "place", seal=SECRET)),  # type: ignore[arg-type]
    ],
)
def test_no_error_quotes_what_may_be_a_passphrase(does: Callable[[Path], Any], tmp_path: Path) -> None:
    (tmp_path / "file.jsonl").write_text("{}")
    with pytest.raises(SmolagentsMemoryError) as told:
        does(tmp_path)
    assert str(SECRET) not in str(told.value)
    with pytest.raises(SealError, match="not an empty one"):
        Seal.from_passphrase("", keyring=tmp_path / "keys")


def test_no_key_file_is_made_for_what_is_refused(tmp_path: Path) -> None:
    for given in ({"keyring": tmp_path / "keys", "mode": "sing"}, {"keyring": None}):
        with pytest.raises(SealError):
            Seal.from_file(tmp_path / "master.key", **given)
    assert list(tmp_path.iterdir()) == []


def test_the_key_file_is_not_within_the_place_either(tmp_path: Path) -> None:
    seal = Seal.from_file(tmp_path / "place" / "master.key", keyring=tmp_path / "keys")
    for named in (tmp_path / "place", tmp_path / "place" / "memory.db"):
        with pytest.raises(PlaceError, match=r"key file .*master\.key lies within the place"):
            Place(named, seal=seal)
    Place(tmp_path / "another", seal=seal)


def test_without_the_extra_a_seal_says_so_and_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_keys, "_THERE", False)
    for makes in (
        lambda: Seal.from_file(tmp_path / "master.key", keyring=tmp_path / "keys"),
        lambda: Seal.from_passphrase("open sesame", keyring=tmp_path / "keys"),
        lambda: Seal(bytes(32), tmp_path / "keys"),
    ):
        with pytest.raises(MissingExtraError, match="seal"):
            makes()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["3", True, -1, 1.5, None])
@pytest.mark.parametrize("name", ["auto_recall", "budget"])
def test_what_is_to_be_brought_is_a_whole_number(name: str, given: Any) -> None:
    with pytest.raises(UnsupportedValueError, match=f"{name} is a whole number"):
        EnhancedAgentMemory(vector=False, **{name: given})


@pytest.mark.parametrize(
    "given",
    [{"half_life": 0}, {"half_life": -1}, {"half_life": "x"}, {"floor": "y"}, {"grace": -1}, {"every": math.nan}],
)
def test_a_curve_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedValueError, match=f"{next(iter(given))} is a number"):
        ForgettingCurve(**given)


def test_forgetting_is_a_curve() -> None:
    with pytest.raises(UnsupportedValueError, match="forgetting is a ForgettingCurve"):
        EnhancedAgentMemory(vector=False, forgetting=60)  # type: ignore[arg-type]


@pytest.mark.parametrize("agent", [None, "x", 5])
def test_what_is_no_agent_is_not_attached_to(agent: Any, tmp_path: Path) -> None:
    with pytest.raises(AttachError, match="to an agent, not to"):
        EnhancedAgentMemory(vector=False).attach(agent)
    with pytest.raises(AttachError, match="to an agent, not to"):
        Session("s", tmp_path / "place").attach(agent)
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize("text", [None, b"bytes", Path("file.txt"), ["a", "b"]])
def test_what_is_no_text_is_named_and_how_a_file_is_kept(text: Any) -> None:
    memory = EnhancedAgentMemory(vector=False)
    with pytest.raises(UnsupportedValueError, match=r"a memory is a text, not .*remember_document\(path=…\)") as told:
        memory.remember(text)
    assert str(text)[:5] in str(told.value)
    assert memory.count() == 0


@pytest.mark.parametrize(
    "does",
    [lambda p: p.erase("ann"), lambda p: p.export("ann", "ann.zip")],
)
def test_of_a_place_that_is_not_there_nobody_is_told_that_nothing_is_kept(
    does: Callable[[People], Any], tmp_path: Path
) -> None:
    with pytest.raises(PlaceError, match="there is no place"):
        does(People(tmp_path / "mispelt"))
    assert list(tmp_path.iterdir()) == []


def test_a_scope_that_names_one_thing_twice_is_nobodys(tmp_path: Path) -> None:
    told = command("remember", "a", "--scope", "user=a", "--scope", "user=b", "--storage", str(tmp_path), cwd=tmp_path)
    assert told.returncode
    assert "names one twice" in told.stderr
    assert list(tmp_path.iterdir()) == []
