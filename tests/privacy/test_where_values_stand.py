"""A value is found wherever it stands: behind URLs, numbers and escapes, in marks of Markdown, in quotes."""

from __future__ import annotations

import json

import pytest
from reading import unmarked

from smolagents_memory import Redactor


REDACTOR = Redactor(key=b"0" * 32)
MAIL, CARD = "ann.lee@example.com", "4111 1111 1111 1111"
GITHUB = unmarked("gh␀p_16C7e42F292c6912E7710c838347Ae178B4a")
OPENAI = unmarked("s␀k-aB3dE6gH9jaB3dE6gH9jaB3dE6gH9j")
AMAZON = unmarked("AK␀IAY3FDKS6Q2PLM5RTW")


def found_in(text: str) -> list[tuple[str, str]]:
    return [(found.kind, found.value) for found in REDACTOR.find(text)]


@pytest.mark.parametrize(
    "text",
    [
        '{"url":"https://example.com","email":"ann.lee@example.com"}',
        '<a href="https://example.com">ann.lee@example.com</a>',
        "https://example.com,ann.lee@example.com",
        "[https://example.com](mailto:ann.lee@example.com)",
        "see http://x.de:80,ann.lee@example.com",
        "|http://x.de:80|ann.lee@example.com|",
    ],
)
def test_an_address_behind_a_url(text: str) -> None:
    assert found_in(text) == [("EMAIL", MAIL)]


def test_a_password_of_a_url_is_no_address_whatever_signs_are_in_it() -> None:
    for password in ("p,w9", "(9fk2)x", "a|b;c9"):
        assert found_in(f"https://user:{password}@db.example.com/x") == [("URL_PASSWORD", password)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("room 2027 010-2345-6789", "PHONE", "010-2345-6789"),
        (f"expires 2027 {CARD}", "CARD", CARD),
        (f"1001 {CARD}", "CARD", CARD),
        (f"{'12 ' * 420}{CARD}", "CARD", CARD),
        ("GB82 WEST 1234 5698 7654 33 GB82 WEST 1234 5698 7654 32", "IBAN", "GB82 WEST 1234 5698 7654 32"),
        ("GB12 GB82 WEST 1234 5698 7654 32", "IBAN", "GB82 WEST 1234 5698 7654 32"),
        ("of 123 943 476 5919", "UK_NHS", "943 476 5919"),
    ],
)
def test_a_number_behind_another_one(text: str, kind: str, value: str) -> None:
    assert (kind, value) in found_in(text)


@pytest.mark.parametrize("escape", ["\n", "\t", "\r\n"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("CARD", CARD),
        ("US_SSN", "536-90-4399"),
        ("PHONE", "010-2345-6789"),
        ("IPV4", "203.0.113.77"),
        ("IPV6", "2001:db8::1428:57ab"),
        ("IBAN", "GB82WEST12345698765432"),
        ("EMAIL", MAIL),
        ("TOKEN", GITHUB),
        ("TOKEN", OPENAI),
        ("TOKEN", AMAZON),
    ],
)
def test_behind_an_escape_as_json_and_python_write_it(kind: str, value: str, escape: str) -> None:
    for written in (json.dumps, repr, lambda text: json.dumps(json.dumps(text))):
        assert found_in(written(f"Ann{escape}{value}{escape}Bob")) == [(kind, value)]


@pytest.mark.parametrize("marks", ["_", "__", "*", "**", "`", "~~"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [("EMAIL", MAIL), ("CARD", "4111111111111111"), ("IPV4", "203.0.113.77"), ("TOKEN", GITHUB), ("TOKEN", OPENAI)],
)
def test_in_the_marks_of_markdown(kind: str, value: str, marks: str) -> None:
    assert found_in(f"ask {marks}{value}{marks}, now") == [(kind, value)]


def test_an_address_that_a_hyphen_follows() -> None:
    assert found_in("ann.lee@example.com-home") == [("EMAIL", MAIL)]
    assert found_in("_ann@example.com is one, too") == [("EMAIL", "_ann@example.com")]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("ip:2001:db8::1428:57ab", "IPV6"),
        ("source:2001:db8::1428:57ab", "IPV6"),
        ("2001:db8::1428:57ab: refused", "IPV6"),
        ("at 12:34:56::78", ""),
        ("12:34:56: 01:02:03: done", ""),
        ("score +12345678 of all", ""),
        ("tel +12345678", "PHONE"),
        ("tel 2024-01-02", ""),
        ("tel. 02.01.2024", ""),
        ("such as 111-11-1111", ""),
    ],
)
def test_what_stands_beside_a_number_says_what_it_is(text: str, kinds: str) -> None:
    assert " ".join(kind for kind, _ in found_in(text)) == kinds


BODY = [f"{n % 10}IEpAIBAAKCAQEA{'kJx7Qw' * 8}{n:02}" for n in range(50)]


def key(prefix: str = "", suffix: str = "\n", *, end: bool = True, heads: str = "") -> str:
    lines = [unmarked("-----BEG␀IN RSA PRIVATE KEY-----"), *heads.splitlines(), *BODY]
    lines += ["-----END RSA PRIVATE KEY-----"] if end else []
    return "".join(f"{prefix}{line}{suffix}" for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        key("> "),
        key("    '", "\\n'\n"),
        key('"', '\\n" +\n'),
        key("", "<br>\n"),
        key("-"),
        key("+"),
        key("    "),
        key(end=False, heads="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C3D4E5F60718293A4B5C6D7E8F9\n"),
        key("> ", end=False),
        json.dumps({"key": key()}),
    ],
)
def test_a_private_key_that_is_quoted_or_cut_short(text: str) -> None:
    redacted = REDACTOR.redact(f"the key:\n{text}")
    assert [line for line in BODY if line[:24] in redacted] == []


def test_the_marks_of_a_key_alone_are_none() -> None:
    marks = unmarked('START = "-----BEG␀IN RSA PRIVATE KEY-----"\nEND = "-----END RSA PRIVATE KEY-----"\n')
    assert found_in(marks) == []


def test_a_key_that_is_cut_short_takes_no_prose_with_it() -> None:
    prose = "\n\nAll the rest of this page is about the harbour, and what is cooked there in summer. " * 4
    assert prose.strip() in REDACTOR.redact(key(end=False) + prose)
