"""Redactor: takes out of texts what identifies people and opens doors, and puts placeholders there."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import PlaceError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.privacy.folding import folded
from smolagents_memory.privacy.scanning import KIND, Scan


if TYPE_CHECKING:
    from smolagents_memory.privacy.recogniser import Recogniser


FAILED = "[REDACTION FAILED]"
PLACEHOLDER = re.compile(rf"\[(?:{KIND.pattern}_[0-9a-f]{{8}}|REDACTION FAILED)\]")
_NUMBERS = frozenset({"PHONE", "IBAN", "CARD", "UK_NHS", "DE_TAX_ID", "DE_SVNR"})  # the same however they are spaced
_BOUND = 1000  # scopes and sessions of which a redactor can give back what it took out
_PASSES = 10  # what was taken out may have hidden what stands beside it
_NOT_IN_A_NAME = re.compile(r"[\s\"'`\\]+")  # of an entry, which may say what its value is
_LONGEST_NAME = 64
_LONGEST = 1000  # characters of a value that is looked at together with its name
_SPACING = re.compile(r"[\s.\-/()]+")


@dataclass(frozen=True)
class Found:
    """Something that was found in a text: its kind, where it stands, and what it is."""

    kind: str
    start: int
    end: int
    value: str


Hook = Callable[[str], Iterable[Any]]
Named = Callable[[Found], str]  # the placeholder for what was found


class Redactor:
    """Finds e-mail addresses, numbers with checksums, keys and passwords in texts, and puts placeholders there.

    The same value has the same placeholder within a scope, so that it can still be asked for; another scope's are
    others. Given to a `Place(…, redact=…)` it works with a key that is kept there, so that all processes agree.

    Args:
        recognisers: What is looked for, in the place of the package's own table.
        kinds: Only these of them, by name.
        journal: Whether a session's journal is redacted as well. What is restored is then the redacted text.
        also: More: a `Recogniser`, or a function that is given a text and says what it found there, as
            `(kind, start, end)` or as objects with `entity_type` or `kind`, `start` and `end`.
        key: The secret that placeholders are made with: by default the place's, and without one chance.

    >>> from smolagents_memory import Recogniser
    >>> redactor = Redactor(also=[Recogniser("STAFF_ID", r"E-\\d{6}")], key=b"0" * 32)
    >>> redactor.redact("E-123456 asked, E-654321 answered, E-123456 thanked.")
    '[STAFF_ID_...] asked, [STAFF_ID_...] answered, [STAFF_ID_...] thanked.'
    >>> redactor.redact(redactor.redact("E-123456")) == redactor.redact("E-123456")
    True
    """

    def __init__(
        self,
        recognisers: Iterable[Recogniser] | None = None,
        *,
        kinds: Iterable[str] | None = None,
        journal: bool = False,
        also: Iterable[Recogniser | Hook] = (),
        key: bytes | None = None,
    ) -> None:
        from smolagents_memory.privacy.recogniser import Recogniser
        from smolagents_memory.privacy.recognisers import RECOGNISERS  # hundreds of patterns: when needed

        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise ValueError("a key for placeholders is at least 16 secret bytes, such as secrets.token_bytes(32)")
        table = tuple(RECOGNISERS if recognisers is None else recognisers)
        more = list(also)
        self._recognisers = _chosen([*table, *(each for each in more if isinstance(each, Recogniser))], kinds)
        package = set(map(id, RECOGNISERS))
        self._own = [each for each in self._recognisers if id(each) in package]
        self._others = [each for each in self._recognisers if id(each) not in package]  # which read a text as it is
        self._hooks: list[Hook] = [each for each in more if not isinstance(each, Recogniser)]
        for each in self._hooks:
            if not callable(each):
                raise ValueError(f"also=… takes recognisers and functions of a text, not {brief(each)}")
        self.journal, self.key = bool(journal), key
        self.own_key = key or secrets.token_bytes(32)
        self._bound: dict[Any, Callable[[str], str]] = {}

    @classmethod
    def of(cls, given: Any) -> Redactor | None:
        """What was given as `redact=…`: a Redactor, True for the usual one, a function of a text, or nothing."""
        if given is None or given is False:
            return None
        if isinstance(given, Redactor):
            return given
        if given is True:
            return cls()
        if callable(given) and not isinstance(given, type):
            return _Function(given)
        raise PlaceError(f"redact is True, a Redactor, or a function of a text that returns one, not {brief(given)}")

    @property
    def kinds(self) -> list[str]:
        """What is looked for, by name; functions may find more."""
        return list(dict.fromkeys(each.name for each in self._recognisers))

    def find(self, text: str) -> list[Found]:
        """What there is in a text, in order and without overlaps. Whatever a function of yours raises is raised.

        >>> Redactor(also=[lambda text: [("PERSON", 0, 3)]]).find("Ann is here.")
        [Found(kind='PERSON', start=0, end=3, value='Ann')]
        """
        text = _text(text)
        return _joined(text, _without_placeholders(text, self._candidates(text)))

    def redact(self, text: str, scope: str | None = None) -> str:
        """The text with a placeholder for each thing that was found. Of a text on which a function fails nothing is
        left, and nothing is raised; what is no text raises UnsupportedValueError."""
        return self.cleaned(_text(text), naming(scope_key(self.own_key, scope or "")))

    def reveal(self, text: str) -> str:
        """The text with the values of the placeholders in it, as the sealed places that this redactor was given to
        have kept them. Without a seal nothing is kept: PlaceError."""
        if not self._bound:
            raise PlaceError(_ONE_WAY)
        text = _text(text)
        for reveal in list(self._bound.values()):
            text = reveal(text)
        return text

    def bind(self, name: Any, reveal: Callable[[str], str]) -> None:
        """What it finds under this name may be given back so; of very many names those that came last."""
        self._bound.pop(name, None)
        self._bound[name] = reveal
        for oldest in list(self._bound)[:-_BOUND]:
            self._bound.pop(oldest, None)

    # -- for who writes ----------------------------------------------------------------------------------------

    def cleaned(self, text: str, named: Named) -> str:
        """The text with the placeholders that `named` gives."""
        text = str.__str__(text)
        for _ in range(_PASSES):
            try:
                found = self.find(text)
            except Exception as error:  # noqa: BLE001 — a function of the user's: what it should have taken out stays out
                return _failed(error)
            if not found:
                break
            text = _replaced(text, found, named)
        return text

    def cleaned_under(self, name: str, text: str, named: Named) -> str:
        """The same of what stands under a name in a mapping: `{"api_key": …}` says what it is as a text would."""
        cleaned = self.cleaned(text, named)
        if len(text) > _LONGEST or cleaned == FAILED or cleaned.isspace() or not cleaned:
            return cleaned
        name = _NOT_IN_A_NAME.sub(" ", name)[-_LONGEST_NAME:]
        for _ in range(_PASSES):
            try:
                found = self._found_under(name, cleaned)
            except Exception as error:  # noqa: BLE001 — as above
                return _failed(error)
            if not found:
                break
            cleaned = _replaced(cleaned, found, named)
        return cleaned

    def _found_under(self, name: str, text: str) -> list[Found]:
        said = f'{name}="'
        at, end = len(said), len(said) + len(text)
        read = [(max(each.start, at) - at, min(each.end, end) - at, each.kind) for each in self.find(f'{said}{text}"')]
        under = [(*span, each.name) for each in self._recognisers for span in each.under(name, text)]
        found = [Found(kind, start, end, text[start:end]) for start, end, kind in (*read, *under) if start < end]
        return _joined(text, _without_placeholders(text, found))

    def _candidates(self, text: str) -> Iterator[Found]:
        read = folded(text)
        scan, as_it_is = Scan(read.text), Scan(text)
        own = [(*read.span(*span), each.name) for each in self._own for span in each.spans(scan)]
        if "\\" in text and read.text != text:  # what looks like an escape may be part of a password
            rest = ((*span, each.name) for each in self._own if each.also_as_written for span in each.spans(as_it_is))
            own += _beside(own, rest)
        for start, end, name in own:
            yield Found(name, start, end, text[start:end])
        for each in self._others:
            for start, end in each.spans(as_it_is):
                yield Found(each.name, start, end, text[start:end])
        for hook in self._hooks:
            for told in hook(text):
                yield _told(told, text)


class _Function(Redactor):
    """A function of the user's own, of a text to a text."""

    def __init__(self, function: Callable[[str], str]) -> None:
        super().__init__(())
        self._function = function

    def cleaned(self, text: str, named: Named) -> str:
        try:
            told = self._function(str.__str__(text))
            if not isinstance(told, str):
                raise TypeError(f"it returned a {type(told).__name__}")
        except Exception as error:  # noqa: BLE001 — what it should have taken out stays out
            return _failed(error)
        return str.__str__(told)

    def cleaned_under(self, name: str, text: str, named: Named) -> str:
        return self.cleaned(text, named)


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise UnsupportedValueError(f"a redactor takes a text, not a {type(given).__name__}: decode bytes before")
    return str.__str__(given)


