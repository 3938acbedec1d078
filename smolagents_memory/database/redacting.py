"""A place's redactor at work for one scope or session: with the key that the place keeps, and what it gives back."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Iterable

from sqlalchemy import Connection, delete, insert, select

from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database, alone
from smolagents_memory.database.envelope import Envelope, as_key, envelope_of
from smolagents_memory.database.many import chunks
from smolagents_memory.database.places import Place
from smolagents_memory.database.sealed import OWNER_OF_REDACTED, Spot
from smolagents_memory.privacy.redaction import PLACEHOLDER, Found, Named, Redactor, naming, one_way, scope_key


_NAME = "redaction"  # in the table of what a place is
_OF_SESSION = "session"
_SHORT, _REMEMBERED = 200, 4096  # characters, texts: a journal has the same ones in every step
_redacted = tables.redacted.c


def place_key(database: Database, *, make: bool = True) -> bytes:
    """The secret that the placeholders of a place are made with; made when it is first needed, and sealed with it."""
    try:
        with database.reading() as connection:
            found = read_place_key(connection, envelope_of(connection))
        if found is None and not make:
            return secrets.token_bytes(32)  # nothing there has a placeholder yet, and who only asks writes nothing
        if found is None:
            with database.writing() as connection:
                alone(connection, _NAME)
                found = read_place_key(connection, envelope_of(connection))
                if found is None:
                    found = secrets.token_bytes(32)
                    write_place_key(connection, envelope_of(connection), found)
        return found
    except ValueError:
        raise database.faults.unavailable(
            f"{database} is damaged: its key for placeholders is none, and nothing is redacted without it. Nothing "
            "was written; restore the newest backup: SessionManager(…).restore_backup(path)"
        ) from None


def read_place_key(connection: Connection, envelope: Envelope) -> bytes | None:
    """What lies there of it; ValueError for what is none, and SealError for what was changed under a seal."""
    about = tables.about.c
    text = connection.execute(select(about.value).where(about.name == _NAME)).scalar()
    if text is None:
        return None
    data = bytes.fromhex(str(text))
    return data if envelope.sealed is None else envelope.sealed.keys.place.open(data, _NAME.encode())


def write_place_key(connection: Connection, envelope: Envelope, key: bytes) -> None:
    """Keep it in the place."""
    about = tables.about
    data = key if envelope.sealed is None else envelope.sealed.keys.place.seal(key, _NAME.encode())
    connection.execute(delete(about).where(about.c.name == _NAME))
    connection.execute(insert(about).values(name=_NAME, value=data.hex()))


def redacted_of(envelope: Envelope, owner: str, of: str = "scope") -> bytes:
    """What a scope, or a session, is called where it is kept what was taken out of its texts."""
    return envelope.name(owner if of != _OF_SESSION else f"{_OF_SESSION}\0{owner}", OWNER_OF_REDACTED)


def redacted_spot(owner: str, placeholder: str, of: str = "scope") -> Spot:
    """Where what a placeholder stands for belongs."""
    return Spot("redacted" if of != _OF_SESSION else "session_redacted", owner, placeholder, "value")


def forget_redacted(connection: Connection, owner: str, of: str = "scope") -> None:
    """Nothing that was taken out of the texts of a scope, or of a session, is given back any more."""
    connection.execute(
        delete(tables.redacted).where(_redacted.owner == redacted_of(envelope_of(connection), owner, of))
    )


def redaction_of(
    database: Database, owner: str, redactor: Redactor | None, begin: Callable[[], object] | None = None
) -> Redaction | None:
    """What takes things out of the texts of a scope; None where nobody asked for that. `begin` makes the scope."""
    redaction = None if redactor is None else Redaction(database, owner, redactor)
    if redaction is not None:
        redaction.begin = begin
    return redaction


def journal_redaction(database: Database, session: str) -> Redaction | None:
    """The same for a session's journal, if that is asked for; its key is read now: later no disk is waited for."""
    redactor = database.place.redact
    if redactor is None or not redactor.journal:
        return None
    return Redaction(database, session, redactor, of=_OF_SESSION).load()


def journal_wording(database: Database) -> Callable[[str, str], str] | None:
    """How the journal of a session, by its name, says a text, for who looks through many; None where as it comes."""
    redactor = database.place.redact
    if redactor is None or not redactor.journal:
        return None
    key = redactor.key or place_key(database, make=False)
    return lambda session, text: redactor.cleaned(text, naming(scope_key(key, session, _OF_SESSION)))


def session_redaction(database: Database, session: str) -> Redaction | None:
    """The same for what is told of a session, whether or not its journal is redacted."""
    redactor = database.place.redact
    return None if redactor is None else Redaction(database, session, redactor, of=_OF_SESSION)


def _reveal(place: Place, owner: str, of: str, text: str) -> str:
    return Redaction(Database(place), owner, Redactor(()), of=of).reveal(text)


