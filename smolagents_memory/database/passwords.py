"""What may be shown of a URL: never a password, wherever in it one stands."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import URL


_NAME = re.compile(
    r"passw|passfile|passphrase|pwd|secret|token(?!s)|api_?key", re.IGNORECASE
)  # password, sslpassword, passfile …
# to the last @: a password may hold one that is not escaped; and a path that was made of a URL has lost a slash
_LOGIN = re.compile(r"(?<=:/)(/?[^:/?#\s]*):\S*@")
_VALUE = re.compile(rf"((?:{_NAME.pattern})[\w-]{{0,100}}\s{{0,100}}=\s{{0,100}})[^&\s]+", re.IGNORECASE)


def shown(text: str) -> str:
    """A URL, or a text in which one may stand, without its passwords.

    >>> shown("postgresql://ann:p@ss/w0rd@host/name?sslpassword=s3cret")
    'postgresql://ann:***@host/name?sslpassword=***'
    """
    return _VALUE.sub(r"\1***", _LOGIN.sub(r"\1:***@", text) if "@" in text else text)


def has_password(text: str) -> bool:
    """Whether a password stands in a URL."""
    return shown(text) != text


def secret_options(url: URL) -> dict[str, Any]:
    """What after the question mark of a URL is nobody's business."""
    return {name: value for name, value in url.query.items() if _NAME.search(name)}


def without_passwords(text: str, url: URL) -> str:
    """What somebody said of a connection, without the passwords of its URL."""
    found = [url.password, *secret_options(url).values()]
    for secret in sorted((str(each) for each in found if each), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)" if len(secret) < 4 else re.escape(secret), "***", text)
    return shown(text)
