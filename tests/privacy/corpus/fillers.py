"""What stands around the values, and what only looks like one."""

from __future__ import annotations

import base64
import string
import uuid
from datetime import date, datetime, timedelta
from random import Random

from checks import is_card, is_iban, is_luhn, is_nhs, is_rrn, is_tax_id
from numbers_made import bban, card, iban, number, rrn, tax_id


WORDS = {
    "name": {
        "en": "Olivia Hart|James Whitfield|Priya Nair|Tom Baker|Sean O'Connor|Emily Rose|Dev Patel|Harriet Cole",
        "ko": "김민지|박준호|이서연|최도현|정하준|강은지|윤태양|조수민|한지우|오세훈",
        "de": "Anna Schmidt|Jonas Weber|Lukas Müller|Sabine Hoffmann|Katrin Schäfer|Jan Voß|Petra Lang|Tobias Braun",
    },
    "first": {
        "en": "Olivia|James|Priya|Tom|Emily|Dev|Harriet|Maya|Grace|Mason",
        "ko": "민지|준호|서연|도현|하준|은지|태양|수민|지우",
        "de": "Anna|Jonas|Lukas|Sabine|Katrin|Jan|Petra|Tobias|Mirjam|Holger",
    },
    "last": {
        "en": "Hart|Whitfield|Nair|Baker|Cole|Patel|Lopez|Reed",
        "ko": "김|박|이|최|정|강|윤|조",
        "de": "Schmidt|Weber|Müller|Hoffmann|Schäfer|Voß|Lang|Braun",
    },
    "firm": {
        "en": "Harbourlight Ltd|Northfield Labs|Bluefinch Inc|Oakridge & Sons|Meridian Foods",
        "ko": "한빛소프트웨어|다원물산|새벽유통|푸른나무출판|나무동산",
        "de": "Nordwind Verlag|Müller & Partner|Stadtwerke Linden|Kanzlei Brandt|Bücher Krause GmbH",
    },
    "city": {
        "en": "Boston|Leeds|Portland|Bristol|Denver|Cardiff|Austin",
        "ko": "서울|부산|대전|광주|수원|전주|제주",
        "de": "Hamburg|Leipzig|Köln|Freiburg|Rostock|Bremen|Jena",
    },
    "thing": {
        "en": "the report|the invoice|the backup|the booking|the contract|the draft|the shipment",
        "ko": "보고서|청구서|백업|예약|계약서|초안|배송",
        "de": "den Bericht|die Rechnung|das Backup|die Buchung|den Vertrag|den Entwurf|die Lieferung",
    },
    "word": dict.fromkeys(
        ["en", "ko", "de"], "alpha|orders|billing|search|report|worker|gateway|ledger|crawler|planner"
    ),
    "package": dict.fromkeys(
        ["en", "ko", "de"], "numpy|pandas|requests|httpx|pillow|chromadb|alembic|pydantic|typer|rich"
    ),
    "ext": dict.fromkeys(["en", "ko", "de"], "py|txt|md|csv|json|yaml|log|parquet"),
}
HEX = "0123456789abcdef"


def plain(r: Random, length: int) -> str:
    """A number that none of the checksums takes."""
    while True:
        made = str(r.randrange(1, 10)) + number(r, length - 1)
        if not (is_card(made) or is_nhs(made) or is_tax_id(made) or is_rrn(f"{made[:6]}-{made[6:]}")):
            return made


def day(r: Random) -> date:
    return date(1998, 1, 1) + timedelta(days=r.randrange(10500))


def moment(r: Random) -> datetime:
    return datetime(2021, 1, 1) + timedelta(seconds=r.randrange(5 * 365 * 86400))


def ean_digit(ahead: str) -> str:
    return str(-sum(int(each) * (3 if at % 2 else 1) for at, each in enumerate(ahead)) % 10)


def isbn(r: Random) -> str:
    ahead = f"97{r.choice('89')}{r.choice('013')}{number(r, 8)}"
    made = ahead + ean_digit(ahead)
    return r.choice([made, f"{made[:3]}-{made[3]}-{made[4:8]}-{made[8:12]}-{made[12]}"])


def ean(r: Random) -> str:
    while True:
        ahead = r.choice(["400", "426", "880", "871", "501", "763"]) + number(r, 9)
        made = ahead + ean_digit(ahead)
        if not is_card(made):
            return made


def spoilt(r: Random, made: str) -> str:
    """With another last digit."""
    return made[:-1] + r.choice([each for each in "0123456789" if each != made[-1]])


def bad_card(r: Random) -> str:
    made = spoilt(r, card(r, "en", ""))
    return made if not is_luhn(made) else bad_card(r)


