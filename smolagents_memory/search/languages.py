"""Which language a text is in, where a cheap guess is sure, and the stems that its words then have.

The script decides for Cyrillic and Arabic. For Latin letters the words decide that every sentence has: a text is
German where it holds two of German at least, and more of them than of any other language. Such stems carry the mark of
their language unless they are what English makes of the word, so what is found in English texts stays what it was.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import snowballstemmer

from smolagents_memory.search.scripts import without_accents


_FREQUENT = {
    "en": """
        a about above after again against all also am an and any are aren as at be because been before being
        below between both but by can cannot could couldn d did didn do does doesn doing don down during each
        few for from further had hadn has hasn have haven having he her here hers herself him himself his how i
        if in into is isn it its itself just ll m may me might more most must my myself no nor not now of off on
        once only or other our ours ourselves out over own please re s same shall she should shouldn so some
        such t than that the their theirs them themselves then there these they this those through to too under
        until up us ve very was wasn we were weren what when where which while who whom whose why will with won
        would wouldn you your yours yourself yourselves
        """,
    "de": """
        aber alle als am an auch auf aus bei beim bis da dann das dass dem den der des die dies diese du durch
        ein eine einem einen einer eines er es für gegen habe haben hat hatte ich ihm ihn ihr ihre ihrem ihren
        ihrer im in ist ja kann kein keine man mein meine mich mir mit muss nach neben nicht noch nur ob oder
        ohne schon sein seine sich sie sind so sobald über um und uns unser unsere unserem unseren unserer unter
        vom von vor während wann war waren warum was welche welchem welchen welcher welches wem wen wenn wer
        werden wie wieder will wir wird wo wohin womit worden wurde wurden zu zum zur zwischen
        """,
    "es": """
        a al algo cada como con cómo cuando cuándo cuánto cual cuál cuáles de del desde donde dónde durante e el
        ella ellas ellos en entre era es esa ese eso esta está este esto fue ha había han hasta hay la las le
        les lo los más me mi mientras muy nada ni no nos nuestra nuestras nuestro nuestros o otra otro para pero
        por porque pues qué que quien quién quiénes se sea ser si sí sin sobre son su sus también te tiene
        tienen todo tras tu un una unas uno unos y ya yo
        """,
    "fr": """
        à ai ait après au aussi autre aux avant avec avoir c ce ces cet cette chez comme comment d dans de
        depuis des dès doit dont du elle elles en entre es est et était été être eu eux faut il ils j je jusque
        l la le les leur leurs lorsque lui m ma mais me même mes moi mon n ne ni nos notre nous on ont où ou par
        pas pendant pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se selon sera ses si
        son sont sous sur t ta te tes toi ton tu un une vos votre vous y
        """,
    "it": """
        a ad agli ai al all alla alle allo anche c che chi ci come con cosa così cui da dagli dai dal dalla
        dalle degli dei del dell della delle dello deve di dopo dove durante e è ed era erano entro fra gli ha
        hai hanno ho i il in io l la le lei li lo loro lui ma mentre mi mia mio ne negli nei nel nella nelle noi
        non nostra nostre nostri nostro o ogni ora per perché più però qual quale quali quando quanto questa
        queste questi questo qui se sei si sia sono sta stata state stati stato su sua sue sugli sui sul sulla
        suo te ti tra tu tua tuo un una uno vi viene vengono verrà voi
        """,
}
_WORDS = {language: frozenset(words.split()) for language, words in _FREQUENT.items()}
_STOP_WORDS = {language: words | _WORDS["en"] for language, words in _WORDS.items()}
_ENGLISH_TOO = frozenset(
    """
    ad come die dont era ha hat hay im man mon non pendant per pour sea son state sue ton war ya
    """.split()  # noqa: SIM905 — a list of words reads as one
)
_FOREIGN = frozenset().union(*_WORDS.values()) - _WORDS["en"] - _ENGLISH_TOO  # most texts hold none of these
_ALGORITHMS = {"de": "german", "es": "spanish", "it": "italian"}  # French stems find nothing more than English ones
SURE = 2  # different words of a language that a text holds at least


def language_of(words: Sequence[str]) -> str | None:
    """The language of a text in Latin letters, given as its words; None for English, and where it is not sure.

    >>> language_of("Wie lautet das Passwort der Gäste".split())
    'de'
    >>> language_of("Das Kapital is in the library of Los Angeles".split())
    """
    if _FOREIGN.isdisjoint(words):
        return None
    held = {word.lower() for word in words}
    counts = sorted(((len(held & theirs), language) for language, theirs in _WORDS.items()), reverse=True)
    (most, language), (second, _) = counts[:2]
    return language if most >= SURE and most > second and language != "en" else None


def stop_words(language: str | None) -> frozenset[str]:
    """What every question in a language, and in English, is made of: in a query it finds nothing but noise."""
    return _STOP_WORDS[language or "en"]


class _Stemmers(threading.local):
    """One of each a thread: it works on a word in place."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def stem(self, algorithm: str, word: str) -> str:
        known = self._known.get(algorithm)
        if known is None:
            known = self._known[algorithm] = snowballstemmer.stemmer(algorithm).stemWord
        return str(known(word))


_stemmers = _Stemmers()


def stem(word: str) -> str:
    """The stem of a lower-case word: English, Russian or Arabic by its script; other words come back as they are.

    >>> [stem(word) for word in ("running", "relational", "happy", "1.26", "пароли", "الشبكات")]
    ['run', 'relat', 'happi', '1.26', 'парол', 'شبك']
    """
    if word.isascii():
        return _stemmers.stem("porter", word) if len(word) > 2 and word.isalpha() else word
    if "\u0400" <= word[0] <= "\u052f":
        return without_accents(_stemmers.stem("russian", word))
    if "\u0620" <= word[0] <= "\u06ff":
        return without_accents(_stemmers.stem("arabic", word))
    plain = without_accents(word)
    return stem(plain) if plain.isascii() else plain


@lru_cache(maxsize=65_536)
def stem_in(word: str, language: str, english: str) -> str:
    """The stem of a lower-case word in a language, with its mark; without it where it is the English one."""
    if language not in _ALGORITHMS or len(word) <= 2 or word > "ɏ" or not word.isalpha():
        return english
    found = without_accents(_stemmers.stem(_ALGORITHMS[language], word))
    return english if found == english else f"{language}0{found}"


@lru_cache(maxsize=65_536)
def in_any_language(word: str, english: str) -> str:
    """All stems that texts may have for a word, joined by spaces."""
    return " ".join(dict.fromkeys([english, *(stem_in(word, language, english) for language in _ALGORITHMS)]))
