"""A value is the same however it is spelled: other spaces and dashes, wide letters, signs that nobody sees."""

from __future__ import annotations

import base64
import datetime as dt
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import unmarked

from smolagents_memory import Place, Recogniser, Redactor, SqliteStore, UnsupportedValueError
from smolagents_memory.privacy.folding import folded


REDACTOR = Redactor(key=b"0" * 32)
GITHUB = unmarked("gh␀p_16C7e42F292c6912E7710c838347Ae178B4a")
MAIL, CARD, SECRET = "ann.lee@example.com", "4111 1111 1111 1111", "k9Xw2PqL7vTz"


def found_in(text: str) -> list[tuple[str, str]]:
    return [(found.kind, found.value) for found in REDACTOR.find(text)]


@pytest.mark.parametrize(
    ("kind", "usual", "spelled"),
    [
        ("CARD", CARD, "4111\u00a01111\u00a01111\u00a01111"),
        ("CARD", CARD, "4111\u202f1111\u202f1111\u202f1111"),
        ("CARD", CARD, "4111  1111  1111  1111"),
        ("CARD", CARD, "4111–1111–1111–1111"),
        ("CARD", CARD, "4111‑1111‑1111‑1111"),
        ("CARD", CARD, "4111‒1111‒1111‒1111"),
        ("CARD", CARD, "4111.1111.1111.1111"),
        ("CARD", CARD, "４１１１ １１１１ １１１１ １１１１"),
        ("CARD", CARD, "4111\u200b 1111\u200d 1111 11\u00ad11"),
        ("PHONE", "010-2345-6789", "010–2345–6789"),
        ("PHONE", "010-2345-6789", "010\u00a02345\u00a06789"),
        ("PHONE", "010-2345-6789", "０１０－２３４５－６７８９"),
        ("IBAN", "GB82 WEST 1234 5698 7654 32", "gb82 west 1234 5698 7654 32"),
        ("IBAN", "GB82 WEST 1234 5698 7654 32", "GB82-WEST-1234-5698-7654-32"),
        ("IBAN", "DE89370400440532013000", "de89370400440532013000"),
        ("EMAIL", MAIL, "ann.lee＠example.com"),
        ("EMAIL", MAIL, "ann.\u200blee@exam\u00adple.com"),
        ("EMAIL", MAIL, "ANN.LEE@example.com"),
    ],
)
def test_one_value_has_one_placeholder(kind: str, usual: str, spelled: str) -> None:
    assert found_in(f"it is {spelled}, you see") == [(kind, spelled)]
    assert REDACTOR.redact(spelled) == REDACTOR.redact(usual)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("SSN 536 90 4399", "US_SSN", "536 90 4399"),
        ("SSN: 536904399", "US_SSN", "536904399"),
        ("social security number 536904399", "US_SSN", "536904399"),
        ("jörg@example.com", "EMAIL", "jörg@example.com"),
        ("an jörg.müller@example.com로", "EMAIL", "jörg.müller@example.com"),
        ("메일은ann.lee@example.com", "EMAIL", MAIL),
        (f"password:\n{SECRET}", "SECRET", SECRET),
        (f"password:\n  value: {SECRET}\n", "SECRET", SECRET),
        (f'"password":\n    "{SECRET}"', "SECRET", SECRET),
        (json.dumps(json.dumps({"password": SECRET})), "SECRET", SECRET),
        (json.dumps(json.dumps(json.dumps({"password": SECRET}))), "SECRET", SECRET),
        (f"{CARD}/123", "CARD", CARD),
        (f"{CARD} 12/27", "CARD", CARD),
        (f"{CARD}-12/27", "CARD", CARD),
        (f"{CARD}/12/27", "CARD", CARD),
        (f"\x1b[31m{CARD}\x1b[0m", "CARD", CARD),
        (f"x\x1b[1m{GITHUB}\x1b[0m", "TOKEN", GITHUB),
    ],
)
def test_other_forms(text: str, kind: str, value: str) -> None:
    assert (kind, value) in found_in(text)


def test_a_login_of_http() -> None:
    login = base64.b64encode(b"ann:hunter2").decode()
    assert found_in(f"Authorization: Basic {login}") == [("SECRET", login)]
    assert found_in("Basic English, Basic knowledge1234 of it, Basic dXNlcm5hbWU=") == []


@pytest.mark.parametrize(
    "text",
    [
        "of 4111.1111.1111.1112 and 1.2.3.4.5.6",
        "536 90 4399 of them",
        "def login(password):\n    return check_v2_hash(password)",
        "token:\n  the word2vec model",
        "de12 and de1234567890123456789012345",
        "the years 2010–2015 and 1990–2005, pp. 123–145",
        "C:\\new\\temp\\report_2024_final.txt",
        "see /4111/1111",
    ],
)
def test_what_is_none_however_it_is_spelled(text: str) -> None:
    assert found_in(text) == []


@pytest.mark.parametrize("value", ["k9\\nXw2PqL7vTz", "k9Xw2P\\r8"])
def test_a_secret_may_look_as_if_there_were_an_escape_in_it(value: str) -> None:
    assert found_in(f'password="{value}", and so on') == [("SECRET", value)]


def test_a_decomposed_letter_is_a_letter() -> None:
    address = unicodedata.normalize("NFD", "jörg.müller@example.com")
    assert found_in(f"to {address}.") == [("EMAIL", address)]


@given(st.text(st.sampled_from("ab1@. \\n\"'\u00a0\u200b＠－\u00ad\x1b[0m")))
def test_each_part_of_what_is_read_is_where_it_was_written(text: str) -> None:
    read = folded(text)
    for at in range(len(read.text)):
        start, end = read.span(at, at + 1)
        assert end == start + 1
        assert folded(text[start:end]).text in (read.text[at], "") or text[start] in "\\\x1b"
    places = [read.span(at, at + 1)[0] for at in range(len(read.text))]
    assert places == sorted(set(places))


def test_recognisers_of_one_s_own_read_a_text_as_it_is() -> None:
    own = Redactor([Recogniser("WIDE", "４+"), Recogniser("ESCAPE", r"\\n\w+")])
    assert [found.value for found in own.find("a ４４ b\\nc")] == ["４４", "\\nc"]


@pytest.mark.parametrize("wrong", [None, 5, b"", ["ann.lee@example.com"]])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    for call in (REDACTOR.redact, REDACTOR.find, Redactor.of(str.upper).redact):  # type: ignore[union-attr]
        with pytest.raises(UnsupportedValueError, match="takes a text, not a") as raised:
            call(wrong)
        assert "ann.lee" not in str(raised.value)


def test_the_name_of_a_time_zone_is_a_text() -> None:
    store: SqliteStore[Any] = SqliteStore(Place(redact=True))
    zone = dt.timezone(dt.timedelta(hours=1), MAIL)
    store.add("k", {"zone": zone, "at": dt.datetime(2024, 1, 1, tzinfo=zone)})
    kept: Any = store.get("k")
    assert MAIL not in f"{kept} {kept['zone'].tzname(None)} {kept['at'].tzname()}"
    assert kept["at"].utcoffset() == dt.timedelta(hours=1)
