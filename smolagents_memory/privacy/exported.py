"""Keys that are carried about: a file with entries of a keyring, wrapped as they are there."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from smolagents_memory._brief import brief
from smolagents_memory._errors import SealError
from smolagents_memory._files import named_file, write_whole
from smolagents_memory.privacy.masters import SALT
from smolagents_memory.privacy.sealing import OF_FILES, wraps_in


_FORMAT, _VERSION = "smolagents-memory keys", 1
_NAME = re.compile(rf"[0-9a-f]+\.(?:place|[0-9a-f]+)|{re.escape(OF_FILES)}[0-9a-f]+|{re.escape(SALT)}")


def write_exported(path: str | os.PathLike[str], entries: Mapping[str, bytes | None]) -> Path:
    """Write the entries that there are, into a file of its owner's alone."""
    keys = {name: base64.b64encode(entry).decode() for name, entry in entries.items() if entry is not None}
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "keys": keys}, indent=1)
    return write_whole(named_file(path), [text.encode()])


def read_exported(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The entries in such a file; SealError unless all of it is such a file, and each is one."""
    try:
        told = json.loads(named_file(path).read_bytes())
        ours, version = told["format"] == _FORMAT, told["version"]
        keys = {str(name): base64.b64decode(each, validate=True) for name, each in told["keys"].items()}
    except OSError as error:
        raise SealError(f"{path} cannot be read ({error}); nothing was changed") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        ours = False
    if not ours:
        raise SealError(f"{path} holds no keys that were exported; nothing was changed")
    if version != _VERSION:
        raise SealError(f"{path} is of a newer version: pip install -U smolagents-memory. Nothing was changed")
    for name, entry in keys.items():
        if not _NAME.fullmatch(name):
            raise SealError(f"{path} holds {brief(name)}, which is no name of a key; nothing was changed")
        if name != SALT:
            wraps_in(name, entry)
    return keys
