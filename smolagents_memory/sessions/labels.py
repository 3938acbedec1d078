"""Whose a session is, and what it is called: a person, a title, tags."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from smolagents_memory._brief import brief
from smolagents_memory._errors import DecodeError, SessionConflictError, UnsupportedValueError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.database.chain import verify
from smolagents_memory.database.engine import Database
from smolagents_memory.database.envelope import Envelope, envelope_of
from smolagents_memory.database.redacting import journal_redaction
from smolagents_memory.database.sealed import PERSON_OF_SESSION
from smolagents_memory.privacy.redaction import FAILED
from smolagents_memory.sessions import directory


LONGEST = 1000  # bytes of a person's name: it stands in an index
_AS_IT_IS: Any = object()


@dataclass(frozen=True)
class Labels:
    """A person, a title and tags; None and () say nothing of them."""

    user: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of(cls, user: Any = None, title: Any = None, tags: Any = ()) -> Labels:
        """What somebody gave, if it can be kept."""
        return cls(_user(user), None if title is None else _text(title, "a session's title"), _tags(tags))

    def refuse_another(self, envelope: Envelope, row: Any, name: str) -> Any:
        """The row of a session, unless it belongs to another person than is said here."""
        if self.user is not None and row.person not in (None, envelope.name(self.user, PERSON_OF_SESSION)):
            raise SessionConflictError(
                f"session {name!r} belongs to another person than {self.user!r}, and a session has one. Nothing was "
                "read or changed: give this person a session of another id, or open this one as its own person's"
            )
        return row

    def columns(self, envelope: Envelope, name: str) -> dict[str, Any]:
        """As the row of a session has them."""
        said: dict[str, Any] = {k: each for k, each in (("title", self.title), ("tags", list(self.tags))) if each}
        if envelope.sealed is not None and self.user is not None:
            said["user"] = self.user  # or else somebody could give the session to another person
        return {
            "person": None if self.user is None else envelope.name(self.user, PERSON_OF_SESSION),
            "labels": envelope.pack(said, directory.labels_spot(name)) if said else None,
        }

    def write(self, connection: Connection, row: Any) -> None:
        """Make them those of a session; what they say nothing of stays."""
        if self != Labels():
            envelope, name = envelope_of(connection), directory.name_of(connection, row)
            kept = kept_labels(envelope, row)
            new = Labels(self.user or kept.user, self.title or kept.title, self.tags or kept.tags)
            directory.relabel(connection, row, new.changes(kept, envelope, name))

    def changes(self, kept: Labels, envelope: Envelope, name: str) -> dict[str, Any]:
        """The columns of a row, whose labels are these, that become other where they shall be those here."""
        columns = self.columns(envelope, name)
        same = {"person": self.user == kept.user, "labels": (self.title, self.tags) == (kept.title, kept.tags)}
        same["labels"] &= envelope.sealed is None or same["person"]
        return {column: value for column, value in columns.items() if not same[column]}

    def fits(self, kept: Labels, said: Callable[[str], str] | None = None) -> bool:
        """Whether a session with these labels is looked for by the title and tags here, as they are or as it says."""
        titled = self.title is None or self.title.casefold() in (kept.title or "").casefold()
        if titled and set(self.tags) <= set(kept.tags):
            return True
        reworded = self if said is None else self.said(said)
        if said is None or FAILED in (reworded.title, *reworded.tags):
            return False
        return reworded.fits(Labels(None, kept.title, (*kept.tags, *map(said, kept.tags))))

    def said(self, said: Callable[[str], str]) -> Labels:
        """With another wording of the title and the tags."""
        title = None if self.title is None else said(self.title)
        return Labels(self.user, title, tuple(dict.fromkeys(map(said, self.tags))))


def kept_labels(envelope: Envelope, row: Any) -> Labels:
    """What a session's row says. What of it is damaged is named in a warning, and is none."""
    try:
        name, user = _names(envelope, row)
    except DecodeError as error:
        warn_of_loss(f"whose a session is cannot be read ({error}); all the rest is")
        return Labels()
    told: dict[str, Any] = {}
    if row.labels is not None:
        told = envelope.unpack_if_whole(row.labels, directory.labels_spot(name), f"the labels of session {name!r}")
    return _as_told(envelope, name, user, told)


def whole_labels(envelope: Envelope, row: Any) -> Labels:
    """The same; what is damaged raises DecodeError."""
    name, user = _names(envelope, row)
    told = {} if row.labels is None else envelope.unpack(row.labels, directory.labels_spot(name))
    if not isinstance(told, dict):
        raise DecodeError(f"the labels of session {name!r} are none")
    return _as_told(envelope, name, user, told)


def _names(envelope: Envelope, row: Any) -> tuple[str, str | None]:
    """What a session is called, and whose it is."""
    user = None if row.person is None else envelope.read_name(row.person, PERSON_OF_SESSION)
    return envelope.read_name(row.name), user


