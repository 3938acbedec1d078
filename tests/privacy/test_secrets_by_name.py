"""What chance has made is a secret, whatever signs are in it; what stands for a secret is none."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
from reading import unmarked

from smolagents_memory import Place, Redactor, SqliteStore
from smolagents_memory.privacy.redaction import PLACEHOLDER


REDACTOR = Redactor(key=b"0" * 32)
SECRET = "k9Xw2PqL7vTz"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('password = "$k9Xw2PqL7vTz"', "$k9Xw2PqL7vTz"),
        ('password="%k9Xw2PqL7vTz"', "%k9Xw2PqL7vTz"),
        ('api_key: "your9KdkLs82kfLz"', "your9KdkLs82kfLz"),
        ('password="MyExample9k2x"', "MyExample9k2x"),
        ("postgresql://ann:$ecret99@db/x", "$ecret99"),
        ("postgresql://ann:MyExample99!@db/x", "MyExample99!"),
        ("mysql://u:(9fk2)x@h/x", "(9fk2)x"),
        ("mysql://u:1111@h/x", "1111"),
        (unmarked("s␀k-aB3dE6gHxxxx9jaB3dE6gHkL9m"), unmarked("s␀k-aB3dE6gHxxxx9jaB3dE6gHkL9m")),
    ],
)
def test_what_only_begins_as_a_placeholder_is_found(text: str, value: str) -> None:
    assert value in [found.value for found in REDACTOR.find(text)]


@pytest.mark.parametrize(
    "text",
    [
        'password = "$DB_PASSWORD_2"',
        'password = "${DB_PASSWORD2}"',
        'password = "${DB_PASSWORD2}_v2"',
        'password = "$user_password2"',
        'password = "{db.password2}"',
        'password = "{{ vault.db2 }}"',
        'password = "<your-password-1>"',
        'password = "%DB_PASSWORD2%"',
        'password = "[PASSWORD_123]"',
        'api_key = "your_api_key_123"',
        'api_key = "your-api-key-here-1"',
        'api_key = "YOUR_API_KEY_1"',
        'api_key = "example123"',
        'password = "changeme123"',
        unmarked('api_key = "s␀k-xxxxxxxxxxxxxxxxxxxxxxxxxxxx"'),
        unmarked('api_key = "s␀k-aB3d...9kXz"'),
        unmarked("AK␀IAIOSFODNN7EXAMPLE"),
        'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"',
        "postgresql://ann:${PASSWORD}@db/x",
        "postgresql://ann:$PASSWORD@db/x",
        "postgresql://ann:$dbPassword@db/x",
        "postgresql://ann:{password}@db/x",
        "postgresql://ann:<password>@db/x",
        "postgresql://ann:[password]@db/x",
        "postgresql://ann:***@db/x",
        "postgresql://ann:****@db/x",
        "postgresql://ann:xxxx@db/x",
        "postgresql://user:pass@db/x",
        "postgresql://ann:%(password)s@db/x",
        "postgresql://ann:%s@db/x",
    ],
)
def test_what_stands_for_a_secret_is_left_alone(text: str) -> None:
    assert REDACTOR.find(text) == []


@pytest.mark.parametrize(
    "meta",
    [
        {"password": 'k9"Xw2PqL7vTz'},
        {"passwords": [SECRET]},
        {"secret": (SECRET,)},
        {"secret": {SECRET}},
        {"token": {"v": SECRET}},
        {"token": [{"of": ["x", {"v": SECRET}]}]},
        {"db password": f"line\n{SECRET}"},
        {"user:password": SECRET},
        {"api/token": SECRET},
        {"token2": b"k9Xw2PqL7vTz"},
        {"token": bytearray(b"k9Xw2PqL7vTz")},
        {"password": f"ann.lee@example.com {SECRET}"},
        {"n": 6, "password": [SECRET]},
        {"of": OrderedDict(password=SECRET)},
        {"of": defaultdict(list, password=[SECRET])},
        {"password": deque([SECRET])},
        {"tokens": {SECRET: "ann"}},
        {"tokens": Counter([SECRET])},
        {"password": "k9 Xw2PqL7v'Tz`\"z4"},
    ],
)
def test_a_name_says_what_all_under_it_is(meta: dict[Any, Any]) -> None:
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    store.add("v", meta)
    store.add("k", "a text", {"of": meta})
    kept = str([store.get("v"), [hit.meta for hit in store.search("text")]])
    assert "Xw2PqL7v" not in kept
    assert PLACEHOLDER.search(kept)


def test_a_column_of_a_frame_has_a_name() -> None:
    pandas = pytest.importorskip("pandas")
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    store.add("v", pandas.DataFrame({"password": [SECRET], "note": ["k9Xw2PqL7vTq"]}))
    kept: Any = store.get("v")
    assert PLACEHOLDER.fullmatch(kept["password"][0])
    assert kept["note"][0] == "k9Xw2PqL7vTq"


def test_a_very_deep_value_stands_under_its_name_too() -> None:
    deep: Any = SECRET
    for _ in range(100):
        deep = [deep]
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    store.add("v", {"password": deep})
    assert SECRET not in str(store.get("v"))


@pytest.mark.parametrize(
    "meta",
    [
        {"token_usage": {"model": "gpt-4o-mini", "input_tokens": "1200", "at": "2024-05-06T10:11:12Z"}},
        {"tokens": ["hello", "world", "gpt-4o"], "note": [SECRET]},
        {"password": {"changed": "2024-05-06", "policy": "at least 12 characters, one of them a digit"}},
        {"secret": [True, None, 5, 1.5]},
    ],
)
def test_what_is_no_secret_under_such_a_name_stays(meta: dict[str, Any]) -> None:
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    store.add("v", meta)
    assert store.get("v") == meta