def bad_iban(r: Random) -> str:
    made = iban(r, "de", "")
    made = made[:2] + number(r, 2) + made[4:]
    return made if not is_iban(made) else bad_iban(r)


def bad_rrn(r: Random) -> str:
    made = spoilt(r, rrn(r, "ko", ""))
    made = r.choice([made, f"{made[:2]}{r.randrange(13, 99)}{made[4:]}"])
    return made if not is_rrn(made) else bad_rrn(r)


def bad_tax_id(r: Random) -> str:
    made = spoilt(r, tax_id(r, "de", ""))
    return made if not is_tax_id(made) else bad_tax_id(r)


def luhn16(r: Random) -> str:
    """Right by Luhn, and begins as no card does."""
    while True:
        made = r.choice("1789") + number(r, 15)
        if is_luhn(made):
            return made


def base64_of(r: Random, length: int) -> str:
    return base64.b64encode(bytes(r.randrange(256) for _ in range(length))).decode()


def armour(r: Random, length: int, start: str = "") -> str:
    made = start + base64_of(r, length)
    return "\n".join(made[at : at + 64] for at in range(0, len(made), 64))


def between(r: Random, bounds: str) -> int:
    first, last = bounds.split("-")
    return r.randrange(int(first), int(last) + 1)


def after(text: str, particle: str) -> str:
    """The form that a Korean particle takes after this text."""
    last = [each for each in text.lower() if each.isalnum()][-1]
    ends = last in "0136mntlr78" if last.isascii() else (ord(last) - 0xAC00) % 28 > 0
    to = ends and not (last in "178lr" or (not last.isascii() and (ord(last) - 0xAC00) % 28 == 8))
    forms = {"로": ("으로", "로"), "을": ("을", "를"), "은": ("은", "는"), "이": ("이", "가"), "과": ("과", "와")}
    return forms[particle][0 if (to if particle == "로" else ends) else 1]


MADE = {
    "int": lambda r, how: str(between(r, how)),
    "thousands": lambda r, how: f"{between(r, how):,}",
    "tausend": lambda r, how: f"{between(r, how):,}".replace(",", "."),
    "float": lambda r, how: f"{r.random():.{how or 3}f}",
    "digits": lambda r, how: plain(r, int(how)),
    "hex": lambda r, how: "".join(r.choice(HEX) for _ in range(int(how))),
    "upper": lambda r, how: "".join(r.choice(string.ascii_uppercase) for _ in range(int(how))),
    "lower": lambda r, how: "".join(r.choice(string.ascii_lowercase) for _ in range(int(how))),
    "b64": lambda r, how: base64_of(r, int(how)),
    "armour": lambda r, how: armour(r, int(how)),
    "pem": lambda r, how: armour(r, int(how), "MIIB"),  # as what ASN.1 opens with is spelt: four letters of base64
    "uuid": lambda r, how: str(uuid.UUID(int=r.getrandbits(128), version=4)),
    "date": lambda r, how: f"{day(r):{how or '%Y-%m-%d'}}",
    "time": lambda r, how: f"{moment(r):{how or '%H:%M:%S'}}",
    "stamp": lambda r, how: f"{moment(r):{how or '%Y-%m-%dT%H:%M:%SZ'}}",
    "epoch": lambda r, how: str(r.randrange(1_600_000_000, 1_760_000_000)) + number(r, int(how or 0))[: int(how or 0)],
    "ver3": lambda r, how: f"{r.randrange(0, 30)}.{r.randrange(0, 40)}.{r.randrange(0, 20)}",
    "ver4": lambda r, how: f"{r.randrange(2, 30)}.{r.randrange(0, 30)}.{r.randrange(0, 20)}.{r.randrange(1, 30)}",
    "mac": lambda r, how: (how or ":").join(f"{r.randrange(256):02x}" for _ in range(6)),
    "coordinate": lambda r, how: f"{r.randrange(-89, 90)}.{number(r, 6)}",
    "isbn": lambda r, how: isbn(r),
    "ean": lambda r, how: ean(r),
    "luhn16": lambda r, how: luhn16(r),
    "badcard": lambda r, how: bad_card(r),
    "badiban": lambda r, how: bad_iban(r),
    "badrrn": lambda r, how: bad_rrn(r),
    "badtax": lambda r, how: bad_tax_id(r),
    "part": lambda r, how: bban(r, how),
}


def filler(r: Random, language: str, name: str, how: str, before: str) -> str:
    if name == "j":
        return after(before, how)
    if name in WORDS:
        return r.choice(WORDS[name][language].split("|"))
    return MADE[name](r, how)
