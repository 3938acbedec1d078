"""The corpus that recognisers are measured by: frozen, and what it says of its values is true."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus.checks import CHECKS, is_card, is_iban, is_nhs, is_rrn, is_svnr, is_tax_id
from reading import CORPUS, MARKER, negatives, positives


KINDS = (
    "EMAIL PHONE IBAN CARD IPV4 IPV6 US_SSN UK_NHS KR_RRN DE_TAX_ID DE_SVNR URL_PASSWORD PRIVATE_KEY JWT TOKEN SECRET"
)
LANGUAGES = ["en", "ko", "de"]
FROZEN = {
    "positives.jsonl": "66aeceed41ce013b79b5badcf94c576fadced1e36b545aa27768295d40e41324",
    "negatives.jsonl": "384212eeee932c7636137127ab8d539baa0931c1d084084a15847672eca0bee6",
}
# what scanners for secrets look for, as far as its beginning tells
RECOGNISED = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE|eyJ[\w-]{8,}\.eyJ|A[KS]IA[A-Z2-7]{16}|gh[pos]_\w{36}|github_pat_\w{22}|glpat-[\w-]{20}"
    r"|xox[bp]-\d{9}|xapp-\d-A\w{9}|sk-(proj-|ant-)?\w{20}|[sr]k_live_\w{24}|hf_\w{34}|npm_\w{36}|AIza[\w-]{35}|SK[0-9a-f]{32}"
    r"|pypi-AgEI\w{50}|SG\.[\w-]{22}\.|\d{8,10}:AA[\w-]{33}|dop_v1_\w{64}|shpat_\w{32}|dapi\w{32}|\.G[\w-]{5}\.[\w-]{38}"
)


def folder() -> list[Path]:
    return [path for path in CORPUS.rglob("*") if path.suffix in {".py", ".md", ".txt", ".jsonl"}]


@pytest.mark.parametrize("name", FROZEN)
def test_the_corpus_is_the_one_that_was_frozen(name: str) -> None:
    assert hashlib.sha256((CORPUS / name).read_bytes()).hexdigest() == FROZEN[name]
    assert FROZEN[name] in (CORPUS / "README.md").read_text(encoding="utf-8")


def test_made_anew_it_is_the_same(tmp_path: Path) -> None:
    alone = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, CORPUS / "generate.py", tmp_path], check=True, env=alone)
    for name in FROZEN:
        assert (tmp_path / name).read_bytes() == (CORPUS / name).read_bytes()


def test_every_kind_comes_often_in_every_language_and_in_many_ways() -> None:
    counted = Counter((value["kind"], row["language"]) for row in positives() for value in row["values"])
    assert set(counted) == {(kind, language) for kind in KINDS.split() for language in LANGUAGES}
    assert min(counted.values()) >= 60
    assert Counter(row["language"] for row in negatives()) == dict.fromkeys(LANGUAGES, 500)
    for kind in KINDS.split():
        page = (CORPUS / "templates" / f"{kind}.txt").read_text(encoding="utf-8")
        sections = {each.split("\n")[0]: each.strip().split("\n")[1:] for each in ("\n" + page).split("\n=== ")[1:]}
        assert all(len(set(sections[language])) >= 12 for language in LANGUAGES), kind


def test_every_text_comes_once_and_holds_its_values_once_in_their_order() -> None:
    texts = [row["text"] for row in [*positives(), *negatives()]]
    assert len(set(texts)) == len(texts) == 4380
    for row in positives():
        places = [row["text"].index(value["value"]) for value in row["values"]]
        assert places == sorted(places), row
        assert 1 <= len(places) <= 3, row
        assert [row["text"].count(value["value"]) for value in row["values"]] == [1] * len(places), row


@pytest.mark.parametrize("kind", CHECKS)
def test_the_values_are_what_their_kind_says(kind: str) -> None:
    values = [value["value"] for row in positives() for value in row["values"] if value["kind"] == kind]
    assert [value for value in values if not CHECKS[kind](value)] == []


@pytest.mark.parametrize(
    ("check", "known", "wrong"),
    [
        (is_card, "4111 1111 1111 1111", "4111 1111 1111 1112"),
        (is_iban, "GB82 WEST 1234 5698 7654 32", "GB83 WEST 1234 5698 7654 32"),
        (is_nhs, "943 476 5919", "943 476 5918"),
        (is_rrn, "840326-1433878", "840326-1433877"),
        (is_tax_id, "36 574 261 809", "36 574 261 808"),
        (is_svnr, "15 070649 C 10 3", "15 070649 C 10 4"),
    ],
)
def test_the_checks_tell_right_from_wrong(check: Callable[[str], bool], known: str, wrong: str) -> None:
    assert check(known)
    assert not check(wrong)


def test_no_file_holds_what_a_scanner_for_secrets_takes_for_one() -> None:
    assert any(RECOGNISED.search(row["text"]) for row in positives())
    for path in folder():
        assert not RECOGNISED.search(path.read_text(encoding="utf-8")), path
    assert all(MARKER not in row["text"] for row in [*positives(), *negatives()])


def test_it_stays_small() -> None:
    assert sum(path.stat().st_size for path in folder()) < 2_000_000
