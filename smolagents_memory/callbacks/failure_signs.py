"""What an observation says where something failed, as tools, servers, shells and Python say it.

It goes line by line and by where on a line a word stands: "GET /a: 503" is a failure and "read 503 rows" is none,
"permission denied" is one and "if permission is denied" is none. Code and documentation tell of failures without being
any, so that lines which look like them are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator


_ANY_CASE = re.IGNORECASE
_LONGEST = 300  # characters; of a longer line its two ends are read

# a line without any of these says nothing of a failure, and is not looked at more closely; what a sign below matches
# has one of them, which a test holds
_MAYBE = re.compile(
    r"5\d\d|40[137]|408|429|err|fail|except|traceback|interrupt|time-?out|timed|deadline|exit|return|denied|refused|reset"
    r"|abort|closed|lost|unable|could not|not (?:found|known)|no such|fault|dumped|memory|killed|no space|unauthorized"
    r"|fatal|critical|severe|panic|\bE: |unavailable|bad gateway|success|succeeded|\bok\b|down|unhealthy|unreachable",
    _ANY_CASE,
)
_NO = r"(?:0+(?:\.0+)?|no|none|null|nil|false|nan|n/a|ok|-)"
_NOTHING = rf"""{_NO}(?=[\s,;.)}}\]]|$)|"{_NO}?"|'{_NO}?'|\[\s*\]|\{{\s*\}}|$"""
_STAMP = r"[\s\dTZ:.,+\-/|\[(]*"  # a time, a level's bracket

# what a line begins with
_BEGINNINGS = [
    re.compile(r"Traceback \(most recent call last\)"),
    # an exception by its name, unless it is explained what it is for
    re.compile(
        r"\s*(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Timeout|Failure|Interrupt)\b"
        r"(?:\s*$|:(?!\s*(?:(?:is|are|was)\s+)?(?i:raised|thrown|returned|when|if|occurs|means|indicates)\b))",
    ),
    re.compile(
        rf"{_STAMP}(?:ERROR|FATAL|CRITICAL|PANIC|SEVERE)\b(?!\s+(?:level|messages|codes?)\b)\]?(?!\s*[:=]?\s*(?:{_NOTHING}))"
    ),
    re.compile(
        rf"{_STAMP}(?:error|exception|panic|failed|failure|fatal(?!:\s*\d))(?:\[\w+\])?\]?:(?!\s*(?:{_NOTHING}))",
        _ANY_CASE,
    ),
    # of a program, or of a place in a file
    re.compile(
        rf"\s*\S{{1,200}}:\s+(?:fatal |internal )?error(?:\s+[A-Z]{{1,8}}\d{{2,6}})?:(?!\s*(?:{_NOTHING}))", _ANY_CASE
    ),
    re.compile(r"\s*(?:fatal )?error [A-Z]{1,8}\d{2,6}: \S", _ANY_CASE),
    re.compile(r"(?:npm ERR!|E: [A-Z]|FAILED\b(?! *[:=]? *0)|Killed\s*$)"),
    re.compile(
        r"\s*(?:failed to|error (?:executing|response|while|in|when|loading|reading|opening|connecting)) \w", _ANY_CASE
    ),
]

# what stands anywhere on a line, with a place or a value that only a failure has
_STATUS = r"5\d\d\b(?!\s*(?:[munµ]?s\b|sec|min|rows?|items?|bytes?|[kMG]?i?B\b|%|[:=.]\d))"
_STATUS += r"(?![^.:;]{0,40}\b(?:means?|indicates?)\b)"
_SERVER = r"(?:\b(?:upstream|server|service|endpoint|api|gateway|proxy|backend|host|site|page|request|url)|\bhttps?://\S{1,200})"
_TELLING = [
    re.compile(r'\bHTTP/\d(?:\.\d)?"?\s+5\d\d\b'),
    re.compile(rf"\b(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+\S+\s+(?:->|=>|→)?\s*{_STATUS}"),
    re.compile(rf"(?:^|\b(?:HTTP|server) |<)response\s*[:=]?\s*[\[(]?{_STATUS}", _ANY_CASE),
    re.compile(r"\b[45]\d\d (?:client|server) error\b(?!\s+means?\b)", _ANY_CASE),
    re.compile(
        rf"(?:\b(?:HTTP(?:[ _-]?error|[ _-]?status)?|status(?:[ _]?code)?|response[ _](?:code|status)|returned error"
        rf"|server error)\b)"
        rf"""["']?\s*(?:code\b)?\s*[:=]?\s*[\["'(]*{_STATUS}""",
        _ANY_CASE,
    ),
    re.compile(r"""["']?\berrors?["']\s*:\s*(?!\s*(?:""" + _NOTHING + r"""))\S""", _ANY_CASE),
    re.compile(r"""["'](?:status|state|result|outcome)["']\s*:\s*["'](?:error|fail(?:ed|ure)?)["']""", _ANY_CASE),
    re.compile(r"""["'](?:success|succeeded|ok)["']\s*:\s*false\b""", _ANY_CASE),
    re.compile(
        rf"(?:{_SERVER}\s+(?:has )?(?:returned|answered(?: with)?|got)|\bresponded with)"
        r"\s+(?:an? |HTTP )*50[0-4]\s*[.,;)]?\s*$",
        _ANY_CASE,
    ),
    re.compile(r"(?:^|[\]:>])\s*error [1-9]\d{0,3}\b(?!\.\d)", _ANY_CASE),
    re.compile(
        r"""\b(?:status|health|state)["']?\s*[:=]\s*["']?(?:down(?!\s+(?:by\s+)?\d)|unhealthy|unreachable|failing)\b""",
        _ANY_CASE,
    ),
    re.compile(r"\bnon-?zero exit\b", _ANY_CASE),
    re.compile(
        r"\b(?:exit(?:ed)?(?:\s+with)?[\s_]+(?:code|status)|exit(?:ed)?\s+with|exited|exit(?=\s*[:=])|return_?code)\b"
        r"\s*[:=]?\s*-?[1-9]\d{0,2}\b(?!\.\d)",
        _ANY_CASE,
    ),
    re.compile(r"\b(?:failed|failures|errors)\s*[:=]\s*[1-9]", _ANY_CASE),
]

