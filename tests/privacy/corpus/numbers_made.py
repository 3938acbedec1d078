"""Made-up addresses and numbers, checksums included. `how` asks for one of several ways to write them."""

from __future__ import annotations

import ipaddress
from datetime import date, timedelta
from random import Random


LOCALS = {
    "en": "olivia.hart j.whitfield mason.reed priya.nair tom_baker s.oconnor emily-rose dev.patel grace.h",
    "ko": "minji.kim jh.park seoyeon.lee dohyun_choi kim.yuna hj.jung sumin0412 jw.kang taeyang88 eunji-han",
    "de": "anna.schmidt j.weber lukas.mueller s_hoffmann k.schaefer jan-peter.voss tobias.braun m.krueger petra.lang",
}
DOMAINS = {
    "en": "example.com example.org mail.example.net harbourlight.co.uk northfield-labs.io bluefinch.com oakridge.edu",
    "ko": "example.co.kr example.kr hanbit-soft.co.kr dawonmail.net saebyeok.com cs.hanul.ac.kr namudongsan.or.kr",
    "de": "example.de mueller-partner.de nordwind-verlag.de post.stadtwerke-linden.de kanzlei-brandt.eu",
}
IDN = {
    "en": ["café-meridian.com", "xn--caf-meridian-deb.com", "naïve-studio.org"],
    "ko": ["한빛서점.kr", "xn--hn4b25g.kr", "푸른나무.com"],
    "de": ["bücher-krause.de", "xn--bcher-krause-dlb.de", "bäckerei-öztürk.de"],
}


def number(r: Random, length: int) -> str:
    return f"{r.randrange(10**length):0{length}}"


def email(r: Random, language: str, how: str) -> str:
    local = r.choice(LOCALS[language].split())
    if r.randrange(4) == 0:
        local += r.choice(["+news", "+shop", "+agent", "+2024", ".work"])
    elif r.randrange(3) == 0:
        local += str(r.randrange(2, 99))
    elif r.randrange(6) == 0:
        local = r.choice(["info", "billing", "hr", "office", "sales", "team.lead"])
    names = IDN[language] if how != "ascii" and r.randrange(14) == 0 else DOMAINS[language].split()
    return f"{local}@{r.choice(names)}"


def phone_us(r: Random, how: str) -> str:
    area = r.choice(["212", "415", "206", "312", "617", "303", "512", "404", "718", "602", "503", "919"])
    exchange, line = ("555", "01" + number(r, 2)) if r.randrange(10) < 7 else (r.choice("234567") + "48", number(r, 4))
    if how == "e164":
        return f"+1{area}{exchange}{line}"
    forms = ["({}) {}-{}", "({}) {}-{}", "{}-{}-{}", "{}.{}.{}", "+1 {} {} {}", "+1-{}-{}-{}", "+1 ({}) {}-{}"]
    return r.choice([*forms, "+1.{}.{}.{}", "1-{}-{}-{}"]).format(area, exchange, line)


def phone_uk(r: Random, how: str) -> str:
    area, first, second = r.choice(
        [("20", "7946", "0" + number(r, 3)), ("7700", "900" + number(r, 3), ""), ("161", "496", "0" + number(r, 3))]
    )
    if how == "e164":
        return f"+44{area}{first}{second}"
    forms = ["0{} {} {}", "+44 {} {} {}", "+44-{}-{}-{}", "(0{}) {} {}", "+44 (0){} {} {}"]
    return r.choice(forms).format(area, first, second).rstrip(" -")


def phone_ko(r: Random, how: str) -> str:
    mobile = r.randrange(3) > 0
    area = "10" if mobile else r.choice(["2", "2", "31", "32", "51", "53", "42", "62", "64", "70"])
    long = mobile or area == "70" or r.randrange(3) == 0
    first, second = str(r.randrange(2000, 9900) if long else r.randrange(210, 990)), number(r, 4)
    if how == "e164":
        return f"+82{area}{first}{second}"
    forms = ["0{}-{}-{}", "0{}-{}-{}", "0{}-{}-{}", "+82-{}-{}-{}", "+82 {}-{}-{}", "+82 {} {} {}", "0{} {} {}"]
    forms += ["0{}.{}.{}", "0{}{}{}"] if mobile else ["0{}){}-{}", "(0{}) {}-{}"]
    return r.choice(forms).format(area, first, second)


