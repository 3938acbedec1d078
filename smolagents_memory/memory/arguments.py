"""Which place or stores the arguments of a memory name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import URL

from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory._log import logger, warn_of_loss
from smolagents_memory.database.engine import Database
from smolagents_memory.database.places import Place
from smolagents_memory.database.redacting import redaction_of
from smolagents_memory.database.scopes import user_of
from smolagents_memory.memory.keeping import Keeper, SqlKeeper, StoreKeeper
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.search.chroma_folder import OWN_COLLECTION
from smolagents_memory.search.embedding import resolved_embedder
from smolagents_memory.stores.adapting import is_store
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.opening import is_store_url, open_store
from smolagents_memory.stores.rereading import reread
from smolagents_memory.stores.rows import scope_name
from smolagents_memory.stores.sql import SqlStore
from smolagents_memory.stores.vault import open_vault


DEFAULT_FOLDER = "agent_memory"


def opened_keeper(
    path_or_url: Any,
    *,
    ranker: Ranker,
    embedder: Any = "default",
    scope: Mapping[str, Any] | None = None,
    vector: Any = True,
    vector_store: Any = None,
    long_term: Any = None,
    persistent: Any = None,
    own_collection: int = OWN_COLLECTION,
) -> Keeper[Any]:
    """The place that a memory's arguments name."""
    long_term, vector_store = _opened(long_term), _opened(vector_store)
    vector = vector if isinstance(vector, bool) else _opened(vector)
    if is_store(persistent):
        long_term, persistent = long_term or persistent, None
    if is_store(vector):
        vector_store, vector = vector_store or vector, True
    if persistent is not None and persistent is not False and path_or_url is None:
        path_or_url = DEFAULT_FOLDER if persistent is True else persistent
    if is_store(path_or_url) or is_store_url(path_or_url):
        if long_term is not None:
            raise UnsupportedValueError("two stores were named for the texts; name one of them")
        long_term, path_or_url = _opened(path_or_url), None
    where = Place.of(path_or_url)
    if long_term is not None or vector_store is not None:
        if scope is not None:
            raise UnsupportedValueError("with stores of your own, give the scope to the stores (SqlStore(…, scope=…))")
        if long_term is None:
            vault = open_vault(where, None)
            long_term = SqlStore(Place(vault.database.place, redact=where.redact or False))
        stores = StoreKeeper(long_term, vector_store if vector else None, ranker, by_words=not vector)
        if stores.lost:
            lost = "".join(f"\n  no {name}: {what}" for name, what in stores.lost.items())
            warn_of_loss(f"{type(long_term).__name__} has less than the six methods of a MemoryStore:{lost}")
        if where.redact is not None:  # of a place beside the stores, which keeps no more than the key
            stores.redaction = redaction_of(Database.at(where), "", where.redact, Bank(Database.at(where)).begin)
        return stores
    vault = open_vault(where, resolved_embedder(embedder) if vector else None, own_collection=own_collection)
    reread(vault.database)
    keeper = SqlKeeper(vault, scope, ranker, where.redact)
    if not vault.checked:  # once a process: made with another embedder, or while there was none
        vault.checked = True
        keeper.opened()
    return keeper


def give_session(session: Any, scope: Mapping[str, Any] | None) -> None:
    """A session that is handed to a person's memory is that person's, too."""
    user = user_of(scope) if scope_name(scope) else None  # which refuses what is none
    if user is None or not hasattr(session, "belongs_to"):
        return
    try:
        session.belongs_to(user)
    except UnsupportedValueError as error:  # a scope takes any text
        logger.warning("session %r stays nobody's: %s", session.session_id, error)


def _opened(given: Any) -> Any:
    """A store, or the one behind a URL or a place."""
    return open_store(given) if isinstance(given, (str, os.PathLike, Place, URL)) else given
