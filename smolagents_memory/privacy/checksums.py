"""Whether a number is what it looks like: its checksum, its prefix, the date in it."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from itertools import cycle


# of the registry of IBANs: the length of each country's
_OF_A_LENGTH = {
    15: "NO", 16: "BE", 18: "DK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ DZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
IBAN_LENGTHS = {country: length for length, countries in _OF_A_LENGTH.items() for country in countries.split()}
_BRANDS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}"  # Discover
    r"|3(?:0[0-5]|[68]\d)\d{11}"  # Diners Club
    r"|35(?:2[89]|[3-8]\d)\d{12}"  # JCB
    r"|62\d{14,17}"  # UnionPay
)
_TWICE = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def digits(text: str) -> list[int]:
    """The digits in a text."""
    return [ord(each) - 48 for each in text if "0" <= each <= "9"]


def is_card(text: str) -> bool:
    """A payment card: its issuer's prefix and length, and Luhn's digit.

    >>> is_card("4111 1111 1111 1111"), is_card("4111 1111 1111 1112"), is_card("8000 0000 0000 0002")
    (True, False, False)
    """
    found = digits(text)
    if not _BRANDS.fullmatch("".join(map(str, found))) or len(set(found)) == 1:
        return False
    table = cycle([range(10), _TWICE])
    return sum(row[digit] for row, digit in zip(table, reversed(found), strict=False)) % 10 == 0


def is_iban(text: str) -> bool:
    """An account number with its country's length and the remainder 1 of 97.

    >>> is_iban("GB82 WEST 1234 5698 7654 32"), is_iban("GB82 WEST 1234 5698 7654 33")
    (True, False)
    """
    plain = "".join(text.replace("-", " ").split()).upper()
    if IBAN_LENGTHS.get(plain[:2]) != len(plain):
        return False
    return int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % 97 == 1


def is_nhs(text: str) -> bool:
    """A number of the National Health Service: eleven's remainder of ten weighted digits."""
    found = digits(text)
    return (
        len(found) == 10
        and len(set(found)) > 1
        and sum(weight * digit for weight, digit in zip(range(10, 0, -1), found, strict=True)) % 11 == 0
    )


def is_rrn(text: str) -> bool:
    """A Korean resident's number, or a foreigner's there: a date of birth, and the last digit that it asks for."""
    found = digits(text)
    if len(found) != 13 or not 1 <= found[6] <= 8:
        return False
    century = 1900 if found[6] in (1, 2, 5, 6) else 2000
    total = sum(digit * (at % 8 + 2) for at, digit in enumerate(found[:12]))
    check = (11 if found[6] <= 4 else 13) - total % 11
    return _is_date(century, found[0:2], found[2:4], found[4:6]) and found[12] == check % 10


def is_tax_id(text: str) -> bool:
    """A German tax identification number: one digit comes twice or thrice in the first ten, no other does."""
    found = digits(text)
    if len(found) != 11 or found[0] == 0:
        return False
    often = sorted(found[:10].count(digit) for digit in set(found[:10]))
    if often[-1] not in (2, 3) or often[-2] != 1 or re.search(r"(\d)\1\1", "".join(map(str, found[:10]))):
        return False
    rest = 10
    for digit in found[:10]:
        rest = ((rest + digit) % 10 or 10) * 2 % 11
    return (11 - rest) % 10 == found[10]


def is_svnr(text: str) -> bool:
    """A German pension insurance number: the birthday, the letter by its place in the alphabet, and the last digit."""
    plain = "".join(text.split())
    day, month = int(plain[2:4]), int(plain[4:6])
    if not (1 <= day <= 31 or 51 <= day <= 81) or not 1 <= month <= 12:
        return False
    counted = f"{plain[:8]}{ord(plain[8]) - 64:02}{plain[9:11]}"
    weighted = (
        int(digit) * weight for digit, weight in zip(counted, (2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1), strict=True)
    )
    return sum(sum(divmod(each, 10)) for each in weighted) % 10 == int(plain[11])


def is_ipv4(text: str) -> bool:
    """An address of a machine that is somewhere: not this one, not all, and no mask."""
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_unspecified or found.is_multicast or text.startswith("255."))


def is_ipv6(text: str) -> bool:
    """The same in version 6; `a::b` is a path in some languages, and eight pairs are a network card's."""
    try:
        found = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    groups = [group for group in text.split(":") if group]
    if found.is_loopback or found.is_unspecified or not any("0" <= each <= "9" for each in text):
        return False
    if all(len(group) < 3 and group.isdecimal() for group in groups):
        return False  # of the day, or of a clock that went wrong
    if "::" not in text:
        return not all(len(group) == 2 for group in groups)
    return len(groups) > 2 or (len(groups) > 1 and len(groups[0]) > 2) or "." in text


def _is_date(century: int, year: list[int], month: list[int], day: list[int]) -> bool:
    try:
        date(century + 10 * year[0] + year[1], 10 * month[0] + month[1], 10 * day[0] + day[1])
    except ValueError:
        return False
    return True