def phone_de(r: Random, how: str) -> str:
    if r.randrange(2):
        area, line = (
            r.choice(["151", "160", "170", "171", "172", "173", "175", "176"]),
            str(r.randrange(2000000, 99000000)),
        )
        forms = ["0{} {}", "0{}/{}", "0{}-{}", "+49 {} {}", "+49-{}-{}", "+49 (0){} {}", "0049 {} {}", "(0{}) {}"]
    else:
        area = r.choice(["30", "40", "89", "69", "221", "711", "351", "341", "511", "911", "6221", "4131"])
        line = str(r.randrange(200000, 9900000))
        forms = ["0{} {}", "0{}/{}", "0{}-{}", "(0{}) {}", "+49 {} {}", "+49 (0){} {}", "+49/{}/{}", "0{} / {}"]
        if how != "e164" and r.randrange(4) == 0:
            line = f"{line}-{r.randrange(10, 99)}"
        elif how != "e164" and r.randrange(3) == 0:
            line = f"{line[:-4]} {line[-4:-2]} {line[-2:]}"
            forms = ["0{} {}", "0{}/{}", "+49 {} {}", "(0{}) {}"]
    return f"+49{area}{line}" if how == "e164" else r.choice(forms).format(area, line)


PHONES = {"en": [phone_us, phone_us, phone_us, phone_uk, phone_uk], "ko": [phone_ko], "de": [phone_de]}


def phone(r: Random, language: str, how: str) -> str:
    """One time in nine from abroad."""
    if r.randrange(9) == 0 and how != "home":
        return r.choice([phone_us, phone_uk, phone_ko, phone_de])(r, "e164" if how == "e164" else "")
    return r.choice(PHONES[language])(r, how)


# the part after country and check digits: n digits, a letters, c either
BBANS = """
DE 18n|FR 10n11c2n|GB 4a14n|ES 20n|IT 1a10n12c|NL 4a10n|AT 16n|CH 5n12c|BE 12n|PL 24n|SE 20n|DK 14n|NO 11n|FI 14n
PT 21n|IE 4a14n|CZ 20n|SK 20n|HU 24n|RO 4a16c|GR 7n16c|LU 3n13c|TR 6n16c|SA 2n18c|AE 19n|IL 19n|HR 17n|SI 15n
LT 16n|LV 4a13c|EE 16n|CY 8n16c|MT 4a5n18c|BG 4a6n8c|LI 5n12c|MC 10n11c2n|IS 22n|KW 4a22c|QA 4a21c|BH 4a14c|KZ 3n13c
""".replace("\n", "|").strip("|")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def bban(r: Random, shape: str) -> str:
    made, count = "", ""
    for each in shape:
        if each.isdigit():
            count += each
        else:
            choices = {"n": "0123456789", "a": LETTERS, "c": "0123456789" * 4 + LETTERS}[each]
            made, count = made + "".join(r.choice(choices) for _ in range(int(count))), ""
    return made


def iban(r: Random, language: str, how: str) -> str:
    rows = [row.split() for row in BBANS.split("|")]
    country, shape = ["DE", "18n"] if language == "de" and r.randrange(2) else r.choice(rows)
    account = bban(r, shape)
    counted = "".join(str(int(each, 36)) for each in account + country + "00")
    plain = f"{country}{98 - int(counted) % 97:02}{account}"
    grouped = " ".join(plain[at : at + 4] for at in range(0, len(plain), 4))
    return plain if how == "plain" or (how != "grouped" and r.randrange(2)) else grouped


def luhn_digit(ahead: str) -> str:
    total = 0
    for at, each in enumerate(reversed(ahead)):
        twice = int(each) * (2 if at % 2 == 0 else 1)
        total += twice - 9 if twice > 9 else twice
    return str(-total % 10)


def card(r: Random, language: str, how: str) -> str:
    prefix, length = r.choice(
        [
            *[("4", 16), ("4", 16), (str(r.randrange(51, 56)), 16), (str(r.randrange(2221, 2721)), 16)],
            *[(r.choice(["34", "37"]), 15), (r.choice(["6011", "65", str(r.randrange(644, 650))]), 16)],
            *[(r.choice(["36", "38", str(r.randrange(300, 306))]), 14), (str(r.randrange(3528, 3590)), 16)],
            *[("62", 16), ("62", 19)],
        ]
    )
    ahead = prefix + number(r, length - len(prefix) - 1)
    plain = ahead + luhn_digit(ahead)
    cuts = {14: [4, 10], 15: [4, 10], 16: [4, 8, 12], 19: [4, 8, 12, 16]}[length]
    parts = [plain[a:b] for a, b in zip([0, *cuts], [*cuts, length], strict=True)]
    return plain if how == "plain" else r.choice(["", " ", " ", "-"]).join(parts)