def _as_told(envelope: Envelope, name: str, user: str | None, told: dict[str, Any]) -> Labels:
    if envelope.sealed is not None and told.get("user") != user:
        raise envelope.sealed.refused(f"session {name!r}", "it was given to another person")
    title, tags = told.get("title"), told.get("tags")
    texts = [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []
    return Labels(user, title if isinstance(title, str) else None, tuple(texts))


class Labelled:
    """The part of a Session that says whose it is, and what it is called."""

    session_id: str
    database: Database
    _given: Labels

    @property
    def user(self) -> str | None:
        """Whose session it is; None for nobody's."""
        return self._labels().user

    @property
    def title(self) -> str | None:
        """What it is called; None where it has no title."""
        return self._labels().title

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, in the order in which they were given."""
        return self._labels().tags

    def label(
        self, *, user: str | None = None, title: str | None = _AS_IT_IS, tags: Iterable[str] = _AS_IT_IS
    ) -> None:
        """Give it another title, other tags, or a person where it has none; what is left out stays.

        `title=None` and `tags=()` take them away. Who writes to the session goes on undisturbed.

        >>> from smolagents import CodeAgent
        >>> from smolagents_memory import Session, SessionManager
        >>> from smolagents_memory.testing import ScriptedModel
        >>> with Session("trip", user="ann").attach(CodeAgent([], ScriptedModel([]))) as session:
        ...     session.label(title="A week in Rome", tags=["travel", "spring"])
        >>> session.user, session.title, session.tags
        ('ann', 'A week in Rome', ('travel', 'spring'))
        >>> SessionManager().list_sessions(user="ann", tags=["spring"])
        ['trip']
        """
        asked = Labels.of(user, None if title is _AS_IT_IS else title, () if tags is _AS_IT_IS else tags)
        asked, keep = self._as_written(asked)
        with self.database.writing() as connection:
            directory.find_to_write(connection, self.session_id)  # nobody else changes it meanwhile
            envelope = envelope_of(connection)
            row = asked.refuse_another(envelope, self._row(connection), self.session_id)
            kept = kept_labels(envelope, row)
            new = Labels(
                asked.user or kept.user,
                kept.title if title is _AS_IT_IS else asked.title,
                kept.tags if tags is _AS_IT_IS else asked.tags,
            )
            directory.relabel(connection, row, new.changes(kept, envelope, self.session_id))
        keep()
        self._given = Labels(self._given.user, new.title, new.tags)  # not what was given before, when it is attached

    def _as_written(self, labels: Labels) -> tuple[Labels, Callable[[], object]]:
        """Labels as the session keeps them, and what keeps what was taken out of them, once there is a session."""
        redaction = journal_redaction(self.database, self.session_id) if labels.title or labels.tags else None
        return (labels, lambda: None) if redaction is None else (labels.said(redaction.text), redaction.keep)

    def belongs_to(self, user: str) -> None:
        """It is this person's, as if it had been made with `user=`; another one's raises SessionConflictError."""
        said = Labels.of(user)
        if self._given.user not in (None, said.user):
            raise SessionConflictError(
                f"session {self.session_id!r} is {self._given.user!r}'s, and what it was given to is {user!r}'s; "
                "nothing was changed: give each person sessions of their own"
            )
        self._given = Labels(said.user, self._given.title, self._given.tags)

    def _refuse_another_person(self) -> None:
        """Raise SessionConflictError where it is another person's than this was made for."""
        if self._given.user is not None:
            with self.database.reading() as connection:
                row = directory.find(connection, self.session_id)
                if row is not None:
                    self._given.refuse_another(envelope_of(connection), row, self.session_id)

    def _labels(self) -> Labels:
        """Those that are kept; before there is a session, those that were given."""
        with self.database.reading() as connection:
            row = directory.find(connection, self.session_id)
            if row is not None:
                verify(connection, row, self.session_id)
            return self._given if row is None else kept_labels(envelope_of(connection), row)

    def _row(self, connection: Connection) -> Any:
        """The row of the session; of another person's than this was made for it raises SessionConflictError."""
        row = directory.get(connection, self.session_id)
        return self._given.refuse_another(envelope_of(connection), row, self.session_id)


def _user(given: Any) -> str | None:
    if given is None:
        return None
    user = _text(given, "a person")
    if len(user.encode()) > LONGEST:
        raise UnsupportedValueError(f"a person is named in {LONGEST} bytes at most, not {brief(given)}")
    return user


def _tags(given: Any) -> tuple[str, ...]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise UnsupportedValueError(f"tags are a list of texts such as ['travel'], not {brief(given)}")
    tags = [_text(each, "a tag") for each in given]
    return tuple(sorted(set(tags)) if isinstance(given, (set, frozenset)) else dict.fromkeys(tags))


def _text(given: Any, what: str) -> str:
    """A text that says something, and that every database and file takes."""
    if not isinstance(given, str) or not given.strip():
        raise UnsupportedValueError(f"{what} is a text that says something, not {brief(given)}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise UnsupportedValueError(
            f"{what} is a text of whole characters; {brief(given)} holds half of one: decode the text that it comes "
            "from as UTF-16"
        ) from None
    return str(given)
