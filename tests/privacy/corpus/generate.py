"""Makes `positives.jsonl` and `negatives.jsonl` from the templates: python tests/privacy/corpus/generate.py [folder]

The corpus is frozen. Made anew it is the same, byte by byte; what changes it makes another corpus.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import numbers_made
import secrets_made
from checks import CHECKS
from fillers import filler


HERE = Path(__file__).parent
SEED = "privacy 1"
LANGUAGES = ["en", "ko", "de"]
POSITIVES, NEGATIVES = 60, 500  # texts: of each kind in each language, and in each language
MARKER = "␀"  # U+2400 breaks what a scanner for secrets would take for one; reading.py takes it out
KINDS: dict[str, Callable[[Random, str, str], str]] = {
    "EMAIL": numbers_made.email,
    "PHONE": numbers_made.phone,
    "IBAN": numbers_made.iban,
    "CARD": numbers_made.card,
    "IPV4": numbers_made.ipv4,
    "IPV6": numbers_made.ipv6,
    "US_SSN": numbers_made.ssn,
    "UK_NHS": numbers_made.nhs,
    "KR_RRN": numbers_made.rrn,
    "DE_TAX_ID": numbers_made.tax_id,
    "DE_SVNR": numbers_made.svnr,
    "URL_PASSWORD": secrets_made.url_password,
    "PRIVATE_KEY": secrets_made.private_key,
    "JWT": secrets_made.jwt,
    "TOKEN": secrets_made.token,
    "SECRET": secrets_made.secret,
}
BROKEN = {"URL_PASSWORD", "PRIVATE_KEY", "JWT", "TOKEN", "SECRET"}
SLOT = re.compile(r"\{\{([A-Za-z0-9_]+)(?::([^{}]*))?\}\}")


def templates(name: str) -> dict[str, list[str]]:
    """By language; those under `any` are for all. A line is a template; \\n in it is a new line, \\\\n is not."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "templates" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            found[line[4:]] = []
        elif line:
            spelt = line.replace("\\\\n", "\0").replace("\\n", "\n").replace("\\t", "\t")
            found[list(found)[-1]].append(spelt.replace("\0", "\\n"))
    return {language: found[language] + found["any"] for language in LANGUAGES} | {"any": found["any"]}


def fill(r: Random, language: str, template: str) -> tuple[str, list[dict[str, str]]]:
    text, values, at = "", [], 0
    for slot in SLOT.finditer(template):
        text += template[at : slot.start()]
        at = slot.end()
        kind, how = slot[1], slot[2] or ""
        if kind not in KINDS:
            text += filler(r, language, kind, how, text)
            continue
        value = KINDS[kind](r, language, how)
        assert kind not in CHECKS or CHECKS[kind](value), f"{kind}: {value}"
        values.append({"kind": kind, "value": value})
        text += value
    return text + template[at:], values


def broken(kind: str, value: str) -> str:
    if kind not in BROKEN:
        return value
    if kind == "PRIVATE_KEY":
        return value.replace("BEGIN", f"BEG{MARKER}IN", 1)
    middle = max(4, len(value) // 2)
    return f"{value[:3]}{MARKER}{value[3:middle]}{MARKER}{value[middle:]}"


def positive(r: Random, language: str, template: str) -> dict[str, object]:
    text, values = fill(r, language, template)
    assert len({each["value"] for each in values}) == len(values), text
    for each in values:
        hidden = broken(each["kind"], each["value"])
        assert text.count(each["value"]) == 1, (each, text)
        text, each["value"] = text.replace(each["value"], hidden), hidden
    return {"language": language, "text": text, "values": values}


def negative(r: Random, language: str, template: str) -> dict[str, object]:
    text, values = fill(r, language, template)
    assert not values, text
    return {"language": language, "text": text}


def several(
    make: Callable[[Random, str, str], dict[str, object]], name: str, count: int, seen: set[str]
) -> list[dict[str, object]]:
    """As many in each language, each template as often as any other; one without numbers comes once."""
    made = []
    for language in LANGUAGES:
        r = Random(f"{SEED}: {name} in {language}")
        there, waiting = templates(name)[language], list[str]()
        fresh: list[dict[str, object]] = []
        while len(fresh) < count:
            if not waiting:
                waiting = list(there)
                r.shuffle(waiting)
            found = make(r, language, waiting.pop())
            if str(found["text"]) not in seen:
                seen.add(str(found["text"]))
                fresh.append(found)
        made += fresh
    return made


def written(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def main(where: Path = HERE) -> None:
    seen: set[str] = set()
    positives = [row for kind in KINDS for row in several(positive, kind, POSITIVES, seen)]
    (where / "positives.jsonl").write_bytes(written(positives))
    (where / "negatives.jsonl").write_bytes(written(several(negative, "negatives", NEGATIVES, seen)))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
