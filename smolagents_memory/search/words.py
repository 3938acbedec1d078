"""From a text to the words it is found by: lower case, without accents, English endings off (Porter's stemmer)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache


# What every English question is made of; in a query these find nothing but noise.
STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
    further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it
    its itself just ll m may me might more most must my myself no nor not now of off on once only or other our ours
    ourselves out over own please re s same shall she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up us ve very was wasn we were weren what
    when where which while who whom whose why will with won would wouldn you your yours yourself yourselves
    """.split()  # noqa: SIM905 — a list of words reads as one
)
LONGEST = 64  # characters of a word that are told apart; hashes and the like stay distinct, megabytes do not

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # scripts without spaces


def words(text: str) -> list[str]:
    """The stems of a text in order, as they are indexed.

    >>> words("The deployments failed: getUserName() raised KeyError")
    ['the', 'deploy', 'fail', 'getusernam', 'get', 'user', 'name', 'rais', 'keyerror', 'kei', 'error']
    """
    found: list[str] = []
    for word in _WORD.findall(text):
        found.extend(_stems(word[:LONGEST]))
    return found


def query_words(text: str) -> list[str]:
    """The different stems to look for, in order: without stop words, unless there is nothing else.

    >>> query_words("What did we deploy on the server?")
    ['deploi', 'server']
    """
    found = dict.fromkeys(word for raw in _WORD.findall(text) for word in _wanted(raw[:LONGEST]))
    return list(found) or list(dict.fromkeys(words(text)))


def _wanted(word: str) -> tuple[str, ...]:
    return () if word.lower() in STOP_WORDS else _stems(word)


@lru_cache(maxsize=65_536)
def _stems(word: str) -> tuple[str, ...]:
    """The word's stem; of a camelCase name its parts as well; of a script without spaces, pairs of characters."""
    plain = word if word.isascii() else _without_accents(word)
    if not plain.isascii() and _WIDE.search(plain):
        return tuple(plain[i : i + 2] for i in range(max(1, len(plain) - 1)))
    lower = plain.lower()
    if plain.isascii() and plain != lower and plain != lower.capitalize() and not plain.isupper():
        parts = _CAMEL.findall(plain)
        if len(parts) > 1:
            return (stem(lower), *(stem(part.lower()) for part in parts))
    return (stem(lower),)


def _without_accents(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c) and c.isalnum())
    return unicodedata.normalize("NFC", plain) or word


# -- Porter's algorithm (1980), for lower-case ASCII words ---------------------------------------------------------

_SHAPE = str.maketrans({c: "v" if c in "aeiou" else "c" for c in "abcdefghijklmnopqrstuvwxz"})
_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip


def stem(word: str) -> str:
    """The stem of a lower-case English word; other words come back as they are.

    >>> [stem(word) for word in ("running", "relational", "happy", "1.26")]
    ['run', 'relat', 'happi', '1.26']
    """
    if len(word) <= 2 or not (word.isascii() and word.isalpha()):
        return word
    word = _step_1(word)
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    for ending in _STEP_4:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if _measure(rest) > 1 and (ending != "ion" or rest.endswith(("s", "t"))):
                word = rest
            break
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def _step_1(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for ending in ("ed", "ing"):
            rest = word[: -len(ending)]
            if word.endswith(ending) and "v" in _shape(rest):
                word = _mended(rest)
                break
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mended(rest: str) -> str:
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and _shape(rest)[-1] == "c" and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _short(rest) else rest


def _replaced(word: str, endings: dict[str, str]) -> str:
    for ending, instead in endings.items():
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + instead if _measure(rest) > 0 else word
    return word


def _shape(word: str) -> str:
    """Consonants and vowels: a y is a vowel after a consonant."""
    shape = word.translate(_SHAPE)
    if "y" in shape:
        letters = list(shape)
        for i, letter in enumerate(letters):
            if letter == "y":
                letters[i] = "v" if i and letters[i - 1] == "c" else "c"
        shape = "".join(letters)
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _short(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"
