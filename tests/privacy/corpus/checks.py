"""Whether a number is what its kind says: written apart from `numbers_made.py`, so that one may prove the other."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from datetime import datetime
from itertools import cycle


def digits(text: str) -> list[int]:
    return [int(each) for each in text if each.isdigit()]


def is_luhn(text: str) -> bool:
    doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    table = cycle([list(range(10)), doubled])
    return sum(row[digit] for row, digit in zip(table, reversed(digits(text)), strict=False)) % 10 == 0


BRANDS = [
    r"4\d{15}|4\d{12}",  # Visa
    r"5[1-5]\d{14}|(222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}",  # Mastercard
    r"3[47]\d{13}",  # American Express
    r"(6011|64[4-9]\d|65\d\d)\d{12}",  # Discover
    r"(30[0-5]|36\d|38\d)\d{11}",  # Diners Club
    r"35(2[89]|[3-8]\d)\d{12}",  # JCB
    r"62\d{14}|62\d{17}",  # UnionPay
]


def has_card_prefix(text: str) -> bool:
    return any(re.fullmatch(brand, re.sub(r"\D", "", text)) for brand in BRANDS)


def is_card(text: str) -> bool:
    return has_card_prefix(text) and is_luhn(text)


# of the registry of IBANs: the whole length
OF_A_LENGTH = {
    15: "NO",
    16: "BE",
    18: "DK FI NL",
    19: "SI",
    20: "AT EE KZ LT LU",
    21: "CH HR LI LV",
    22: "BG BH DE GB IE",
    23: "AE IL",
    24: "CZ ES RO SA SE SK",
    25: "PT",
    26: "IS TR",
    27: "FR GR IT MC",
    28: "CY HU PL",
    29: "QA",
    30: "KW",
    31: "MT",
}
IBAN_LENGTHS = {country: length for length, countries in OF_A_LENGTH.items() for country in countries.split()}


def is_iban(text: str) -> bool:
    plain = text.replace(" ", "")
    rest = 0
    for each in plain[4:] + plain[:4]:
        rest = (rest * (10 if each.isdigit() else 100) + int(each, 36)) % 97
    return rest == 1 and IBAN_LENGTHS.get(plain[:2]) == len(plain)


def is_nhs(text: str) -> bool:
    found = digits(text)
    return (
        len(found) == 10
        and sum(weight * digit for weight, digit in zip(range(10, 0, -1), found, strict=True)) % 11 == 0
    )


def is_date(text: str, form: str) -> bool:
    try:
        return bool(datetime.strptime(text, form))
    except ValueError:
        return False


def is_rrn(text: str) -> bool:
    if not re.fullmatch(r"\d{6}-[1-4]\d{6}", text):
        return False
    century = "19" if text[7] in "12" else "20"
    *ahead, last = digits(text)
    total = sum(digit * (at % 8 + 2) for at, digit in enumerate(ahead))
    return is_date(century + text[:6], "%Y%m%d") and last == [1, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1][total % 11]


def is_tax_id(text: str) -> bool:
    """Germany's Steuer-ID: of the first ten digits one comes two or three times, no other one twice."""
    found = digits(text)
    if len(found) != 11 or found[0] == 0:
        return False
    often = sorted(found[:10].count(digit) for digit in set(found[:10]))
    if often[-1] not in (2, 3) or often[-2] != 1 or re.search(r"(\d)\1\1", "".join(map(str, found[:10]))):
        return False
    rest = 10
    for digit in found[:10]:
        rest = ((rest + digit) % 10 or 10) * 2 % 11
    return (rest + found[10]) % 10 == 1


def is_svnr(text: str) -> bool:
    """Germany's Rentenversicherungsnummer: the letter counts as its place in the alphabet, of two digits."""
    found = re.fullmatch(r"(\d\d)(\d{6})([A-Z])(\d\d)(\d)", text.replace(" ", ""))
    if not found or not is_date(found[2], "%d%m%y"):
        return False
    counted = f"{found[1]}{found[2]}{ord(found[3]) - 64:02}{found[4]}"
    crosses = [
        sum(divmod(int(digit) * int(weight), 10)) for digit, weight in zip(counted, "212571212121", strict=True)
    ]
    return sum(crosses) % 10 == int(found[5])


def is_ssn(text: str) -> bool:
    return bool(re.fullmatch(r"(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}", text))


def is_ip(text: str, version: int) -> bool:
    found = ipaddress.ip_address(text)
    return found.version == version and not (found.is_loopback or found.is_unspecified)


def is_jwt(text: str) -> bool:
    header, payload, signature = text.split(".")
    opened = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, payload)]
    return "alg" in opened[0] and bool(signature)


def is_pem(text: str) -> bool:
    return bool(re.fullmatch(r"-----BEGIN ([A-Z ]*PRIVATE KEY(?: BLOCK)?)-----.+-----END \1-----", text, re.DOTALL))


CHECKS = {
    "CARD": is_card,
    "IBAN": is_iban,
    "UK_NHS": is_nhs,
    "KR_RRN": is_rrn,
    "DE_TAX_ID": is_tax_id,
    "DE_SVNR": is_svnr,
    "US_SSN": is_ssn,
    "IPV4": lambda text: is_ip(text, 4),
    "IPV6": lambda text: is_ip(text, 6),
    "JWT": is_jwt,
    "PRIVATE_KEY": is_pem,
}
