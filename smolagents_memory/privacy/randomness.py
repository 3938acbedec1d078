"""What chance has made, and stands behind a name such as `api_key` or `Passwort`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from smolagents_memory.privacy.scanning import Scan


_NAMES = (
    "password", "passwd", "passphrase", "passwort", "kennwort", "pwd", "secret", "token", "credential", "bearer",
    "api_key", "api-key", "apikey", "api key", "access_key", "accesskey", "access key", "private_key", "privatekey",
    "signing_key", "encryption_key", "auth_key", "account_key", "accountkey", "schlüssel", "geheimnis",
    "비밀번호", "비번", "암호", "패스워드", "시크릿", "토큰", "api 키", "비밀키", "비밀 키", "액세스 키", "접근 키",
)  # fmt: skip
_ALONE = {"pwd", "bearer"}  # which stand within other words
_IN_A_WORD = re.compile(r"[A-Za-z0-9]")
_GOES_ON = re.compile(r"(?!(?:s|es|en|e|Id)(?![A-Za-z0-9]))[A-Za-z0-9]")
_ENDING = re.compile(r"[\w\-]{0,30}")
_SPACE, _ANYTHING = re.compile(r"\s"), re.compile(r"\S{8,200}")
_WINDOW = 90  # characters behind a name
_TOKEN = re.compile(r"[A-Za-z0-9!#%*+\-_=?^~/.$&@|]{8,200}")
_ASSIGNED = re.compile(
    r"[\w\-]{0,30}[\"'`\])]{0,2}[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}(?:[Bb]earer |[Bb]asic |[Tt]oken )?"
    r"(?:[\"'`]([^\"'`\s]{8,200})[\"'`]|([A-Za-z0-9!#%*+\-_=?^~/.$&@]{8,200})(?![A-Za-z0-9!#%*+\-_=?^~/.$&@(\[]))"
)
# what is put in when a program runs: a variable of a shell or a template, or what somebody is to fill in
_VARIABLE = re.compile(
    r"\$?\{\{[^}]{0,80}\}\}|\$?\{[^}]{0,80}\}|<[^>]{0,80}>|\[[^\]]{0,80}\]|\$?\([A-Za-z_. ]{0,80}\)"
    r"|%\(\w{1,40}\)[sd]?|%[sd](?!\w)|%[A-Z_][A-Z0-9_]*%"
    r"|\$(?:env:\w+|[A-Z_][A-Z0-9_]*|[a-z]+(?:[A-Z][a-z]+)+|[a-z]+(?:(?:_[a-z]+)+[0-9]*)?)(?![A-Za-z0-9])"
)
_WORD_FOR_ONE = re.compile(r"your|example|x{4,}|changeme|placeholder|dummy|redacted", re.IGNORECASE)
_MASKED = re.compile(r"\*\*\*|\.\.\.|…|EXAMPLE(?:KEY)?$")
_PART = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]*)[0-9]{0,4}")  # of a name that somebody made up
_SEPARATOR = re.compile(r"[_\-./:,;=@ ]+")
_NEXT_LINE = re.compile(r"[\"'`\])]{0,2}[ \t]{0,4}[:=][ \t]{0,4}\r?\n")  # a name that stands at the end of its own
_OPTION = re.compile(r"&[\w.\-]{1,40}=")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_LOOKS_LIKE_A_NAME = re.compile(
    r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*|[A-Z_][A-Z0-9_]*|https?:.*|.*://.*|[\w.+-]+@[\w.-]+"
)
_WORD = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")
_NUMBERLIKE = re.compile(r"[\d.,:/\-+TZ]+")


def secrets_in(scan: Scan) -> Iterator[tuple[int, int]]:
    """Where they stand in a text."""
    text = scan.text
    for name in [name for name in _NAMES if name in scan.small]:
        looked = 0
        for place in scan.places(name, small=True):
            at = place + len(name)
            if name in _ALONE and _IN_A_WORD.match(text, place - 1):
                continue
            assigned = _ASSIGNED.match(text, at)
            if assigned is not None:
                group = 1 if assigned[1] is not None else 2
                start, end = _trimmed(text, *assigned.span(group))
                if is_secret(text[start:end]):
                    yield start, end
            if not _GOES_ON.match(text, at):
                for start, end, is_one in _told(text, max(at, looked)):
                    looked = end
                    if is_one:
                        yield start, end


@lru_cache(4096)
def tells_of_secrets(name: str) -> bool:
    """Whether a name, or one around it, says that what stands under it is a secret.

    >>> [tells_of_secrets(each) for each in ("db passwords", "api/token", "tokenizer", "name")]
    [True, True, False, False]
    """
    return not all(map(_GOES_ON.match, _behind_names(name)))


def _behind_names(name: str) -> list[str]:
    """What follows in a name on each word for a secret."""
    small = name.lower()
    ends = ((small.rfind(each), each) for each in _NAMES if each in small)
    return [
        small[at + len(each) :] for at, each in ends if each not in _ALONE or not _IN_A_WORD.match(small[:at][-1:])
    ]


def secrets_under(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Where they stand in what stands under a name in a mapping; names around it are before the name."""
    behind = _behind_names(name)
    whole = text.strip()
    if any(map(_ENDING.fullmatch, behind)) and not _SPACE.search(whole):
        if is_secret(whole):
            at = text.index(whole)
            yield at, at + len(whole)
    elif any(not _GOES_ON.match(each) for each in behind):
        for match in _ANYTHING.finditer(text):
            start, end = _trimmed(text, *match.span())
            if is_made_up(text[start:end], strictly=True):
                yield start, end


