"""What wraps data keys: a key in a file, a passphrase, or an object that asks a service to."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from smolagents_memory._errors import SealError
from smolagents_memory._files import make_once, named_file
from smolagents_memory.privacy.data_keys import LENGTH, DataKey
from smolagents_memory.privacy.keyring import Keyring


SALT = "passphrase.salt"  # an entry of the keyring: no secret, but without it a passphrase is no key
_COST = {"n": 1 << 15, "r": 8, "p": 2, "maxmem": 1 << 27}  # a third of a second, 32 MB


@runtime_checkable
class Master(Protocol):
    """What wraps keys and unwraps them: a service for keys, say. It may have a `name`, by which others are told apart.

    `unwrap` raises whatever it likes for what it did not wrap.
    """

    def wrap(self, key: bytes) -> bytes: ...

    def unwrap(self, wrapped: bytes) -> bytes: ...


class OwnMaster:
    """A master key of 32 bytes that this process holds.

    >>> master = OwnMaster(bytes(32))
    >>> master.unwrap(master.wrap(b"a key"))
    b'a key'
    """

    def __init__(self, key: bytes) -> None:
        own = DataKey(key)
        self._wraps = DataKey(own.derived("wraps"))
        self.name = own.derived("name", 8).hex()

    def __repr__(self) -> str:
        return f"<the master key {self.name}>"

    def wrap(self, key: bytes) -> bytes:
        return self._wraps.seal(key, b"wrapped")

    def unwrap(self, wrapped: bytes) -> bytes:
        return self._wraps.open(wrapped, b"wrapped")


def master_of(given: Any) -> Master:
    """A key of 32 bytes, or an object that is a master already."""
    if isinstance(given, (bytes, bytearray)):
        if len(given) != LENGTH:
            raise SealError(
                f"a master key has {LENGTH} bytes, not {len(given)}: os.urandom({LENGTH}), Seal.from_file, or "
                "Seal.from_passphrase"
            )
        return OwnMaster(bytes(given))
    if not isinstance(given, Master):
        raise SealError(f"a master is a key of {LENGTH} bytes or an object with wrap and unwrap, not {_told(given)}")
    return given


def _told(given: Any) -> str:
    return "an empty one" if given == "" else f"a {type(given).__name__}"  # what it is may be a secret


def key_file_of(path: str | os.PathLike[str]) -> Path:
    """The file that somebody names."""
    return Path(os.path.abspath(os.path.expanduser(named_file(path))))


def master_from_file(path: Path) -> Master:
    """The key in a file, which is made for its owner alone when there is none."""
    try:
        make_once(path, base64.b64encode(os.urandom(LENGTH)) + b"\n")
        written = path.read_bytes()
    except OSError as error:
        raise SealError(f"the key file {path} cannot be read or made: {error}") from error
    if os.name != "nt" and path.stat().st_mode & 0o077:
        raise SealError(f"the key file {path} can be read by others than its owner: chmod 600 {path}")
    try:
        return OwnMaster(base64.b64decode(written.strip(), validate=True))
    except (ValueError, SealError):
        raise SealError(
            f"the key file {path} holds no key of ours, which is {LENGTH} bytes in base64; it was left as it is"
        ) from None


def checked_passphrase(passphrase: Any) -> bytes:
    """The bytes of a passphrase."""
    if not isinstance(passphrase, str) or not passphrase:
        raise SealError(f"a passphrase is a text that is not empty, not {_told(passphrase)}")
    return passphrase.encode("utf-8", "surrogatepass")


def master_from_passphrase(passphrase: bytes, keyring: Keyring, *, to_open: bool) -> Master:
    """The key that is made of a passphrase, and of a salt in the keyring, made unless something is to be opened."""
    salt = keyring.get(SALT) if to_open else keyring.put_if_absent(SALT, os.urandom(16))
    if salt is None:
        raise SealError(
            f"a passphrase needs the salt {SALT!r} that was made with it, and the keyring {keyring} has none. Nothing "
            "was changed: put the whole keyring back, or a copy of it that `keys export` wrote"
        )
    return OwnMaster(hashlib.scrypt(passphrase, salt=salt, dklen=LENGTH, **_COST))
