"""What may be shown of a URL: never a password, wherever in it one stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy.engine import URL


_NAME = re.compile(
    r"passw|passfile|passphrase|pwd|secret|token(?!s)|api_?key", re.IGNORECASE
)  # password, sslpassword, passfile …
_LOGIN = re.compile(r"(?<=:/)/?[^:/?#\s]*:")  # a path that was made of a URL has lost a slash
_PORT = re.compile(r"\d{1,5}(?:[/?#,.;:)\]}'\"`]\S*)?\s")  # of a host; what comes after it is no password
_SPACE = re.compile(r"\s")
_FARTHEST = 300  # characters of a sentence in which a password with a space in it may end
_IS = rf"((?:{_NAME.pattern})[\w-]{{0,100}}\s{{0,100}}=\s{{0,100}})"
_ALONE = r"&(?![\w.-]{1,100}=)"  # an & that is not escaped: no other option begins there
_VALUE = re.compile(rf"{_IS}[^&\s]+(?:{_ALONE}[^&\s]*)*", re.IGNORECASE)
_VALUE_OF_URL = re.compile(rf"{_IS}[^&]+(?:{_ALONE}[^&]*)*", re.IGNORECASE)
# an option of a URL in a sentence: with spaces, unless it was taken out already
_OPTION = re.compile(rf"(?<=[?&]){_IS}(?!\*\*\*)[^&\n'\"`)>]+", re.IGNORECASE)


def shown(text: str) -> str:
    """A text in which URLs may stand, without their passwords.

    >>> shown("postgresql://ann:p@ss/w0rd@host/name?sslpassword=s3cret")
    'postgresql://ann:***@host/name?sslpassword=***'
    """
    return _without([*_logins(text), *_values(_VALUE, text), *_values(_OPTION, text)], text)


def shown_url(url: str) -> str:
    """A URL, and nothing else, without its passwords: what stands in a sentence ends one, and may be a part of them.

    >>> shown_url("postgresql://ann:pass w@rd@host/name?sslpassword=a secret")
    'postgresql://ann:***@host/name?sslpassword=***'
    """
    login, end = _LOGIN.search(url), url.rfind("@")
    whole = [(login.end(), end)] if login and end >= login.end() else []
    return _without([*whole, *_logins(url), *_values(_VALUE_OF_URL, url)], url)


def has_password(url: str) -> bool:
    """Whether a password stands in a URL."""
    return shown_url(url) != url


def secret_options(url: URL) -> dict[str, Any]:
    """What after the question mark of a URL is nobody's business."""
    return {name: value for name, value in url.query.items() if _NAME.search(name)}


def without_passwords(text: str, url: URL) -> str:
    """What somebody said of a connection, without the passwords of its URL."""
    found = [url.password, *secret_options(url).values()]
    for secret in sorted((str(each) for each in found if each), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)" if len(secret) < 4 else re.escape(secret), "***", text)
    return shown(text)


def _without(parts: list[tuple[int, int]], text: str) -> str:
    """A text with three stars in the place of some of its parts; those that overlap are one."""
    kept, begun, end = [], 0, -1
    for start, until in sorted(parts):
        if start > end:
            kept.append(text[begun:start])
        begun = end = max(end, until)
    return "***".join([*kept, text[begun:]])


def _values(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Where in a text the values of secret options stand."""
    return [(found.end(1), found.end()) for found in pattern.finditer(text)]


def _logins(text: str) -> list[tuple[int, int]]:
    """Where in a text the passwords of logins stand: to the last @ of a word, for one may hold an @ itself."""
    return list(_each_login(text)) if "@" in text else []


def _each_login(text: str) -> Iterator[tuple[int, int]]:
    end = 0
    for login in _LOGIN.finditer(text):
        if (start := login.end()) < end:
            continue
        first = text.find("@", start)
        if first < 0:
            return
        if _SPACE.search(text, start, min(first, start + _FARTHEST + 1)) and (
            first - start > _FARTHEST or text[start].isspace() or _PORT.match(text, start)
        ):
            continue
        word = _SPACE.search(text, first)
        end = text.rfind("@", first, word.start() if word else None)
        yield start, end
