"""What is looked for in texts: a table of names, patterns and checks.

No pattern is tried at every character of a text if it can be helped: most begin at a literal, or stand in a number.
All of what repeats is bounded, or made of what cannot be read in two ways: time grows with a text, and no faster.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from smolagents_memory.privacy import checksums
from smolagents_memory.privacy.randomness import is_made_up, is_password, is_token, secrets_in, secrets_under
from smolagents_memory.privacy.recogniser import Recogniser
from smolagents_memory.privacy.scanning import Scan
from smolagents_memory.privacy.services import TOKENS


class _Tokens(Recogniser):
    """What has the shape that a well-known service gives its tokens."""

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        for literal, pattern in TOKENS.items():
            if literal in scan.text:
                yield from self._begun_at(literal, pattern, scan)

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        text, marks = scan.text, 0
        while start > marks and text[start - 1 - marks] == text[end - 1] == "_":  # which Markdown puts around it
            marks, end = marks + 1, end - 1
        check = is_made_up if text.startswith("sk-", start) else is_token  # words begin so, too
        return (start, end) if check(text[start:end]) else None


class _Emails(Recogniser):
    """Addresses, without the underscores on both sides by which Markdown stresses them; no logins in a URL."""

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        marks, url = 0, scan.text.rfind("://", max(0, start - 400), start)
        if url >= 0 and _UP_TO_PASSWORD.fullmatch(scan.text, url, start):
            return None
        while scan.text[start] == "_" and scan.text.startswith("_", end + marks):
            start, marks = start + 1, marks + 1
        return super().one(scan, start, end)


class _Ibans(Recogniser):
    """Account numbers, which begin with two letters before what is looked for."""

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        return super().one(scan, start - 2, end)


class _Secrets(Recogniser):
    """What stands behind names such as `api_key`, and looks as if chance had made it."""

    also_as_written = True

    def spans(self, scan: Scan) -> Iterator[tuple[int, int]]:
        return secrets_in(scan)

    def under(self, name: str, text: str) -> Iterator[tuple[int, int]]:
        return secrets_under(name, text)


# -- the table -----------------------------------------------------------------------------------------------------

# letters of other scripts may follow directly: `010-1234-5678로`
_B, _E = r"(?<![0-9A-Za-z])(?<![0-9A-Za-z]_)", r"(?![0-9A-Za-z]|_[0-9A-Za-z])"
_BN, _EN = rf"{_B}(?<![0-9][.\-/])", rf"{_E}(?![.\-/][0-9])"  # and no part of a longer number

_LOGIN = r"[A-Za-z0-9._~%!$&*+=:\-]{0,140}//:"  # what stands before it in a URL, read backwards
_ACCENTED = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"
_ATOM = rf"A-Za-z0-9_%+{_ACCENTED}"
_LOCAL = rf"[{_ATOM}'\-](?:[{_ATOM}.'\-]{{0,62}}[{_ATOM}])?(?![{_ATOM}.\-]|{_LOGIN})"
_LABEL = r"[^\W_](?:[\w\-]{0,61}[^\W_])?"
_EMAIL = rf"@(?:{_LABEL}\.){{1,8}}(?:xn--[A-Za-z0-9\-]{{2,59}}|[A-Za-z]{{2,24}})(?![A-Za-z0-9@]|_+[A-Za-z0-9])"
_NO_TLD = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|ico|css|js|json|html?|pdf)$", re.IGNORECASE)


def _is_email(text: str) -> bool:
    return not (text.startswith("git@") or _NO_TLD.search(text) or ".." in text)


_LENGTHS = "|".join(
    rf"(?<=(?:{'|'.join(country for country, each in checksums.IBAN_LENGTHS.items() if each == length)})[0-9]{{2}})"
    rf"(?:[ \-]?[A-Z0-9]){{{length - 4}}}"
    for length in sorted(set(checksums.IBAN_LENGTHS.values()))
)
# from its first two digits on, of which there are fewer than letters
_IBAN = (
    rf"[0-9][0-9](?i:(?<=[A-Z]{{2}}[0-9]{{2}})(?<![0-9A-Z][A-Z]{{2}}..)(?<![0-9A-Z]_[A-Z]{{2}}..)(?:{_LENGTHS}){_E})"
)
_CARD = (
    r"(?:[0-9]{4}([ \-.]| {2})[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{4}([ \-.]| {2})[0-9]{6}\2[0-9]{4,5}|[0-9]{13,19})"
    # a date or a code may follow directly
    rf"{_E}(?!\.[0-9]|[\-/](?![0-9]{{2}}[/\-][0-9]{{2}}(?:[0-9]{{2}})?(?![0-9/\-])|[0-9]{{3,4}}(?![0-9/\-]))[0-9])"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = (
    rf"(?:\.{_OCTET}){{3}}(?![0-9A-Za-z]|_[0-9A-Za-z]|\.[0-9]|/[0-9]{{1,2}}(?![0-9.]))"  # behind the first; no network
)
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
    (rf"{_BN}01[016-9]([.\-])[0-9]{{3,4}}\1[0-9]{{4}}", 10, 11),
    # mobiles in Korea, Britain and Germany, written in one
    (rf"{_BN}(?:01[016-9][0-9]{{7,8}}|07[0-9]{{9}}|01[567][0-9]{{8,9}})", 10, 12),
)  # fmt: skip
_DAY = (
    r"(?:(?:19|20)[0-9]{2}([.\-/])[01]?[0-9]\1[0-3]?[0-9]|[0-3]?[0-9]([.\-/])[0-3]?[0-9]\2(?:19|20)[0-9]{2})"
    r"(?![0-9\-])"
)
_BARE = re.compile(r"\+[0-9]{1,9}")  # a number with a sign, if no word says that it is one
_TELEPHONE = rf"(?!{_DAY})\(?[0-9][0-9 .\-/()]{{5,18}}[0-9]"
_WORD_FOR_ONE = re.compile(
    r"(?:(?<![a-z])(?:tele|smart|mobil|cell)?(?:phone|tel|fon|mobil|cell|fax|whatsapp|handy|rufnummer)[a-z]{0,8}"
    r"|전화|휴대폰|연락처|팩스)[^\n0-9+a-z]{0,12}$",
    re.IGNORECASE,
)


_LINE = r"[A-Za-z0-9+/=]{16,2000}"
_BETWEEN = r"[^A-Za-z0-9+/=]{0,24}(?:<br[ /]{0,2}>[^A-Za-z0-9+/=]{0,8})?"  # quotes, marks of a diff, the ends of lines
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----)[\s\S]){1,24000}-----[\-+]{0,2}END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    # or as much of one as is left
    rf"|(?:[^\n]{{0,16}}(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[^\n]{{0,120}}|[^\nA-Za-z0-9+/=]{{0,16}}\n)"
    rf"{{0,8}}{_BETWEEN}{_LINE}(?:{_BETWEEN}{_LINE}){{0,400}})"
)
_HOST_OR_USER = r"://[^\s/?#@:\"'<>,()\[\]|]{0,128}:"
_UP_TO_PASSWORD = re.compile(rf"{_HOST_OR_USER}(?![0-9]{{1,5}}[,;|()\[\]])[^\s/?#@\"'<>]{{0,256}}")
_URL_PASSWORD = rf"{_HOST_OR_USER}([^\s/?#@\"'<>]{{1,256}})@[^\s@]"


_PORT = re.compile(r"[0-9]{1,5}[,;|()\[\]]")  # and something else behind it


def _is_of_url(text: str) -> bool:
    return is_password(text) and not _PORT.match(text)


@dataclass(frozen=True)
class _Phones(Recogniser):
    """A telephone number, of so many digits: what stands behind it may look like more of it."""

    least: int = field(default=7, kw_only=True)
    most: int = field(default=15, kw_only=True)
    named: bool = field(default=False, kw_only=True)  # only behind a word for one

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        found = scan.text[start:end]
        bare = self.named or _BARE.fullmatch(found)
        if bare and not _WORD_FOR_ONE.search(scan.text, max(0, start - 32), start):
            return None
        while (many := len(checksums.digits(found))) > self.most and (cut := re.search(r"[ .\-/]+[0-9]+\)?$", found)):
            found = found[: cut.start()]
        return (start, start + len(found)) if self.least <= many <= self.most else None


def _is_given(text: str) -> bool:
    """Whether it is more than one digit again and again, as forms show it."""
    return len(set(text)) > 2


def _jwt_header(text: str) -> bool:
    """Whether the first part is JSON that names an algorithm."""
    head = text.partition(".")[0]
    try:
        return b'"alg"' in base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))
    except ValueError:
        return False


def _is_login(text: str) -> bool:
    """Whether it is a name and a password, as HTTP sends them."""
    try:
        return ":" in base64.b64decode(text, validate=True).decode()
    except ValueError:
        return False


class _Addresses(Recogniser):
    """IPv4, which is written as some versions are: those have a word for it in front, and no machine."""

    def one(self, scan: Scan, start: int, end: int) -> tuple[int, int] | None:
        if super().one(scan, start, end) is None:
            return None
        low = all(int(each) < 30 for each in scan.text[start:end].split("."))
        ahead, behind = scan.text[max(0, start - 24) : start], scan.text[end : end + 12]
        is_version = _VERSIONS.search(ahead) or _VERSION_BEHIND.match(behind)
        if is_version and (low or not _MACHINE.search(ahead)):
            return None
        known = not low or _MACHINE.search(scan.text, max(0, start - 40), end + 12) or behind[:1] == ":"
        return (start, end) if known else None


_VERSION_BEHIND = re.compile(r"\s?(?:버전|version|절|장|\(version)", re.IGNORECASE)
_MACHINE = re.compile(
    r"ip|host|server|addr|ping|dns|gateway|주소|서버|client|peer|remote|from|bind|listen", re.IGNORECASE
)
RECOGNISERS: tuple[Recogniser, ...] = (
    Recogniser("PRIVATE_KEY", _PEM, re.compile(r"[A-Za-z0-9+/=]{16}").search, at="-----BEGIN "),
    Recogniser(
        "JWT",
        r"eyJ[A-Za-z0-9_\-]{6,2000}\.[A-Za-z0-9_\-]{4,8000}\.[A-Za-z0-9_\-]{10,2000}(?![A-Za-z0-9_\-])",
        _jwt_header,
        at="eyJ",
    ),
    _Tokens("TOKEN", ""),
    Recogniser(
        "TOKEN",
        r":AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])",
        at=":AA",
        before=r"[0-9]{8,10}(?!(?!tob)[0-9A-Za-z]|_[0-9A-Za-z])",
    ),
    Recogniser("TOKEN", rf"{_B}(?:SK|AC)[0-9a-f]{{32}}{_E}", at=("SK", "AC"), beside=r"(?i)twilio"),
    Recogniser(
        "TOKEN",
        r"\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}(?![A-Za-z0-9_\-])",
        is_made_up,
        at=(".G", ".X", ".Y"),
        before=r"[A-Za-z0-9_\-]{22,27}[MNO](?![A-Za-z0-9_\-])",
    ),
    Recogniser(
        "SECRET", r"[Bb]asic ([A-Za-z0-9+/]{6,400}={0,2})(?![A-Za-z0-9+/=])", _is_login, 1, at=("Basic ", "basic ")
    ),
    _Emails("EMAIL", _EMAIL, _is_email, at="@", before=_LOCAL),
    Recogniser("URL_PASSWORD", _URL_PASSWORD, _is_of_url, 1, at="://"),
    _Ibans("IBAN", _IBAN, checksums.is_iban),
    Recogniser("CARD", rf"{_BN}{_CARD}", checksums.is_card, numbers=True),
    Recogniser("KR_RRN", rf"{_BN}[0-9]{{6}}-[1-8][0-9]{{6}}{_EN}", checksums.is_rrn, numbers=True),
    Recogniser(
        "KR_RRN",
        rf"{_BN}[0-9]{{6}} ?[1-8][0-9]{{6}}{_EN}",
        checksums.is_rrn,
        numbers=True,
        beside=r"(?i)주민|RRN|resident",
    ),
    Recogniser(
        "US_SSN", rf"{_BN}(?!000|666|9)[0-9]{{3}}-(?!00)[0-9]{{2}}-(?!0000)[0-9]{{4}}{_EN}", _is_given, numbers=True
    ),
    Recogniser(
        "US_SSN",
        rf"{_BN}(?!000|666|9)[0-9]{{3}}([ \-]?)(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}{_EN}",
        _is_given,
        numbers=True,
        beside=r"(?i)(?<![a-z])ssn(?![a-z])|social[ _\-]security",
    ),
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
        r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{1,4})?(?<![0-9A-Fa-f]:)(?![0-9A-Za-z]|_[0-9A-Za-z]|:[0-9A-Fa-f:])",
        checksums.is_ipv6,
        at=":",
        before=r"[0-9A-Fa-f]{0,4}(?![0-9A-Za-z.]|_[0-9A-Za-z]|:(?::|[0-9A-Fa-f]{1,4}(?![0-9A-Za-z])))",
    ),
    _Addresses("IPV4", _IPV4, checksums.is_ipv4, at=".", before=r"[0-9]{1,3}(?![0-9A-Za-z.]|[_\-/][0-9A-Za-z])"),
    *(
        _Phones("PHONE", rf"{pattern}{_EXTENSION}{_EN}", numbers=True, least=least, most=most)
        for pattern, least, most in _PHONES
    ),
    _Phones("PHONE", rf"{_BN}{_TELEPHONE}{_EXTENSION}{_EN}", numbers=True, named=True),
    _Secrets("SECRET", ""),
)
