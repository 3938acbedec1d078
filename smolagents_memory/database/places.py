"""Place: where things live, and how they lie there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from smolagents_memory._brief import brief
from smolagents_memory._errors import PlaceError
from smolagents_memory.database.passwords import shown, shown_url
from smolagents_memory.database.sealed import Seals
from smolagents_memory.privacy.redaction import Redactor


Durability = Literal["power", "process"]
FILE = "memory.db"  # in a folder
_LONGEST = 4096  # characters of a path or URL
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_SQLITE = ("sqlite", "sqlite+pysqlite")
_POSTGRES = ("postgresql+psycopg", "postgresql+psycopg2", "postgresql+pg8000")  # others are loaded by what a URL names


class Place:
    """Where sessions and memories live, and how they lie there. Everything that takes a place takes one of these.

    Args:
        path_or_url: A folder, which gets a file `memory.db`; a file (one that is there, or whose name ends in .db,
            .sqlite or .sqlite3); a database URL (`sqlite:///folder/memory.db`, `postgresql://user:password@host/name`);
            None or `sqlite://` for RAM, where each place is one of its own; or another Place, for the same one with
            what is said of it here.
        durability: "power" (the default): what was acknowledged survives a power cut. "process": it survives the death
            of the process; faster where the disk is slow.
        seal: A `Seal`: what a person or a model wrote is encrypted before it reaches the database.
        redact: What takes personal data and secrets out of whatever is written there: True for the usual `Redactor`,
            one of your own, or a function of a text that returns one. See `Redactor`; False for none where another
            Place has one.

    Opening is left to those who use the place.

    >>> Place("agent_memory")
    Place('sqlite:///...agent_memory/memory.db')
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str] | URL | Place | None = None,
        *,
        durability: Durability | None = None,
        seal: Seals | None = None,
        redact: Redactor | Callable[[str], str] | bool | None = None,
    ) -> None:
        if durability is not None and (not isinstance(durability, str) or durability not in ("power", "process")):
            raise PlaceError(f'durability is "power" or "process", not {brief(durability)}')
        if seal is not None and not isinstance(seal, Seals):
            raise PlaceError(f"seal is a Seal, such as Seal.from_file(…, keyring=…), not a {type(seal).__name__}")
        given = path_or_url if isinstance(path_or_url, Place) else None
        self.url: URL = given.url if given else _url(path_or_url)  # type: ignore[arg-type]
        self.durability: Durability = durability or (given.durability if given else "power")
        self.seal: Seals | None = seal if seal is not None or given is None else given.seal
        self._refuse_own_keyring()
        self.redact: Redactor | None = Redactor.of(redact) if redact is not None or given is None else given.redact
        self.first: Place | None = given and (given.first or given)  # in RAM it has what both of them have open

    def _refuse_own_keyring(self) -> None:
        """Keys that lie beside what they lock are no keys: who copies the place has them."""
        keyring, key_file = getattr(self.seal, "keyring", None), getattr(self.seal, "key_file", None)
        path, url = getattr(keyring, "path", None), getattr(keyring, "url", None)
        with_key = self._is_within(key_file)
        inside = with_key or self._is_within(path)
        if self.path is None and isinstance(url, URL) and not self.in_ram:
            inside |= url.set(drivername="").difference_update_query([]) == self.url.set(drivername="")
        if inside:
            raise PlaceError(
                f"the {f'key file {key_file}' if with_key else f'keyring {keyring}'} lies within the place {self}: "
                "whoever copied the place would have its keys. Keep it elsewhere. Nothing was opened"
            )

    def _is_within(self, path: Any) -> bool:
        """Whether a file is the place, or lies in the folder that is the place."""
        if self.path is None or not isinstance(path, Path):
            return False
        own, folder = Path(os.path.realpath(self.path)), Path(os.path.realpath(self.path.parent))
        whole = own.name == FILE and folder != Path(os.path.realpath(os.curdir))  # the folder is the place
        kept = Path(os.path.realpath(path))
        return kept == own or (whole and folder in kept.parents)

    @classmethod
    def of(cls, given: Any, durability: Durability | None = None) -> Place:
        """The place itself, or one made of what names it."""
        if not isinstance(given, Place):
            return cls(given, durability=durability)
        if durability not in (None, given.durability):
            raise PlaceError(
                f"{given!r} has durability {given.durability!r}, and here {brief(durability)} was asked for; say it "
                "once, where the place is made: Place(…, durability=…)"
            )
        return given

    @property
    def sqlite(self) -> bool:
        """Whether it is a SQLite database, in a file or in RAM."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database."""
        return Path(str(self.url.database)) if self.sqlite and not self.in_ram else None

    @property
    def in_ram(self) -> bool:
        """Whether it ends with the process."""
        return self.sqlite and self.url.database in (None, "", ":memory:")

    @property
    def key(self) -> str:
        """The one spelling of where it is, password and all: to compare, never to print."""
        return self.url.render_as_string(hide_password=False)

    def __str__(self) -> str:
        return shown(self.url.render_as_string(hide_password=True))

    def __repr__(self) -> str:
        return f"Place({str(self)!r})"


