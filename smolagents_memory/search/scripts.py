"""Where a word begins and ends in any script: at spaces and signs, and where one script changes into another."""

from __future__ import annotations

import re
import unicodedata


# Scripts without spaces between words, and Hangul, whose words carry their particles: found by pairs of characters.
_WIDE = (
    "\u0e00-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3100-\u312f"  # Kana, Bopomofo
    "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u1100-\u11ff\uac00-\ud7a3"  # Han, Hangul
)
_LATIN = "0-9A-Za-zÀ-ÖØ-öø-ʯḀ-ỿ"
_MARKS = "\u200c\u200d" + "".join(  # accents, vowel signs and the like: they end no word
    chr(code) for code in (*range(0x300, 0x1E00), *range(0xA660, 0xAC00)) if unicodedata.category(chr(code))[0] == "M"
)
_OTHER = rf"[^\W_{_WIDE}{_LATIN}]"
_RUN = re.compile(rf"[{_WIDE}]+|[{_LATIN}]+(?:[{_MARKS}]+[{_LATIN}]*)*|{_OTHER}+(?:[{_MARKS}]+{_OTHER}*)*")
_IS_WIDE = re.compile(f"[{_WIDE}]")
_DIGITS = {
    code: str(unicodedata.digit(chr(code))) for code in range(0x660, 0x1100) if unicodedata.category(chr(code)) == "Nd"
}
# what has no accent to take off and is written without its stroke all the same
_STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"})


def runs(text: str) -> list[str]:
    """The words of a text, cut where the script changes.

    >>> runs("VPN으로만, 通过VPN访问")
    ['VPN', '으로만', '通过', 'VPN', '访问']
    """
    return _RUN.findall(unicodedata.normalize("NFKC", text).translate(_DIGITS))


def is_wide(run: str) -> bool:
    """Whether a run is of a script that is found by pairs of characters."""
    return run[0] > "\u0dff" and _IS_WIDE.match(run) is not None


def pairs(run: str) -> list[str]:
    """Each character with the next one; of one character itself.

    >>> pairs("비밀번호")
    ['비밀', '밀번', '번호']
    """
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def without_accents(word: str) -> str:
    """A lower-case word without its accents and strokes. Vowel signs and what else makes another word of it stay."""
    decomposed = unicodedata.normalize("NFKD", word)
    plain = "".join(c for c in decomposed if unicodedata.combining(c) < 10 and c not in "\u200c\u200d")
    return unicodedata.normalize("NFC", plain).translate(_STROKES) or word