_ONE_WAY = (
    "what was redacted can be given back only where it was kept under a seal: Place(…, seal=…, redact=redactor). "
    "Without one a placeholder is all that there is"
)


def one_way() -> PlaceError:
    """What there is to say where nothing can be given back."""
    return PlaceError(_ONE_WAY)


def scope_key(key: bytes, scope: str, what: str = "scope") -> bytes:
    """The key of one scope's placeholders, or of a session's."""
    return hmac.digest(key, f"{what}\0{scope}".encode("utf-8", "surrogatepass"), "sha256")


def naming(key: bytes) -> Named:
    """How what was found is called with a scope's key: the same value the same, however its digits are spaced."""

    def named(found: Found) -> str:
        said = f"{found.kind}\0{_spelled(found)}".encode("utf-8", "surrogatepass")
        return f"[{found.kind}_{hmac.new(key, said, hashlib.sha256).hexdigest()[:8]}]"

    return named


def _spelled(found: Found) -> str:
    read = folded(found.value).text
    if found.kind == "EMAIL":
        return read.casefold()
    return _SPACING.sub("", read).casefold() if found.kind in _NUMBERS else read


def _chosen(recognisers: Sequence[Recogniser], kinds: Iterable[str] | None) -> tuple[Recogniser, ...]:
    for each in recognisers:
        if not hasattr(each, "spans"):
            raise ValueError(f"recognisers are objects of that class, not {brief(each)}")
    if kinds is None:
        return tuple(recognisers)
    wanted = {kinds} if isinstance(kinds, str) else set(kinds)
    unknown = wanted - {each.name for each in recognisers}
    if unknown:
        raise ValueError(
            f"nothing recognises {', '.join(sorted(map(str, unknown)))[:80]}; there are "
            f"{', '.join(sorted({each.name for each in recognisers}))}"
        )
    return tuple(each for each in recognisers if each.name in wanted)