def path_named(named: str) -> str:
    """The absolute path of a text, ~ being its user's home. What looks like a URL is refused, not made a folder."""
    if _is_nearly_a_url(named):
        raise PlaceError(
            f"what was given looks like a URL, but is none; {_SPELLED}. A folder of that name is ./… Nothing was "
            "opened"
        )
    return os.path.abspath(os.path.expanduser(named))


def split_url(url: str) -> SplitResult:
    """The parts of a URL of a store. Where nobody can tell its password from its host it is refused."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # which says what stands there
        parts = None
    beyond = re.sub(r"^[^/?#]*", "", url.partition("://")[2])
    if parts is None or (":" in parts.netloc and "@" in _without_options(beyond)):
        raise PlaceError(
            f"{_scheme(url)} names no host that can be told from a name and a password; after the slashes a URL looks "
            f"like user:password@host:6379. {_ESCAPED}. Nothing was opened"
        )
    return parts


def _url(given: str | os.PathLike[str] | URL | None) -> URL:
    if given is None:
        return make_url("sqlite://")
    if isinstance(given, URL):
        return _supported(given)
    try:
        named = os.fspath(given)
        os.fsencode(named)
    except (TypeError, ValueError):
        named = ""
    if not isinstance(named, str) or not named.strip() or "\0" in named or len(named) > _LONGEST:
        text = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
        named = brief(shown_url(text) if isinstance(text, str) else text)  # shortened, a login looks like none
        raise PlaceError(
            f"{shown(named)} names no place; a place is a folder, a file, a database URL, or None for RAM. Nothing "
            "was opened"
        )
    if "://" not in named:
        path = path_named(named)
        is_file = path.endswith(_SUFFIXES) or os.path.isfile(path)
        return URL.create("sqlite", database=path if is_file else os.path.join(path, FILE))
    try:
        url = make_url(named)
    except (ArgumentError, ValueError):
        raise PlaceError(f"{_scheme(named)} is no database URL; {_SPELLED}") from None
    if url.get_backend_name() != "sqlite" and _is_ambiguous(named):
        raise PlaceError(
            f"an @ in {_scheme(named)} stands for itself, so that nobody can tell where the host begins. {_ESCAPED}. "
            "Nothing was opened"
        )
    return _supported(url)


_SPELLED = "it looks like sqlite:///folder/memory.db or postgresql://user:password@host/database"
_ESCAPED = "In a name, a password or an option write @ as %40, / as %2F, : as %3A, ? as %3F, [ as %5B"
_SCHEME = re.compile(r"(postgres(ql)?|redis|rediss|mysql|sqlite|https?|chroma)(\+\w+)?(:|//)", re.IGNORECASE)
_PATH = re.compile(r"(\.{0,2}|~)[/\\](?![/\\])")  # not the two slashes of a URL without its scheme


def _scheme(url: str) -> str:
    """What a URL begins with, as it may be shown: of a malformed one that may be a password."""
    scheme = url.partition("://")[0]
    return f"{scheme}://…" if re.fullmatch(r"[\w+.-]{1,40}", scheme) else "what was given"


def _is_nearly_a_url(named: str) -> bool:
    """A scheme without its slashes, a login without its scheme, or what libpq calls a connection string."""
    if "://" in named or re.search(r"\bpassword\s*=", named, re.IGNORECASE):
        return True
    is_path = _PATH.match(named) or (os.path.isabs(named) and not named.startswith("//"))
    return not is_path and bool(_SCHEME.match(named) or -1 < named.find(":") < named.rfind("@"))


def _is_ambiguous(named: str) -> bool:
    """Whether more than one @ could end the name and the password, or the only one may stand in an option."""
    rest = named.partition("://")[2]
    login = re.match(r"[^:/]*(:[^@]*)?@", rest)  # as SQLAlchemy takes it
    return _without_options(rest).count("@") > 1 or bool(login and re.search(r"\?[\w.-]+=", login[0]))


def _without_options(url: str) -> str:
    """A URL without what follows its question mark, where those are options: an @ may stand in one of them."""
    place, _, query = url.partition("?")
    return place if all(re.fullmatch(r"\w+=[^=]*", each) for each in query.split("&")) else url


def _supported(url: URL) -> URL:
    url = url.set(drivername=url.drivername.lower())
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in (*_SQLITE, *_POSTGRES):
        raise PlaceError(
            f"a place is in SQLite or Postgres, not in {url.drivername[:40]!r}: sqlite:///folder/memory.db or "
            "postgresql://user:password@host/database. Memories alone may also live behind the URL of a store: "
            "EnhancedAgentMemory, the tools of memory and open_store take one. Nothing was opened"
        )
    if "uri" in url.query:
        raise PlaceError("a place's URL names a file by its path, not by a URI of SQLite's own. Nothing was opened")
    if "plugin" in url.query:
        raise PlaceError("a place's URL names no plugin of SQLAlchemy. Nothing was opened")
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        path = os.path.abspath(os.path.expanduser(str(url.database)))
        return url.set(database=os.path.join(path, FILE) if os.path.isdir(path) else path)
    return url
