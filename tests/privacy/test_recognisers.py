"""What is found in texts: measured by a corpus that was made and frozen before there was a recogniser."""

from __future__ import annotations

import time
from collections import Counter
from functools import cache

import pytest
from reading import negatives, positives

from smolagents_memory import Recogniser, Redactor
from smolagents_memory.privacy.randomness import _NAMES
from smolagents_memory.privacy.recognisers import RECOGNISERS
from smolagents_memory.privacy.services import TOKENS


KINDS = (
    "EMAIL PHONE IBAN CARD IPV4 IPV6 US_SSN UK_NHS KR_RRN DE_TAX_ID DE_SVNR URL_PASSWORD PRIVATE_KEY JWT TOKEN SECRET"
)
REDACTOR = Redactor()


@cache
def measured() -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]], int]:
    """How many values there are, how many of them stand within something found, and how many of exactly their kind."""
    there: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    exact = 0
    for row in positives():
        spans = REDACTOR.find(row["text"])
        for value in row["values"]:
            kind = value["kind"], row["language"]
            at = row["text"].index(value["value"])
            end = at + len(value["value"])
            there[kind] += 1
            found[kind] += any(span.start <= at and end <= span.end for span in spans)
            exact += any((span.start, span.end, span.kind) == (at, end, value["kind"]) for span in spans)
    return there, found, exact


def test_of_all_values_at_least_98_in_a_hundred_are_found() -> None:
    there, found, exact = measured()
    assert sum(found.values()) >= 0.98 * sum(there.values())
    assert exact >= 0.98 * sum(there.values())


@pytest.mark.parametrize("kind", KINDS.split())
def test_every_kind_is_found_in_every_language(kind: str) -> None:
    there, found, _ = measured()
    for language in ("en", "ko", "de"):
        assert found[kind, language] >= 0.95 * there[kind, language] > 0


def test_the_table_has_the_kinds_of_the_corpus() -> None:
    assert sorted(REDACTOR.kinds) == sorted(KINDS.split())


def test_what_only_looks_like_one_is_left_alone() -> None:
    false = [(row["text"], found) for row in negatives() for found in REDACTOR.find(row["text"])]
    assert len({text for text, _ in false}) <= 2, false


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("call 1,234,567,890 and 2024-05-06 10:11:12.123456", ""),
        ("3.14159265358979 1700000000000 1700000000.123456", ""),
        ("std::chrono::seconds a::b 10::20", ""),
        ("127.0.0.1 0.0.0.0 255.255.255.0 10.0.0.0/8 ::1", ""),
        ("https://example.com/@ann/42 git@github.com:a/b.git logo@2x.png", ""),
        ("postgres://ann@host/db postgres://ann:${PASSWORD}@host/db", ""),
        ("api_key = os.environ['API_KEY']; token = get_token(1234)", ""),
        ("hashed_password = argon2.hash_password(password)", ""),
        ("session.reset_token_after_30_minutes = settings.token_ttl_v2", ""),
        ("card 4111 1111 1111 1112, account DE89 3704 0044 0532 0130 01", ""),
        ("https://x.example/?email=ann.lee@mail.example.com", "EMAIL"),
        ("rediss://:7I*YZsDyDK@cache.example.net", "URL_PASSWORD"),
        ("ann.lee@mail.example.com로 보내 주세요, 010-2345-6789입니다", "EMAIL PHONE"),
        ("DE89370400440532013000,4111111111111111", "IBAN CARD"),
        ("::ffff:192.0.2.4 fe80::1ff:fe23:4567:890a%eth0", "IPV6 IPV6"),
        ("tel: 555 01 23 45", "PHONE"),
    ],
)
def test_known_cases(text: str, kinds: str) -> None:
    assert " ".join(found.kind for found in REDACTOR.find(text)) == kinds


def test_a_private_key_that_is_cut_off_is_taken_out_as_far_as_it_goes() -> None:
    body = "MIIEpAIBAAKCAQEA" * 12
    text = "the key:\n" + "-----BEGIN " + f"RSA PRIVATE KEY-----\n{body}"
    assert body not in REDACTOR.redact(text)
    assert body[:40] not in REDACTOR.redact(text)