def _told(told: Any, text: str) -> Found:
    """What a function found: a Found, a tuple, or whatever a library makes of it."""
    if isinstance(told, tuple):
        kind, start, end = told
    else:
        kind, start, end = getattr(told, "kind", None) or told.entity_type, told.start, told.end
    kind = re.sub(r"[^A-Z0-9_]", "_", str(kind).upper())[:32]
    start, end = max(0, int(start)), min(len(text), int(end))
    return Found(kind if KIND.fullmatch(kind) else "OTHER", start, end, text[start:end])


def _without_placeholders(text: str, found: Iterable[Found]) -> list[Found]:
    """What was found outside placeholders, or beside them."""
    there = [match.span() for match in PLACEHOLDER.finditer(text)] if "[" in text else []
    if not there:
        return list(found)
    ends, parts = [end for _, end in there], []
    for each in found:
        at, place = each.start, bisect_right(ends, each.start)
        while place < len(there) and there[place][0] < each.end:
            parts.append((each.kind, at, there[place][0]))
            at, place = there[place][1], place + 1
        parts.append((each.kind, at, each.end))
    told = [Found(kind, start, end, text[start:end]) for kind, start, end in parts if start < end]
    return [each for each in told if any(map(str.isalnum, each.value))]


def _beside(there: list[tuple[int, int, str]], more: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Which of some more spans touch none of those that are there."""
    starts, reach = [], [0]
    for start, end, _ in sorted(there):
        starts.append(start)
        reach.append(max(reach[-1], end))
    return [each for each in more if reach[bisect_left(starts, each[1])] <= each[0]]


def _joined(text: str, found: list[Found]) -> list[Found]:
    """In order; what overlaps is one, of the kind of the longest."""
    joined: list[Found] = []
    longest = 0
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if each.start >= each.end:
            continue
        if not joined or each.start >= joined[-1].end:
            joined.append(each)
            longest = each.end - each.start
            continue
        last, end = joined[-1], max(joined[-1].end, each.end)
        kind = each.kind if each.end - each.start > longest else last.kind
        longest = max(longest, each.end - each.start)
        joined[-1] = Found(kind, last.start, end, text[last.start : end])
    return joined


def _replaced(text: str, found: Sequence[Found], named: Named) -> str:
    parts, at = [], 0
    for each in found:
        parts += [text[at : each.start], named(each)]
        at = each.end
    return "".join([*parts, text[at:]])


def _failed(error: Exception) -> str:
    warn_of_loss(f"a text could not be redacted ({type(error).__name__}), and was not written: {FAILED} stands there")
    return FAILED
