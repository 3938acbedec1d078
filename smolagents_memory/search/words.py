"""From a text to the words it is found by: lower case, without accents and endings, in any script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from smolagents_memory.search.languages import in_any_language, language_of, stem, stem_in, stop_words
from smolagents_memory.search.scripts import is_wide, pairs, runs


ANALYSER = "3"  # another one whenever `words` gives something else: what is kept by the old words is then read anew
LONGEST = 64  # characters of a word that are told apart; hashes and the like stay distinct, megabytes do not

_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(text: str) -> list[str]:
    """The stems of a text in order, as they are indexed.

    >>> words("The deployments failed: getUserName() raised KeyError")
    ['the', 'deploy', 'fail', 'getusernam', 'get', 'user', 'name', 'rais', 'keyerror', 'kei', 'error']
    >>> words("VPN으로만 접속")
    ['vpn', '으로', '로만', '접속']
    """
    cut = _cut(text)
    language = language_of(cut)
    found: list[str] = []
    if language is None and text.isascii():  # most texts: nothing else need be asked of a word
        for word in cut:
            found.extend(_stems(word[:LONGEST]))
    else:
        for word in cut:
            found.extend(_found(word, language))
    return found


def query_words(text: str) -> list[str]:
    """What to look for, in order: each word with all stems that texts may have for it, joined by spaces.

    They count as one word: see `lexical.py`. Stop words are left out, unless there is nothing else.

    >>> query_words("What did we deploy on the server?")
    ['deploi de0deploy es0deploy it0deploy', 'server de0serv es0serv']
    """
    return list(dict.fromkeys(stems for word in _telling(text) for stems in _everywhere(word)))


def _cut(text: str) -> list[str]:
    return _WORD.findall(text) if text.isascii() else runs(text)


def _telling(text: str) -> list[str]:
    """The words of a query without stop words, unless there is nothing else."""
    cut = _cut(text)
    common = stop_words(language_of(cut))
    return [word for word in cut if word.lower() not in common] or cut


def _found(word: str, language: str | None = None) -> Sequence[str]:
    """What one word of a text is found by."""
    if is_wide(word):
        return pairs(word)
    stems = _stems(word[:LONGEST])
    return stems if language is None or len(stems) != 1 else (stem_in(word[:LONGEST].casefold(), language, stems[0]),)


def _everywhere(word: str) -> Sequence[str]:
    stems = _found(word)
    return stems if len(stems) != 1 or is_wide(word) else (in_any_language(word[:LONGEST].casefold(), stems[0]),)


@lru_cache(maxsize=65_536)
def _stems(word: str) -> tuple[str, ...]:
    """The word's stem, if there is something left of it; of a camelCase name its parts as well."""
    lower = word.casefold()
    if word.isascii() and word != lower and word != lower.capitalize() and not word.isupper():
        parts = _CAMEL.findall(word)
        if len(parts) > 1:
            return (stem(lower), *(stem(part.lower()) for part in parts))
    found = stem(lower)
    return (found,) if found else ()
