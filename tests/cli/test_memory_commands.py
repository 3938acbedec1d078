"""Every command over long-term memory, through a real process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from program import command

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve


def as_json(*arguments: str, cwd: Path) -> Any:
    done = command(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few memories, one of them in a scope."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "notes.txt").write_text("The cake is in the cellar.\n\nThe key hangs by the door.")
    for arguments in (
        ["The staging server needs the VPN."],
        ["Invoices are printed on Mondays.", "--importance", "2"],
        ["--file", "notes.txt"],
        ["Ann likes tea.", "--scope", "user=ann"],
    ):
        assert as_json("remember", *arguments, cwd=folder)["keys"]
    return folder


def test_what_was_remembered_is_found_by_meaning_and_explained(place: Path) -> None:
    (first, *_) = as_json("search", "how do I reach staging", "-k", "2", "--explain", cwd=place)
    assert first["value"] == "The staging server needs the VPN."
    assert set(first["explained"]) >= {"lexical", "vector"}
    shown = command("search", "where is the key", cwd=place).stdout
    assert "hangs by the door" in shown


@pytest.mark.slow
def test_a_scope_sees_its_own_memories_only(place: Path) -> None:
    assert "Ann likes tea." not in command("search", "who likes tea", cwd=place).stdout
    assert "Ann likes tea." in command("search", "who likes tea", "--scope", "user=ann", cwd=place).stdout


def test_memories_are_listed_with_filters_and_scopes_with_counts(place: Path) -> None:
    found = as_json("memories", "--kind", "document", cwd=place)
    assert [(each["kind"], each["source"]) for each in found] == [("document", "notes.txt")]
    assert [
        each["importance"] for each in as_json("memories", "--where", '{"importance": {"$gt": 1}}', cwd=place)
    ] == [2]
    shown = command("memories", "--limit", "1", cwd=place).stdout
    assert "staging server" in shown
    assert "2 more" in shown
    assert as_json("scopes", cwd=place) == [
        {"scope": None, "memories": 3, "archived": 0},
        {"scope": {"user": "ann"}, "memories": 1, "archived": 0},
    ]


@pytest.mark.slow
def test_a_scope_is_forgotten_as_a_whole_after_a_question(place: Path) -> None:
    for text in ("Bob likes milk.", "Bob likes cake."):
        as_json("remember", text, "--scope", "user=bob", cwd=place)
    refused = command("forget", "--scope", "user=bob", cwd=place)
    assert refused.returncode == 1
    assert "All 2 memories of the scope user=bob" in refused.stderr
    assert as_json("forget", "--scope", "user=bob", "--yes", cwd=place)["forgotten"] == 2
    assert "user=ann" in command("memories", "--kind", "nothing-like-it", cwd=place).stdout


@pytest.mark.slow
def test_a_memory_is_forgotten_after_a_question(place: Path) -> None:
    (key,) = as_json("remember", "To be forgotten: xylophone.", cwd=place)["keys"]
    refused = command("forget", key, cwd=place)
    assert refused.returncode == 1
    assert "add --yes" in refused.stderr
    assert as_json("forget", key, "--yes", "--purge", cwd=place)["forgotten"] == key
    assert "xylophone" not in command("search", "xylophone", cwd=place).stdout


@pytest.mark.slow
def test_what_a_tool_returned_is_confirmed_or_revoked(place: Path) -> None:
    (key,) = as_json("remember", "The xylophone is red.", "--origin", "tool", "--source", "web", cwd=place)["keys"]
    (found,) = [one for one in as_json("search", "xylophone", cwd=place) if one["key"] == key]
    assert (found["origin"], found["trust"]) == ("tool", 0)
    assert as_json("confirm", key, cwd=place) == {"confirmed": key}
    assert as_json("search", "xylophone", "-k", "1", cwd=place)[0]["trust"] == 2
    refused = command("revoke", "--source", "web", cwd=place)
    assert refused.returncode == 1
    assert "add --yes" in refused.stderr
    assert as_json("revoke", "--source", "web", "--yes", cwd=place) == {"revoked": [key], "purged": False}
    assert "0 memories are forgotten" in command("revoke", "--source", "web", "--yes", cwd=place).stdout


@pytest.mark.slow
def test_what_is_the_same_is_joined_and_separated_again(place: Path) -> None:
    for text in ("Deploys go out on Tuesday.", "deploys go out on tuesday"):
        command("remember", text, cwd=place)
    ((kept, others),) = as_json("consolidate", cwd=place)["joined"].items()
    assert as_json("separate", kept, cwd=place) == {"separated": others}
    assert "1 put away for 1" in command("consolidate", cwd=place).stdout
    refused = command("separate", others[0], cwd=place)
    assert refused.returncode == 1
    assert "stands for no others" in refused.stderr


def test_reindex_and_decay(place: Path) -> None:
    assert isinstance(as_json("reindex", cwd=place), dict)
    assert as_json("decay", cwd=place) == {"archived": [], "purged": []}
    assert "0 archived" in command("decay", "--purge", "--yes", cwd=place).stdout


def test_before_it_was_asked_nothing_is_put_away(tmp_path: Path) -> None:
    long_ago = time.time() - 900 * 86400
    with EnhancedAgentMemory(
        tmp_path / "agent_memory", vector=False, forgetting=ForgettingCurve(every=0), clock=lambda: long_ago
    ) as memory:
        memory.remember("An old fact.")
    refused = command("decay", "--purge", cwd=tmp_path)
    assert refused.returncode == 1
    assert "Nothing was done" in refused.stderr
    with EnhancedAgentMemory(tmp_path / "agent_memory", vector=False, forgetting=ForgettingCurve(every=0)) as memory:
        assert (memory.count(), memory.count(archived=True)) == (1, 0)
    assert command("decay", "--purge", "--yes", cwd=tmp_path).returncode == 0
    with EnhancedAgentMemory(tmp_path / "agent_memory", vector=False) as memory:
        assert (memory.count(), memory.count(archived=True)) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["remember", ""], "says something"),
        (["search", "x", "--storage", "nowhere"], "there is no memory in 'nowhere'"),
        (["search", "x", "--scope", "ann"], "name=value"),
        (
            ["search", "x", "--scope", "user=xyz"],
            "there is no scope user=xyz in 'agent_memory'; there are: no scope: 3",
        ),
        (["memories", "--where", "{"], "--where is JSON"),
        (["memories", "--where", "[1]"], "where is a mapping"),
        (["forget"], "give a key, or a scope"),
        (["remember"], "give a text"),
        (["remember", "--file", "missing.txt"], "missing.txt"),
        (["forget", "nothing-of-that-key", "--yes"], "there is no memory"),
        (["confirm", "nothing-of-that-key"], "there is no memory"),
        (["revoke"], "--source web_search"),
        (["remember", "x", "--origin", "web"], "an origin is one of user, agent, tool, document, import"),
    ],
)
def test_bad_input_gives_a_sentence_that_says_what_to_do(place: Path, arguments: list[str], says: str) -> None:
    done = command(*arguments, cwd=place)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