def ipv4(r: Random, language: str, how: str) -> str:
    first = r.choice(
        ["192.0.2", "198.51.100", "203.0.113", "10.{}.{}", "192.168.{}", "172.{}.{}", "{p}.{}.{}", "{p}.{}.{}"]
    )
    middle = [r.randrange(16, 32) if first.startswith("172") else r.randrange(256), r.randrange(256)]
    public = r.choice([23, 31, 46, 62, 78, 81, 91, 104, 133, 141, 185, 193, 211, 217])
    return f"{first.format(*middle, p=public)}.{r.randrange(2, 254)}"


def ipv6(r: Random, language: str, how: str) -> str:
    group = lambda: f"{r.randrange(1, 65536):x}"  # noqa: E731
    local = ":".join([f"{r.randrange(512, 65536):x}", f"{group()[:2]}ff", f"fe{number(r, 2)}", group()])
    if how == "local":
        return f"fe80::{local}"
    if how != "routed" and r.randrange(8) == 0:
        return f"::ffff:{ipv4(r, language, '')}"
    start = r.choice(["2001:db8", "2001:db8", "2a01:4f8", "2a02:8109", "2404:c0", "2607:f8b0", "fd3c:91aa", "2003:e2"])
    if r.randrange(3) == 0:
        made = ipaddress.ip_address(":".join([start, *[group() for _ in range(6)]])).exploded
        return made.upper() if r.randrange(4) == 0 else made
    kept = [group() for _ in range(r.randrange(1, 5))]
    cut = r.randrange(len(kept))
    return ":".join([start, *kept[:cut]]) + "::" + ":".join(kept[cut:])


def ssn(r: Random, language: str, how: str) -> str:
    area = r.choice([*range(1, 666), *range(667, 900)])
    return f"{area:03}-{r.randrange(1, 100):02}-{r.randrange(1, 10000):04}"


def nhs(r: Random, language: str, how: str) -> str:
    """`how` is "grouped" where no word near names it: with dashes it would be a phone number there."""
    check = 10
    while check == 10:
        ahead = r.choice(["4", "6", "7", "999"])
        ahead += number(r, 9 - len(ahead))
        check = 11 - (sum(int(digit) * (10 - at) for at, digit in enumerate(ahead)) % 11)
        check = 0 if check == 11 else check
    parts = [ahead[:3], ahead[3:6], ahead[6:] + str(check)]
    return r.choice([" "] if how == "grouped" else [" ", " ", "-", ""]).join(parts)


def birthday(r: Random, first: int, last: int) -> date:
    start = date(first, 1, 1)
    return start + timedelta(days=r.randrange((date(last, 1, 1) - start).days))


def rrn(r: Random, language: str, how: str) -> str:
    born = birthday(r, 1945, 2012)
    ahead = f"{born:%y%m%d}{r.choice('12' if born.year < 2000 else '34')}{r.randrange(96):02}{number(r, 3)}"
    total = sum(int(digit) * int(weight) for digit, weight in zip(ahead, "234567892345", strict=True))
    return f"{ahead[:6]}-{ahead[6:]}{(11 - total % 11) % 10}"


def tax_id(r: Random, language: str, how: str) -> str:
    while True:
        ten = list("0123456789")
        r.shuffle(ten)
        kept = ten[r.choice([1, 1, 2]) :]  # without one digit, or without two: another one fills their places
        made = kept + [kept[0]] * (10 - len(kept))
        r.shuffle(made)
        ahead = "".join(made)
        if ahead[0] != "0" and not any(each * 3 in ahead for each in "0123456789"):
            break
    product = 10
    for each in ahead:
        total = (int(each) + product) % 10
        product = 2 * (10 if total == 0 else total) % 11
    plain = ahead + str((11 - product) % 10)
    return plain if r.randrange(2) else f"{plain[:2]} {plain[2:5]} {plain[5:8]} {plain[8:]}"


AREAS = (
    "02 03 04 08 09 10 11 12 13 14 15 16 17 18 19 20 21 23 24 25 26 28 29 38 39 40 42 44 48 49 50 52 53 54 65 66 80"
)


def svnr(r: Random, language: str, how: str) -> str:
    area, born, letter = r.choice(AREAS.split()), f"{birthday(r, 1950, 2005):%d%m%y}", r.choice(LETTERS)
    serial = number(r, 2)
    counted = area + born + str(LETTERS.index(letter) + 1).zfill(2) + serial
    products = [
        int(digit) * weight for digit, weight in zip(counted, [2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1], strict=True)
    ]
    check = sum(each // 10 + each % 10 for each in products) % 10
    form = r.choice(["{} {} {} {} {}", "{} {} {} {}{}", "{}{}{}{}{}"])
    return form.format(area, born, letter, serial, check)