def _told(text: str, at: int) -> Iterator[tuple[int, int, bool]]:
    """The longer words of a sentence, or of the row of a table, and whether each is one."""
    begun = _NEXT_LINE.match(text, at)
    line = text.find("\n", begun.end() if begun else at, at + _WINDOW)
    until = line if line >= 0 else at + _WINDOW
    for match in _TOKEN.finditer(text, at, until):
        start, end = match.span()
        if end == until and line < 0:  # it may go on
            goes_on = _TOKEN.match(text, start)
            end = goes_on.end() if goes_on else end
        start, end = _trimmed(text, start, end)
        yield start, end, is_made_up(text[start:end], strictly=True)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the signs of the sentence around it, and without the other options of a URL."""
    if another := _OPTION.search(text, start, end):
        end = another.start()
    while end > start and text[end - 1] in ".,;:!?|&/":
        end -= 1
    while end > start and text[start] in "|/&=:":
        start += 1
    return start, end


def is_placeholder(text: str) -> bool:
    """Whether it stands for what somebody is to put there, and nothing beside it was made by chance.

    >>> [is_placeholder(each) for each in ("${DB_PASSWORD}", "your_key_1", "$k9Xw2PqL7vTz", "MyExample9k2x")]
    [True, True, False, False]
    """
    if _MASKED.search(text) or len(set(text)) < 4:
        return True
    rest = _WORD_FOR_ONE.sub("", _VARIABLE.sub("", text))
    return rest != text and all(map(_PART.fullmatch, _SEPARATOR.split(rest)))


def is_password(text: str) -> bool:
    """Whether it can be the password of a URL, which may be `1111`."""
    return not is_placeholder(text) or text.isdecimal()


def is_token(text: str) -> bool:
    """Whether it can be a token, where its shape says that it is one."""
    return not is_placeholder(text) and len(set(text)) >= 8


def is_secret(text: str) -> bool:
    """Whether it can be a secret, where an assignment says that it is one."""
    if len(text) < 8 or is_placeholder(text) or _NUMBERLIKE.fullmatch(text):
        return False
    if _UUID.fullmatch(text):
        return True
    if _LOOKS_LIKE_A_NAME.fullmatch(text):
        return any(len(part) >= 12 and is_made_up(part) for part in re.split(r"[_.]", text))
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text)) and _restless(text) >= 0.15


def is_made_up(text: str, *, strictly: bool = False) -> bool:
    """Whether chance made it: kinds of letters change too often for words, and there are digits among them.

    >>> [is_made_up(each, strictly=True) for each in ("k9Xw2PqL7vTz", "tokenizer_v2_large", "AbstractProxyFactory2")]
    [True, False, False]
    """
    if is_placeholder(text) or _NUMBERLIKE.fullmatch(text) or not any(map(str.isdigit, text)):
        return False
    if strictly and (_UUID.fullmatch(text) or "://" in text or "/" in text[:1]):
        return False
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", text):
        return len(text) >= (32 if strictly else 16) and len(set(text)) >= 8
    kinds = {_kind(each) for each in text}
    if not {"a", "A"} & kinds or len(set(text)) < min(8, 0.5 * len(text)):
        return False
    if strictly and (not {"a", "A", "0"} <= kinds or sum(map(len, _WORD.findall(text))) > 0.4 * len(text)):
        return False
    return _restless(text) >= (0.35 if strictly else 0.25)


def _restless(text: str) -> float:
    """The share of letters behind which one of another kind stands."""
    kinds = [_kind(each) for each in text]
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes / max(1, len(kinds) - 1)


def _kind(letter: str) -> str:
    if letter.isdigit():
        return "0"
    return "a" if letter.islower() else "A" if letter.isupper() else "-"
