"""From a text to the words it is found by: lower case, without accents, English endings off (Porter's algorithm)."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import snowballstemmer


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
ANALYSER = "2"  # another one whenever `words` gives something else: what is kept by the old words is then read anew
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


class _Stemmer(threading.local):
    """One a thread: it works on a word in place."""

    def __init__(self) -> None:
        self.stem = snowballstemmer.stemmer("porter").stemWord


_stemmer = _Stemmer()


def stem(word: str) -> str:
    """The stem of a lower-case English word; other words come back as they are.

    >>> [stem(word) for word in ("running", "relational", "happy", "1.26")]
    ['run', 'relat', 'happi', '1.26']
    """
    if len(word) <= 2 or not (word.isascii() and word.isalpha()):
        return word
    return str(_stemmer.stem(word))
