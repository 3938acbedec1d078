"""Purging a collection: Chroma keeps what it was told to delete, so what is left is copied into a new collection."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from smolagents_memory._errors import StoreUnavailableError
from smolagents_memory.database.direct import opened_directly
from smolagents_memory.search.chroma_folder import DATABASE


BATCH = 1000
_A_GRAPH = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT = ["space", "ef_construction", "ef_search", "max_neighbors", "num_threads", "batch_size", "sync_threshold"]


def copy_of(client: Any, collection: Any, name: str) -> None:
    """Put a copy of a collection in its place."""
    hnsw = (collection.configuration_json or {}).get("hnsw") or {}
    copied = client.create_collection(
        _temporary(name),
        embedding_function=None,
        configuration={"hnsw": {key: hnsw[key] for key in _KEPT if hnsw.get(key) is not None}},
        metadata=collection.metadata,
    )
    ids = collection.get(include=[])["ids"]
    for start in range(0, len(ids), BATCH):
        some = collection.get(ids=ids[start : start + BATCH], include=["embeddings", "documents", "metadatas"])
        copied.upsert(
            ids=some["ids"],
            embeddings=some["embeddings"],
            documents=some["documents"],
            metadatas=some["metadatas"],
        )
    client.delete_collection(name)
    copied.modify(name=name)


def finish(client: Any, name: str) -> None:
    """Finish what a process did not that was killed in the middle of it."""
    names = [getattr(each, "name", each) for each in client.list_collections()]
    if _temporary(name) not in names:
        return
    if name in names:
        client.delete_collection(_temporary(name))
    else:
        client.get_collection(_temporary(name), embedding_function=None).modify(name=name)


def vacuum(folder: Path) -> None:
    """Leave nothing in Chroma's files that belongs to no collection. Nobody may have them open."""
    try:
        graphs = _vacuum(folder / DATABASE)
        for each in folder.iterdir():
            if each.is_dir() and _A_GRAPH.fullmatch(each.name) and each.name not in graphs:
                shutil.rmtree(each)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailableError(
            f"{folder} could not be purged ({error}): what was deleted is deleted, and bytes of it are left"
        ) from error


def _vacuum(database: Path) -> set[str]:
    """The graphs that there are, by name."""
    with opened_directly(database, isolation_level=None) as base:
        base.execute("PRAGMA secure_delete=ON")
        there = [row[0] for row in base.execute("SELECT id FROM collections")]
        topics = [row[0] for row in base.execute("SELECT DISTINCT topic FROM embeddings_queue")]
        for topic in topics:
            if not any(topic.endswith(each) for each in there):
                base.execute("DELETE FROM embeddings_queue WHERE topic = ?", (topic,))
        base.execute("INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES ('optimize')")
        base.execute("VACUUM")
        return {row[0] for row in base.execute("SELECT id FROM segments")}


def _temporary(name: str) -> str:
    return f"{name}.purging"