class Redaction:
    """Takes out of the texts of one scope, or of one session, what the redactor finds."""

    def __init__(self, database: Database, owner: str, redactor: Redactor, *, of: str = "scope") -> None:
        self.database, self.owner, self.redactor, self._of = database, owner, redactor, of
        self._key: bytes | None = None
        self._new: dict[str, str] = {}  # placeholder → value, where it may be given back
        self._asks = False
        self.begin: Callable[[], object] | None = None  # what has a key before something is sealed with it
        self._short = functools.lru_cache(_REMEMBERED)(self._cleaned)
        self._short_under = functools.lru_cache(_REMEMBERED)(self._cleaned_under)
        if self.is_sealed:
            redactor.bind((database.place.key, of, owner), functools.partial(_reveal, database.place, owner, of))

    @property
    def is_sealed(self) -> bool:
        """Whether what is taken out may be given back."""
        return getattr(self.database.place.seal, "mode", None) == "seal"

    def text(self, text: str) -> str:
        """A text without what was found in it. With a key that stays, short ones are looked through once."""
        return self._cleaned(text) if self._key is None or len(text) > _SHORT else self._short(text)

    def _cleaned(self, text: str) -> str:
        return self.redactor.cleaned(text, self._named)

    def under(self, name: str, text: str) -> str:
        """The same of a text under a name."""
        at_once = self._key is None or len(text) > _SHORT
        return self._cleaned_under(name, text) if at_once else self._short_under(name, text)

    def _cleaned_under(self, name: str, text: str) -> str:
        return self.redactor.cleaned_under(name, text, self._named)

    def asking(self) -> Redaction:
        """The same for questions, of which nothing is kept."""
        asking = Redaction(self.database, self.owner, self.redactor, of=self._of)
        asking._asks = True
        return asking

    def load(self) -> Redaction:
        """Read the key now, and keep to it."""
        self._key = self._read()
        return self

    def _read(self) -> bytes:
        return scope_key(self.redactor.key or place_key(self.database, make=not self._asks), self.owner, self._of)

    def _named(self, found: Found) -> str:
        named: Named = naming(self._key or self._read())  # not kept: another backup may be there by now
        placeholder = named(found)
        if self.is_sealed and not self._asks:
            self._new[placeholder] = found.value
        return placeholder

    # -- giving back, under a seal -----------------------------------------------------------------------------

    def keep(self) -> None:
        """Write what was found since the last time, so that it can be given back."""
        if self._new:
            if self.begin is not None:
                self.begin()
            with self.database.writing() as connection:
                kept = self.keep_in(connection)
            self.kept(kept)

    def keep_in(self, connection: Connection) -> dict[str, str]:
        """The same within a transaction of somebody else's, who says `kept` when it is done."""
        new, envelope = dict(self._new), envelope_of(connection)
        if not new or envelope.sealed is None:
            return new
        there, owner = self._there(connection, new), redacted_of(envelope, self.owner, self._of)
        rows = [
            {"owner": owner, "placeholder": each, "value": envelope.pack_bytes(as_key(value), self._spot(each))}
            for each, value in new.items()
            if each not in there
        ]
        if rows:
            connection.execute(insert(tables.redacted), rows)
        return new

    def kept(self, kept: Iterable[str]) -> None:
        """These are there now."""
        for placeholder in kept:
            self._new.pop(placeholder, None)

    def keep_only(self, texts: Iterable[str]) -> None:
        """Delete what none of these texts has a placeholder of any more."""
        if not self.is_sealed:
            return
        used = {match[0] for text in texts for match in PLACEHOLDER.finditer(text)}
        with self.database.writing() as connection:
            mine = _redacted.owner == redacted_of(envelope_of(connection), self.owner, self._of)
            there = connection.execute(select(_redacted.placeholder).where(mine)).scalars().all()
            for some in chunks([each for each in there if each not in used]):
                connection.execute(delete(tables.redacted).where(mine, _redacted.placeholder.in_(some)))

    def reveal(self, text: str) -> str:
        """A text with what its placeholders stand for; those that are not known here stay."""
        if not self.is_sealed:
            raise one_way()
        wanted = {match[0]: "" for match in PLACEHOLDER.finditer(text)}
        if not wanted:
            return text
        with self.database.reading() as connection:
            envelope = envelope_of(connection)
            known = {
                each: envelope.unpack_bytes(value, self._spot(each)).decode("utf-8", "surrogatepass")
                for each, value in self._there(connection, wanted).items()
            }
        return PLACEHOLDER.sub(lambda match: known.get(match[0], match[0]), text)

    def _spot(self, placeholder: str) -> Spot:
        return redacted_spot(self.owner, placeholder, self._of)

    def _there(self, connection: Connection, wanted: Iterable[str]) -> dict[str, bytes]:
        owner = redacted_of(envelope_of(connection), self.owner, self._of)
        mine = select(_redacted.placeholder, _redacted.value).where(_redacted.owner == owner)
        found: dict[str, bytes] = {}
        for some in chunks(list(wanted)):
            found.update(
                (row.placeholder, row.value) for row in connection.execute(mine.where(_redacted.placeholder.in_(some)))
            )
        return found
