"""A Chroma folder looked through by a process of its own: damaged files end the process that reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from smolagents_memory._log import logger


_PATIENCE = 60.0  # seconds, and for each megabyte
_A_MEGABYTE = 2.0

# it opens all there is, reads all of it, and searches for each vector that it has read; whoever has deleted a graph
# that was damaged gets the texts
_PROBE = """
import json, sys
path, sys.path[:] = json.loads(sys.stdin.read())
import os, sqlite3, urllib.parse
base = sqlite3.connect("file:" + urllib.parse.quote(path) + "/chroma.sqlite3?mode=ro", uri=True)
found = base.execute("PRAGMA integrity_check").fetchone()[0]
graphs = base.execute("SELECT collection, id FROM segments WHERE scope = 'VECTOR'").fetchall()
without = {collection for collection, graph in graphs if not os.path.exists(os.path.join(path, graph))}
base.close()
if found != "ok":
    sys.exit("chroma.sqlite3 is damaged: " + found)
import chromadb
from chromadb.config import Settings
client = chromadb.PersistentClient(path, settings=Settings(_env_file=None, anonymized_telemetry=False))
for each in client.list_collections():
    name = getattr(each, "name", each)
    collection = client.get_collection(name, embedding_function=None)
    ids = collection.get(include=["documents", "metadatas"])["ids"]
    if str(collection.id) in without:
        continue
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        read = collection.get(ids=some, include=["embeddings"])
        if len(read["ids"]) != len(some) or any(vector is None for vector in read["embeddings"]):
            sys.exit(f"the collection {name!r} lacks vectors")
        answer = collection.query(query_embeddings=list(read["embeddings"]), n_results=10, include=["distances"])
        if any(not found for found in answer["ids"]):
            sys.exit(f"the collection {name!r} lacks vectors")
client.close()
"""


def fault_of(folder: Path) -> str | None:
    """What is wrong with a Chroma folder that nobody has open; None when all of it can be read and searched."""
    if not sys.executable:
        logger.warning("%s was not examined: this Python has no program to start", folder)
        return None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            input=json.dumps([str(folder), sys.path]),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE + _A_MEGABYTE * size / 1e6,
            env={**os.environ, "PYTHONFAULTHANDLER": ""},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "who reads it does not come to an end"
    if done.returncode < 0:
        return f"who reads it is ended by signal {-done.returncode}"
    lines = done.stderr.strip().splitlines()
    return (lines[-1][:300] if lines else f"who reads it ends with {done.returncode}") if done.returncode else None
