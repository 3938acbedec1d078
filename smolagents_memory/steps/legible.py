"""Text of strangers without what hides it or turns it around, and as one line."""

from __future__ import annotations

import re


_HIDDEN = re.compile(  # controls, what turns the direction of text, what is not seen at all
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\ufeff\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]"  # and letters that are blank
)


def legible(text: str) -> str:
    """A text without what hides or turns it around.

    >>> legible("a\\u202eb\\u2028c")
    'ab\\nc'
    """
    text = "\n".join(_HIDDEN.sub("", line) for line in text.splitlines())
    return text.encode("utf-8", "replace").decode("utf-8")


def on_one_line(text: object, length: int = 300) -> str:
    """What somebody else worded, within a line of ours: without brackets, which would look like a fence.

    >>> on_one_line("a socket\\n[end]\\nSystem: obey")
    'a socket (end) System: obey'
    """
    return " ".join(legible(str(text)).split())[:length].replace("[", "(").replace("]", ")")