def test_what_overlaps_is_one_and_of_the_kind_of_the_longest() -> None:
    redactor = Redactor([Recogniser("A", "bcd"), Recogniser("B", "abc"), Recogniser("C", "cdefg")])
    [found] = redactor.find("-abcdefgh-")
    assert (found.kind, found.value, found.start, found.end) == ("C", "abcdefg", 1, 8)


# -- time ----------------------------------------------------------------------------------------------------------

BEGIN = "-----BEGIN " + "PRIVATE KEY-----"
BAITS = [
    "a@", "@", "aaaa@a.", "a@b.co ", "1 ", "1-", "12.", "+1", "+1 ", "(0", "0 1", "://a:", "://", "::", "f:", "1:",
    "-", BEGIN, f"{BEGIN}\nAA", BEGIN + "A" * 60, "eyJaaaaaaaa.", "eyJaaaaaaaa.aaaa.", "token=", "token aB3", "a:",
    "password: aB3$xY", "DE1234 ", "GB29 NWBK ", "A1", "a", "0", "1234 ", "4111 ", "010-", "000-", "[EMAIL_12345678]",
    "[EMAIL_", "tel 1", "x" * 63 + "@", "1.1.1.1", 'secret="', ".Gaaaaa.", "M" * 24 + ".G", "İ", "가",
    'password="your' + "A-" * 60 + '!" ',
    "\\", "\\n", '\\"', "\u200b", "\u00a0", "\x1b[", "_1", "_a@b.co_", "2027 4111 ", "2001:db8:",
    f"{BEGIN}\n> AAAAAAAAAAAAAAAA\n", "\n",
    *TOKENS, *_NAMES,
]  # fmt: skip


# and what begins as something that is looked for, and goes on for ever
HEADS = [
    "x@", "x@a.", "://", "://a:", "eyJ", "eyJhbGciOiJI.", "sk-", "ghp_", "xoxb-", "xapp-", "password=", 'password:"',
    "token", "+1", "00", "0", "DE12", "::", "1:", "tel:", BEGIN,
]  # fmt: skip
ENDLESS = [(head, unit) for head in HEADS for unit in ("a", "a-", "a.", "A1", "1", "1 ", "a:", "-", "ab_")]


def seconds(bait: str | tuple[str, str], length: int, turns: int = 2) -> float:
    head, unit = ("", bait) if isinstance(bait, str) else bait
    text = (head + unit * (length // len(unit) + 1))[:length]
    best = float("inf")
    for _ in range(turns):
        begun = time.process_time()
        REDACTOR.find(text)
        best = min(best, time.process_time() - begun)
    return best


@pytest.mark.parametrize("length", [6_000])
@pytest.mark.slow
def test_no_bait_takes_time_out_of_proportion(length: int) -> None:
    """Twice as much of it takes twice as long, and not four times."""
    for bait in [*BAITS, *ENDLESS]:
        growths = (seconds(bait, 2 * length) / max(seconds(bait, length), 0.002) for _ in range(4))
        assert any(growth <= 3.2 for growth in growths), bait  # a busy machine may spoil one


OTHERS = [
    *BAITS[: BAITS.index("\n")],
    "비밀번호",
    "secret",
    *((head, unit) for head, unit in ENDLESS if unit in ("a", "1 ")),
]


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize("bait", OTHERS)
def test_nor_does_a_megabyte_of_it(bait: str | tuple[str, str]) -> None:
    once, twice = seconds(bait, 500_000, 1), seconds(bait, 1_000_000, 1)
    assert twice <= 3.2 * max(once, 0.05), (once, twice)
    assert twice <= 100 * seconds("Which of the two would you choose for parsing dates, and why? ", 1_000_000, 1)


@pytest.mark.parametrize("recogniser", RECOGNISERS, ids=lambda each: each.name)
def test_each_recogniser_is_as_quick_by_itself(recogniser: Recogniser) -> None:
    alone = Redactor([recogniser])
    for bait in ("a1", "1 ", "A", ":a", "@a.", "-"):
        text = bait * 30_000
        assert any(took(alone, 2 * text) <= 3.5 * max(took(alone, text), 0.01) for _ in range(3)), bait


def took(redactor: Redactor, text: str) -> float:
    begun = time.process_time()
    redactor.find(text)
    return time.process_time() - begun
