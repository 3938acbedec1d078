"""What is looked for in texts: a table of names, patterns and checks.

No pattern is tried at every character of a text if it can be helped: most begin at a literal, or stand in a number.
All of what repeats is bounded, or made of what cannot be read in two ways: time grows with a text, and no faster.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from smolagents_memory.privacy import checksums
from smolagents_memory.privacy.randomness import is_made_up, is_placeholder, is_token, secrets_in
from smolagents_memory.privacy.scanning import KIND, Scan
from smolagents_memory.privacy.services import TOKENS


_BESIDE = 60  # characters on either side in which a word may stand that says what a number is
_BEFORE = 220  # and in which the beginning of what is found by its middle is looked for


@dataclass(frozen=True)
class Recogniser:
    """One kind of thing that is taken out of texts.

    Args:
        name: What its placeholders are called: capitals, digits and underscores.
        pattern: A regular expression. Bound what it repeats: it is tried at every character of texts of any length,
            unless it is said where.
        check: Says of what the pattern found whether it is one, by its checksum perhaps.
        group: The part of the pattern that is taken out, where the rest is only what stands around it.
        at: Literals at which the pattern begins: it is tried there alone, which is far faster.
        before: What stands before those and belongs to it, as a pattern of the text read backwards.
        numbers: Whether the pattern is looked for only where digits stand close together.
        beside: A pattern of which something must stand near.

    >>> staff = Recogniser("STAFF_ID", r"\\bE-\\d{6}\\b", check=lambda found: found != "E-000000")
    >>> from smolagents_memory import Redactor
    >>> [found.value for found in Redactor(also=[staff]).find("E-000000 and E-123456")]
    ['E-123456']
    """

    name: str
    pattern: str | re.Pattern[str]
    check: Callable[[str], object] | None = None
    group: int = 0
    at: str | tuple[str, ...] = field(default=(), kw_only=True)
    before: str | re.Pattern[str] | None = field(default=None, kw_only=True)
    numbers: bool = field(default=False, kw_only=True)
    beside: str | re.Pattern[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not KIND.fullmatch(self.name):
            raise ValueError(f"a recogniser's name is made of capitals, digits and _, not {self.name!r:.60}")
        compiled = re.compile(self.pattern)
        if not 0 <= self.group <= compiled.groups:
            raise ValueError(f"the pattern of {self.name} has no group {self.group!r:.20}")
        object.__setattr__(self, "pattern", compiled)
        object.__setattr__(self, "at", (self.at,) if isinstance(self.at, str) else tuple(self.at))
        for name in ("before", "beside"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else re.compile(given))

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        """Where there is one."""
        for start, end in self._matches(scan):
            if start >= end or (self.check is not None and not self.check(scan.text[start:end])):
                continue
            beside = cast("re.Pattern[str] | None", self.beside)
            if beside is None or beside.search(scan.text, max(0, start - _BESIDE), end + _BESIDE):
                yield start, end

    def _matches(self, scan: Scan) -> Iterator[tuple[int, int]]:
        pattern = cast("re.Pattern[str]", self.pattern)
        if self.at:
            for literal in cast("tuple[str, ...]", self.at):
                if literal in scan.text:
                    yield from self._begun_at(literal, pattern, scan)
        elif self.numbers:
            for start, end in scan.numbers:
                for match in pattern.finditer(scan.text, max(0, start - 4), end + 14):
                    yield match.span(self.group)
        else:
            for match in pattern.finditer(scan.text):
                yield match.span(self.group)

    def _begun_at(self, literal: str, pattern: re.Pattern[str], scan: Scan) -> Iterator[tuple[int, int]]:
        done = 0
        for at in scan.places(literal):
            match = pattern.match(scan.text, at) if at >= done else None
            if match is None:
                continue
            start, end = match.span(self.group)
            if self.before is not None:
                before = cast("re.Pattern[str]", self.before).match(scan.text[max(0, at - _BEFORE) : at][::-1])
                if before is None:
                    continue
                start = at - before.end()
            done = end
            yield start, end


class _Tokens(Recogniser):
    """What has the shape that a well-known service gives its tokens."""

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        for literal, pattern in TOKENS.items():
            if literal in scan.text:
                check = is_made_up if literal == "sk-" else is_token  # words begin so, too
                for start, end in self._begun_at(literal, pattern, scan):
                    if check(scan.text[start:end]):
                        yield start, end


class _Secrets(Recogniser):
    """What stands behind names such as `api_key`, and looks as if chance had made it."""

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        return secrets_in(scan)


# -- the table -----------------------------------------------------------------------------------------------------

# letters of other scripts may follow directly: `010-1234-5678로`
_B, _E = r"(?<![0-9A-Za-z_])", r"(?![0-9A-Za-z_])"
_BN, _EN = r"(?<![0-9A-Za-z_])(?<![0-9][.\-/])", r"(?![0-9A-Za-z_]|[.\-/][0-9])"  # and no part of a longer number

_LOCAL = r"[A-Za-z0-9_%+'\-](?:[A-Za-z0-9._%+'\-]{0,62}[A-Za-z0-9_%+])?(?![A-Za-z0-9._%+\-])(?![^\s/@?#]{0,140}//:)"
_LABEL = r"[^\W_](?:[\w\-]{0,61}[^\W_])?"
_EMAIL = rf"@(?:{_LABEL}\.){{1,8}}(?:xn--[A-Za-z0-9\-]{{2,59}}|[A-Za-z]{{2,24}})(?![A-Za-z0-9_\-@])"
_NO_TLD = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|ico|css|js|json|html?|pdf)$", re.IGNORECASE)


def _is_email(text: str) -> bool:
    return not (text.startswith("git@") or _NO_TLD.search(text) or ".." in text)


_IBAN = "|".join(
    rf"(?:{'|'.join(country for country, each in checksums.IBAN_LENGTHS.items() if each == length)})"
    rf"[0-9]{{2}}(?:[ \u00a0]?[A-Z0-9]){{{length - 4}}}"
    for length in sorted(set(checksums.IBAN_LENGTHS.values()))
)
_CARD = (
    r"(?:[0-9]{4}([ \-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{4}([ \-])[0-9]{6}\2[0-9]{4,5}|[0-9]{13,19})"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:\.{_OCTET}){{3}}(?![0-9A-Za-z_]|\.[0-9]|/[0-9]{{1,2}}(?![0-9.]))"  # behind the first; no network
_VERSIONS = re.compile(
    r"(?:version|versie|release|build|firmware|section|chapter|clause|abschnitt|kapitel|stand|ver|v\.?|설명서|oid)[\s:=]{0,3}$",
    re.IGNORECASE,
)


_EXTENSION = r"(?: ?(?:ext\.?|x|#|Durchwahl|App\.|내선) ?[0-9]{1,5}(?![0-9]))?"
_MORE = r"(?:[ .\-/]{0,2}\([0-9]{1,4}\)[ .\-/]{0,2}[0-9]{1,12})?(?:[ .\-/]{1,3}[0-9]{1,12}){0,5}"
_DATE = r"[0-9]{1,4}[.\-/][0-9]{1,2}[.\-/][0-9]{1,4}(?![0-9\-])"
_PHONES = (
    # from abroad: +49 (0)171 1234567
    (rf"(?<![0-9A-Za-z_+])\+[1-9][0-9]{{0,13}}{_MORE}", 8, 15),
    (rf"{_BN}(?<![0-9]{{3}} )(?![0-9]{{6}}-[0-9]{{7}})00[1-9][0-9]{{0,13}}{_MORE}", 11, 16),
    # of North America: (415) 555-0123
    (rf"{_BN}(?:1[ .\-])?\([2-9][0-9]{{2}}\) ?[2-9][0-9]{{2}}[ .\-][0-9]{{4}}", 10, 11),
    (rf"{_BN}(?:1([.\-]))?[2-9][0-9]{{2}}([.\-])[2-9][0-9]{{2}}\2[0-9]{{4}}", 10, 11),
    # with the zero of one's own country: 030 / 1234567, 02)123-4567, (020) 7946 0123
    (rf"{_BN}(?!{_DATE})\(0[1-9][0-9]{{0,4}}\) ?[0-9]{{2,8}}(?:[ \-][0-9]{{2,5}}){{0,3}}", 8, 12),
    (
        rf"{_BN}(?<![0-9]{{3}} )(?!{_DATE}|[0-9]{{6}}-[0-9]{{7}})0[1-9][0-9]{{0,4}}(?:\)|[ .\-/]{{1,3}})"
        r"[0-9]{2,8}(?:[ .\-][0-9]{2,5}){0,3}", 9, 13,
    ),
    # mobiles in Korea, Britain and Germany, written in one
    (rf"{_BN}(?:01[016-9][0-9]{{7,8}}|07[0-9]{{9}}|01[567][0-9]{{8,9}})", 10, 12),
)  # fmt: skip
_TELEPHONE = r"\(?[0-9][0-9 .\-/()]{5,18}[0-9]"
_WORD_FOR_ONE = re.compile(
    r"(?:(?<![a-z])(?:tele|smart|mobil|cell)?(?:phone|tel|fon|mobil|cell|fax|whatsapp|handy|rufnummer)[a-z]{0,8}"
    r"|전화|휴대폰|연락처|팩스)[^\n0-9+a-z]{0,12}$",
    re.IGNORECASE,
)


_BODY = r"[^\-`<>\"']"
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BODY}{{1,20000}}(?:-(?!----){_BODY}{{0,20000}}){{0,40}}"
    r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\\[nr]|[A-Za-z0-9+/=\s]){40,20000})"  # or as much of one as is left
)
_URL_PASSWORD = r"://[^\s/?#@:\"'<>]{0,128}:([^\s/?#@\"'<>]{1,256})@[^\s@]"


@dataclass(frozen=True)
class _Phones(Recogniser):
    """A telephone number, of so many digits: what stands behind it may look like more of it."""

    least: int = field(default=7, kw_only=True)
    most: int = field(default=15, kw_only=True)
    named: bool = field(default=False, kw_only=True)  # only behind a word for one

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        for start, end in self._matches(scan):
            if self.named and not _WORD_FOR_ONE.search(scan.text, max(0, start - 32), start):
                continue
            found = scan.text[start:end]
            while len(checksums.digits(found)) > self.most and (cut := re.search(r"[ .\-/]+[0-9]+\)?$", found)):
                found = found[: cut.start()]
            if len(checksums.digits(found)) >= self.least and len(checksums.digits(found)) <= self.most:
                yield start, start + len(found)


def _jwt_header(text: str) -> bool:
    """Whether the first part is JSON that names an algorithm."""
    head = text.partition(".")[0]
    try:
        return b'"alg"' in base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))
    except ValueError:
        return False


class _Addresses(Recogniser):
    """IPv4, which is written as some versions are: those have a word for it in front, and no machine."""

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        for start, end in super().spans(scan):
            low = all(int(each) < 30 for each in scan.text[start:end].split("."))
            ahead, behind = scan.text[max(0, start - 24) : start], scan.text[end : end + 12]
            is_version = _VERSIONS.search(ahead) or _VERSION_BEHIND.match(behind)
            if is_version and (low or not _MACHINE.search(ahead)):
                continue
            if not low or _MACHINE.search(scan.text, max(0, start - 40), end + 12) or behind[:1] == ":":
                yield start, end


_VERSION_BEHIND = re.compile(r"\s?(?:버전|version|절|장|\(version)", re.IGNORECASE)
_MACHINE = re.compile(
    r"ip|host|server|addr|ping|dns|gateway|주소|서버|client|peer|remote|from|bind|listen", re.IGNORECASE
)
RECOGNISERS: tuple[Recogniser, ...] = (
    Recogniser("PRIVATE_KEY", _PEM, at="-----BEGIN "),
    Recogniser(
        "JWT",
        r"eyJ[A-Za-z0-9_\-]{6,2000}\.[A-Za-z0-9_\-]{4,8000}\.[A-Za-z0-9_\-]{10,2000}(?![A-Za-z0-9_\-])",
        _jwt_header,
        at="eyJ",
    ),
    _Tokens("TOKEN", ""),
    Recogniser(
        "TOKEN", r":AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])", at=":AA", before=r"[0-9]{8,10}(?!(?!tob)[0-9A-Za-z_])"
    ),
    Recogniser("TOKEN", rf"{_B}(?:SK|AC)[0-9a-f]{{32}}{_E}", at=("SK", "AC"), beside=r"(?i)twilio"),
    Recogniser(
        "TOKEN",
        r"\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}(?![A-Za-z0-9_\-])",
        is_made_up,
        at=(".G", ".X", ".Y"),
        before=r"[A-Za-z0-9_\-]{22,27}[MNO](?![A-Za-z0-9_\-])",
    ),
    Recogniser("EMAIL", _EMAIL, _is_email, at="@", before=_LOCAL),
    Recogniser("URL_PASSWORD", _URL_PASSWORD, lambda found: not is_placeholder(found), 1, at="://"),
    Recogniser("IBAN", rf"(?=[A-Z]{{2}}[0-9]{{2}}[ \u00a0A-Z0-9]){_B}(?:{_IBAN}){_E}", checksums.is_iban),
    Recogniser("CARD", rf"{_BN}{_CARD}{_EN}", checksums.is_card, numbers=True),
    Recogniser("KR_RRN", rf"{_BN}[0-9]{{6}}-[1-8][0-9]{{6}}{_EN}", checksums.is_rrn, numbers=True),
    Recogniser(
        "KR_RRN",
        rf"{_BN}[0-9]{{6}} ?[1-8][0-9]{{6}}{_EN}",
        checksums.is_rrn,
        numbers=True,
        beside=r"(?i)주민|RRN|resident",
    ),
    Recogniser("US_SSN", rf"{_BN}(?!000|666|9)[0-9]{{3}}-(?!00)[0-9]{{2}}-(?!0000)[0-9]{{4}}{_EN}", numbers=True),
    Recogniser("UK_NHS", rf"{_BN}[0-9]{{3}} [0-9]{{3}} [0-9]{{4}}{_EN}", checksums.is_nhs, numbers=True),
    Recogniser(
        "UK_NHS",
        rf"{_BN}[0-9]{{3}}([ \-]?)[0-9]{{3}}\1[0-9]{{4}}{_EN}",
        checksums.is_nhs,
        numbers=True,
        beside=r"(?i)nhs",
    ),
    Recogniser(
        "DE_TAX_ID",
        rf"{_BN}[1-9][0-9](?:[0-9]{{9}}| [0-9]{{3}} [0-9]{{3}} [0-9]{{3}}){_EN}",
        checksums.is_tax_id,
        numbers=True,
    ),
    Recogniser(
        "DE_SVNR", rf"{_BN}[0-9]{{2}} ?[0-9]{{6}} ?[A-Z] ?[0-9]{{2}} ?[0-9]{_EN}", checksums.is_svnr, numbers=True
    ),
    Recogniser(
        "IPV6",
        r":[0-9A-Fa-f]{0,4}:(?:[0-9A-Fa-f]{1,4}:|:){0,6}"
        r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4})?(?![0-9A-Za-z_:])",
        checksums.is_ipv6,
        at=":",
        before=r"[0-9A-Fa-f]{0,4}(?![0-9A-Za-z_:.])",
    ),
    _Addresses("IPV4", _IPV4, checksums.is_ipv4, at=".", before=r"[0-9]{1,3}(?![0-9A-Za-z_.\-])(?!/[0-9A-Za-z])"),
    *(
        _Phones("PHONE", rf"{pattern}{_EXTENSION}{_EN}", numbers=True, least=least, most=most)
        for pattern, least, most in _PHONES
    ),
    _Phones("PHONE", rf"{_BN}{_TELEPHONE}{_EXTENSION}{_EN}", numbers=True, named=True),
    _Secrets("SECRET", ""),
)