# what is said of a failure in words; what stands before it or behind it may take it back
_SAID = [
    r"permission denied",
    r"access (?:is )?denied",
    r"timed out",
    r"time-?out (?:expired|exceeded|reached|after|while|waiting|error)",
    r"deadline exceeded",
    r"connection (?:was )?(?:refused|reset|aborted|closed unexpectedly|failed|lost)",
    r"no such file or directory",
    r"command not found",
    r"segmentation fault",
    r"core dumped",
    r"out of memory",
    r"no space left on device",
    r"could not (?:resolve|connect)",
    r"(?:unable|failed) to connect",
    r"name or service not known",
    r"unhandled exception",
    r"syntax error",
    r"(?:operation|log-?in|sign-?in|authentication|request|query|command|task|job|tests?|build|compilation|installation"
    r"|deployment|migration|upload|download|import|export|transaction|validation|lookup|handshake|checks?) failed",
    r"errors? (?:has |have )?occurred",
    r"service (?:temporarily )?unavailable",
    r"bad gateway",
    r"gateway time-?out",
    r"internal server error",
    r"40[137] (?:unauthorized|forbidden|proxy authentication)",
    r"408 request time-?out",
    r"429 too many requests",
    r"[1-9][\d,]* (?:failed|failures?|errors?)",
]
_PHRASES = re.compile(rf"\b(?:{'|'.join(_SAID)})\b", _ANY_CASE)
_TAKEN_BACK = re.compile(
    r"\b(?:no|not|never|without|zero|0|none|nothing|if|when|whenever|unless|whether|should|would|could|may|might|can"
    r"|how to|avoids?|prevents?|handles?|handled|handling|ignored?|expected|fix|fixed|fixes|resolved?|solved?|means?"
    r"|called)\b[^.;]*$",
    _ANY_CASE,
)
_EXPLAINED = re.compile(
    r"\s*(?:[:=]\s*(?:0|none|false|no)\b|errors? (?:is|are|means?)\b|means?\b|is (?:raised|returned)\b"
    r"|(?:\w+ )?(?:(?:is|are|was|were|has been|have been) )?"
    r"(?:fixed|resolved|solved|corrected|blocked|prevented|avoided)\b)",
    _ANY_CASE,
)

_CODE = re.compile(
    r"""\s*(?:(?:async\s+)?def |class \w+.*:|(?:if|elif|for|while|with|except)\b.*:\s*$|else:|try:|raise |return """
    r"""|import |from \w+ import|assert |print\(|\w*log(?:ger|ging)?\.\w+\(|#|//|\*|>>>|@\w"""
    r"""|[\w.\[\]]+\s*=\s*(?:["'(\[{]|\w+\())"""
)
# a title with the name of its site, or a link: what a search found, and not what happened
_SITE = (
    r"(?:Stack ?(?:Overflow|Exchange)|Super User|Server Fault|Ask Ubuntu|GitHub|GitLab|Reddit|Quora|Medium|Wikipedia"
    r"|YouTube|Docs|Documentation|Forums?|Community|Blog|[\w-]{1,60}\.(?:com|org|net|io|dev))"
)
_TITLE = re.compile(
    rf"\s[-|\u2013\u2014\u00b7]\s(?:[\w']{{1,30}}\s){{0,3}}{_SITE}(?:\]\(\S*\))?\s*$"
    r"|^[\s\d.)*#-]{0,20}\[.*\]\(https?://\S*\)\s*$"
)
_BARE = re.compile(r"\s*(?:50[0-4]|(?i:error|failed|failure)[.!]?)\s*")  # by itself, as a tool returns it
_FRAME = re.compile(r"Execution logs:|Last output from code snippet:|\[ALERT\]|None\s*$", re.MULTILINE)


class FailureSigns:
    """Looks for signs of failure, as a pattern does that AlertOnFailures is given."""

    pattern = "signs of failure"

    def search(self, text: str) -> bool:
        """Whether the text says that something failed."""
        if _BARE.fullmatch(_FRAME.sub("", text)):
            return True
        return any(map(_tells, _lines(text)))


def _lines(text: str) -> Iterator[str]:
    """The lines that may say something of a failure, each once."""
    read = 0
    for maybe in _MAYBE.finditer(text):
        if maybe.start() < read:
            continue
        begin, end = text.rfind("\n", read, maybe.start()) + 1 or read, text.find("\n", maybe.end())
        read = len(text) if end < 0 else end
        line = text[begin:read].removeprefix("\n")
        yield from (line,) if len(line) <= _LONGEST else (line[:_LONGEST], line[-_LONGEST:])


def _tells(line: str) -> bool:
    if _TITLE.search(line):
        return False
    if any(sign.match(line) for sign in _BEGINNINGS):
        return True
    if _CODE.match(line):
        return False
    return any(sign.search(line) for sign in _TELLING) or any(
        not _TAKEN_BACK.search(line, 0, said.start()) and not _EXPLAINED.match(line, said.end())
        for said in _PHRASES.finditer(line)
    )
